/* The lanes of sites: the transitions of their windows (2.2-2.4), as sched/destination.c has them for
 * destinations without a site. Called by the report path, the timers and site. */
#include "sched/place/lane.h"

#include "sched/place/host_queue.h"
#include "sched/place/site.h"
#include "sched/transport.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

int lane_new_all(struct sched *s, struct site *site)
{
    struct site_lane *lanes = s->host.alloc(s->host.ctx, s->source_count * sizeof(*lanes));
    if (lanes == NULL) {
        return -ENOMEM;
    }
    memset(lanes, 0, s->source_count * sizeof(*lanes));
    for (uint32_t i = 0; i < s->source_count; i++) {
        struct site_lane *l = &lanes[i];
        l->site = site;
        l->source = i;
        l->is_usable = true;
        l->lane.window = s->rule.initial;
        list_init(&l->lane.open);
        if (heap_insert(&s->lane_timers, &l->timer, USEC_NEVER) != 0) {
            for (uint32_t k = 0; k < i; k++) {
                heap_remove(&s->lane_timers, &lanes[k].timer);
            }
            s->host.release(s->host.ctx, lanes);
            return -ENOMEM;
        }
    }
    site->lanes = lanes;
    site->lane_count = s->source_count;
    return 0;
}

void lane_free_all(struct sched *s, struct site *site)
{
    for (uint32_t i = 0; i < site->lane_count; i++) {
        heap_remove(&s->lane_timers, &site->lanes[i].timer);
        reason_put(s, site->lanes[i].reason);
    }
    s->host.retire(s->host.ctx, site->lanes);
}

bool lane_is_in_flight(const struct site *site)
{
    for (uint32_t i = 0; i < site->lane_count; i++) {
        if (site->lanes[i].lane.in_flight > 0) {
            return true;
        }
    }
    return false;
}

bool lane_is_away(const struct site *site)
{
    for (uint32_t i = 0; i < site->lane_count; i++) {
        if (site->lanes[i].lane.window == WINDOW_DEAD) {
            return true;
        }
    }
    return false;
}

bool lane_has_room(const struct site_lane *l)
{
    return l->is_usable && l->lane.window > l->lane.busy;
}

static bool is_usable(const struct site_lane *l)
{
    return l->lane.window > 0;
}

/* All that its site could be sent by is away: nothing may wait for it. */
static bool is_barred(const struct site *site)
{
    for (uint32_t i = 0; i < site->lane_count; i++) {
        if (site->lanes[i].lane.window > 0) {
            return false;
        }
    }
    return true;
}

void lane_review(struct sched *s, struct site_lane *l)
{
    bool is_now = is_usable(l);
    if (is_now != l->is_usable) {
        l->is_usable = is_now;
        list_foreach(c, &l->lane.open, struct connection, in_lane)
        {
            party_recount(s, c->party);
        }
    }
    site_review(s, l->site);
}

static void set_lane_window(struct sched *s, struct site_lane *l, int window,
                            enum sched_change_cause cause, const struct sched_reason *reason)
{
    int from = l->lane.window;
    shared_set(&l->lane.window, window);
    if (window != from) {
        change_record(s, site_key(l->site), from, window, cause, reason);
    }
    if (window > 0 && window < l->lane.busy && s->config.pipeline_depth > 1) {
        connection_drain(s, &l->lane);
    }
    lane_review(s, l);
}

void lane_forget_all(struct sched *s, struct site *site)
{
    for (uint32_t i = 0; i < site->lane_count; i++) {
        struct site_lane *l = &site->lanes[i];
        if (l->lane.window > 0) {
            l->lane.feedback = (struct feedback){0};
            set_lane_window(s, l, s->rule.initial, SCHED_CHANGE_FORGOTTEN, NULL);
        }
    }
}

static void arm_lane(struct sched *s, struct site_lane *l, usec_t until)
{
    heap_move(&s->lane_timers, &l->timer, until);
    shared_set(&l->state_until, until == USEC_NEVER ? 0 : until);
}

/* Those that wait are deferred when it was the last one; else they go by the others. */
static void kill_lane(struct sched *s, struct site_lane *l, const struct sched_reason *reason)
{
    bool was_pinned = l->site->is_pinned;
    l->site->is_pinned = true;
    l->reason = reason_new(s, reason, true);
    set_lane_window(s, l, WINDOW_DEAD, SCHED_CHANGE_DEAD, reason);
    arm_lane(s, l, s->now + s->config.minimal_backoff_time);
    connection_close_idle_of(s, &l->lane);
    if (is_barred(l->site)) {
        site_bar(s, l->site, l->reason);
    }
    l->site->is_pinned = was_pinned;
}

void lane_revive(struct sched *s, struct site_lane *l)
{
    assert(l->lane.window == WINDOW_DEAD);
    reason_put(s, l->reason);
    l->reason = NULL;
    l->lane.feedback = (struct feedback){0};
    int window = l->lane.busy > 0 ? l->lane.busy : s->rule.initial;
    window = s->rule.limit > 0 && window > s->rule.limit ? s->rule.limit : window;
    arm_lane(s, l, USEC_NEVER);
    site_unbar(s, l->site);
    set_lane_window(s, l, window, SCHED_CHANGE_REVIVED, NULL);
}

bool lane_revive_all(struct sched *s, struct site *site)
{
    bool was_dead = false;
    for (uint32_t i = 0; i < site->lane_count; i++) {
        if (site->lanes[i].lane.window == WINDOW_DEAD) {
            lane_revive(s, &site->lanes[i]);
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
        int window = feedback_positive(&lane->feedback, &s->rule, lane->window, lane->busy);
        set_lane_window(s, l, window, SCHED_CHANGE_POSITIVE, NULL);
    }
    debug_record(s, site_key(l->site), lane, true);
}

void lane_fail(struct sched *s, struct site_lane *l, const struct sched_reason *reason)
{
    struct lane *lane = &l->lane;
    if (lane->window <= 0) {
        return;
    }
    int window = feedback_negative(&lane->feedback, &s->rule, lane->window);
    if (window == WINDOW_DEAD) {
        kill_lane(s, l, reason);
    } else {
        set_lane_window(s, l, window, SCHED_CHANGE_NEGATIVE, reason);
    }
    debug_record(s, site_key(l->site), lane, false);
}

void lane_tick(struct sched *s)
{
    for (;;) {
        struct heap_node *node = heap_min(&s->lane_timers);
        if (node == NULL || node->key > s->now) {
            break;
        }
        struct site_lane *l = container_of(node, struct site_lane, timer);
        struct site *site = l->site;
        lane_revive(s, l);
        site_settle(s, site);
    }
}

usec_t lane_wake_at(const struct sched *s)
{
    const struct heap_node *node = heap_min(&s->lane_timers);
    return node == NULL ? USEC_NEVER : node->key;
}

void lane_refit_all(struct sched *s)
{
    list_foreach(site, &s->all_sites, struct site, all)
    {
        for (uint32_t i = 0; i < site->lane_count; i++) {
            struct site_lane *l = &site->lanes[i];
            int window = l->lane.window;
            bool is_wide = window > 0 && s->rule.limit > 0 && window > s->rule.limit;
            set_lane_window(s, l, is_wide ? s->rule.limit : window, SCHED_CHANGE_LIMIT, NULL);
        }
        list_foreach(q, &site->parties, struct shared_party, in_site)
        {
            party_recount(s, &q->party);
            host_queue_update(s, &q->party);
        }
        site_reconsider(s, site);
    }
}
