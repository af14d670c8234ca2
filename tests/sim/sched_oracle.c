#include "tests/sim/sched_oracle.h"

#include "sched/transport.h"

static bool is_busy(const struct connection *c)
{
    return c->in_flight > 0 || c->is_ending;
}

static int count_busy(const struct sched *s)
{
    int busy = 0;
    for (uint32_t i = 0; i < s->connection_count; i++) {
        busy += is_busy(connection_at(s, i));
    }
    return busy;
}

/* A rate delay follows each single entry. */
static int depth_of(const struct sched *s, const struct connection *c)
{
    const struct sched_config *config = &s->config;
    if (config->destination_rate_delay > 0 || config->transport_rate_delay > 0 ||
        c->is_out_of_step || (c->host != NULL && c->host->is_out_of_step)) {
        return 1;
    }
    return c->depth < config->pipeline_depth ? c->depth : config->pipeline_depth;
}

static bool is_tried(const struct sched_destination *d, const struct destdb_host *h, uint64_t tried)
{
    bool is_found = d->own.server_count == 0 && (tried & 1) != 0;
    for (uint32_t i = 0; i < d->own.server_count; i++) {
        is_found = is_found || (d->own.servers[i].host == h && (tried >> i & 1) != 0);
    }
    return is_found;
}

/* Active with room, or idle. */
static bool has_connection(const struct sched *s, const struct sched_destination *d, uint16_t group,
                           uint64_t tried)
{
    int busy = 0;
    bool has_room = false, has_idle = false;
    list_foreach(c, &d->lane.open, const struct connection, in_lane)
    {
        bool is_fit = c->preference == group && !is_tried(d, c->host, tried) && !c->is_closing &&
                      !c->is_retired;
        busy += is_busy(c);
        has_idle = has_idle || (is_fit && c->in_flight == 0);
        has_room = has_room ||
                   (is_fit && !c->is_draining && c->in_flight > 0 && c->in_flight < depth_of(s, c));
    }
    return has_room || (has_idle && d->lane.window > busy);
}

static bool has_open_host(const struct sched *s, const struct sched_destination *d, uint16_t group,
                          uint64_t tried)
{
    int limit = s->config.host_concurrency_limit;
    bool is_found = d->own.server_count == 0;
    for (uint32_t i = 0; i < d->own.server_count; i++) {
        const struct server *server = &d->own.servers[i];
        int busy = 0;
        list_foreach(c, &server->host->open, const struct connection, in_host)
        {
            busy += is_busy(c);
        }
        is_found =
            is_found || (server->preference == group && (tried >> i & 1) == 0 &&
                         s->now >= server->host->retry_until && (limit == 0 || busy < limit));
    }
    return is_found;
}

/* The least preference that has a host to try. */
static bool find_group(const struct sched *s, const struct sched_destination *d, uint64_t tried,
                       uint16_t *ret)
{
    bool is_found = d->own.server_count == 0 && (tried & 1) == 0;
    *ret = 0;
    for (uint32_t i = 0; i < d->own.server_count; i++) {
        const struct server *server = &d->own.servers[i];
        if ((tried >> i & 1) == 0 && s->now >= server->host->retry_until &&
            (!is_found || server->preference < *ret)) {
            *ret = server->preference;
            is_found = true;
        }
    }
    return is_found;
}

enum oracle_place sched_oracle_place(const struct sched *s, const struct sched_destination *d,
                                     uint64_t tried)
{
    uint16_t group;
    bool lacks_hosts = s->config.must_resolve && d->hosts == NULL;
    if (d->lane.window == WINDOW_DEAD || (lacks_hosts && !d->is_resolving) ||
        !find_group(s, d, tried, &group)) {
        return ORACLE_NOTHING;
    }
    if (lacks_hosts) {
        return ORACLE_LATER;
    }
    if (d->lane.window < 0) {
        return ORACLE_LATER;
    }
    if (has_connection(s, d, group, tried)) {
        return ORACLE_CONNECTION;
    }
    int busy = 0;
    list_foreach(c, &d->lane.open, const struct connection, in_lane)
    {
        busy += is_busy(c);
    }
    bool has_worker = d->lane.window > busy && count_busy(s) < s->config.process_limit;
    return has_worker && has_open_host(s, d, group, tried) ? ORACLE_WORKER : ORACLE_LATER;
}

static bool is_within_cap(const struct sched *s, const struct job *j)
{
    const struct sched_config *c = &s->config;
    if (c->max_message_concurrency == 0 && c->scale_max_concurrency == 0) {
        return true;
    }
    int64_t in_flight = j->busy;
    return in_flight < c->max_message_concurrency ||
           in_flight < (int64_t)c->scale_max_concurrency * (c->process_limit - count_busy(s));
}

/* A rate delay that runs or waits for its first entry bars all. */
static bool is_barred(const struct sched *s)
{
    return s->hold || (s->config.transport_rate_delay > 0 && s->rate != RATE_FREE);
}

static bool has_work(const struct sched *s, const struct sched_destination *d)
{
    if (s->config.destination_rate_delay > 0 && d->in_flight > 0) {
        return false;
    }
    enum oracle_place place = sched_oracle_place(s, d, 0);
    list_foreach(e, &d->todo, const struct sched_entry, place.link)
    {
        if (place == ORACLE_CONNECTION ||
            (place == ORACLE_WORKER && is_within_cap(s, e->peer->job))) {
            return true;
        }
    }
    return false;
}

bool sched_oracle_has_work(const struct sched *s)
{
    if (is_barred(s)) {
        return false;
    }
    list_foreach(d, &s->destinations, const struct sched_destination, all)
    {
        if (has_work(s, d)) {
            return true;
        }
    }
    return false;
}

struct job *sched_oracle_candidate(const struct sched *s, const struct job *owner)
{
    int64_t max_slots =
        ((int64_t)owner->read_entries - owner->selected_entries + owner->slots_available) /
        s->config.delivery_slot_cost;
    struct job *best = NULL;
    double best_score = 0;
    for (struct job *j = job_next(s, owner); max_slots > 0 && j != NULL; j = job_next(s, j)) {
        if (!list_is_empty(&j->children) || job_is_blocked(s, j)) {
            continue;
        }
        double age = (double)(s->now / USEC_PER_SEC - j->queued_time / USEC_PER_SEC + 1);
        double score = age / (double)job_total(j);
        if (job_need(j) > 0 && job_need(j) <= max_slots && score > best_score) {
            best_score = score;
            best = j;
        }
        if (age <= best_score && j->level == 0) {
            break;
        }
    }
    return best;
}
