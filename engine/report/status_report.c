/* Reads counters of all threads and of the spool; changes nothing. Called on a clerk's thread, the
 * last three on the http thread. */
#include "engine/report/status_report.h"

#include "base/error.h"
#include "engine/census/queue_figures.h"
#include "engine/config/config.h"
#include "engine/http/clerk.h"
#include "engine/http/http.h"
#include "engine/order/order_book.h"
#include "engine/report/series_report.h"
#include "engine/schedule/sched_thread.h"
#include "engine/spool/spool_store.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "sched/sched.h"

#include <string.h>

static const struct {
    enum engine_gate gate;
    const char *text;
} gates[] = {{ENGINE_GATE_LOW_SPACE, "low space"}, {ENGINE_GATE_BROKEN, "broken"},
             {ENGINE_GATE_STOPPING, "stopping"},   {ENGINE_GATE_DRAINING, "draining"},
             {ENGINE_GATE_LOG, "no log"},          {ENGINE_GATE_LOG_FULL, "log full"}};

static json_t *gate_list(const struct engine *e)
{
    uint32_t bits = engine_gate(e);
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof(gates) / sizeof(gates[0]); i++) {
        if ((bits & gates[i].gate) != 0) {
            /* out of memory leaves it out */
            (void)json_array_append_new(list, json_string(gates[i].text));
        }
    }
    return list;
}

static void set_scheduler_totals(const struct engine *e, json_t *o)
{
    struct sched_counters total = {0};
    for (uint32_t t = 0; t < settings_of(e)->transport_count; t++) {
        struct sched_counters n;
        sched_view_counters(sched_thread_core(e->scheds[t % e->sched_count], t), &n);
        total.destinations += n.destinations;
        total.dead += n.dead + n.dead_sites;
        total.entries_waiting += n.entries_waiting;
        total.entries_in_flight += n.entries_in_flight;
        total.connections += n.connections;
        total.idle += n.idle;
        total.recipients_in_core += n.recipients_in_core;
    }
    api_set_number(o, "recipients_in_core", total.recipients_in_core);
    api_set_number(o, "entries_waiting", total.entries_waiting);
    api_set_number(o, "entries_in_flight", total.entries_in_flight);
    api_set_number(o, "connections", total.connections);
    api_set_number(o, "idle", total.idle);
    api_set_number(o, "destinations", total.destinations);
    api_set_number(o, "dead", total.dead);
}

static void set_counter(json_t *o, const char *key, const _Atomic uint64_t *counter)
{
    api_set_number(o, key, atomic_load_explicit(counter, memory_order_relaxed));
}

/* Messages by what became of their signatures; absent while nothing signs and nothing did. */
static void set_seals(const struct engine *e, json_t *o)
{
    json_t *seals = settings_of(e)->keys == NULL ? NULL : json_object();
    for (unsigned i = 0; i < SEAL_RESULT_COUNT; i++) {
        uint64_t count = atomic_load_explicit(&e->seals[i], memory_order_relaxed);
        if (seals == NULL && count > 0) {
            seals = json_object();
        }
        if (seals != NULL && count > 0) {
            api_set_number(seals, seal_result_text((enum seal_result)i), count);
        }
    }
    (void)json_object_set_new(o, "dkim", seals); /* nothing, or out of memory: left out */
}

static void set_states(json_t *o, const struct queue_figures *f)
{
    api_set_number(o, "messages", f->messages);
    for (enum queue_state state = 0; state < QUEUE_STATE_COUNT; state++) {
        api_set_number(o, queue_state_text(state), f->states[state]);
    }
    api_set_time(o, "states_as_of", f->as_of);
    (void)json_object_set_new(o, "is_estimate", json_boolean(f->is_estimate)); /* or left out */
}

void status_report_show(struct clerk *k, struct api_call *c)
{
    struct spool_counts spool = {0};
    struct queue_figures figures;
    const struct engine *e = k->engine;
    if (!clerk_begin(k, c)) {
        return;
    }
    int err = spool_read_counts(k->reader, &spool);
    clerk_end(k);
    if (err == 0) {
        err = queue_figures_read(k, &spool, &figures);
    }
    if (err != 0) {
        api_error(c, 503, "unavailable", "%s", err_str(err));
        return;
    }
    json_t *o =
        json_pack("{s:s, s:o, s:o, s:o}", "version", SLUICE_VERSION, "started",
                  api_time(e->started), "now", api_time(clock_wall()), "gates", gate_list(e));
    if (o != NULL) {
        api_set_text(o, "hostname", slice_of(settings_of(e)->config->hostname));
        set_states(o, &figures);
        api_set_number(o, "quarantined", spool.quarantined);
        set_scheduler_totals(e, o);
        api_set_number(o, "used_bytes", spool.used_bytes);
        api_set_number(o, "map_bytes", spool.map_bytes);
        api_set_number(o, "free_bytes", spool.free_bytes);
        api_set_text(o, "free_limit", slice_of(spool.is_left_by_disk ? "disk" : "map"));
        set_counter(o, "received", &e->received);
        set_counter(o, "delivered", &e->delivered);
        set_counter(o, "deferrals", &e->deferred);
        set_counter(o, "failed", &e->failed);
        set_counter(o, "expired", &e->expired);
        set_counter(o, "ambiguous", &e->ambiguous);
        api_set_number(o, "orders", order_book_size(e->orders));
        /* out of memory leaves it out */
        (void)json_object_set_new(o, "rates", series_report_rates(e));
        set_counter(o, "odd_labels", &e->odd_labels);
        set_counter(o, "notices_suppressed", &e->notices_suppressed);
        set_seals(e, o);
    }
    api_object(c, 200, o);
}

void status_report_health(struct clerk *k, struct api_call *c)
{
    (void)k; /* the daemon is healthy when this handler runs at all */
    api_object(c, 200, json_pack("{s:s}", "status", "ok"));
}

void status_report_readiness(struct clerk *k, struct api_call *c)
{
    bool is_ready = engine_gate(k->engine) == ENGINE_GATE_OPEN;
    api_object(c, is_ready ? 200 : 503,
               json_pack("{s:s, s:o}", "status", is_ready ? "ready" : "not ready", "gates",
                         gate_list(k->engine)));
}

static json_t *route_object(const struct api_route *r)
{
    json_t *params = json_array();
    for (const char *const *p = r->params; p != NULL && *p != NULL; p++) {
        (void)json_array_append_new(params, json_string(*p)); /* out of memory: one less */
    }
    return json_pack("{s:s, s:s, s:o, s:s, s:s, s:b}", "method", r->method, "path", r->path,
                     "params", params, "summary", r->summary, "right",
                     api_right_text(api_route_right(r)), "tenants", r->is_tenants);
}

void status_report_routes(struct clerk *k, struct api_call *c)
{
    size_t count;
    const struct api_route *routes = http_routes(k->engine->http, &count);
    for (size_t i = 0; i < count; i++) {
        api_put(c, route_object(&routes[i]));
    }
    api_end(c, false);
}
