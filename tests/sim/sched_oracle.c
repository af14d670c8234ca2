#include "tests/sim/sched_oracle.h"

#include "sched/candidate.h"
#include "sched/parking.h"
#include "sched/place/avoidance.h"
#include "sched/terms.h"
#include "sched/transport.h"
#include "sched/turn.h"
#include "tests/sim/require.h"

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
    bool has_delay = c->is_apart ? c->is_single : config->destination_rate_delay > 0;
    if (has_delay || c->is_single || config->transport_rate_delay > 0 || c->is_out_of_step ||
        (c->host != NULL && c->host->is_out_of_step)) {
        return 1;
    }
    return c->depth < config->pipeline_depth ? c->depth : config->pipeline_depth;
}

static bool is_tried(const struct party *p, const struct destdb_host *h, uint64_t tried)
{
    bool is_found = p->server_count == 0 && (tried & 1) != 0;
    for (uint32_t i = 0; i < p->server_count; i++) {
        is_found = is_found || (p->servers[i].host == h && (tried >> i & 1) != 0);
    }
    return is_found;
}

/* What an entry may go to. */
struct target {
    const struct party *party;
    const struct lane *lane;
    bool is_away;  /* the lane takes nothing at all */
    bool may_open; /* a connection */
    int ceiling;   /* of its connections; 0: none */
    uint8_t families;
    uint16_t group;
    uint64_t tried;
};

static bool is_closed(const struct target *t)
{
    return t->is_away || t->lane->window <= 0;
}

/* Connections of the lane that carry something; of all lanes of its site. */
static int busy_of_lane(const struct lane *lane)
{
    int busy = 0;
    list_foreach(c, &lane->open, const struct connection, in_lane)
    {
        busy += is_busy(c);
    }
    return busy;
}

static bool has_window(const struct sched *s, const struct target *t)
{
    const struct site *site = t->party->site;
    int busy = 0;
    for (uint32_t i = 0; site != NULL && i < SCHED_SOURCES_MAX; i++) {
        const struct site_lane *l = lane_find(site, i);
        busy += l == NULL ? 0 : busy_of_lane(&l->lane);
    }
    int limit = site == NULL ? 0 : s->config.site_concurrency_limit;
    return t->lane->window > busy_of_lane(t->lane) && (limit == 0 || busy < limit) &&
           (t->ceiling == 0 || t->ceiling > busy_of_lane(t->lane));
}

static bool has_open_host(const struct sched *s, const struct target *t)
{
    int limit = s->config.host_concurrency_limit;
    bool is_found = t->party->server_count == 0;
    for (uint32_t i = 0; i < t->party->server_count; i++) {
        const struct server *server = &t->party->servers[i];
        int busy = 0;
        list_foreach(c, &server->host->open, const struct connection, in_host)
        {
            busy += is_busy(c);
        }
        is_found =
            is_found || (server->preference == t->group && (t->tried >> i & 1) == 0 &&
                         (server->families & t->families) != 0 &&
                         s->now >= server->host->retry_until && (limit == 0 || busy < limit));
    }
    return is_found;
}

/* Nobody rides there: whoever would is too far ahead of those that wait for a place, which some connection that
 * carries entries leaves. */
static bool waits_for_others(const struct sched *s, const struct party *p)
{
    bool is_barred =
        flows_take_turns(s) && p->turn != NULL && tree_node_is_linked(&p->turn->in_barred);
    REQUIRE(!is_barred || p->site->busy > 0);
    return is_barred;
}

/* Active with room, or idle. At a site, an idle one waits for a slot and for its host when a smaller
 * limit than there was leaves too many busy ones. */
static bool has_connection(const struct sched *s, const struct target *t)
{
    bool has_room = false, has_idle = false;
    list_foreach(c, &t->lane->open, const struct connection, in_lane)
    {
        bool is_fit = c->party == t->party && c->preference == t->group &&
                      !is_tried(t->party, c->host, t->tried) && !c->is_closing && !c->is_retired;
        has_idle = has_idle || (is_fit && c->in_flight == 0);
        has_room = has_room ||
                   (is_fit && !c->is_draining && c->in_flight > 0 && c->in_flight < depth_of(s, c));
    }
    has_room = has_room && !waits_for_others(s, t->party);
    return has_room || (has_idle && has_window(s, t) &&
                        (t->party->site == NULL ||
                         (has_open_host(s, t) && count_busy(s) < s->config.process_limit)));
}

/* The least preference that has a host to try. */
static bool find_group(const struct sched *s, const struct party *p, uint8_t families,
                       uint64_t tried, uint16_t *ret)
{
    bool is_found = p->server_count == 0 && (tried & 1) == 0;
    *ret = 0;
    for (uint32_t i = 0; i < p->server_count; i++) {
        const struct server *server = &p->servers[i];
        if ((tried >> i & 1) == 0 && s->now >= server->host->retry_until &&
            (server->families & families) != 0 && (!is_found || server->preference < *ret)) {
            *ret = server->preference;
            is_found = true;
        }
    }
    return is_found;
}

static enum oracle_place place_on(const struct sched *s, const struct target *t)
{
    if (is_closed(t)) {
        return ORACLE_LATER;
    }
    if (has_connection(s, t)) {
        return ORACLE_CONNECTION;
    }
    bool has_worker = has_window(s, t) && count_busy(s) < s->config.process_limit;
    return has_worker && t->may_open && has_open_host(s, t) ? ORACLE_WORKER : ORACLE_LATER;
}

/* Sources that the destination may be sent from, by place. */
static uint64_t sources_of(const struct sched *s, const struct sched_destination *d)
{
    uint64_t mask = d->pool < s->sources.pool_count ? s->sources.pools[d->pool] : s->sources.there;
    if (d->party->site == NULL) {
        mask = mask == 0 ? s->sources.there : mask;
        return mask & -mask;
    }
    return mask & ~shared_party_of(d->party)->set->avoided;
}

static uint8_t families_of(const struct sched *s, uint64_t sources)
{
    uint8_t families = 0;
    for (uint32_t i = 0; i < SCHED_SOURCES_MAX; i++) {
        families |= (sources >> i & 1) != 0 ? s->sources.at[i].given.families : 0;
    }
    return families;
}

/* It takes nothing, not even what its connections have room for. */
static bool is_away(const struct site_lane *l, usec_t now)
{
    const struct grant *g = &l->grant;
    bool has_none =
        g->is_limited && (g->state != GRANT_HELD || g->lent.messages == 0 ||
                          g->lent.recipients <= 0 || now < g->lent.from || now >= g->lent.until);
    return l->lane.window <= 0 || l->is_closed || (l->is_probing && l->lane.in_flight > 0) ||
           has_none;
}

static bool is_barred_at(const struct site *site, uint64_t sources)
{
    for (uint32_t i = 0; i < SCHED_SOURCES_MAX; i++) {
        const struct site_lane *l = (sources >> i & 1) == 0 ? NULL : lane_find(site, i);
        if (l != NULL && l->lane.window > 0 && !l->is_closed) {
            return false;
        }
    }
    return true;
}

enum oracle_place sched_oracle_place(const struct sched *s, const struct sched_destination *d,
                                     uint64_t tried, uint64_t sources_tried)
{
    const struct site *site = d->party->site;
    uint64_t sources = sources_of(s, d);
    struct target t = {.party = d->party, .tried = tried, .families = families_of(s, sources)};
    bool lacks_hosts = s->config.must_resolve && d->hosts == NULL;
    bool is_dead = d->lane.window == WINDOW_DEAD || (site != NULL && is_barred_at(site, sources));
    if (is_dead || (lacks_hosts && !d->is_resolving)) {
        return ORACLE_NOTHING;
    }
    if (sources_tried != 0) {
        sources &= site == NULL ? 0 : ~sources_tried;
        t.families = 0;
        for (uint32_t i = 0; i < SCHED_SOURCES_MAX; i++) {
            bool is_left = (sources >> i & 1) != 0 && !is_barred_at(site, UINT64_C(1) << i);
            t.families |= is_left ? s->sources.at[i].given.families : 0;
        }
        if (t.families == 0) {
            return ORACLE_NOTHING;
        }
    }
    if (!find_group(s, t.party, t.families, tried, &t.group)) {
        return ORACLE_NOTHING;
    }
    if (lacks_hosts || d->lane.window < 0) {
        return ORACLE_LATER;
    }
    if (site == NULL) {
        t.lane = &d->lane;
        t.may_open = true;
        return place_on(s, &t);
    }
    enum oracle_place best = ORACLE_LATER;
    for (uint32_t i = 0; i < SCHED_SOURCES_MAX; i++) {
        const struct site_lane *l = (sources >> i & 1) == 0 ? NULL : lane_find(site, i);
        if (l == NULL) {
            continue;
        }
        t.lane = &l->lane;
        t.is_away = is_away(l, s->now);
        t.ceiling = l->most_connections;
        t.may_open = !l->grant.is_limited || l->grant.lent.connects > 0;
        t.families = s->sources.at[i].given.families;
        enum oracle_place place = place_on(s, &t);
        best = best == ORACLE_CONNECTION || place == ORACLE_LATER ? best : place;
    }
    return best;
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

/* Its owner, if it has one, has something to send it with. */
static bool is_lent(const struct sched *s, const struct job *j)
{
    const struct sched_owner *o = purse_of(s, j);
    return o == NULL || (o->state == PURSE_LENT && o->lent.messages > 0 && o->lent.recipients > 0 &&
                         s->now >= o->lent.from && s->now < o->lent.until);
}

static bool has_work(const struct sched *s, const struct sched_destination *d, bool may_ride)
{
    const struct sched_terms *t = d->terms == NULL ? NULL : &d->terms->given;
    usec_t delay = t == NULL ? s->config.destination_rate_delay : t->rate_delay;
    bool is_at_most = t != NULL && t->most_in_flight > 0 && d->in_flight >= t->most_in_flight;
    bool is_early = t != NULL && d->terms->waits.until > s->now;
    if ((delay > 0 && d->in_flight > 0) || is_at_most || is_early) {
        return false;
    }
    enum oracle_place place = sched_oracle_place(s, d, 0, 0);
    list_foreach(e, &d->todo, const struct sched_entry, place.link)
    {
        bool has_place = place == ORACLE_CONNECTION || place == ORACLE_WORKER;
        bool is_free = (may_ride && place == ORACLE_CONNECTION) || is_within_cap(s, e->peer->job);
        if (is_lent(s, e->peer->job) && has_place && is_free) {
            return true;
        }
    }
    return false;
}

static bool has_any_work(const struct sched *s, bool may_ride)
{
    if (is_barred(s)) {
        return false;
    }
    list_foreach(d, &s->destinations, const struct sched_destination, all)
    {
        if (has_work(s, d, may_ride)) {
            return true;
        }
    }
    return false;
}

bool sched_oracle_has_work(const struct sched *s)
{
    return has_any_work(s, true);
}

bool sched_oracle_has_work_within_cap(const struct sched *s)
{
    return has_any_work(s, false);
}

static const struct sched_destination *first_destination(const struct sched *s)
{
    const struct sched_destination *best = NULL;
    list_foreach(d, &s->destinations, const struct sched_destination, all)
    {
        bool is_first = best == NULL || d->round < best->round;
        best = is_first && destination_wanted(d) > 0 && destination_is_open(s, d) ? d : best;
    }
    return best;
}

static struct job *find_candidate(const struct sched *s, const struct job *owner)
{
    int64_t max_slots =
        ((int64_t)owner->read_entries - owner->selected_entries + owner->slots_available) /
        s->config.delivery_slot_cost;
    struct job *best = NULL;
    double best_score = 0;
    for (struct job *j = job_next(owner); max_slots > 0 && j != NULL; j = job_next(j)) {
        if (!list_is_empty(&j->children) || job_is_blocked(j)) {
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

void sched_oracle_check(struct sched *s)
{
    list_foreach(f, &s->flows.all, struct flow, all)
    {
        if (f->current != NULL && s->config.delivery_slot_cost >= 2) {
            REQUIRE(candidate_search(s, f->current) == find_candidate(s, f->current));
        }
    }
    if (s->config.scheduler == SCHED_BY_TURNS) {
        REQUIRE(parking_first_destination(s) == first_destination(s));
    }
}
