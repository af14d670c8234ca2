/* Sets of lanes, see sched/place/lane_set.h. Called by site (members, parties), lane (what a lane can
 * take, and whether it is away), parking and party.
 *
 * A lane that gets room, or loses it, is one step for each set that it is in, however many
 * destinations wait there: selection finds the set by the first job parked at any of its parties that
 * need a new connection, and the party by the first job parked at any of its members. */
#include "sched/place/lane_set.h"

#include "sched/parking.h"
#include "sched/place/host_queue.h"
#include "sched/place/lane_choice.h"
#include "sched/place/shed.h"
#include "sched/place/site.h"
#include "sched/transport.h"
#include "sched/turn.h"

#include <assert.h>
#include <string.h>

static uint64_t standing_key(const struct tree_node *n)
{
    return party_first_position(container_of(n, const struct party, in_ready));
}

uint64_t lane_set_key(const struct tree_node *n)
{
    return standing_key(container_of(n, const struct site_stand, in_ready)->parties.first);
}

/* --- where selection finds its parties ---------------------------------------------------------- */

/* Places of stands in the set are sets of families that are not empty, less 1. */
static bool is_up(const struct lane_set *set, int stand)
{
    return (set->room & (stand + 1)) != 0;
}

static bool stand_is_up(const struct lane_set *set, const struct site_stand *stand)
{
    return is_up(set, (int)(stand - set->stands));
}

static int stand_at(const struct party *p)
{
    assert(p->families > 0 && p->families <= SITE_FAMILIES);
    return p->families - 1;
}

static struct site_stand *stand_of(const struct party *p)
{
    return &shared_party_of(p)->set->stands[stand_at(p)];
}

static void file_stand(struct sched *s, struct lane_set *set, struct site_stand *stand)
{
    uint8_t bit = (uint8_t)(1U << (stand - set->stands));
    if (tree_node_is_linked(&stand->in_ready)) {
        tree_remove(&s->ready_sites, &stand->in_ready);
    }
    set->stood_at &= (uint8_t)~bit;
    if (tree_is_empty(&stand->parties)) {
        return;
    }
    set->stood_at |= bit;
    if (stand_is_up(set, stand)) {
        tree_insert(&s->ready_sites, &stand->in_ready);
    }
}

void lane_set_file(struct sched *s, struct party *p)
{
    struct lane_set *set = shared_party_of(p)->set;
    struct site_stand *stand = NULL;
    if (tree_node_is_linked(&p->in_ready)) {
        struct tree *t = &s->flows.ready[OPEN_NOW];
        if (p->ready_in == OPEN_SLOT) {
            stand = stand_of(p);
            t = &stand->parties;
        }
        tree_remove(t, &p->in_ready);
    }
    if (party_has_parked(p) && p->work == OPEN_NOW) {
        tree_insert(&s->flows.ready[OPEN_NOW], &p->in_ready);
        set->has_missed |= party_first_position(p) < s->flow.passed;
    } else if (party_has_parked(p) && p->work == OPEN_SLOT) {
        stand = stand_of(p);
        tree_insert(&stand->parties, &p->in_ready);
    }
    p->ready_in = p->work;
    if (stand != NULL) {
        file_stand(s, set, stand);
    }
}

static void count_set(struct sched *s, struct lane_set *set)
{
    bool is_counted = false;
    for (int i = 0; i < SITE_FAMILIES; i++) {
        is_counted = is_counted || (set->counts[i] > 0 && is_up(set, i));
    }
    s->with_work[OPEN_SLOT] += is_counted - set->is_counted;
    set->is_counted = is_counted;
}

void lane_set_count(struct sched *s, struct party *p, int change)
{
    struct lane_set *set = shared_party_of(p)->set;
    set->work[p->work] += change;
    if (p->work == OPEN_SLOT) {
        set->counts[stand_at(p)] += change;
        set->seeking += shared_party_of(p)->shares_lanes ? change : 0;
        count_set(s, set);
    } else {
        s->with_work[p->work] += change;
    }
}

void lane_set_work(struct sched *s, struct party *p, enum openness work)
{
    lane_set_count(s, p, -1);
    p->work = work;
    lane_set_count(s, p, 1);
}

/* A party that has the lanes for itself has one turn for all of its room. Parties that share them are open
 * together: with a limit for each host, or hosts that only some of the lanes can reach, they are not. */
bool lane_set_is_shared_by(const struct sched *s, const struct party *p)
{
    uint64_t within_reach = ((p->families & 1) != 0 ? s->sources.ipv4 : 0) |
                            ((p->families & 2) != 0 ? s->sources.ipv6 : 0);
    const struct lane_set *set = shared_party_of(p)->set;
    return set->is_shared && (set->mask & ~within_reach) == 0 &&
           (s->config.host_concurrency_limit == 0 || p->server_count == 0);
}

void lane_set_fit(struct sched *s, struct party *p)
{
    struct shared_party *q = shared_party_of(p);
    bool shares = lane_set_is_shared_by(s, p);
    if (shares == q->shares_lanes) {
        return;
    }
    q->shares_lanes = shares;
    q->set->sharing += shares ? 1 : (uint32_t)-1;
    if (p->work == OPEN_SLOT) {
        q->set->seeking += shares ? 1 : -1;
    }
    if (!flows_take_turns(s)) {
        return;
    }
    list_foreach(d, &q->members, struct sched_destination, in_party)
    {
        turn_file_member(s, d);
    }
    turn_touch(s, p);
    turn_touch_set(s, q->set);
}

bool lane_set_is_open(const struct sched *s, const struct party *p)
{
    const struct lane_set *set = shared_party_of(p)->set;
    switch (p->work) {
    case OPEN_NOW:
        return true;
    case OPEN_SLOT:
        return (set->room & p->families) != 0 && connection_has_slot(s);
    case OPEN_HOST:
        return connection_has_slot(s) && server_has_room(p, set->room);
    case OPEN_NOT:
    case OPEN_COUNT:
    default:
        return false;
    }
}

static bool blocks_jobs(const struct sched *s, const struct lane_set *set)
{
    if (set->tag == s->flow.tag || set->has_missed) {
        return true;
    }
    for (int i = 0; set->stood_at >> i != 0; i++) {
        if ((set->stood_at >> i & 1) != 0 &&
            standing_key(set->stands[i].parties.first) < s->flow.passed) {
            return true;
        }
    }
    return set->work[OPEN_HOST] > 0;
}

void lane_set_reconsider(struct sched *s, struct lane_set *set)
{
    bool is_open = set->is_counted || set->work[OPEN_NOW] + set->work[OPEN_HOST] > 0;
    if (is_open && blocks_jobs(s, set)) {
        set->has_missed = false;
        job_unblock_all(s, &s->flow);
    }
}

/* A party that needs a host with room stands at its hosts itself: a step for each of those. */
static void review_host_queue(struct sched *s, struct lane_set *set)
{
    if (set->work[OPEN_HOST] == 0) {
        return;
    }
    list_foreach(q, &set->site->parties, struct shared_party, in_site)
    {
        if (q->set == set && q->party.work == OPEN_HOST) {
            host_queue_update(s, &q->party);
        }
    }
}

void lane_set_review(struct sched *s, struct lane_set *set)
{
    uint8_t room = source_families(s, set->mask & set->site->fresh);
    if (room == set->room) {
        return;
    }
    bool has_gained = (room & ~set->room) != 0;
    set->room = room;
    for (int i = 0; set->stood_at >> i != 0; i++) {
        if ((set->stood_at >> i & 1) != 0) {
            file_stand(s, set, &set->stands[i]);
        }
    }
    count_set(s, set);
    review_host_queue(s, set);
    if (flows_take_turns(s)) {
        turn_touch_set(s, set);
    } else if (has_gained) {
        lane_set_reconsider(s, set);
    }
}

/* --- why it waits ------------------------------------------------------------------------------- */

/* From what ends soonest by itself. */
static int distance(enum sched_why why)
{
    static const uint8_t order[SCHED_WHY_COUNT] = {
        [SCHED_WHY_NOTHING] = 1, [SCHED_WHY_WINDOW] = 2,      [SCHED_WHY_SITE_LIMIT] = 3,
        [SCHED_WHY_CEILING] = 4, [SCHED_WHY_PACE] = 5,        [SCHED_WHY_RATE] = 6,
        [SCHED_WHY_QUOTA] = 7,   [SCHED_WHY_LANE_CLOSED] = 8, [SCHED_WHY_DEAD] = 9};
    return order[why] == 0 ? SCHED_WHY_COUNT : order[why];
}

static enum sched_why why_of_lane(const struct site *site, const struct site_lane *l)
{
    uint64_t bit = source_bit(l->source);
    if ((shared_get(&site->alive) & bit) == 0) {
        return shared_get(&l->is_closed) ? SCHED_WHY_LANE_CLOSED : SCHED_WHY_DEAD;
    }
    if ((shared_get(&site->usable) & bit) == 0) {
        bool is_limited = shared_get(&l->grant.is_limited);
        enum sched_why why = shared_get(&l->grant.why);
        bool is_probing = shared_get(&l->is_probing) && shared_get(&l->lane.in_flight) > 0;
        if (is_probing || !is_limited) {
            return SCHED_WHY_LANE_CLOSED;
        }
        return why == SCHED_WHY_NOTHING ? SCHED_WHY_RATE : why;
    }
    if ((shared_get(&site->spare) & bit) == 0) {
        int ceiling = shared_get(&l->most_connections);
        return ceiling > 0 && shared_get(&l->lane.busy) >= ceiling ? SCHED_WHY_CEILING
                                                                   : SCHED_WHY_WINDOW;
    }
    return (shared_get(&site->room) & bit) == 0 ? SCHED_WHY_SITE_LIMIT : SCHED_WHY_NOTHING;
}

enum sched_why lane_set_why(const struct lane_set *set)
{
    enum sched_why why = SCHED_WHY_DEAD;
    for (uint64_t left = shared_get(&set->mask); left != 0; left &= left - 1) {
        const struct site_lane *l = lane_find(set->site, (uint32_t)__builtin_ctzll(left));
        if (l != NULL && distance(why_of_lane(set->site, l)) < distance(why)) {
            why = why_of_lane(set->site, l);
        }
    }
    return why;
}

/* --- lanes that are away -------------------------------------------------------------------------- */

static void drop_members(struct sched *s, struct shared_party *q, struct reason *reason)
{
    bool was_pinned = q->is_pinned;
    q->is_pinned = true;
    list_foreach_safe(d, &q->members, struct sched_destination, in_party)
    {
        if (d->waiting > 0) {
            destination_drop_waiting(s, d, SCHED_DEFER, reason);
            destination_settle(s, d);
        }
    }
    q->is_pinned = was_pinned;
}

/* The set may be gone afterwards, with its last party. */
static void bar(struct sched *s, struct lane_set *set, struct reason *reason)
{
    struct site *site = set->site;
    set->reason = reason_get(reason);
    shared_set(&set->is_barred, true);
    s->barred_sets++;
    list_foreach_safe(q, &site->parties, struct shared_party, in_site)
    {
        if (q->set == set) {
            drop_members(s, q, reason);
            site_settle_party(s, &q->party);
        }
    }
    placement_slot_opened(s); /* what was displaced is exhausted now */
}

static void unbar(struct sched *s, struct lane_set *set)
{
    shared_set(&set->is_barred, false);
    s->barred_sets--;
    reason_put(s, set->reason);
    set->reason = NULL;
}

/* Why nothing goes there: what some lane of it is away for. */
static struct reason *reason_of(struct sched *s, const struct lane_set *set)
{
    LANE_FOREACH(l, set->site, set->mask & set->site->present)
    {
        struct reason *reason = l->is_closed ? l->closed_by : l->reason;
        if (reason != NULL) {
            return reason_get(reason);
        }
    }
    const struct sched_reason text = {"4.3.5", "no source of its pool is there to send it"};
    return reason_new(s, &text, true);
}

void lane_set_rebar_all(struct sched *s, struct site *site, struct reason *reason)
{
    bool was_pinned = site->is_pinned;
    site->is_pinned = true;
    list_foreach_safe(set, &site->sets, struct lane_set, in_site)
    {
        bool is_away = (set->mask & site->alive) == 0;
        if (!is_away && set->is_barred) {
            unbar(s, set);
        } else if (is_away && !set->is_barred) {
            struct reason *why = reason == NULL ? reason_of(s, set) : reason_get(reason);
            bar(s, set, why);
            reason_put(s, why);
        }
    }
    site->is_pinned = was_pinned;
}

/* --- which there are -------------------------------------------------------------------------- */

static struct lane_set *find_set(const struct site *site, uint16_t pool, uint64_t avoided)
{
    list_foreach(set, &site->sets, struct lane_set, in_site)
    {
        if (set->pool == pool && set->avoided == avoided) {
            return set;
        }
    }
    return NULL;
}

/* A second party comes: the lanes have a turn of their own from now on. false: no memory, nothing changed */
static bool share(struct sched *s, struct lane_set *set)
{
    if (set->is_shared) {
        return true;
    }
    if (flows_take_turns(s) && turn_begin_lanes(s, set) != 0) {
        return false;
    }
    set->is_shared = true;
    list_foreach(q, &set->site->parties, struct shared_party, in_site)
    {
        if (q->set == set) {
            lane_set_fit(s, &q->party);
        }
    }
    return true;
}

struct lane_set *lane_set_obtain(struct sched *s, struct site *site, uint16_t pool,
                                 uint64_t avoided, struct reason *reason)
{
    struct lane_set *set = find_set(site, pool, avoided);
    if (set != NULL) {
        if (!share(s, set)) {
            return NULL;
        }
        set->parties++;
        return set;
    }
    uint64_t mask = source_pool(s, pool) & ~avoided;
    set = s->host.alloc(s->host.ctx, sizeof(*set));
    if (set == NULL || !lane_obtain_all(s, site, mask)) {
        if (set != NULL) {
            s->host.release(s->host.ctx, set);
        }
        return NULL;
    }
    memset(set, 0, sizeof(*set));
    set->site = site;
    set->pool = pool;
    set->avoided = avoided;
    set->mask = mask;
    set->parties = 1;
    set->turn = lane_turn_obtain(s, site, pool);
    for (int i = 0; i < SITE_FAMILIES; i++) {
        tree_init(&set->stands[i].parties, standing_key);
        tree_node_init(&set->stands[i].in_ready);
    }
    list_init(&set->touched);
    list_init(&set->in_excess);
    list_push_back(&site->sets, &set->in_site);
    set->room = source_families(s, mask & site->fresh);
    lane_set_rebar_all(s, site, mask == 0 ? reason : NULL);
    return set;
}

void lane_set_put(struct sched *s, struct lane_set *set)
{
    assert(set->parties > 0);
    set->parties--;
    if (set->parties > 0) {
        return;
    }
    shed_leave(s, set);
    s->barred_sets -= set->is_barred;
    list_remove(&set->in_site);
    reason_put(s, set->reason);
    s->host.retire(s->host.ctx, set);
}

/* --- other sources ------------------------------------------------------------------------------ */

/* Connections to what the pool cannot use any more; idle ones that another pool has opened stay. */
static void retire_foreign(struct sched *s, struct site *site)
{
    LANE_FOREACH(l, site, site->present)
    {
        list_foreach_safe(c, &l->lane.open, struct connection, in_lane)
        {
            if ((shared_party_of(c->party)->set->mask & source_bit(l->source)) == 0) {
                connection_retire(s, c);
            }
        }
    }
}

void lane_set_refit_all(struct sched *s, struct site *site)
{
    site->is_pinned = true;
    lane_turn_free_all(s, site); /* their places may be those of other sources now */
    list_foreach(set, &site->sets, struct lane_set, in_site)
    {
        set->turn = lane_turn_obtain(s, site, set->pool);
        shared_set(&set->mask, source_pool(s, set->pool) & ~set->avoided);
    }
    retire_foreign(s, site);
    LANE_FOREACH(l, site, site->present)
    {
        lane_review(s, l);
    }
    list_foreach(set, &site->sets, struct lane_set, in_site)
    {
        lane_set_review(s, set);
    }
    list_foreach(q, &site->parties, struct shared_party, in_site)
    {
        server_review(s, &q->party); /* which hosts are within reach */
    }
    lane_set_rebar_all(s, site, NULL);
    list_foreach_safe(q, &site->parties, struct shared_party, in_site)
    {
        site_settle_party(s, &q->party); /* it may have been there for a connection only */
    }
    site->is_pinned = false;
    site_settle(s, site);
}
