/* Owns what a configuration says of tenants: which section is about whom, which class their mail may
 * have, and the rules about these sections. Called by config_check.c and by whoever meets a tenant's
 * name; must not know where mail comes from. */
#include "engine/config/config_load.h"
#include "engine/config/config_section.h"
#include "engine/config/label.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- finding ---------------------------------------------------------------------------------- */

/* An order in which names that are equal but for the case of letters are equal. */
static int compare_names(struct slice a, struct slice b)
{
    if (a.len != b.len) {
        return a.len < b.len ? -1 : 1;
    }
    for (size_t i = 0; i < a.len; i++) {
        int x = tolower((unsigned char)a.data[i]), y = tolower((unsigned char)b.data[i]);
        if (x != y) {
            return x - y;
        }
    }
    return 0;
}

static int compare_sections(const void *a, const void *b)
{
    const struct config_tenant *const *x = a, *const *y = b;
    return compare_names(slice_of((*x)->name), slice_of((*y)->name));
}

/* errors: -ENOMEM */
static int sort_sections(struct config *c)
{
    if (c->tenant_count == 0) {
        return 0;
    }
    c->tenant_order = calloc(c->tenant_count, sizeof(*c->tenant_order));
    if (c->tenant_order == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < c->tenant_count; i++) {
        c->tenant_order[i] = &c->tenants[i];
        if (strcmp(c->tenants[i].name, "*") == 0) {
            c->other_tenants = &c->tenants[i];
        }
    }
    qsort(c->tenant_order, c->tenant_count, sizeof(*c->tenant_order), compare_sections);
    return 0;
}

const struct config_tenant *config_tenant_find(const struct config *c, struct slice name)
{
    size_t low = 0, high = c->tenant_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct config_tenant *t = c->tenant_order[middle];
        int order = compare_names(name, slice_of(t->name));
        if (order == 0) {
            return t;
        }
        if (order > 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return c->other_tenants;
}

usec_t config_queue_lifetime(const struct config *c, struct slice tenant, bool is_bounce)
{
    const struct config_tenant *t = config_tenant_find(c, tenant);
    usec_t lifetime = t != NULL ? t->maximal_queue_lifetime : c->maximal_queue_lifetime;
    return is_bounce && c->bounce_queue_lifetime < lifetime ? c->bounce_queue_lifetime : lifetime;
}

uint16_t config_tenant_weight(const struct config *c, struct slice name)
{
    const struct config_tenant *t = c->has_weights ? config_tenant_find(c, name) : NULL;
    return t == NULL ? 1 : (uint16_t)t->weight;
}

/* --- classes ---------------------------------------------------------------------------------- */

/* Of tenants about which no section says anything: what goes before others has to be allowed. */
static const unsigned classes_of_others = 1U << MAIL_NORMAL | 1U << MAIL_BULK;
static const unsigned classes_of_named = 1U << MAIL_URGENT | 1U << MAIL_NORMAL | 1U << MAIL_BULK;

enum mail_class config_mail_class(const struct config *c, struct slice tenant, enum mail_class said,
                                  enum mail_class of_listener, bool *ret_is_lowered)
{
    const struct config_tenant *t = config_tenant_find(c, tenant);
    enum mail_class wanted = said;
    if (wanted == MAIL_CLASS_COUNT && t != NULL) {
        wanted = t->class;
    }
    if (wanted == MAIL_CLASS_COUNT) {
        wanted = of_listener;
    }
    if (wanted == MAIL_CLASS_COUNT) {
        wanted = MAIL_NORMAL;
    }
    enum mail_class class =
        mail_class_lower(wanted, t != NULL ? t->allowed_classes : classes_of_others);
    *ret_is_lowered = class != wanted;
    return class;
}

static void check_classes(struct config_loader *l, struct config *c, size_t index)
{
    struct config_tenant *t = &c->tenants[index];
    struct config_place place = config_place_of(l, CONFIG_SECTION_TENANT, index, "classes");
    if (t->classes.count == 0) {
        t->allowed_classes = strcmp(t->name, "*") == 0 ? classes_of_others : classes_of_named;
    }
    for (size_t i = 0; i < t->classes.count; i++) {
        enum mail_class class = mail_class_find(slice_of(t->classes.items[i]));
        if (class == MAIL_CLASS_COUNT) {
            config_complain(l, place, "classes",
                            "\"%.40s\" is no class; write some of urgent, normal and bulk",
                            t->classes.items[i]);
            return;
        }
        t->allowed_classes |= mail_class_bit(class);
    }
    if (t->class != MAIL_CLASS_COUNT && t->class != MAIL_BULK &&
        (t->allowed_classes & mail_class_bit(t->class)) == 0) {
        config_complain(l, config_place_of(l, CONFIG_SECTION_TENANT, index, "class"), "class",
                        "tenant \"%.64s\" may not use class %s; name it in its classes, or write "
                        "another one",
                        t->name, mail_class_text(t->class));
    }
}

/* --- the sections ----------------------------------------------------------------------------- */

static void check_tenant_name(struct config_loader *l, const struct config *c, size_t index)
{
    const char *name = c->tenants[index].name;
    struct config_place place = config_place_of(l, CONFIG_SECTION_TENANT, index, NULL);
    if (!label_is_valid(slice_of(name))) {
        config_complain(l, place, "tenant",
                        "\"%.80s\" is no tenant's name; write 1 to 64 bytes of printable ASCII "
                        "without spaces, or \"*\" for all others",
                        name);
    } else if (strchr(name, '*') != NULL && strcmp(name, "*") != 0) {
        config_complain(l, place, "tenant",
                        "\"%s\" is no tenant's name: patterns are not known here; write one "
                        "name, or \"*\" for all others",
                        name);
    }
    for (size_t j = 0; j < index; j++) {
        if (slice_ieq(slice_of(name), slice_of(c->tenants[j].name))) {
            config_complain(l, place, "tenant",
                            "\"%.80s\" has a section already, \"%.80s\"; letters match in "
                            "either case, keep one of them",
                            name, c->tenants[j].name);
            break;
        }
    }
}

static void check_pool(struct config_loader *l, struct config *c, size_t index)
{
    char near[CONFIG_NEAR_TEXT];
    struct config_tenant *t = &c->tenants[index];
    if (t->pool_name == NULL) {
        return;
    }
    size_t pool = config_section_find_title(c, CONFIG_SECTION_POOL, t->pool_name);
    t->pool = pool < c->egress_pool_count ? &c->egress_pools[pool] : NULL;
    if (t->pool == NULL) {
        config_complain(l, config_place_of(l, CONFIG_SECTION_TENANT, index, "pool"), "pool",
                        "there is no pool \"%.64s\"; name one that this file defines%s",
                        t->pool_name,
                        config_check_meant(c, CONFIG_SECTION_POOL, t->pool_name, near));
    }
}

/* After transports and routes, which it names or goes before. */
static void check_tenant_transport(struct config_loader *l, struct config *c, size_t index)
{
    char near[CONFIG_NEAR_TEXT];
    struct config_tenant *t = &c->tenants[index];
    struct config_place place = config_place_of(l, CONFIG_SECTION_TENANT, index, "transport");
    if (t->transport_name == NULL) {
        return;
    }
    t->transport = config_transport_find(c, slice_of(t->transport_name));
    if (t->transport == c->transport_count) {
        config_complain(l, place, "transport",
                        "there is no transport \"%.64s\"; name one that this file defines%s",
                        t->transport_name,
                        config_check_meant(c, CONFIG_SECTION_TRANSPORT, t->transport_name, near));
        return;
    }
    size_t any = config_section_find_title(c, CONFIG_SECTION_ROUTE, "*");
    if (any == c->route_count) {
        config_complain(l, place, "transport",
                        "it is taken in place of that of route \"*\", and there is no such "
                        "route; write one, or remove this");
    } else if (c->transports[t->transport].smtp.smtp_auth_user != NULL &&
               (c->routes[any].nexthop == NULL || c->routes[any].nexthop[0] == '\0')) {
        config_complain(l, place, "transport",
                        "transport \"%.64s\" has a smtp_auth_user, whose password would go to "
                        "every domain's hosts; name the smart host in route \"*\"",
                        t->transport_name);
    }
}

void config_check_tenant_transports(struct config_loader *l, struct config *c)
{
    for (size_t i = 0; i < c->tenant_count; i++) {
        check_tenant_transport(l, c, i);
    }
}

/* Where the section says nothing it has the global one. */
static void check_lifetime(struct config *c, size_t index)
{
    char at[CONFIG_ORIGIN_BYTES];
    struct config_tenant *t = &c->tenants[index];
    t->has_lifetime = config_origin(c, CONFIG_SECTION_TENANT, index, "maximal_queue_lifetime", at);
    if (!t->has_lifetime) {
        t->maximal_queue_lifetime = c->maximal_queue_lifetime;
    }
}

int config_check_tenants(struct config_loader *l, struct config *c)
{
    for (size_t i = 0; i < c->tenant_count; i++) {
        check_tenant_name(l, c, i);
        check_pool(l, c, i);
        check_classes(l, c, i);
        check_lifetime(c, i);
        c->has_queue_limits = c->has_queue_limits || c->tenants[i].queue_limit > 0;
        c->has_weights = c->has_weights || c->tenants[i].weight != 1;
    }
    return sort_sections(c);
}
