/* Destinations: the transitions of their windows (2.1-2.5), and their hosts. Called by batch,
 * entry, the report path and the timers; knows nothing of how jobs are ordered. */
#include "sched/destination.h"

#include "base/hash.h"
#include "sched/parking.h"
#include "sched/place/avoidance.h"
#include "sched/place/host_queue.h"
#include "sched/place/shed.h"
#include "sched/place/site.h"
#include "sched/selection.h"
#include "sched/terms.h"
#include "sched/transport.h"
#include "sched/turn.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct name_key {
    struct slice name;
    uint16_t pool;
};

static bool name_matches(const struct table_node *node, const void *key)
{
    const struct sched_destination *d = container_of(node, const struct sched_destination, node);
    const struct name_key *k = key;
    return d->name_len == k->name.len && memcmp(d->name, k->name.data, k->name.len) == 0 &&
           d->pool == k->pool;
}

uint64_t destination_hash(const struct sched *s, struct slice name, uint16_t pool)
{
    /* Those of one name must not stand in one row, nor where other names do: short names and
     * neighbouring seeds have equal hashes. */
    return hash_bytes(name.data, name.len, s->hash_seed) ^ pool * UINT64_C(0x9e3779b97f4a7c15);
}

struct sched_destination *destination_find(const struct sched *s, struct slice name, uint16_t pool)
{
    const struct name_key key = {name, pool};
    struct table_node *node =
        table_find(&s->by_name, destination_hash(s, name, pool), name_matches, &key);
    return node == NULL ? NULL : container_of(node, struct sched_destination, node);
}

bool destination_is_called(const struct sched_destination *d, struct slice name)
{
    return slice_eq(sched_destination_name(d), name) ||
           slice_eq(sched_destination_nexthop(d), name);
}

static bool is_empty(const struct sched_destination *d)
{
    return d->in_flight + d->waiting == 0;
}

static void recount_own(struct sched *s, struct sched_destination *d)
{
    enum openness work = placement_openness_own(s, d);
    if (work != d->own.work) {
        s->with_work[d->own.work]--;
        s->with_work[work]++;
        d->own.work = work;
        parking_update(s, &d->own);
    }
}

/* Keep the counts of destinations that an entry could be selected for; after each change of what
 * they depend on. */
void destination_recount(struct sched *s, struct sched_destination *d)
{
    if (d->party != &d->own) {
        site_recount_member(s, d);
    } else {
        recount_own(s, d);
    }
    if (d->terms != NULL) {
        shed_count_destination(s, d);
    }
    if (!list_is_empty(&d->displaced)) {
        placement_review(s, d);
    }
    if (d->party->is_unreachable && d->lane.window != WINDOW_DEAD && !is_empty(d) &&
        !list_is_linked(&d->in_unreachable)) {
        list_push_back(&s->unreachable, &d->in_unreachable);
    }
}
static void set_window(struct sched *s, struct sched_destination *d, int window,
                       enum sched_change_cause cause, const struct sched_reason *reason)
{
    int from = d->lane.window;
    shared_set(&d->lane.window, window);
    if (window != from) {
        change_record(s, sched_destination_name(d), from, window, cause, reason);
    }
    if (window > 0 && window < d->lane.busy && s->config.pipeline_depth > 1) {
        connection_drain(s, &d->lane, window);
    }
    destination_recount(s, d);
}

/* As if new: learned concurrency does not outlive the last entry (2.1). */
static void forget_destination(struct sched *s, struct sched_destination *d)
{
    d->lane.feedback = (struct feedback){0};
    d->lane.slowed = 0;
    d->tag = 0;
    set_window(s, d, s->rule.initial, SCHED_CHANGE_FORGOTTEN, NULL);
}

void destination_expect(const struct sched *s, uint64_t hash, bool has_slot)
{
    if (has_slot) {
        const size_t from = offsetof(struct sched_destination, lane);
        table_expect_node(&s->by_name, hash, offsetof(struct sched_destination, node) - from,
                          sizeof(struct sched_destination) - from);
    } else {
        table_expect(&s->by_name, hash);
    }
}

/* The DELIVER that was selected and not pulled yet still names the hosts it was selected with. */
static void drop_hosts(struct sched *s, struct sched_destination *d)
{
    if (d->hosts == NULL) {
        return;
    }
    bool is_held =
        s->undelivered != NULL && entry_destination(s->undelivered) == d && s->held_hosts == NULL;
    if (is_held) {
        s->held_hosts = d->hosts;
    } else {
        s->release_hosts(s->host.ctx, d->hosts);
    }
    d->hosts = NULL;
}

static void stop_lingering(struct sched *s, struct sched_destination *d)
{
    if (d->is_lingering) {
        d->is_lingering = false;
        list_remove(&d->in_displaced);
        s->lingering_count--;
        /* Those that linger stand first among the members of their party. */
        struct shared_party *q = shared_party_of(d->party);
        q->lingering--;
        list_remove(&d->in_party);
        list_push_back(&q->members, &d->in_party);
    }
}

/* It may have lingered without mail, longer than its hosts are good for. */
static struct sched_destination *come_back(struct sched *s, struct sched_destination *d)
{
    if (d->is_lingering) {
        stop_lingering(s, d);
        if (s->now >= d->hosts_expire) {
            drop_hosts(s, d);
            shared_set(&d->lacks_hosts, true);
        }
    }
    if (d->round != 0 && is_empty(d)) {
        selection_put_last(s, d);
    }
    return d;
}

struct sched_destination *destination_obtain(struct sched *s, struct slice name, uint16_t pool,
                                             uint64_t hash, uint32_t nexthop_at)
{
    const struct name_key key = {name, pool};
    struct table_node *node = table_find(&s->by_name, hash, name_matches, &key);
    if (node != NULL) {
        return come_back(s, container_of(node, struct sched_destination, node));
    }
    struct sched_destination *d = s->host.alloc(s->host.ctx, sizeof(*d) + name.len);
    if (d == NULL) {
        return NULL;
    }
    memset(d, 0, sizeof(*d));
    d->node.hash = hash;
    d->name_len = (uint32_t)name.len;
    d->nexthop_at = nexthop_at;
    d->pool = pool;
    if (s->config.scheduler == SCHED_BY_TURNS) {
        selection_put_last(s, d);
    }
    memcpy(d->name, name.data, name.len);
    list_init(&d->all);
    list_init(&d->todo);
    list_init(&d->lane.open);
    list_init(&d->displaced);
    list_init(&d->in_displaced);
    list_init(&d->in_unreachable);
    list_init(&d->in_party);
    list_init(&d->stands);
    d->party = &d->own;
    tree_node_init(&d->own.in_ready);
    action_init(&d->resolve);
    d->lacks_hosts = s->config.must_resolve;
    d->lane.window = s->rule.initial; /* nobody saw it without one: no change to record */
    s->with_work[OPEN_NOT]++;
    forget_destination(s, d);
    /* The timer has its place in the heap from the start: arming it later cannot fail. */
    if (table_reserve(&s->by_name) != 0 || heap_insert(&s->timers, &d->timer, USEC_NEVER) != 0) {
        s->with_work[OPEN_NOT]--;
        s->host.release(s->host.ctx, d);
        return NULL;
    }
    if (pool >= s->pool_most) {
        shared_set(&s->pool_most, pool + 1U);
    }
    table_insert(&s->by_name, &d->node);
    list_push_back(&s->destinations, &d->all);
    shared_add(&s->shared.destinations, 1);
    s->recipient_destinations += nexthop_at > 0;
    return d;
}

void destination_free(struct sched *s, struct sched_destination *d)
{
    stop_lingering(s, d);
    action_cancel(&d->resolve);
    drop_hosts(s, d);
    avoidance_forget_all(s, d);
    site_leave(s, d);
    server_free_all(s, &d->own);
    list_remove(&d->in_unreachable);
    s->with_work[d->own.work]--;
    reason_put(s, d->reason);
    terms_free(s, d);
    heap_remove(&s->timers, &d->timer);
    list_remove(&d->all);
    table_remove(&s->by_name, &d->node);
    shared_sub(&s->shared.destinations, 1);
    s->recipient_destinations -= d->nexthop_at > 0;
    s->host.retire(s->host.ctx, d);
}

/* At a site its connections are not its own. As long as its party has some its hosts are kept, so
 * that the next mail need not ask for them; not more of these than connections. */
static void leave_or_linger(struct sched *s, struct sched_destination *d)
{
    if (d->is_lingering) {
        return;
    }
    if (d->party == &d->own || d->lacks_hosts || shared_party_of(d->party)->connections == 0) {
        destination_free(s, d);
        return;
    }
    if (s->lingering_count >= (uint32_t)s->config.process_limit) {
        destination_free(s, list_first(&s->lingering, struct sched_destination, in_displaced));
    }
    struct shared_party *q = shared_party_of(d->party);
    d->is_lingering = true;
    s->lingering_count++;
    q->lingering++;
    list_push_back(&s->lingering, &d->in_displaced);
    list_remove(&d->in_party);
    list_push_front(&q->members, &d->in_party);
}

void destination_settle(struct sched *s, struct sched_destination *d)
{
    if (!is_empty(d) || d->is_pinned) {
        return;
    }
    /* Dead destinations are kept for their timer, but not any number of them (2.4.7). */
    if (d->lane.window == WINDOW_DEAD &&
        s->shared.destinations > 2 * (uint64_t)s->config.message_recipient_limit) {
        destination_revive(s, d);
    }
    if (!destination_is_ready(d) || terms_wake_at(s, d) != USEC_NEVER) {
        return;
    }
    forget_destination(s, d);
    if (d->lane.connections == 0 && d->settled == 0 && !d->is_resolving) {
        leave_or_linger(s, d);
    }
}

bool destination_is_open(const struct sched *s, const struct sched_destination *d)
{
    if (d->party != &d->own) {
        return d->is_willing && lane_set_is_open(s, d->party);
    }
    switch (d->own.work) {
    case OPEN_NOW:
        return true;
    case OPEN_SLOT:
        return connection_has_slot(s);
    case OPEN_HOST:
        return connection_has_slot(s) && server_has_room(&d->own, party_room(s, &d->own));
    case OPEN_NOT:
    case OPEN_COUNT:
    default:
        return false;
    }
}

static enum sched_why bar_of_site(const struct sched *s, const struct sched_destination *d)
{
    const struct party *p = d->party;
    const struct lane_set *set = shared_party_of(p)->set;
    if (lane_set_is_open(s, p)) {
        return SCHED_WHY_NOTHING;
    }
    enum sched_why why = lane_set_why(set);
    if (set->is_barred) {
        return why;
    }
    if (p->is_unreachable) {
        return SCHED_WHY_HOST_RETRY;
    }
    if ((set->room & p->families) == 0) {
        return why == SCHED_WHY_NOTHING ? SCHED_WHY_WINDOW : why;
    }
    return connection_has_slot(s) ? SCHED_WHY_HOST_LIMIT : SCHED_WHY_PROCESS_LIMIT;
}

enum sched_why destination_bar(const struct sched *s, const struct sched_destination *d)
{
    if (d->party != &d->own && d->lane.window > 0 && !d->lacks_hosts) {
        if (!terms_allow_entry(s, d)) {
            enum sched_why rate = d->lacks_quota ? SCHED_WHY_QUOTA : SCHED_WHY_RATE;
            enum sched_why bound = d->paced_until > 0 ? rate : SCHED_WHY_WINDOW;
            return terms_rate_delay(s, d) > 0 && !d->lacks_quota ? SCHED_WHY_RATE_DELAY : bound;
        }
        return bar_of_site(s, d);
    }
    if (d->own.work == OPEN_NOW) {
        return SCHED_WHY_NOTHING;
    }
    if (d->own.work == OPEN_HOST && !server_has_room(&d->own, party_room(s, &d->own))) {
        return SCHED_WHY_HOST_LIMIT;
    }
    if (d->own.work == OPEN_SLOT || d->own.work == OPEN_HOST) {
        return SCHED_WHY_PROCESS_LIMIT;
    }
    if (d->lane.window == WINDOW_DEAD) {
        return d->own.is_unreachable ? SCHED_WHY_HOST_RETRY : SCHED_WHY_DEAD;
    }
    if (d->lane.window == WINDOW_SUSPENDED) {
        return SCHED_WHY_RATE_DELAY;
    }
    if (d->lacks_hosts) {
        return SCHED_WHY_RESOLVING;
    }
    return d->lane.window > d->lane.busy && d->own.is_unreachable ? SCHED_WHY_HOST_RETRY
                                                                  : SCHED_WHY_WINDOW;
}

void destination_arm(struct sched *s, struct sched_destination *d, usec_t until)
{
    until = until == USEC_NEVER ? terms_wake_at(s, d) : until;
    heap_move(&s->timers, &d->timer, until);
    shared_set(&d->state_until, until == USEC_NEVER ? 0 : until);
}

void destination_revive(struct sched *s, struct sched_destination *d)
{
    assert(d->lane.window == WINDOW_DEAD);
    reason_put(s, d->reason);
    d->reason = NULL;
    d->lane.feedback = (struct feedback){0};
    int window = d->lane.busy > 0 ? d->lane.busy : s->rule.initial;
    window = s->rule.limit > 0 && window > s->rule.limit ? s->rule.limit : window;
    set_window(s, d, window, SCHED_CHANGE_REVIVED, NULL);
    shared_sub(&s->shared.dead, 1);
    destination_arm(s, d, USEC_NEVER);
}

bool destination_retry(struct sched *s, struct sched_destination *d)
{
    struct site *site = d->party->site;
    for (uint32_t i = 0; i < d->party->server_count; i++) {
        destdb_retry(s, d->party->servers[i].host);
    }
    bool was_dead = destination_is_dead(d);
    bool was_lane_dead = site != NULL && lane_revive_all(s, site);
    if (was_dead) {
        destination_revive(s, d);
        destination_settle(s, d);
    } else if (was_lane_dead) {
        site_settle(s, site);
    }
    return was_dead || was_lane_dead;
}

void destination_succeed(struct sched *s, struct sched_destination *d)
{
    if (d->lane.window == WINDOW_DEAD) {
        destination_revive(s, d);
    } else if (d->lane.window > 0) {
        int window = feedback_positive(&d->lane.feedback, &s->rule, d->lane.window, d->lane.busy);
        set_window(s, d, window, SCHED_CHANGE_POSITIVE, NULL);
    }
    if (s->debug.records != NULL) {
        debug_record(s, sched_destination_name(d), &d->lane, true);
    }
}

void destination_fail(struct sched *s, struct sched_destination *d,
                      const struct sched_reason *reason)
{
    if (d->lane.window <= 0) {
        return;
    }
    int window = feedback_negative(&d->lane.feedback, &s->rule, d->lane.window);
    if (window == WINDOW_DEAD) {
        destination_kill(s, d, reason, s->now + s->config.minimal_backoff_time);
    } else {
        set_window(s, d, window, SCHED_CHANGE_NEGATIVE, reason);
    }
    if (s->debug.records != NULL) {
        debug_record(s, sched_destination_name(d), &d->lane, false);
    }
}

void destination_slow(struct sched *s, struct sched_destination *d,
                      const struct sched_reason *reason)
{
    if (lane_is_slowed_anew(&d->lane)) {
        int window = feedback_slower(&d->lane.feedback, &s->rule, d->lane.window);
        set_window(s, d, window, SCHED_CHANGE_SLOWER, reason);
    }
}

void destination_drop_waiting(struct sched *s, struct sched_destination *d,
                              enum sched_action_kind kind, struct reason *reason)
{
    bool was_pinned = d->is_pinned;
    d->is_pinned = true;
    while (!list_is_empty(&d->todo)) {
        entry_drop(s, list_first(&d->todo, struct sched_entry, place.link), kind, reason);
    }
    d->is_pinned = was_pinned;
}

void destination_kill(struct sched *s, struct sched_destination *d,
                      const struct sched_reason *reason, usec_t until)
{
    assert(d->lane.window != WINDOW_DEAD);
    set_window(s, d, WINDOW_DEAD, SCHED_CHANGE_DEAD, reason);
    shared_add(&s->shared.dead, 1);
    d->reason = reason_new(s, reason, true);
    destination_arm(s, d, until);
    connection_close_idle(s, &d->own);
    destination_drop_waiting(s, d, SCHED_DEFER, d->reason);
}

static void give_up_destination(struct sched *s, struct sched_destination *d)
{
    struct slice name = sched_destination_nexthop(d);
    struct sched_reason reason = {.status = "4.4.1"};
    (void)snprintf(reason.text, sizeof(reason.text),
                   "connections to every host of %.*s failed lately", (int)name.len, name.data);
    destination_kill(s, d, &reason, server_retry_at(s, d->party));
    destination_settle(s, d);
}

void destination_give_up_unreachable(struct sched *s)
{
    while (!list_is_empty(&s->unreachable)) {
        struct sched_destination *d =
            list_first(&s->unreachable, struct sched_destination, in_unreachable);
        list_remove(&d->in_unreachable);
        if (d->party->is_unreachable && d->lane.window != WINDOW_DEAD && !is_empty(d)) {
            give_up_destination(s, d);
        }
    }
}

void destination_suspend(struct sched *s, struct sched_destination *d)
{
    if (d->lane.window == WINDOW_DEAD) {
        destination_revive(s, d);
    }
    set_window(s, d, WINDOW_SUSPENDED, SCHED_CHANGE_LIMIT, NULL);
    destination_arm(s, d, s->now + terms_rate_delay(s, d));
}

void destination_wake(struct sched *s, struct sched_destination *d)
{
    if (d->paced_until > 0 && d->paced_until <= s->now) {
        shared_set(&d->paced_until, 0);
        shared_set(&d->lacks_quota, false);
    }
    if (d->lane.window > 0) {
        destination_arm(s, d, USEC_NEVER);
        destination_recount(s, d);
        destination_reconsider(s, d);
    } else if (d->lane.window == WINDOW_DEAD) {
        destination_revive(s, d);
    } else {
        set_window(s, d, 1, SCHED_CHANGE_LIMIT, NULL);
        destination_arm(s, d, USEC_NEVER);
        destination_reconsider(s, d);
    }
    destination_settle(s, d);
}

void destination_reconsider(struct sched *s, struct sched_destination *d)
{
    if (flows_take_turns(s)) {
        turn_touch(s, d->party);
        return;
    }
    if (d->party != &d->own) {
        lane_set_reconsider(s, shared_party_of(d->party)->set);
        return;
    }
    if (d->lane.window == WINDOW_SUSPENDED || !parking_blocks(s, d)) {
        return;
    }
    if (d->own.work != OPEN_NOT) {
        job_unblock_all(s, &s->flow);
    }
    /* Jobs may be waiting for its hosts rather than for room. */
    if ((d->lane.window > d->lane.busy && d->waiting == 0) || d->lane.window == WINDOW_DEAD) {
        d->tag = 0;
    }
}

static void ask_hosts(struct sched *s, struct sched_destination *d)
{
    d->is_resolving = true;
    action_queue(s, &d->resolve, SCHED_RESOLVE);
}

void destination_want_hosts(struct sched *s, struct sched_destination *d)
{
    /* On hold nothing is decided, not even that a destination does not exist. */
    if (d->lacks_hosts && !d->is_resolving && !s->hold) {
        ask_hosts(s, d);
    }
}

void destination_refresh_hosts(struct sched *s, struct sched_destination *d)
{
    if (s->config.must_resolve && !d->is_resolving && s->now >= d->hosts_expire) {
        ask_hosts(s, d);
    }
}

static void set_hosts(struct sched *s, struct sched_destination *d,
                      const struct sched_hosts_result *r)
{
    bool is_found = r->resolution == SCHED_RESOLVED;
    drop_hosts(s, d);
    d->hosts = is_found ? r->hosts : NULL;
    d->hosts_expire = r->expires;
    shared_set(&d->lacks_hosts, d->hosts == NULL);
    if (is_found) {
        site_place(s, d, r);
        terms_set(s, d, r->terms);
        destination_recount(s, d);
    } else if (d->party == &d->own) {
        server_set(s, &d->own, NULL, 0);
    } else {
        destination_recount(s, d);
    }
}

/* One negative report, and dead whatever the window says: without hosts nothing can be tried. */
static void resolution_failed(struct sched *s, struct sched_destination *d,
                              const struct sched_hosts_result *r)
{
    usec_t until = s->now + s->config.minimal_backoff_time;
    if (r->expires != USEC_NEVER && r->expires > until) {
        until = r->expires;
    }
    if (d->party == &d->own) {
        destination_fail(s, d, r->reason);
    }
    if (d->lane.window != WINDOW_DEAD) {
        destination_kill(s, d, r->reason, until);
    } else if (d->timer.key < until) {
        destination_arm(s, d, until);
    }
}

static void does_not_exist(struct sched *s, struct sched_destination *d,
                           const struct sched_reason *text)
{
    struct reason *reason = reason_new(s, text, false);
    connection_close_idle(s, &d->own);
    destination_drop_waiting(s, d, SCHED_BOUNCE, reason);
    reason_put(s, reason);
}

void destination_resolved(struct sched *s, struct sched_destination *d,
                          const struct sched_hosts_result *r)
{
    assert(d->is_resolving && d->resolve.kind == SCHED_NONE);
    d->is_resolving = false;
    d->is_pinned = true;
    set_hosts(s, d, r);
    switch (r->resolution) {
    case SCHED_RESOLVED:
        assert(r->hosts != NULL);
        destination_reconsider(s, d);
        break;
    case SCHED_RESOLVE_SOFT:
        if (!is_empty(d)) {
            resolution_failed(s, d, r);
        }
        break;
    case SCHED_RESOLVE_HARD:
        does_not_exist(s, d, r->reason);
        break;
    }
    d->is_pinned = false;
    destination_settle(s, d);
}

/* --- another config --------------------------------------------------------------------------- */

/* A pause under way is as long as the config now says, counted from now, when that is sooner. */
static void refit_pause(struct sched *s, struct sched_destination *d)
{
    usec_t delay = terms_rate_delay(s, d), until = s->now + delay;
    if (d->lane.window != WINDOW_SUSPENDED || until >= d->timer.key) {
        return;
    }
    if (delay > 0) {
        destination_arm(s, d, until);
    } else {
        set_window(s, d, 1, SCHED_CHANGE_LIMIT, NULL);
        destination_arm(s, d, USEC_NEVER);
    }
}

void destination_refit(struct sched *s, struct sched_destination *d)
{
    refit_pause(s, d);
    terms_ask_again(s, d);
    bool is_wide = d->lane.window > 0 && s->rule.limit > 0 && d->lane.window > s->rule.limit;
    set_window(s, d, is_wide ? s->rule.limit : d->lane.window, SCHED_CHANGE_LIMIT, NULL);
    host_queue_update(s, &d->own);
    destination_reconsider(s, d);
}

void destination_forget_hosts(struct sched *s, struct sched_destination *d)
{
    bool was_pinned = d->is_pinned;
    d->is_pinned = true;
    drop_hosts(s, d);
    d->hosts_expire = s->now;
    shared_set(&d->lacks_hosts, s->config.must_resolve);
    if (d->party == &d->own) {
        server_set(s, &d->own, NULL, 0);
    } else {
        destination_recount(s, d);
    }
    if (!is_empty(d)) {
        destination_want_hosts(s, d);
    }
    d->is_pinned = was_pinned;
    destination_settle(s, d);
}

/* --- at a site -------------------------------------------------------------------------------- */

bool destination_refuses(const struct sched *s, const struct sched_destination *d)
{
    /* Its party and the set are far from it in memory, and mostly no set is barred. */
    return destination_is_dead(d) || (s->barred_sets > 0 && d->party->site != NULL &&
                                      shared_party_of(d->party)->set->is_barred);
}

struct reason *destination_reason(const struct sched_destination *d)
{
    return d->reason != NULL ? d->reason : shared_party_of(d->party)->set->reason;
}

void destination_mark(const struct sched *s, struct sched_destination *d)
{
    d->tag = s->flow.tag;
    if (d->party->site != NULL) {
        shared_party_of(d->party)->set->tag = s->flow.tag;
    }
}

void destination_leave_own(struct sched *s, struct sched_destination *d)
{
    s->with_work[d->own.work]--;
    s->with_work[OPEN_NOT]++;
    d->own.work = OPEN_NOT;
    parking_update(s, &d->own);
    if (d->own.server_count > 0) {
        server_set(s, &d->own, NULL, 0);
    }
    d->was_at_site = true;
}
