/* Owns the comparison of two snapshots by the table of options. Called by a reload before anything
 * is built of the fresh one. */
#include "engine/config/config_change.h"

#include "base/error.h"
#include "engine/config/config_origin.h"
#include "engine/config/config_section.h"
#include "engine/config/config_value.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what needs a restart --------------------------------------------------------------------- */

#define NAME_MAX_BYTES 512

static void tell_change(const struct config_change_sink *sink, const struct config *c,
                        enum config_section section, size_t index, const struct config_option *o,
                        const char *why)
{
    char name[NAME_MAX_BYTES], at[CONFIG_ORIGIN_BYTES];
    struct slice title = config_section_shown(section, config_section_title(c, section, index));
    (void)snprintf(name, sizeof(name), "%s%s%.*s%s%s", config_sections[section].name,
                   title.len == 0 ? "" : " ", (int)(title.len < 300 ? title.len : 300), title.data,
                   o == NULL || section == CONFIG_SECTION_GLOBAL ? "" : ".",
                   o == NULL ? "" : o->name);
    (void)config_origin(c, section, index, o == NULL ? NULL : o->name, at); /* or "default" */
    sink->tell(sink->ctx, name, at, why);
}

static void list_options(const struct config *started, size_t old, const struct config *fresh,
                         size_t index, enum config_section section,
                         const struct config_change_sink *sink)
{
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *o = &config_options[i];
        if (o->section == section && o->needs_restart &&
            !config_value_equal(o, config_section_value(started, section, o, old),
                                config_section_value(fresh, section, o, index))) {
            tell_change(sink, fresh, section, index, o, "needs a restart");
        }
    }
}

static void list_titled(const struct config *started, const struct config *fresh,
                        enum config_section section, const struct config_change_sink *sink)
{
    size_t old_count = config_section_count(started, section);
    size_t count = config_section_count(fresh, section);
    for (size_t i = 0; i < count; i++) {
        size_t old =
            config_section_find_title(started, section, config_section_title(fresh, section, i));
        if (old < old_count) {
            list_options(started, old, fresh, i, section, sink);
        } else {
            tell_change(sink, fresh, section, i, NULL, "it is new and needs a restart");
        }
    }
    for (size_t i = 0; i < old_count; i++) {
        if (config_section_find_title(fresh, section, config_section_title(started, section, i)) ==
            count) {
            tell_change(sink, started, section, i, NULL, "it is gone, and stays until a restart");
        }
    }
}

void config_change_list(const struct config *started, const struct config *fresh,
                        const struct config_change_sink *sink)
{
    for (int s = 0; s < CONFIG_SECTION_COUNT; s++) {
        enum config_section section = (enum config_section)s;
        if (config_sections[s].title == NULL) {
            list_options(started, 0, fresh, 0, section, sink);
        } else if (!config_section_is_live(section)) {
            list_titled(started, fresh, section, sink);
        }
    }
}

void config_change_list_feeds(const struct config *fresh, const struct config_change_sink *sink)
{
    static const enum config_section sections[] = {CONFIG_SECTION_WEBHOOK, CONFIG_SECTION_CSV};
    for (size_t s = 0; s < sizeof(sections) / sizeof(sections[0]); s++) {
        for (size_t i = 0; i < config_section_count(fresh, sections[s]); i++) {
            tell_change(sink, fresh, sections[s], i, NULL,
                        "the event log that it reads needs a restart");
        }
    }
}

/* --- transports in their order ---------------------------------------------------------------- */

static void free_copy(struct config_transport *t)
{
    free(t->name);
    for (size_t i = 0; i < config_option_count; i++) {
        if (config_options[i].section == CONFIG_SECTION_TRANSPORT) {
            config_value_clear(&config_options[i], (char *)t + config_options[i].offset);
        }
    }
}

/* What is left of a transport without a section. It has no pool: that may be gone too, and nothing
 * is connected by this copy. errors: -ENOMEM */
static int copy_gone(const struct config_transport *from, struct config_transport *ret)
{
    *ret = *from;
    ret->is_gone = true;
    ret->pool = NULL;
    ret->name = strdup(from->name);
    bool has_failed = ret->name == NULL;
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *o = &config_options[i];
        if (o->section == CONFIG_SECTION_TRANSPORT && config_option_is_list(o)) {
            memset((char *)ret + o->offset, 0, sizeof(struct config_texts)); /* as any list */
        }
        if (o->section != CONFIG_SECTION_TRANSPORT ||
            (o->type != CONFIG_TYPE_TEXT && o->type != CONFIG_TYPE_FEEDBACK)) {
            continue; /* the others have no memory of their own */
        }
        char *const *text = (char *const *)(const void *)((const char *)from + o->offset);
        char *copy = *text == NULL ? NULL : strdup(*text);
        has_failed = has_failed || (*text != NULL && copy == NULL);
        memcpy((char *)ret + o->offset, &copy, sizeof(copy));
    }
    if (has_failed) {
        free_copy(ret);
        return -ENOMEM;
    }
    return 0;
}

/* order[i]: which of fresh comes to place i, or SIZE_MAX: it is gone. returns how many places */
static size_t find_order(const struct config *before, const struct config *fresh, size_t *order)
{
    size_t placed = 0;
    for (; placed < before->transport_count; placed++) {
        size_t found = config_transport_find(fresh, slice_of(before->transports[placed].name));
        order[placed] = found == fresh->transport_count ? SIZE_MAX : found;
    }
    for (size_t i = 0; i < fresh->transport_count; i++) {
        if (config_transport_find(before, slice_of(fresh->transports[i].name)) ==
            before->transport_count) {
            order[placed++] = i;
        }
    }
    return placed;
}

/* items: [count], zeroed. errors: -ENOMEM; what was copied by then is freed */
static int fill_places(const struct config *before, const struct config *fresh, const size_t *order,
                       size_t count, struct config_transport *items)
{
    for (size_t i = 0; i < count; i++) {
        if (order[i] != SIZE_MAX) {
            items[i] = fresh->transports[order[i]];
        } else if (copy_gone(&before->transports[i], &items[i]) != 0) {
            while (i-- > 0) {
                if (order[i] == SIZE_MAX) {
                    free_copy(&items[i]);
                }
            }
            return -ENOMEM;
        }
    }
    return 0;
}

int config_change_arrange(const struct config *before, struct config *fresh, size_t room,
                          char ret_text[static CONFIG_CHANGE_TEXT_MAX])
{
    size_t most = fresh->transport_count + before->transport_count + 1;
    size_t *order = calloc(most, sizeof(*order));
    struct config_transport *items = calloc(most, sizeof(*items));
    int err = order == NULL || items == NULL ? -ENOMEM : 0;
    (void)snprintf(ret_text, CONFIG_CHANGE_TEXT_MAX, "out of memory");
    size_t count = err == 0 ? find_order(before, fresh, order) : 0;
    if (count > room) {
        (void)snprintf(ret_text, CONFIG_CHANGE_TEXT_MAX,
                       "%.4096s: that would be the %zuth name of a transport since the start, and "
                       "there is room for %zu; a restart forgets those that are gone",
                       fresh->path, count, room);
        err = ERR_LIMIT;
    }
    err = err != 0 ? err : fill_places(before, fresh, order, count, items);
    if (err == 0) {
        err = config_origins_order(fresh->origins, CONFIG_SECTION_TRANSPORT, order, count);
        for (size_t i = 0; i < count && err != 0; i++) {
            if (order[i] == SIZE_MAX) {
                free_copy(&items[i]);
            }
        }
    }
    free(order);
    if (err != 0) {
        free(items);
        return err;
    }
    free(fresh->transports);
    fresh->transports = items;
    fresh->transport_count = count;
    for (size_t i = 0; i < fresh->route_count; i++) {
        struct config_route *r = &fresh->routes[i];
        r->transport = config_transport_find(fresh, slice_of(r->transport_name));
    }
    for (size_t i = 0; i < fresh->tenant_count; i++) {
        struct config_tenant *t = &fresh->tenants[i];
        if (t->transport_name != NULL) {
            t->transport = config_transport_find(fresh, slice_of(t->transport_name));
        }
    }
    return 0;
}

/* --- how a transport connects ----------------------------------------------------------------- */

/* All rows of a section, from `from` on (an offset). */
static bool is_same_section(enum config_section section, size_t from, size_t below, const void *a,
                            const void *b)
{
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *o = &config_options[i];
        if (o->section == section && o->offset >= from && o->offset < below &&
            !config_value_equal(o, (const char *)a + o->offset, (const char *)b + o->offset)) {
            return false;
        }
    }
    return true;
}

bool config_change_is_same_section(enum config_section section, const void *a, const void *b)
{
    return is_same_section(section, 0, SIZE_MAX, a, b);
}

static bool is_same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool is_same_pool(const struct config_egress_pool *a, const struct config_egress_pool *b)
{
    if (a == NULL || b == NULL) {
        return a == b;
    }
    if (a->source_names.count != b->source_names.count ||
        !config_change_is_same_section(CONFIG_SECTION_POOL, a, b)) {
        return false;
    }
    for (size_t i = 0; i < a->source_names.count; i++) {
        if (!config_change_is_same_section(CONFIG_SECTION_SOURCE, a->sources[i], b->sources[i])) {
            return false;
        }
    }
    return true;
}

/* The next route of the transport from *at on, or NULL. */
static const struct config_route *next_route(const struct config *c, size_t transport, size_t *at)
{
    for (; *at < c->route_count; (*at)++) {
        if (c->routes[*at].transport == transport) {
            return &c->routes[(*at)++];
        }
    }
    return NULL;
}

static bool has_level(const struct config *c, size_t transport)
{
    size_t at = 0;
    const struct config_route *r;
    while ((r = next_route(c, transport, &at)) != NULL) {
        if (r->smtp_tls_security_level != CONFIG_TLS_OF_TRANSPORT) {
            return true;
        }
    }
    return false;
}

/* Whether the levels of TLS are the same for all destinations of a transport: where routes have
 * levels, each of them may decide the level of some destination. */
static bool has_same_levels(const struct config *a, const struct config *b, size_t transport)
{
    size_t at_a = 0, at_b = 0;
    const struct config_route *x, *y;
    if (!has_level(a, transport) && !has_level(b, transport)) {
        return true;
    }
    do {
        x = next_route(a, transport, &at_a);
        y = next_route(b, transport, &at_b);
        if (x == NULL || y == NULL) {
            return x == y;
        }
    } while (strcmp(x->pattern, y->pattern) == 0 && strcmp(x->nexthop, y->nexthop) == 0 &&
             x->smtp_tls_security_level == y->smtp_tls_security_level);
    return false;
}

bool config_change_is_same_way(const struct config *a, const struct config *b, size_t transport)
{
    const struct config_transport *x = &a->transports[transport];
    const struct config_transport *y = &b->transports[transport];
    size_t smtp = offsetof(struct config_transport, smtp);
    /* What destinations with options of their own were told has the transport's where these have none. */
    bool has_told = b->provider_count + b->domain_count > 0;
    return (!has_told || x->sched.destination_rate_delay == y->sched.destination_rate_delay) &&
           is_same_text(x->source_pool, y->source_pool) && is_same_pool(x->pool, y->pool) &&
           is_same_section(CONFIG_SECTION_TRANSPORT, smtp, smtp + sizeof(x->smtp), x, y) &&
           has_same_levels(a, b, transport) && x->site_rollup == y->site_rollup;
}

/* --- rates ------------------------------------------------------------------------------------ */

/* A rate, or which sources there are, of which each has its own. */
static bool is_rate(const struct config_option *o)
{
    return o->type == CONFIG_TYPE_RATE || o->type == CONFIG_TYPE_QUOTA ||
           o->type == CONFIG_TYPE_QUOTAS || o->type == CONFIG_TYPE_DATE || /* the day of a warmup */
           o->section == CONFIG_SECTION_POOL || strcmp(o->name, "pool") == 0 ||
           strcmp(o->name, "source_pool") == 0;
}

/* a, b: as config_section_at gives them */
static bool has_same_rates(enum config_section section, const void *a, const void *b)
{
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *o = &config_options[i];
        if (o->section == section && is_rate(o) &&
            !config_value_equal(o, (const char *)a + o->offset, (const char *)b + o->offset)) {
            return false;
        }
    }
    return true;
}

/* Sections in another order count as others. */
static bool have_same_rates(enum config_section section, const struct config *a,
                            const struct config *b)
{
    size_t count = config_section_count(a, section);
    bool is_same = count == config_section_count(b, section);
    for (size_t i = 0; is_same && i < count; i++) {
        is_same = strcmp(config_section_title(a, section, i),
                         config_section_title(b, section, i)) == 0 &&
                  has_same_rates(section, config_section_at(a, section, i),
                                 config_section_at(b, section, i));
    }
    return is_same;
}

bool config_change_has_rates(const struct config *a, const struct config *b,
                             const struct config_receiver_change *receivers)
{
    return receivers->has_members || receivers->has_limits ||
           !have_same_rates(CONFIG_SECTION_TENANT, a, b) ||
           !have_same_rates(CONFIG_SECTION_SOURCE, a, b) ||
           !have_same_rates(CONFIG_SECTION_POOL, a, b) ||
           !have_same_rates(CONFIG_SECTION_TRANSPORT, a, b);
}
