/* Owns nothing. Called by order_report.c on the clerk that walks, after a count that found nothing.
 * Transports and sources are those of the configuration; a tenant, a campaign or a destination is
 * also known when mail of it is queued or came since the start. Domains are the world's. */
#include "engine/report/order_warning.h"

#include "engine/census/order_count.h"
#include "engine/config/config.h"
#include "engine/http/clerk.h"
#include "engine/schedule/sched_thread.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/tally/tally.h"
#include "sched/sched.h"

static bool matches(const struct selector *s, enum selector_word word, const char *name)
{
    return name != NULL && selector_matches_word(s, word, slice_of(name));
}

static bool is_transport(const struct config *c, const struct selector *s)
{
    for (size_t i = 0; i < c->transport_count; i++) {
        if (!c->transports[i].is_gone && matches(s, SELECTOR_TRANSPORT, c->transports[i].name)) {
            return true;
        }
    }
    return false;
}

static bool is_source(const struct config *c, const struct selector *s)
{
    for (size_t i = 0; i < c->egress_source_count; i++) {
        if (matches(s, SELECTOR_SOURCE, c->egress_sources[i].name)) {
            return true;
        }
    }
    return false;
}

/* A full table does not say who else there is. */
static bool is_tenant(const struct engine *e, const struct config *c, const struct selector *s)
{
    uint32_t rows = tally_table_rows(e->tally->tenants);
    for (size_t i = 0; i < c->listener_count; i++) {
        if (matches(s, SELECTOR_TENANT, c->listeners[i].tenant)) {
            return true;
        }
    }
    for (uint32_t i = TALLY_ROW_OTHER + 1; i < rows; i++) {
        const struct tally_row *row = tally_table_row(e->tally->tenants, i);
        if (selector_matches_word(s, SELECTOR_TENANT, tally_row_name(row))) {
            return true;
        }
    }
    return rows > TALLY_ROWS_MAX;
}

static bool is_destination(const struct engine *e, const struct config *c, const struct selector *s)
{
    for (size_t i = 0; i < c->route_count; i++) {
        if (c->routes[i].nexthop[0] != '\0' &&
            matches(s, SELECTOR_DESTINATION, c->routes[i].nexthop)) {
            return true;
        }
    }
    for (uint32_t t = 0; t < c->transport_count; t++) {
        struct sched_destination_view d;
        uint64_t cursor = 0;
        while (sched_view_destinations(sched_thread_core(e->scheds[t % e->sched_count], t), &cursor,
                                       &d)) {
            if (selector_matches_word(s, SELECTOR_DESTINATION, d.name)) {
                return true;
            }
        }
    }
    return false;
}

/* Mail of that name alone. */
static bool is_queued(struct clerk *k, const struct selector *s, enum selector_word word)
{
    struct selector one = {{NULL}}; /* the value stays the other's */
    struct order_count count;
    one.value[word] = s->value[word];
    return order_count_take(k, ORDER_NONE, &one, 0, &count) != 0 || count.recipients > 0;
}

static const char *find_wrong(struct clerk *k, const struct selector *s, enum selector_word word)
{
    const struct config *c = settings_of(k->engine)->config;
    switch (word) {
    case SELECTOR_TENANT:
        return is_tenant(k->engine, c, s) || is_queued(k, s, word)
                   ? NULL
                   : "no mail of this tenant is queued, and none came since the start";
    case SELECTOR_CAMPAIGN:
        return is_queued(k, s, word) ? NULL : "no mail of this campaign is queued";
    case SELECTOR_DESTINATION:
        return is_destination(k->engine, c, s) || is_queued(k, s, word)
                   ? NULL
                   : "no route and no mail leads to this destination now";
    case SELECTOR_TRANSPORT:
        return is_transport(c, s) ? NULL : "no transport of this name is configured";
    case SELECTOR_SOURCE:
        return is_source(c, s) ? NULL : "no source of this name is configured";
    case SELECTOR_DOMAIN:
    case SELECTOR_COUNT:
        break;
    }
    return NULL;
}

typedef const char *find_wrong_call(struct clerk *k, const struct selector *s,
                                    enum selector_word word);

static const char *find_wrong_in_config(struct clerk *k, const struct selector *s,
                                        enum selector_word word)
{
    bool is_of_config = word == SELECTOR_TRANSPORT || word == SELECTOR_SOURCE;
    return is_of_config ? find_wrong(k, s, word) : NULL;
}

static json_t *list_wrong(struct clerk *k, const struct selector *selector, find_wrong_call *find)
{
    json_t *list = json_array();
    for (enum selector_word word = 0; word < SELECTOR_COUNT; word++) {
        const char *wrong = selector->value[word] == NULL ? NULL : find(k, selector, word);
        if (wrong != NULL) { /* out of memory leaves it out */
            (void)json_array_append_new(list, json_sprintf("%s %s: %s", selector_word_text(word),
                                                           selector->value[word], wrong));
        }
    }
    if (json_array_size(list) == 0) {
        json_decref(list);
        return NULL;
    }
    return list;
}

json_t *order_warning_list(struct clerk *k, const struct selector *selector)
{
    return list_wrong(k, selector, find_wrong);
}

json_t *order_warning_of_config(struct clerk *k, const struct selector *selector)
{
    return list_wrong(k, selector, find_wrong_in_config);
}
