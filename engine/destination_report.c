/* Reads the destinations and counters of each scheduler's view under RCU, and the configuration;
 * changes nothing. Called on a clerk's thread. */
#include "engine/destination_report.h"

#include "dns/ip.h"
#include "engine/clerk.h"
#include "engine/config.h"
#include "engine/engine.h"
#include "engine/sched_thread.h"
#include "engine/settings.h"
#include "sched/sched.h"

#include <string.h>

struct filter {
    struct slice match, state, transport; /* "": all */
};

static const char *const states[SCHED_DESTINATION_STATE_COUNT] = {"ready", "dead", "suspended",
                                                                  "resolving"};

static bool contains(struct slice text, struct slice part)
{
    return part.len == 0 ||
           (text.len > 0 && memmem(text.data, text.len, part.data, part.len) != NULL);
}

static bool fits(const struct filter *f, const struct sched_destination_view *d)
{
    return contains(d->name, f->match) &&
           (f->state.len == 0 || slice_eq(f->state, slice_of(states[d->state])));
}

static json_t *destination_object(const char *transport, const struct sched_destination_view *d)
{
    json_t *o =
        json_pack("{s:s, s:o, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I}", "transport",
                  transport, "destination", api_text(d->name), "state", states[d->state], "why",
                  sched_why_text(d->why), "window", d->window, "busy", d->busy, "in_flight",
                  d->in_flight, "todo", d->todo, "connections", d->connections, "idle", d->idle,
                  "delivered", (json_int_t)d->delivered, "deferred", (json_int_t)d->deferred);
    if (o != NULL &&
        (d->state == SCHED_DESTINATION_DEAD || d->state == SCHED_DESTINATION_SUSPENDED)) {
        api_set_time(o, "until", clock_wall() + (d->state_until - clock_mono()));
    }
    return o;
}

static void put_destinations(const struct engine *e, struct api_call *c, uint32_t transport,
                             const struct filter *f)
{
    const struct sched *s = sched_thread_core(e->scheds[transport % e->sched_count], transport);
    const char *name = e->config->transports[transport].name;
    struct sched_destination_view d;
    uint64_t cursor = 0;
    if (f->transport.len > 0 && !slice_eq(f->transport, slice_of(name))) {
        return;
    }
    while (!api_is_long(c) && sched_view_destinations(s, &cursor, &d)) {
        if (fits(f, &d)) {
            api_put(c, destination_object(name, &d));
        }
    }
}

static bool is_state(struct slice text)
{
    bool is_known = false;
    for (int i = 0; i < SCHED_DESTINATION_STATE_COUNT; i++) {
        is_known = is_known || slice_eq(text, slice_of(states[i]));
    }
    return is_known;
}

void destination_report_list(struct clerk *k, struct api_call *c)
{
    const struct engine *e = k->engine;
    struct filter f = {SLICE(""), SLICE(""), SLICE("")};
    (void)api_param(c, "match", &f.match); /* what is not there stays "" */
    (void)api_param(c, "transport", &f.transport);
    if (api_param(c, "state", &f.state) && !is_state(f.state)) {
        api_error(c, 400, "usage", "state: one of ready, dead, suspended, resolving");
        return;
    }
    for (uint32_t t = 0; t < e->config->transport_count; t++) {
        put_destinations(e, c, t, &f);
        clerk_breathe(k);
    }
    api_end(c, api_is_long(c));
}

/* --- transports --------------------------------------------------------------------------------
 */

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
    api_set_number(o, "dead", n.dead);
    api_set_number(o, "connections", n.connections);
    api_set_number(o, "idle", n.idle);
    api_set_number(o, "entries_waiting", n.entries_waiting);
    api_set_number(o, "entries_in_flight", n.entries_in_flight);
    api_set_number(o, "recipients_in_core", n.recipients_in_core);
    return o;
}

void destination_report_transports(struct clerk *k, struct api_call *c)
{
    for (uint32_t t = 0; t < k->engine->config->transport_count; t++) {
        api_put(c, transport_object(k->engine, t));
    }
    api_end(c, false);
}

/* --- sources -----------------------------------------------------------------------------------
 */

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

static json_t *source_object(const struct config *config, const struct config_egress_source *s)
{
    json_t *pools = json_array();
    for (size_t i = 0; i < config->egress_pool_count; i++) {
        const struct config_egress_pool *pool = &config->egress_pools[i];
        for (size_t slot = 0; slot < pool->source_names.count; slot++) {
            if (pool->sources[slot] == s) {
                (void)json_array_append_new(pools, pool_object(config, pool, slot)); /* or less */
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
    }
    return o;
}

void destination_report_sources(struct clerk *k, struct api_call *c)
{
    const struct config *config = settings_of(k->engine)->config;
    for (size_t i = 0; i < config->egress_source_count; i++) {
        api_put(c, source_object(config, &config->egress_sources[i]));
    }
    api_end(c, false);
}
