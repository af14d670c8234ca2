/* Every invariant of sites, see sched/place/site_check.h. Called by sched_check; changes nothing. */
#include "sched/place/site_check.h"

#include "sched/parking.h"
#include "sched/place/avoidance.h"
#include "sched/place/lane_choice.h"
#include "sched/place/shed.h"
#include "sched/place/site.h"
#include "sched/terms.h"
#include "sched/transport.h"

#define HOLD_SITE(condition)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            return #condition;                                                                     \
        }                                                                                          \
    } while (false)

/* What it holds, and that it asks when it should. */
static const char *check_grant(const struct sched *s, const struct site_lane *l)
{
    const struct grant *g = &l->grant;
    const struct site *site = l->site;
    int64_t wanted = 0;
    list_foreach(set, &site->sets, const struct lane_set, in_site)
    {
        wanted += (set->mask & source_bit(l->source)) != 0 ? set->wanted + set->displaced : 0;
    }
    HOLD_SITE(g->is_limited == ((site->limited & source_bit(l->source)) != 0));
    HOLD_SITE(g->is_limited || (g->state == GRANT_NONE && !list_is_linked(&g->touched)));
    HOLD_SITE(g->ask.kind == SCHED_NONE || g->state == GRANT_ASKED);
    HOLD_SITE(g->back.kind == SCHED_NONE || g->back.kind == SCHED_RETURN);
    HOLD_SITE(g->state != GRANT_HELD || (g->ask.kind == SCHED_NONE && g->lent.until >= s->now));
    HOLD_SITE(g->state != GRANT_HELD || wanted > 0 || g->lent.is_ample ||
              list_is_linked(&g->touched));
    HOLD_SITE(g->state != GRANT_WAITING || g->lent.due >= s->now);
    HOLD_SITE(g->state != GRANT_NONE || !grant_is_due(s, l) || list_is_linked(&g->touched));
    return NULL;
}

static const char *check_lane(const struct sched *s, const struct site_lane *l,
                              struct site_tally *t)
{
    const struct lane *lane = &l->lane;
    int busy = 0, idle = 0, in_flight = 0, roomy = 0;
    uint64_t last = UINT64_MAX;
    list_foreach(c, &lane->open, const struct connection, in_lane)
    {
        HOLD_SITE(c->lane == lane && c->party->site == l->site && c->serial < last);
        last = c->serial;
        busy += c->state == CONNECTION_BUSY;
        idle += c->state == CONNECTION_IDLE;
        in_flight += c->in_flight;
        roomy += connection_has_room(s, c);
    }
    HOLD_SITE(lane->busy == busy && lane->idle_connections == idle);
    HOLD_SITE(lane->connections == busy + idle && lane->in_flight == in_flight);
    int window_limit = site_rule(s, l->site)->limit;
    HOLD_SITE(lane->window >= 0 && (window_limit == 0 || lane->window <= window_limit));
    HOLD_SITE(lane->window <= 0 || roomy <= lane->window);
    HOLD_SITE((lane->window == WINDOW_DEAD) == (l->reason != NULL));
    usec_t until = lane->window == WINDOW_DEAD ? l->dead_until : USEC_NEVER;
    until = l->is_closed && l->closed_until < until ? l->closed_until : until;
    until = grant_wake_at(s, l) < until ? grant_wake_at(s, l) : until;
    HOLD_SITE(l->timer.position != 0 && l->timer.key == until);
    HOLD_SITE(l->is_closed == (l->closed_by != NULL) && !(l->is_closed && l->is_probing));
    const struct site *site = l->site;
    uint64_t bit = source_bit(l->source);
    bool is_alive = lane->window > 0 && !l->is_closed && (s->sources.there & bit) != 0;
    bool is_usable = is_alive && (!l->is_probing || in_flight == 0) && grant_allows(s, l);
    HOLD_SITE(((site->alive & bit) != 0) == is_alive && is_alive >= (idle > 0));
    HOLD_SITE(((site->usable & bit) != 0) == is_usable && lane->is_shut == !is_usable);
    HOLD_SITE(((site->spare & bit) != 0) == (is_usable && busy < lane_most(l)));
    HOLD_SITE(((site->openable & bit) != 0) == grant_allows_connection(l));
    HOLD_SITE(is_usable || roomy == 0);
    HOLD_SITE(lane->slowed >= 0 && lane->slowed <= in_flight);
    HOLD_SITE(l->most_connections == 0 || idle == 0 || busy + idle <= l->most_connections);
    t->connections += (uint64_t)(busy + idle);
    t->idle += (uint64_t)idle;
    t->lanes++;
    return check_grant(s, l);
}

/* Members as they stand in the queue: in the order of the first jobs parked at them. */
static const char *check_members(const struct sched *s, const struct shared_party *q,
                                 int *ret_occupied)
{
    int willing = 0, queued = 0;
    uint32_t lingering = 0;
    bool was_lingering = true;
    list_foreach(d, &q->members, const struct sched_destination, in_party)
    {
        bool is_willing = destination_wanted(d) > 0 && d->lane.window > 0 && !d->lacks_hosts &&
                          terms_allow_entry(s, d);
        HOLD_SITE(d->party == &q->party && d->own.work == OPEN_NOT && d->was_at_site);
        HOLD_SITE(d->is_willing == is_willing);
        HOLD_SITE(d->is_occupied == (d->waiting + d->in_flight > 0));
        HOLD_SITE(d->counted_waiting == d->waiting);
        HOLD_SITE(was_lingering || !d->is_lingering);
        HOLD_SITE(!d->is_lingering || (!d->is_occupied && list_is_linked(&d->in_displaced)));
        was_lingering = d->is_lingering;
        lingering += d->is_lingering;
        bool is_queued = is_willing && destination_is_sought(d);
        HOLD_SITE(tree_node_is_linked(&d->own.in_ready) == is_queued);
        HOLD_SITE(!q->set->is_barred || d->waiting == 0);
        /* Without memory to move it, it avoids for longer. */
        HOLD_SITE(d->pool == q->set->pool && (avoidance_mask(d) & ~q->set->avoided) == 0);
        willing += is_willing;
        queued += is_queued;
        *ret_occupied += d->is_occupied;
    }
    uint64_t last = 0;
    for (const struct tree_node *n = q->queue.first; n != NULL; n = tree_next(n)) {
        const struct sched_destination *d =
            container_of(n, const struct sched_destination, own.in_ready);
        HOLD_SITE(d->party == &q->party && parking_first_position(d) >= last);
        last = parking_first_position(d);
        queued--;
    }
    HOLD_SITE(q->willing == willing && queued == 0 && !q->is_pinned);
    HOLD_SITE(q->lingering == lingering);
    return NULL;
}

static const char *check_party(const struct sched *s, const struct shared_party *q)
{
    const struct party *p = &q->party;
    uint16_t group = 0;
    uint8_t families = 0;
    bool can_try = server_group(s, p, 0, &group);
    HOLD_SITE(can_try == !p->is_unreachable && (!can_try || group == p->group));
    for (uint32_t i = 0; i < p->server_count; i++) {
        const struct server *server = &p->servers[i];
        bool is_in_group =
            can_try && server->preference == group && !destdb_host_is_waiting(server->host);
        HOLD_SITE(server->party == p && list_is_linked(&server->in_host));
        HOLD_SITE(server->is_wanted ==
                  (is_in_group && p->work == OPEN_HOST && (server->families & q->set->room) != 0));
        HOLD_SITE(tree_node_is_linked(&server->in_queue) ==
                  (server->is_wanted && !tree_is_empty(&q->queue)));
        families |= is_in_group ? server->families : 0;
    }
    HOLD_SITE(p->families == (p->server_count == 0 ? SITE_FAMILIES : families));
    HOLD_SITE(p->work == placement_openness(s, p));
    bool is_ready = !tree_is_empty(&q->queue) && (p->work == OPEN_NOW || p->work == OPEN_SLOT);
    HOLD_SITE(tree_node_is_linked(&p->in_ready) == is_ready);
    HOLD_SITE(!list_is_empty(&q->members) || q->connections > 0);
    int connections = 0;
    for (uint32_t i = 0; i < s->connection_count; i++) {
        const struct connection *c = connection_at(s, i);
        connections += c->party == p;
        HOLD_SITE(c->party != p || c->is_closing || c->is_retired || c->host == NULL ||
                  server_mask(p, c->host) != 0);
        HOLD_SITE(c->party != p || c->is_closing || c->is_retired ||
                  (q->set->mask & source_bit(c->source)) != 0);
    }
    HOLD_SITE(q->connections == connections);
    return NULL;
}

/* Where selection finds the parties of a set. */
static const char *check_stands(const struct lane_set *set)
{
    bool is_counted = false;
    for (int i = 0; i < SITE_FAMILIES; i++) {
        const struct site_stand *stand = &set->stands[i];
        uint64_t last = 0;
        int slots = 0;
        bool is_up = (set->room & (i + 1)) != 0;
        list_foreach(q, &set->site->parties, const struct shared_party, in_site)
        {
            slots += q->set == set && q->party.work == OPEN_SLOT && q->party.families == i + 1;
        }
        for (const struct tree_node *n = stand->parties.first; n != NULL; n = tree_next(n)) {
            const struct party *p = container_of(n, const struct party, in_ready);
            HOLD_SITE(shared_party_of(p)->set == set && p->work == OPEN_SLOT);
            HOLD_SITE(p->families == i + 1 && party_first_position(p) >= last);
            last = party_first_position(p);
        }
        HOLD_SITE(set->counts[i] == slots);
        HOLD_SITE((set->stood_at >> i & 1) == !tree_is_empty(&stand->parties));
        HOLD_SITE(tree_node_is_linked(&stand->in_ready) ==
                  (is_up && !tree_is_empty(&stand->parties)));
        is_counted = is_counted || (is_up && slots > 0);
    }
    HOLD_SITE(set->is_counted == is_counted);
    return NULL;
}

/* What lanes are wanted for. */
static void count_entries(const struct shared_party *q, int64_t *ret_wanted, int64_t *ret_displaced)
{
    list_foreach(d, &q->members, const struct sched_destination, in_party)
    {
        *ret_wanted += d->is_willing ? destination_wanted(d) : 0;
        list_foreach(e, &d->displaced, const struct sched_entry, place.link)
        {
            *ret_displaced += e->state == ENTRY_DISPLACED;
        }
    }
}

static bool check_turn(const struct sched *s, const struct lane_set *set)
{
    int64_t sum = 0;
    for (uint32_t i = 0; set->turn != NULL && i < SCHED_SOURCES_MAX; i++) {
        sum += set->turn->credit[i];
    }
    return set->turn == NULL ||
           (set->turn->pool == set->pool && sum == 0 && source_weights(s, set->pool) != NULL);
}

static int count_yielding(const struct sched *s, const struct lane_set *set)
{
    int count = 0;
    for (uint32_t i = 0; i < s->connection_count; i++) {
        const struct connection *c = connection_at(s, i);
        count += c->is_yielding && c->state == CONNECTION_BUSY && c->is_draining &&
                 shared_party_of(c->party)->set == set;
    }
    return count;
}

static const char *check_set(const struct sched *s, const struct lane_set *set,
                             struct site_tally *t)
{
    int64_t wanted = 0, displaced = 0;
    uint32_t parties = 0, sharing = 0;
    int seeking = 0, work[OPEN_COUNT] = {0};
    const struct site *site = set->site;
    list_foreach(q, &site->parties, const struct shared_party, in_site)
    {
        if (q->set == set) {
            parties++;
            HOLD_SITE(q->shares_lanes == lane_set_is_shared_by(s, &q->party));
            sharing += q->shares_lanes;
            seeking += q->shares_lanes && q->party.work == OPEN_SLOT;
            work[q->party.work]++;
            count_entries(q, &wanted, &displaced);
        }
    }
    HOLD_SITE(set->parties == parties && parties > 0);
    HOLD_SITE(set->yielding == count_yielding(s, set));
    HOLD_SITE(set->sharing == sharing && set->seeking == seeking);
    HOLD_SITE(set->wanted == wanted && set->displaced == displaced);
    HOLD_SITE(set->excess >= 0 && (set->excess > 0) == list_is_linked(&set->in_excess));
    t->excess += set->excess;
    HOLD_SITE(set->mask == (source_pool(s, set->pool) & ~set->avoided));
    HOLD_SITE((set->mask & ~site->present) == 0);
    HOLD_SITE(set->is_barred == ((set->mask & site->alive) == 0));
    HOLD_SITE(set->is_barred == (set->reason != NULL));
    HOLD_SITE(check_turn(s, set));
    HOLD_SITE(set->room == source_families(s, set->mask & site->fresh));
    for (int i = 0; i < OPEN_COUNT; i++) {
        HOLD_SITE(set->work[i] == work[i]);
    }
    t->none += work[OPEN_NOT];
    t->now += work[OPEN_NOW];
    t->hosts += work[OPEN_HOST];
    t->slots += set->is_counted;
    t->barred += set->is_barred;
    return check_stands(set);
}

static const char *check_lanes(const struct sched *s, const struct site *site, struct site_tally *t)
{
    int busy = 0;
    HOLD_SITE(((site->alive | site->usable | site->spare) & ~site->present) == 0);
    for (uint32_t i = 0; i < SCHED_SOURCES_MAX; i++) {
        const struct site_lane *l = lane_find(site, i);
        HOLD_SITE(((site->present & source_bit(i)) != 0) == (l != NULL));
        if (l == NULL) {
            continue;
        }
        HOLD_SITE(l->site == site && l->source == i);
        const char *wrong = check_lane(s, l, t);
        if (wrong != NULL) {
            return wrong;
        }
        busy += l->lane.busy;
    }
    int limit = site_limit(s, site);
    HOLD_SITE(site->busy == busy && !site->is_pinned);
    HOLD_SITE(site->room == (limit == 0 || busy < limit ? site->spare : 0));
    HOLD_SITE(site->fresh == (site->room & site->openable));
    return NULL;
}

static int waiting_of(const struct shared_party *q)
{
    int waiting = 0;
    list_foreach(d, &q->members, const struct sched_destination, in_party)
    {
        waiting += d->waiting;
    }
    return waiting;
}

static uint64_t count_bits(uint64_t mask)
{
    uint64_t count = 0;
    for (; mask != 0; mask &= mask - 1) {
        count++;
    }
    return count;
}

static const char *check_one(const struct sched *s, const struct site *site, struct site_tally *t)
{
    int occupied = 0, waiting = 0;
    const char *wrong = check_lanes(s, site, t);
    list_foreach(q, &site->parties, const struct shared_party, in_site)
    {
        wrong = wrong != NULL ? wrong : check_members(s, q, &occupied);
        wrong = wrong != NULL ? wrong : check_party(s, q);
        waiting += waiting_of(q);
        t->parties++;
    }
    list_foreach(set, &site->sets, const struct lane_set, in_site)
    {
        wrong = wrong != NULL ? wrong : check_set(s, set, t);
    }
    if (wrong != NULL) {
        return wrong;
    }
    HOLD_SITE(site->waiting == waiting);
    HOLD_SITE(site->occupied == occupied && site_find(s, site_key(site)) == site);
    bool is_empty = list_is_empty(&site->parties) && occupied == 0;
    HOLD_SITE(!list_is_linked(&site->remembered) || is_empty);
    HOLD_SITE(!is_empty || list_is_linked(&site->remembered) || lane_is_away(site));
    HOLD_SITE(site->is_dead == (site->present != 0 && site->alive == 0));
    t->dead += site->is_dead;
    t->sites++;
    return NULL;
}

const char *site_check(const struct sched *s, struct site_tally *t)
{
    list_foreach(site, &s->all_sites, const struct site, all)
    {
        const char *wrong = check_one(s, site, t);
        if (wrong != NULL) {
            return wrong;
        }
    }
    uint32_t lingering = 0;
    list_foreach(d, &s->lingering, const struct sched_destination, in_displaced)
    {
        HOLD_SITE(d->is_lingering && d->party->site != NULL);
        lingering++;
    }
    HOLD_SITE(s->lingering_count == lingering);
    HOLD_SITE(s->sites.count == t->sites && s->by_list.count == t->parties);
    HOLD_SITE(s->lane_timers.count == t->lanes && s->lane_count == t->lanes);
    uint64_t avoidances = 0;
    list_foreach(d, &s->destinations, const struct sched_destination, all)
    {
        HOLD_SITE(d->avoidances == NULL || d->party->site != NULL);
        avoidances += count_bits(avoidance_mask(d));
    }
    HOLD_SITE(s->avoidance_timers.count == avoidances);
    HOLD_SITE(s->excess == t->excess + purse_excess(s) + shed_excess_of_destinations(s) &&
              s->barred_sets == t->barred);
    return NULL;
}
