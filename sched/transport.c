/* The state of one scheduler: configuration, timers, the transport rate delay. Called by the public
 * functions in sched/sched.c. */
#include "sched/transport.h"

#include "sched/place/avoidance.h"

#include <assert.h>

void sched_config_defaults(struct sched_config *ret)
{
    *ret = (struct sched_config){
        .concurrency_feedback_rule = SCHED_RULE_README,
        .initial_destination_concurrency = 5,
        .destination_concurrency_limit = 20,
        .destination_concurrency_positive_feedback = {SCHED_FEEDBACK_CONSTANT, 1},
        .destination_concurrency_negative_feedback = {SCHED_FEEDBACK_CONSTANT, 1},
        .destination_concurrency_failed_cohort_limit = 1,
        .destination_recipient_limit = 50,
        .delivery_slot_cost = 5,
        .delivery_slot_loan = 3,
        .delivery_slot_discount = 50,
        .minimum_delivery_slots = 3,
        .recipient_limit = 20000,
        .extra_recipient_limit = 1000,
        .recipient_refill_limit = 100,
        .recipient_refill_delay = 5 * USEC_PER_SEC,
        .message_recipient_limit = 20000,
        .message_recipient_minimum = 10,
        .minimal_backoff_time = 300 * USEC_PER_SEC,
        .process_limit = 100,
        .pipeline_depth = 1,
        .class_floor = 10,
        .connection_idle_limit = 5 * USEC_PER_SEC,
    };
}

static bool is_due(const struct heap *timers, usec_t now)
{
    const struct heap_node *node = heap_min(timers);
    return node != NULL && node->key <= now;
}

static void run_site_timers(struct sched *s)
{
    if (is_due(&s->lane_timers, s->now)) {
        lane_tick(s);
    }
    if (is_due(&s->avoidance_timers, s->now)) {
        avoidance_tick(s);
    }
    if (!list_is_empty(&s->remembered)) {
        site_tick(s);
    }
}

/* Hosts first: destinations that are dead until one of them may be tried come back then. Each call
 * from outside comes here, so what has nothing to do is not called. */
static void run_timers(struct sched *s)
{
    if (!list_is_empty(&s->destdb.retry) || !list_is_empty(&s->destdb.stale)) {
        destdb_tick(s);
    }
    for (;;) {
        struct heap_node *node = heap_min(&s->timers);
        if (node == NULL || node->key > s->now) {
            break;
        }
        destination_wake(s, container_of(node, struct sched_destination, timer));
    }
    if (s->now >= s->none_expires && s->shared.connections > 0) {
        connection_expire(s);
    }
    if (s->sites.count > 0) {
        run_site_timers(s);
    }
    if (!list_is_empty(&s->unreachable)) {
        destination_give_up_unreachable(s);
    }
    if (s->owners.count > 0) {
        purse_tick(s);
    }
}

void transport_enter(struct sched *s, usec_t now)
{
    assert(now >= s->now);
    s->now = now;
    if (s->spent != NULL) {
        entry_free(s, s->spent);
        s->spent = NULL;
    }
    if (s->held_hosts != NULL && s->undelivered == NULL) {
        s->release_hosts(s->host.ctx, s->held_hosts);
        s->held_hosts = NULL;
    }
    run_timers(s);
}

static usec_t earlier_wake(usec_t a, usec_t b)
{
    return a < b ? a : b;
}

usec_t transport_wake_at(const struct sched *s)
{
    if (!list_is_empty(&s->pending) || !list_is_empty(&s->displaced) ||
        !list_is_empty(&s->unreachable) || !list_is_empty(&s->touched_lanes) ||
        !list_is_empty(&s->touched_sets) || s->must_shed) {
        return s->now;
    }
    struct heap_node *node = heap_min(&s->timers);
    usec_t at = node == NULL ? USEC_NEVER : node->key;
    at = earlier_wake(at, connection_wake_at(s));
    at = earlier_wake(at, destdb_wake_at(s));
    if (s->sites.count > 0) {
        at = earlier_wake(at, lane_wake_at(s));
        at = earlier_wake(at, avoidance_wake_at(s));
    }
    if (s->owners.count > 0) {
        at = earlier_wake(at, purse_wake_at(s));
    }
    if (s->rate == RATE_WAITING && !s->hold) {
        at = earlier_wake(at, s->rate_until);
    }
    return at;
}

bool transport_rate_allows(struct sched *s)
{
    if (s->config.transport_rate_delay <= 0) {
        return true;
    }
    if (s->rate == RATE_FREE && flow_has_current(s)) {
        s->rate = RATE_WAITING;
        s->rate_until = s->now + s->config.transport_rate_delay;
    }
    return s->rate == RATE_WAITING && s->now >= s->rate_until;
}

void transport_rate_cancel(struct sched *s)
{
    if (s->rate == RATE_WAITING) {
        s->rate = RATE_FREE;
    }
}
