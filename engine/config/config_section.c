/* Owns the layout of struct config as the table of options sees it. Called while a snapshot is
 * filled, and by who compares or shows all of it. */
#include "engine/config/config_section.h"

#include "engine/config/config_origin.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Kinds that may stand several times: each is an array of structs in struct config. */
struct array {
    size_t item_bytes, title; /* offset of the title in an item; item_bytes 0: it stands once */
    size_t items, count;      /* offsets in struct config */
};

#define ARRAY(field, number, title)                                                                \
    {                                                                                              \
        sizeof(*((struct config *)0)->field),                                                      \
            offsetof(__typeof__(*((struct config *)0)->field), title),                             \
            offsetof(struct config, field), offsetof(struct config, number)                        \
    }

static const struct array arrays[CONFIG_SECTION_COUNT] = {
    [CONFIG_SECTION_WEBHOOK] = ARRAY(webhooks, webhook_count, url),
    [CONFIG_SECTION_CSV] = ARRAY(csvs, csv_count, path),
    [CONFIG_SECTION_LISTENER] = ARRAY(listeners, listener_count, name),
    [CONFIG_SECTION_HTTP] = ARRAY(http_doors, http_door_count, name),
    [CONFIG_SECTION_TENANT] = ARRAY(tenants, tenant_count, name),
    [CONFIG_SECTION_DKIM] = ARRAY(dkims, dkim_count, name),
    [CONFIG_SECTION_SUPPRESSION] = ARRAY(suppressions, suppression_count, name),
    [CONFIG_SECTION_SOURCE] = ARRAY(egress_sources, egress_source_count, name),
    [CONFIG_SECTION_POOL] = ARRAY(egress_pools, egress_pool_count, name),
    [CONFIG_SECTION_TRANSPORT] = ARRAY(transports, transport_count, name),
    [CONFIG_SECTION_PROVIDER] = ARRAY(providers, provider_count, options.name),
    [CONFIG_SECTION_DOMAIN] = ARRAY(domains, domain_count, options.name),
    [CONFIG_SECTION_ROUTE] = ARRAY(routes, route_count, pattern),
};

bool config_section_is_live(enum config_section section)
{
    return section == CONFIG_SECTION_TRANSPORT || section == CONFIG_SECTION_SOURCE ||
           section == CONFIG_SECTION_POOL || section == CONFIG_SECTION_ROUTE ||
           section == CONFIG_SECTION_PROVIDER || section == CONFIG_SECTION_DOMAIN ||
           section == CONFIG_SECTION_TENANT || section == CONFIG_SECTION_WEBHOOK ||
           section == CONFIG_SECTION_CSV || section == CONFIG_SECTION_DKIM ||
           section == CONFIG_SECTION_SUPPRESSION;
}

size_t config_section_count(const struct config *c, enum config_section section)
{
    size_t count = 1;
    if (arrays[section].item_bytes > 0) {
        memcpy(&count, (const char *)c + arrays[section].count, sizeof(count));
    }
    return count;
}

void *config_section_at(const struct config *c, enum config_section section, size_t index)
{
    const struct array *a = &arrays[section];
    char *items;
    assert(index < config_section_count(c, section));
    if (section == CONFIG_SECTION_DNS) {
        return (void *)(uintptr_t)&c->dns;
    }
    if (a->item_bytes == 0) {
        return (void *)(uintptr_t)c;
    }
    memcpy(&items, (const char *)c + a->items, sizeof(items));
    return items + index * a->item_bytes;
}

const char *config_section_title(const struct config *c, enum config_section section, size_t index)
{
    const char *title = NULL;
    if (arrays[section].item_bytes > 0) {
        memcpy(&title, (const char *)config_section_at(c, section, index) + arrays[section].title,
               sizeof(title));
    }
    return title;
}

struct slice config_section_shown(enum config_section section, const char *title)
{
    struct slice all = slice_of(title == NULL ? "" : title);
    const char *end = section == CONFIG_SECTION_WEBHOOK ? strstr(all.data, "://") : NULL;
    return end == NULL ? all
                       : slice_to(all, (size_t)(end - all.data) + 3 + strcspn(end + 3, "/?#"));
}

size_t config_section_find_title(const struct config *c, enum config_section section,
                                 const char *title)
{
    size_t i = 0, count = config_section_count(c, section);
    while (i < count && strcmp(config_section_title(c, section, i), title) != 0) {
        i++;
    }
    return i;
}

bool config_section_sets(const struct config *c, enum config_section section, size_t index,
                         const struct config_option *o)
{
    if (o->section != section) { /* a transport's option in a provider or domain */
        const struct config_receiver *r = config_section_at(c, section, index);
        return (r->set >> config_option_receiver_bit(o) & 1) != 0;
    }
    char at[CONFIG_ORIGIN_BYTES];
    return config_origin(c, section, index, o->name, at);
}

int config_section_make(struct config *c, enum config_section section, size_t count)
{
    const struct array *a = &arrays[section];
    assert(a->item_bytes > 0 && config_section_count(c, section) == 0);
    char *items = count == 0 ? NULL : calloc(count, a->item_bytes);
    if (count > 0 && items == NULL) {
        return -ENOMEM;
    }
    memcpy((char *)c + a->items, &items, sizeof(items));
    memcpy((char *)c + a->count, &count, sizeof(count));
    return 0;
}

void config_section_set_title(struct config *c, enum config_section section, size_t index,
                              char *title)
{
    memcpy((char *)config_section_at(c, section, index) + arrays[section].title, &title,
           sizeof(title));
}
