/* The lanes of sites: the transitions of their windows (2.2-2.4), as sched/destination.c has them for
 * destinations without a site. Called by the report path, the timers and site. */
#include "sched/place/lane.h"

#include "sched/place/host_queue.h"
#include "sched/place/lane_set.h"
#include "sched/place/shed.h"
#include "sched/place/site.h"
#include "sched/transport.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

/* --- which there are --------------------------------------------------------------------------- */

/* NULL when out of memory. */
static struct site_lane *new_lane(struct sched *s, struct site *site, uint32_t place)
{
    struct site_lane *l = s->host.alloc(s->host.ctx, sizeof(*l));
    if (l == NULL) {
        return NULL;
    }
    memset(l, 0, sizeof(*l));
    l->site = site;
    l->source = place;
    l->lane.window = site_rule(s, site)->initial;
    l->lane.is_shut = true; /* until it is reviewed */
    list_init(&l->lane.open);
    grant_init(&l->grant);
    if (heap_insert(&s->lane_timers, &l->timer, USEC_NEVER) != 0) {
        s->host.release(s->host.ctx, l);
        return NULL;
    }
    s->sources.at[place].uses++;
    s->lane_count++;
    return l;
}

/* errors: -ENOMEM, nothing changed */
static int reserve_places(struct sched *s, struct site *site, uint64_t sources)
{
    uint32_t count = 64 - (uint32_t)__builtin_clzll(sources);
    struct lane_array *old = site->lanes;
    if (old != NULL && old->count >= count) {
        return 0;
    }
    struct lane_array *lanes =
        s->host.alloc(s->host.ctx, sizeof(*lanes) + count * sizeof(lanes->at[0]));
    if (lanes == NULL) {
        return -ENOMEM;
    }
    lanes->count = count;
    for (uint32_t i = 0; i < count; i++) {
        lanes->at[i] = old != NULL && i < old->count ? old->at[i] : NULL;
    }
    __atomic_store_n(&site->lanes, lanes, __ATOMIC_RELEASE);
    if (old != NULL) {
        s->host.retire(s->host.ctx, old);
    }
    return 0;
}

bool lane_obtain_all(struct sched *s, struct site *site, uint64_t sources)
{
    uint64_t missing = sources & ~site->present;
    if (missing == 0) {
        return true;
    }
    if (reserve_places(s, site, missing) != 0) {
        return false;
    }
    for (; missing != 0 && s->lane_count < LANES_MAX; missing &= missing - 1) {
        uint32_t place = (uint32_t)__builtin_ctzll(missing);
        struct site_lane *l = new_lane(s, site, place);
        if (l == NULL) {
            break;
        }
        __atomic_store_n(&site->lanes->at[place], l, __ATOMIC_RELEASE);
        site->present |= source_bit(place);
        lane_review(s, l);
    }
    return missing == 0;
}

static void count_dead(struct sched *s, struct site *site)
{
    bool is_dead = site->present != 0 && site->alive == 0;
    if (is_dead != site->is_dead) {
        site->is_dead = is_dead;
        shared_add(&s->shared.dead_sites, is_dead ? 1 : -1);
    }
}

static void free_lane(struct sched *s, struct site_lane *l)
{
    struct site *site = l->site;
    uint64_t bit = source_bit(l->source);
    __atomic_store_n(&site->lanes->at[l->source], NULL, __ATOMIC_RELEASE);
    site->present &= ~bit;
    shared_set(&site->alive, site->alive & ~bit);
    count_dead(s, site);
    shared_set(&site->usable, site->usable & ~bit);
    shared_set(&site->spare, site->spare & ~bit);
    shared_set(&site->room, site->room & ~bit);
    site->openable &= ~bit;
    site->fresh &= ~bit;
    site->limited &= ~bit;
    s->sources.at[l->source].uses--;
    s->lane_count--;
    heap_remove(&s->lane_timers, &l->timer);
    reason_put(s, l->reason);
    reason_put(s, l->closed_by);
    if (!grant_leave(s, l)) {
        s->host.retire(s->host.ctx, l);
    }
}

void lane_free_all(struct sched *s, struct site *site)
{
    LANE_FOREACH(l, site, site->present)
    {
        free_lane(s, l);
    }
    if (site->lanes != NULL) {
        s->host.retire(s->host.ctx, site->lanes);
    }
}

void lane_forget_gone(struct sched *s)
{
    list_foreach(site, &s->all_sites, struct site, all)
    {
        LANE_FOREACH(l, site, site->present & ~s->sources.there)
        {
            if (l->lane.connections == 0) {
                free_lane(s, l);
            }
        }
    }
}

bool lane_is_in_flight(const struct site *site)
{
    LANE_FOREACH(l, site, site->present)
    {
        if (l->lane.in_flight > 0) {
            return true;
        }
    }
    return false;
}

bool lane_is_away(const struct site *site)
{
    LANE_FOREACH(l, site, site->present)
    {
        if (l->lane.window == WINDOW_DEAD) {
            return true;
        }
    }
    return false;
}

/* --- what it may carry ------------------------------------------------------------------------ */

static bool is_alive(const struct sched *s, const struct site_lane *l)
{
    return l->lane.window > 0 && !l->is_closed && (s->sources.there & source_bit(l->source)) != 0;
}

static bool is_below_ceiling(const struct site_lane *l)
{
    return !l->keeps_none &&
           (l->most_connections == 0 || l->lane.connections <= l->most_connections);
}

bool lane_keeps_idle(const struct site_lane *l)
{
    return (l->site->alive & source_bit(l->source)) != 0 && is_below_ceiling(l);
}

static uint64_t with_bit(uint64_t mask, uint64_t bit, bool is_set)
{
    return is_set ? mask | bit : mask & ~bit;
}

/* Its connections are found by placement, or are not any more. */
static void set_shut(struct sched *s, struct site_lane *l, bool is_shut)
{
    l->lane.is_shut = is_shut;
    connection_refile_all(s, &l->lane);
    list_foreach(set, &l->site->sets, struct lane_set, in_site)
    {
        if (!is_shut && (set->mask & source_bit(l->source)) != 0) {
            lane_set_reconsider(s, set);
        }
    }
}

static void set_alive(struct sched *s, struct site_lane *l, bool is_alive)
{
    struct site *site = l->site;
    uint64_t bit = source_bit(l->source);
    shared_set(&site->alive, with_bit(site->alive, bit, is_alive));
    if (!is_alive) {
        placement_slot_opened(s); /* what was displaced may have no other source left */
    }
    if (site->limited != 0) {
        shed_touch_all(s, site, bit); /* the others must take what it took */
    }
}

/* Each entry that goes out or comes back leads here, and mostly nothing has changed. */
void lane_review(struct sched *s, struct site_lane *l)
{
    struct site *site = l->site;
    uint64_t bit = source_bit(l->source);
    bool is_now_alive = is_alive(s, l);
    bool is_limited = l->grant.is_limited;
    bool is_usable = is_now_alive && (!l->is_probing || l->lane.in_flight == 0) &&
                     (!is_limited || grant_allows(s, l));
    uint64_t usable = with_bit(site->usable, bit, is_usable);
    uint64_t spare = with_bit(site->spare, bit, is_usable && l->lane.busy < lane_most(l));
    site->openable = with_bit(site->openable, bit, !is_limited || grant_allows_connection(l));
    if (is_now_alive != ((site->alive & bit) != 0)) {
        set_alive(s, l, is_now_alive);
    }
    count_dead(s, site);
    if (usable != site->usable) {
        shared_set(&site->usable, usable);
    }
    if (spare != site->spare) {
        shared_set(&site->spare, spare);
    }
    if (l->lane.is_shut == is_usable) {
        set_shut(s, l, !is_usable);
    }
    site_review(s, site);
    if (is_limited) {
        grant_touch(s, l);
    }
}

/* --- its window ------------------------------------------------------------------------------- */

static void set_lane_window(struct sched *s, struct site_lane *l, int window,
                            enum sched_change_cause cause, const struct sched_reason *reason)
{
    int from = l->lane.window;
    shared_set(&l->lane.window, window);
    if (window != from) {
        change_record_of_lane(s, l, from, window, cause, reason);
    }
    if (window > 0 && window < l->lane.busy && s->config.pipeline_depth > 1) {
        connection_drain(s, &l->lane, lane_most(l));
    }
    lane_review(s, l);
}

void lane_recall(struct sched *s, struct site_lane *l, uint32_t window)
{
    const struct feedback_rule *rule = site_rule(s, l->site);
    const struct feedback *f = &l->lane.feedback;
    uint32_t most = (uint32_t)(rule->limit > 0 ? rule->limit : s->config.process_limit);
    bool is_new = l->lane.window == rule->initial && l->lane.busy == 0 && f->success == 0 &&
                  f->failure == 0 && f->fail_cohorts == 0;
    if (is_new && window > 0) {
        set_lane_window(s, l, (int)(window < most ? window : most), SCHED_CHANGE_RECALLED, NULL);
    }
}

void lane_forget_all(struct sched *s, struct site *site)
{
    LANE_FOREACH(l, site, site->present)
    {
        if (l->lane.window > 0) {
            l->lane.feedback = (struct feedback){0};
            l->lane.slowed = 0;
            set_lane_window(s, l, site_rule(s, site)->initial, SCHED_CHANGE_FORGOTTEN, NULL);
        }
    }
}

void lane_arm(struct sched *s, struct site_lane *l)
{
    usec_t until = l->lane.window == WINDOW_DEAD ? l->dead_until : USEC_NEVER;
    if (l->is_closed && l->closed_until < until) {
        until = l->closed_until;
    }
    shared_set(&l->state_until, until == USEC_NEVER ? 0 : until);
    usec_t due = grant_wake_at(s, l);
    until = due < until ? due : until;
    if (until != l->timer.key) {
        heap_move(&s->lane_timers, &l->timer, until);
    }
}

/* It takes nothing for a time; those that wait are deferred when it was the last one, and else go by
 * the others. */
static void go_away(struct sched *s, struct site_lane *l, struct reason *reason)
{
    bool was_pinned = l->site->is_pinned;
    l->site->is_pinned = true;
    lane_arm(s, l);
    connection_close_idle_of(s, &l->lane);
    lane_set_rebar_all(s, l->site, reason);
    l->site->is_pinned = was_pinned;
}

static void kill_lane(struct sched *s, struct site_lane *l, const struct sched_reason *reason)
{
    l->reason = reason_new(s, reason, true);
    set_lane_window(s, l, WINDOW_DEAD, SCHED_CHANGE_DEAD, reason);
    l->dead_until = s->now + s->config.minimal_backoff_time;
    go_away(s, l, l->reason);
}

static void lane_revive(struct sched *s, struct site_lane *l)
{
    assert(l->lane.window == WINDOW_DEAD);
    reason_put(s, l->reason);
    l->reason = NULL;
    l->lane.feedback = (struct feedback){0};
    l->lane.slowed = 0;
    const struct feedback_rule *rule = site_rule(s, l->site);
    int window = l->lane.busy > 0 ? l->lane.busy : rule->initial;
    window = rule->limit > 0 && window > rule->limit ? rule->limit : window;
    set_lane_window(s, l, window, SCHED_CHANGE_REVIVED, NULL);
    lane_arm(s, l);
    lane_set_rebar_all(s, l->site, NULL);
}

bool lane_revive_all(struct sched *s, struct site *site)
{
    bool was_dead = false;
    LANE_FOREACH(l, site, site->present)
    {
        if (l->lane.window == WINDOW_DEAD) {
            lane_revive(s, l);
            was_dead = true;
        }
    }
    return was_dead;
}

void lane_succeed(struct sched *s, struct site_lane *l)
{
    struct lane *lane = &l->lane;
    if (lane->window == WINDOW_DEAD) {
        lane_revive(s, l);
    } else {
        int window =
            feedback_positive(&lane->feedback, site_rule(s, l->site), lane->window, lane->busy);
        if (window != lane->window || window < lane->busy) { /* else it is as it was reviewed */
            set_lane_window(s, l, window, SCHED_CHANGE_POSITIVE, NULL);
        }
    }
    debug_record(s, site_key(l->site), lane, true);
}

void lane_fail(struct sched *s, struct site_lane *l, const struct sched_reason *reason)
{
    struct lane *lane = &l->lane;
    if (lane->window <= 0) {
        return;
    }
    int window = feedback_negative(&lane->feedback, site_rule(s, l->site), lane->window);
    if (window == WINDOW_DEAD) {
        kill_lane(s, l, reason);
    } else {
        set_lane_window(s, l, window, SCHED_CHANGE_NEGATIVE, reason);
    }
    debug_record(s, site_key(l->site), lane, false);
}

/* A round trip is over when all that was in flight at the last time has come back. */
bool lane_is_slowed_anew(struct lane *lane)
{
    bool is_news = lane->slowed == 0 && lane->window > 0;
    if (is_news) {
        lane->slowed = lane->in_flight;
    }
    return is_news;
}

void lane_slow(struct sched *s, struct site_lane *l, const struct sched_reason *reason)
{
    if (lane_is_slowed_anew(&l->lane)) {
        int window = feedback_slower(&l->lane.feedback, site_rule(s, l->site), l->lane.window);
        set_lane_window(s, l, window, SCHED_CHANGE_SLOWER, reason);
    }
}

/* --- by order --------------------------------------------------------------------------------- */

static void end_closure(struct sched *s, struct site_lane *l)
{
    reason_put(s, l->closed_by);
    l->closed_by = NULL;
    shared_set(&l->is_closed, false);
}

void lane_close(struct sched *s, struct site_lane *l, usec_t until, struct reason *reason)
{
    end_closure(s, l);
    l->closed_by = reason;
    l->closed_until = until;
    shared_set(&l->is_closed, true);
    shared_set(&l->is_probing, false);
    lane_review(s, l);
    go_away(s, l, reason);
}

/* Those beyond the ceiling: idle ones are closed, the others take no more. */
static void fit_ceiling(struct sched *s, struct site_lane *l)
{
    struct lane *lane = &l->lane;
    list_foreach_safe(c, &lane->open, struct connection, in_lane)
    {
        bool is_beyond = c->state == CONNECTION_IDLE && !is_below_ceiling(l);
        if (is_beyond || (lane->most_carried > 0 && c->carried >= lane->most_carried)) {
            struct party *p = c->party;
            connection_retire(s, c);
            party_settle(s, p); /* it may have been there for that only */
        }
    }
    if (lane->window > 0 && lane_most(l) < lane->busy && s->config.pipeline_depth > 1) {
        connection_drain(s, lane, lane_most(l));
    }
}

static int ceiling_of(uint32_t most)
{
    return most > INT_MAX ? 0 : (int)most;
}

void lane_set_ceiling(struct sched *s, struct site_lane *l, uint32_t connections, uint32_t messages)
{
    l->keeps_none = connections == SCHED_NO_CONNECTIONS;
    /* Of none it has room for one: else it would not ask for what it lacks. */
    shared_set(&l->most_connections, l->keeps_none ? 1 : ceiling_of(connections));
    shared_set(&l->lane.most_carried, ceiling_of(messages));
    fit_ceiling(s, l);
    lane_review(s, l);
}

static void come_back(struct sched *s, struct site_lane *l, bool is_probing)
{
    end_closure(s, l);
    shared_set(&l->is_probing, is_probing);
    lane_arm(s, l);
    lane_review(s, l);
    lane_set_rebar_all(s, l->site, NULL);
}

void lane_probe(struct sched *s, struct site_lane *l)
{
    come_back(s, l, true);
}

void lane_open(struct sched *s, struct site_lane *l)
{
    come_back(s, l, false);
}

/* --- time, and another config ------------------------------------------------------------------ */

void lane_tick(struct sched *s)
{
    for (;;) {
        struct heap_node *node = heap_min(&s->lane_timers);
        if (node == NULL || node->key > s->now) {
            break;
        }
        struct site_lane *l = container_of(node, struct site_lane, timer);
        struct site *site = l->site;
        if (l->is_closed && l->closed_until <= s->now) {
            lane_probe(s, l);
        } else if (l->lane.window == WINDOW_DEAD && l->dead_until <= s->now) {
            lane_revive(s, l);
        } else {
            grant_tick(s, l);
        }
        site_settle(s, site);
    }
}

usec_t lane_wake_at(const struct sched *s)
{
    const struct heap_node *node = heap_min(&s->lane_timers);
    return node == NULL ? USEC_NEVER : node->key;
}

void lane_refit(struct sched *s, struct site *site)
{
    int limit = site_rule(s, site)->limit;
    LANE_FOREACH(l, site, site->present)
    {
        int window = l->lane.window;
        bool is_wide = window > 0 && limit > 0 && window > limit;
        set_lane_window(s, l, is_wide ? limit : window, SCHED_CHANGE_LIMIT, NULL);
    }
    list_foreach(q, &site->parties, struct shared_party, in_site)
    {
        lane_set_fit(s, &q->party);
        party_recount(s, &q->party);
        host_queue_update(s, &q->party);
    }
    list_foreach(set, &site->sets, struct lane_set, in_site)
    {
        lane_set_reconsider(s, set);
    }
}

void lane_refit_all(struct sched *s)
{
    list_foreach(site, &s->all_sites, struct site, all)
    {
        lane_refit(s, site);
    }
}

void lane_begin_anew(struct sched *s, struct site *site, const struct feedback_rule *before)
{
    LANE_FOREACH(l, site, site->present)
    {
        bool is_new = l->lane.window == before->initial && l->lane.feedback.success == 0 &&
                      l->lane.feedback.failure == 0 && l->lane.feedback.fail_cohorts == 0;
        if (is_new) {
            set_lane_window(s, l, site_rule(s, site)->initial, SCHED_CHANGE_LIMIT, NULL);
        }
    }
}
