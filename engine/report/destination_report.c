/* Reads the destinations and counters of each scheduler's view under RCU, and the configuration;
 * changes nothing. Called on a clerk's thread. */
#include "engine/report/destination_report.h"

#include "base/hash.h"
#include "base/history.h"
#include "base/id_set.h"
#include "dns/ip.h"
#include "engine/config/config.h"
#include "engine/http/clerk.h"
#include "engine/lane/destination_rank.h"
#include "engine/order/order_book.h"
#include "engine/report/change_index.h"
#include "engine/schedule/destination_site.h"
#include "engine/schedule/sched_thread.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/state/source_table.h"
#include "sched/sched.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct filter {
    struct slice match, transport; /* "": all */
    bool has_state[SCHED_DESTINATION_STATE_COUNT];
};

static const char *const states[SCHED_DESTINATION_STATE_COUNT] = {"ready", "dead", "suspended",
                                                                  "resolving"};

static bool contains(struct slice text, struct slice part)
{
    return part.len == 0 ||
           (text.len > 0 && memmem(text.data, text.len, part.data, part.len) != NULL);
}

static bool fits_destination(const struct filter *f, const struct sched_destination_view *d)
{
    return f->has_state[d->state] && contains(d->name, f->match);
}

/* A standing order that is about all mail for the destination. */
static void set_order(json_t *o, const struct engine *e, const struct destination_row *row)
{
    const struct settings *s = settings_of(e);
    struct order_facts facts = {
        .destination = row->view.name,
        .transport = slice_of(s->config->transports[row->transport].name),
        .sources = source_table_pool_list(s->sources, s->config, row->transport, row->view.pool)};
    struct order_verdict verdict;
    char id[24];
    if (order_book_is_empty(e->orders)) {
        return;
    }
    facts.tenant = facts.campaign = facts.domain = SLICE("");
    order_book_judge(e->orders, &facts, clock_wall(), &verdict);
    if (verdict.kind != ORDER_NONE) {
        (void)snprintf(id, sizeof(id), "%llu", (unsigned long long)verdict.id);
        api_set_text(o, "order", slice_of(id));
    }
}

/* Its own: of a look-up, or of its window when it is no site's; or its site's, which is newer. */
static void set_last_error(json_t *o, const struct change_index *changes,
                           const struct destination_row *row, struct slice site)
{
    struct sched_thread_change change, own;
    bool has_site = site.len > 0 && change_index_find(changes, row->transport, site, &change);
    bool has_own = change_index_find(changes, row->transport, row->view.name, &own);
    if (has_own && (!has_site || own.time > change.time)) {
        change = own;
    }
    if (has_own || has_site) {
        json_t *error = json_pack("{s:o, s:o}", "time", api_time(change.time), "text",
                                  api_text(slice_of(change.change.text)));
        (void)json_object_set_new(o, "last_error", error); /* out of memory leaves it out */
    }
}

/* Of its mail, when it is not its transport's own; and the one source that mail keeps to. */
static void set_pool(json_t *o, const struct engine *e, uint16_t pool)
{
    const struct source_table *t = settings_of(e)->sources;
    if (pool < t->pool_count && t->pools[pool].pool != NULL) {
        api_set_text(o, "pool", slice_of(t->pools[pool].pool));
    }
    if (pool < t->pool_count && t->pools[pool].source != NULL) {
        api_set_text(o, "source", slice_of(t->pools[pool].source));
    }
}

static json_t *destination_object(const struct engine *e, const struct change_index *changes,
                                  const struct destination_row *row)
{
    const struct sched_destination_view *d = &row->view;
    json_t *o = json_pack(
        "{s:s, s:o, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I}", "transport",
        settings_of(e)->config->transports[row->transport].name, "destination", api_text(d->name),
        "state", states[d->state], "why", sched_why_text(d->why), "window", d->window, "busy",
        d->busy, "in_flight", d->in_flight, "todo", d->todo, "connections", d->connections, "idle",
        d->idle, "delivered", (json_int_t)d->delivered, "deferred", (json_int_t)d->deferred);
    if (o == NULL) {
        return NULL;
    }
    if (d->state == SCHED_DESTINATION_DEAD || d->state == SCHED_DESTINATION_SUSPENDED) {
        api_set_time(o, "until", clock_wall() + (d->state_until - clock_mono()));
    }
    struct destination_site site;
    destination_site_find(e, row->transport, d->name, &site);
    if (site.key.len > 0) {
        api_set_text(o, "site", site.key);
    }
    set_pool(o, e, d->pool);
    set_order(o, e, row);
    set_last_error(o, changes, row, site.key);
    return o;
}

/* Its site is dead, and no mail of it is in the core, so that what comes would have to wait. */
static bool is_dead_without_mail(const struct sched *s, const struct receiver_place *place,
                                 struct sched_destination_view *ret)
{
    struct sched_destination_view d;
    struct sched_site_view site;
    if (!sched_view_site(s, slice_of(place->site), &site) || site.state != SCHED_LANE_DEAD ||
        sched_view_destination(s, slice_of(place->destination), &d)) {
        return false;
    }
    *ret = (struct sched_destination_view){.name = slice_of(place->destination),
                                           .state = SCHED_DESTINATION_DEAD,
                                           .why = SCHED_WHY_DEAD,
                                           .state_until = site.state_until};
    return true;
}

/* Those whose hosts were found last are remembered. */
static void rank_dead(const struct engine *e, uint32_t transport, const struct filter *f,
                      struct destination_rank *rank)
{
    const struct sched *s = sched_thread_core(e->scheds[transport % e->sched_count], transport);
    const struct history *h = sched_thread_places(e->scheds[transport % e->sched_count]);
    uint64_t begin = history_begin(h);
    struct id_set told = {NULL, 0, 0}; /* hashes of names */
    for (uint64_t i = history_end(h); i > begin && !destination_rank_is_full(rank); i--) {
        struct receiver_place place;
        struct sched_destination_view d;
        if (!history_get(h, i - 1, &place) || place.transport != transport ||
            !is_dead_without_mail(s, &place, &d) || !fits_destination(f, &d)) {
            continue;
        }
        uint64_t id = hash_bytes(d.name.data, d.name.len, 0) | 1;
        if (!id_set_has(&told, id) && id_set_add(&told, id)) {
            destination_rank_add(rank, transport, &d);
        }
    }
    id_set_fini(&told);
}

static void rank_transport(const struct engine *e, uint32_t transport, const struct filter *f,
                           struct destination_rank *rank)
{
    const struct sched *s = sched_thread_core(e->scheds[transport % e->sched_count], transport);
    struct sched_destination_view d;
    uint64_t cursor = 0;
    if (f->transport.len > 0 &&
        !slice_eq(f->transport, slice_of(settings_of(e)->config->transports[transport].name))) {
        return;
    }
    while (!destination_rank_is_full(rank) && sched_view_destinations(s, &cursor, &d)) {
        if (fits_destination(f, &d)) {
            destination_rank_add(rank, transport, &d);
        }
    }
    rank_dead(e, transport, f, rank);
}

static void put_rows(struct clerk *k, struct api_call *c, const struct destination_rank *rank)
{
    const struct engine *e = k->engine;
    size_t i = 0;
    struct change_index *changes = calloc(e->sched_count, sizeof(*changes));
    if (changes == NULL || rank->has_failed) {
        free(changes);
        api_error(c, 503, "unavailable", "out of memory");
        return;
    }
    for (uint32_t t = 0; t < e->sched_count; t++) {
        change_index_init(&changes[t], sched_thread_changes(e->scheds[t]));
    }
    for (; i < rank->count && !api_is_long(c); i++) {
        const struct destination_row *row = &rank->rows[i];
        api_put(c, destination_object(e, &changes[row->transport % e->sched_count], row));
    }
    for (uint32_t t = 0; t < e->sched_count; t++) {
        change_index_fini(&changes[t]);
    }
    free(changes);
    api_end(c, rank->has_more || i < rank->count);
}

/* "dead,suspended"; without one all. */
static bool take_destination_states(struct api_call *c, struct filter *f)
{
    struct slice rest;
    bool is_any = !api_param(c, "state", &rest);
    for (int i = 0; i < SCHED_DESTINATION_STATE_COUNT; i++) {
        f->has_state[i] = is_any;
    }
    while (!is_any) {
        size_t end = slice_find(rest, ',');
        int i = 0;
        while (i < SCHED_DESTINATION_STATE_COUNT &&
               !slice_eq(slice_to(rest, end), slice_of(states[i]))) {
            i++;
        }
        if (i == SCHED_DESTINATION_STATE_COUNT) {
            api_error(c, 400, "usage", "state: some of ready, dead, suspended, resolving");
            return false;
        }
        f->has_state[i] = true;
        if (end == rest.len) {
            return true;
        }
        rest = slice_from(rest, end + 1);
    }
    return true;
}

static bool take_order(struct api_call *c, enum destination_order *ret)
{
    struct slice word;
    *ret = DESTINATION_ORDER_NONE;
    if (api_param(c, "sort", &word)) {
        *ret = destination_order_find(word);
    }
    if (*ret == DESTINATION_ORDER_COUNT) {
        api_error(c, 400, "usage", "sort: one of name, load, delivered, deferred");
    }
    return *ret != DESTINATION_ORDER_COUNT;
}

void destination_report_list(struct clerk *k, struct api_call *c)
{
    const struct engine *e = k->engine;
    struct filter f = {.match = SLICE(""), .transport = SLICE("")};
    enum destination_order order;
    struct destination_rank rank;
    uint64_t limit;
    (void)api_param(c, "match", &f.match); /* a parameter that is missing leaves the text "" */
    (void)api_param(c, "transport", &f.transport);
    if (!take_destination_states(c, &f) || !take_order(c, &order) || !api_param_limit(c, &limit)) {
        return;
    }
    destination_rank_init(&rank, order, limit);
    for (uint32_t t = 0; t < settings_of(e)->transport_count; t++) {
        rank_transport(e, t, &f, &rank);
        clerk_quiesce(k);
    }
    destination_rank_finish(&rank);
    put_rows(k, c, &rank);
    destination_rank_fini(&rank);
}

/* --- transports ------------------------------------------------------------------------------- */

static json_t *transport_object(const struct engine *e, uint32_t transport)
{
    const struct config_transport *t = &settings_of(e)->config->transports[transport];
    const struct sched *s = sched_thread_core(e->scheds[transport % e->sched_count], transport);
    struct sched_counters n;
    json_t *o = json_pack("{s:s, s:b, s:i}", "transport", t->name, "hold", (int)t->sched.hold,
                          "process_limit", (int)t->sched.process_limit);
    if (o == NULL) {
        return NULL;
    }
    sched_view_counters(s, &n);
    if (t->source_pool != NULL) {
        api_set_text(o, "source_pool", slice_of(t->source_pool));
    }
    api_set_number(o, "destinations", n.destinations);
    api_set_number(o, "dead", n.dead + n.dead_sites);
    api_set_number(o, "connections", n.connections);
    api_set_number(o, "idle", n.idle);
    api_set_number(o, "entries_waiting", n.entries_waiting);
    api_set_number(o, "entries_in_flight", n.entries_in_flight);
    api_set_number(o, "recipients_in_core", n.recipients_in_core);
    return o;
}

void destination_report_transports(struct clerk *k, struct api_call *c)
{
    const struct config *config = settings_of(k->engine)->config;
    for (uint32_t t = 0; t < config->transport_count; t++) {
        if (!config->transports[t].is_gone) {
            api_put(c, transport_object(k->engine, t));
        }
    }
    api_end(c, false);
}

/* --- sources ---------------------------------------------------------------------------------- */

static void set_ip(json_t *o, const char *key, const struct ip *ip)
{
    char text[IP_TEXT_MAX];
    if (ip->family != 0) {
        api_set_text(o, key, slice_of(ip_text(ip, text)));
    }
}

static json_t *pool_object(const struct config *config, const struct config_egress_pool *pool,
                           size_t slot)
{
    json_t *names = json_array();
    for (size_t i = 0; i < config->transport_count; i++) {
        if (config->transports[i].pool == pool) {
            (void)json_array_append_new(names, json_string(config->transports[i].name));
        }
    }
    return json_pack("{s:s, s:i, s:o}", "pool", pool->name, "weight", pool->weights.items[slot],
                     "transports", names);
}

/* The order that keeps new connections from leaving by this source; NULL: there is none. */
static json_t *bar_object(const struct engine *e, const struct config_egress_source *s)
{
    usec_t now = clock_wall();
    const struct order *o = order_book_bar_of(e->orders, slice_of(s->name), now);
    json_t *object = o == NULL ? NULL : json_object();
    if (object != NULL) {
        char id[24];
        (void)snprintf(id, sizeof(id), "%llu", (unsigned long long)o->id);
        api_set_text(object, "order", slice_of(id));
        api_set_time(object, "until", o->until);
        /* out of memory leaves it out */
        (void)json_object_set_new(object, "remaining", api_time(o->until - now));
        api_set_text(object, "reason", slice_of(o->reason));
    }
    return object;
}

static json_t *source_object(const struct engine *e, const struct config *config,
                             const struct config_egress_source *s)
{
    json_t *pools = json_array();
    for (size_t i = 0; i < config->egress_pool_count; i++) {
        const struct config_egress_pool *pool = &config->egress_pools[i];
        for (size_t slot = 0; slot < pool->source_names.count; slot++) {
            if (pool->sources[slot] == s) {
                /* out of memory leaves it out */
                (void)json_array_append_new(pools, pool_object(config, pool, slot));
            }
        }
    }
    json_t *o = json_pack("{s:s, s:o}", "source", s->name, "pools", pools);
    if (o != NULL) {
        set_ip(o, "address", &s->address);
        set_ip(o, "address6", &s->address6);
        if (s->helo_name != NULL) {
            api_set_text(o, "helo_name", slice_of(s->helo_name));
        }
        if (s->haproxy.len > 0 || s->socks5.len > 0) {
            api_set_text(o, "proxy", slice_of(s->haproxy.len > 0 ? "haproxy" : "socks5"));
        }
        json_t *bar = bar_object(e, s);
        if (bar != NULL) {
            (void)json_object_set_new(o, "closed", bar); /* out of memory leaves it out */
        }
    }
    return o;
}

void destination_report_sources(struct clerk *k, struct api_call *c)
{
    const struct config *config = settings_of(k->engine)->config;
    for (size_t i = 0; i < config->egress_source_count; i++) {
        api_put(c, source_object(k->engine, config, &config->egress_sources[i]));
    }
    api_end(c, false);
}
