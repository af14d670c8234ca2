/* Reads the sites of each scheduler's view under RCU; changes nothing. A row of destination_rank
 * stands for a site: it keeps the key and what sites are put in order by; the rest is looked up when
 * it is written. */
#include "engine/report/site_report.h"

#include "engine/config/config.h"
#include "engine/http/clerk.h"
#include "engine/lane/destination_rank.h"
#include "engine/lane/lane_object.h"
#include "engine/lane/lane_view.h"
#include "engine/report/change_index.h"
#include "engine/schedule/receiver.h"
#include "engine/schedule/sched_thread.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/tally/exposition.h"
#include "sched/sched.h"

#include <stdlib.h>
#include <string.h>

/* CLOSED: none of its lanes takes anything, and all of them are closed. */
enum site_state { SITE_READY, SITE_DEAD, SITE_CLOSED, SITE_STATES };
static const char *const states[SITE_STATES] = {"ready", "dead", "closed"};

struct filter {
    struct slice match, transport; /* "": all */
    bool has_state[SITE_STATES];
};

/* What one answer needs. */
struct listing {
    struct clerk *clerk;
    struct api_call *call;
    const struct engine *engine;
    struct filter filter;
    struct destination_rank rank;
    struct change_index *changes; /* [engine->sched_count] */
};

static const struct sched *core_of(const struct listing *l, uint32_t transport)
{
    const struct engine *e = l->engine;
    return sched_thread_core(e->scheds[transport % e->sched_count], transport);
}

static bool has_part(struct slice text, struct slice part)
{
    return part.len == 0 || memmem(text.data, text.len, part.data, part.len) != NULL;
}

static enum site_state state_of(const struct listing *l, uint32_t transport,
                                const struct sched_site_view *v, struct lane_counts *ret_counts)
{
    lane_view_count(l->engine, transport, v->key, ret_counts);
    if (v->state == SCHED_LANE_READY) {
        return SITE_READY;
    }
    return ret_counts->closed == v->lanes ? SITE_CLOSED : SITE_DEAD;
}

static bool fits_state(const struct listing *l, uint32_t transport, const struct sched_site_view *v)
{
    const bool *has = l->filter.has_state;
    struct lane_counts counts;
    if (v->state == SCHED_LANE_READY || has[SITE_DEAD] == has[SITE_CLOSED]) {
        return has[v->state == SCHED_LANE_READY ? SITE_READY : SITE_DEAD];
    }
    return has[state_of(l, transport, v, &counts)];
}

static void rank_sites(struct listing *l, uint32_t transport)
{
    const struct sched *s = core_of(l, transport);
    const struct filter *f = &l->filter;
    const char *name = settings_of(l->engine)->config->transports[transport].name;
    struct sched_site_view v;
    uint64_t cursor = 0;
    if (f->transport.len > 0 && !slice_eq(f->transport, slice_of(name))) {
        return;
    }
    while (!destination_rank_is_full(&l->rank) && sched_view_sites(s, &cursor, &v)) {
        if (fits_state(l, transport, &v) && has_part(v.key, f->match)) {
            const struct sched_destination_view row = {
                .name = v.key, .in_flight = v.in_flight, .todo = v.todo};
            destination_rank_add(&l->rank, transport, &row);
        }
    }
}

/* --- objects ---------------------------------------------------------------------------------- */

static void set_until(json_t *o, usec_t until)
{
    if (until > 0) {
        api_set_time(o, "until", clock_wall() + (until - clock_mono()));
    }
}

static void set_provider(json_t *o, struct slice key)
{
    static const struct slice mark = {"provider:", sizeof("provider:") - 1};
    if (key.len > mark.len && memcmp(key.data, mark.data, mark.len) == 0) {
        key = slice_from(key, mark.len);
        api_set_text(o, "provider", slice_to(key, slice_find(key, '/')));
    }
}

static void set_last_error(json_t *o, const struct listing *l, uint32_t transport, struct slice key)
{
    struct sched_thread_change change;
    const struct change_index *x = &l->changes[transport % l->engine->sched_count];
    if (change_index_find(x, transport, key, &change)) {
        json_t *error = json_pack("{s:o, s:o}", "time", api_time(change.time), "text",
                                  api_text(slice_of(change.change.text)));
        (void)json_object_set_new(o, "last_error", error); /* out of memory leaves it out */
    }
}

static void put_site(const struct listing *l, uint32_t transport, const struct sched_site_view *v)
{
    struct lane_counts counts;
    enum site_state state = state_of(l, transport, v, &counts);
    json_t *o =
        json_pack("{s:s, s:o, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "transport",
                  settings_of(l->engine)->config->transports[transport].name, "site",
                  api_text(v->key), "state", states[state], "destinations", v->destinations, "todo",
                  v->todo, "in_flight", v->in_flight, "window", v->window, "busy", v->busy,
                  "connections", v->connections, "idle", v->idle, "lanes", (int)v->lanes);
    if (o != NULL) {
        api_set_number(o, "closed_lanes", counts.closed);
        api_set_number(o, "paced_lanes", counts.paced);
        set_until(o, v->state_until);
        set_provider(o, v->key);
        lane_set_suspensions(o, l->engine, v->key);
        set_last_error(o, l, transport, v->key);
    }
    api_put(l->call, o);
}

/* --- questions -------------------------------------------------------------------------------- */

static bool take_state(struct api_call *c, struct filter *f)
{
    struct slice word;
    bool is_any = !api_param(c, "state", &word);
    bool is_found = is_any;
    for (int i = 0; i < SITE_STATES; i++) {
        f->has_state[i] = is_any || slice_eq(word, slice_of(states[i]));
        is_found = is_found || f->has_state[i];
    }
    if (!is_found) {
        api_error(c, 400, "usage", "state: ready, dead or closed");
    }
    return is_found;
}

static bool take_sort(struct api_call *c, enum destination_order *ret)
{
    struct slice word;
    *ret = DESTINATION_ORDER_NONE;
    if (api_param(c, "sort", &word)) {
        *ret = destination_order_find(word);
        if (*ret != DESTINATION_ORDER_NAME && *ret != DESTINATION_ORDER_LOAD) {
            api_error(c, 400, "usage", "sort: name or load");
            return false;
        }
    }
    return true;
}

static void put_ranked(struct listing *l)
{
    const struct engine *e = l->engine;
    size_t i = 0;
    for (uint32_t t = 0; t < e->sched_count; t++) {
        change_index_init(&l->changes[t], sched_thread_changes(e->scheds[t]));
    }
    for (; i < l->rank.count && !api_is_long(l->call); i++) {
        const struct destination_row *row = &l->rank.rows[i];
        struct sched_site_view v;
        if (sched_view_site(core_of(l, row->transport), row->view.name, &v)) {
            put_site(l, row->transport, &v);
        }
    }
    for (uint32_t t = 0; t < e->sched_count; t++) {
        change_index_fini(&l->changes[t]);
    }
    api_end(l->call, l->rank.has_more || i < l->rank.count);
}

void site_report_list(struct clerk *k, struct api_call *c)
{
    struct listing l = {
        .clerk = k, .call = c, .engine = k->engine, .filter = {SLICE(""), SLICE(""), {false}}};
    enum destination_order order;
    uint64_t limit;
    (void)api_param(c, "match", &l.filter.match); /* a parameter that is missing leaves it "" */
    (void)api_param(c, "transport", &l.filter.transport);
    if (!take_state(c, &l.filter) || !take_sort(c, &order) || !api_param_limit(c, &limit)) {
        return;
    }
    destination_rank_init(&l.rank, order, limit);
    for (uint32_t t = 0; t < settings_of(l.engine)->transport_count; t++) {
        rank_sites(&l, t);
        clerk_quiesce(k);
    }
    destination_rank_finish(&l.rank);
    l.changes = calloc(l.engine->sched_count, sizeof(*l.changes));
    if (l.changes == NULL || l.rank.has_failed) {
        api_error(c, 503, "unavailable", "out of memory");
    } else {
        put_ranked(&l);
    }
    free(l.changes);
    destination_rank_fini(&l.rank);
}

/* --- metrics ---------------------------------------------------------------------------------- */

uint64_t site_report_windows(const struct sched *s)
{
    struct sched_site_view v;
    uint64_t cursor = 0, sum = 0;
    while (sched_view_sites(s, &cursor, &v)) {
        sum += v.destinations > 0 ? (uint64_t)v.window : 0;
    }
    return sum;
}

static const struct sched *site_core(const struct engine *e, uint32_t transport)
{
    return sched_thread_core(e->scheds[transport % e->sched_count], transport);
}

static void put_site_sample(struct buf *out, const char *name, const char *transport,
                            struct exposition_label label, double value)
{
    const struct exposition_labels labels = {{{"transport", slice_of(transport)}, label}};
    exposition_sample(out, name, &labels, value);
}

static void put_counts(struct buf *out, const struct engine *e)
{
    const struct settings *s = settings_of(e);
    exposition_family(out, "sluice_sites", EXPOSITION_GAUGE,
                      "Receivers that schedulers know, also without mail, by state.");
    for (uint32_t t = 0; t < s->transport_count; t++) {
        const struct config_transport *c = &s->config->transports[t];
        struct sched_counters n;
        if (c->is_gone) {
            continue;
        }
        sched_view_counters(site_core(e, t), &n);
        put_site_sample(out, "sluice_sites", c->name,
                        (struct exposition_label){"state", SLICE("ready")},
                        (double)(n.sites > n.dead_sites ? n.sites - n.dead_sites : 0));
        put_site_sample(out, "sluice_sites", c->name,
                        (struct exposition_label){"state", SLICE("dead")}, (double)n.dead_sites);
    }
}

/* What the sites of one provider have together. */
struct provider_sum {
    uint64_t windows, connections, in_flight, waiting;
};

static void add_sites(const struct sched *s, const struct config *c, struct provider_sum *sums)
{
    struct sched_site_view v;
    uint64_t cursor = 0;
    while (sched_view_sites(s, &cursor, &v)) {
        size_t p = receiver_provider(c, v.key);
        if (p < c->provider_count) {
            sums[p].windows += v.destinations > 0 ? (uint64_t)v.window : 0;
            sums[p].connections += (uint64_t)v.connections;
            sums[p].in_flight += (uint64_t)v.in_flight;
            sums[p].waiting += (uint64_t)v.todo;
        }
    }
}

static double sum_value(const struct provider_sum *sum, size_t at)
{
    return (double)*(const uint64_t *)((const char *)sum + at);
}

static void put_providers(struct buf *out, const struct settings *s,
                          const struct provider_sum *sums)
{
    static const struct {
        const char *name, *help;
        size_t at;
    } rows[] = {
        {"sluice_provider_windows", "Windows of a provider's sites.",
         offsetof(struct provider_sum, windows)},
        {"sluice_provider_connections", "Connections to a provider.",
         offsetof(struct provider_sum, connections)},
        {"sluice_provider_in_flight", "Deliveries to a provider under way.",
         offsetof(struct provider_sum, in_flight)},
        {"sluice_provider_waiting", "Deliveries to a provider that wait in a scheduler.",
         offsetof(struct provider_sum, waiting)},
    };
    size_t count = s->config->provider_count;
    for (size_t i = 0; count > 0 && i < sizeof(rows) / sizeof(rows[0]); i++) {
        exposition_family(out, rows[i].name, EXPOSITION_GAUGE, rows[i].help);
        for (size_t k = 0; k < s->transport_count * count; k++) {
            const struct config_transport *t = &s->config->transports[k / count];
            const char *provider = s->config->providers[k % count].options.name;
            if (!t->is_gone) {
                put_site_sample(out, rows[i].name, t->name,
                                (struct exposition_label){"provider", slice_of(provider)},
                                sum_value(&sums[k], rows[i].at));
            }
        }
    }
}

void site_report_metrics(struct buf *out, const struct engine *e)
{
    const struct settings *s = settings_of(e);
    size_t count = s->config->provider_count;
    struct provider_sum *sums = calloc(s->transport_count * count + 1, sizeof(*sums));
    put_counts(out, e);
    for (uint32_t t = 0; sums != NULL && count > 0 && t < s->transport_count; t++) {
        add_sites(site_core(e, t), s->config, &sums[t * count]);
    }
    if (sums == NULL) {
        out->failed = true;
    } else {
        put_providers(out, s, sums);
    }
    free(sums);
}
