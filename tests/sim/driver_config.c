/* The configurations that the driver of the scheduler core draws. */
#include "tests/sim/driver_state.h"

static struct sched_feedback take_feedback(struct driver *d)
{
    static const double bases[] = {1, 0.5, 0, 1.0 / 3};
    return (struct sched_feedback){(enum sched_feedback_kind)take(d, 3), bases[take(d, 4)]};
}

void driver_configure(struct driver *d)
{
    struct sched_config *c = &d->config;
    sched_config_defaults(c);
    c->concurrency_feedback_rule = (enum sched_feedback_rule)take(d, 2);
    c->initial_destination_concurrency = 1 + (int)take(d, 5);
    c->destination_concurrency_limit = (int)take(d, 6);
    c->destination_concurrency_positive_feedback = take_feedback(d);
    c->destination_concurrency_negative_feedback = take_feedback(d);
    c->destination_concurrency_failed_cohort_limit = (int)take(d, 4);
    c->destination_recipient_limit = (int)take(d, 4);
    c->destination_rate_delay = take(d, 4) == 0 ? 3 * USEC_PER_SEC : 0;
    c->transport_rate_delay = take(d, 8) == 0 ? 2 * USEC_PER_SEC : 0;
    c->delivery_slot_cost = (int)take(d, 6);
    c->delivery_slot_loan = (int)take(d, 4);
    c->delivery_slot_discount = (int)take(d, 3) * 50;
    c->minimum_delivery_slots = (int)take(d, 3);
    c->recipient_limit = (int)take(d, 30);
    c->extra_recipient_limit = (int)take(d, 10);
    c->recipient_refill_limit = 1 + (int)take(d, 6);
    c->recipient_refill_delay = USEC_PER_SEC * (1 + take(d, 5));
    c->message_recipient_limit = 1 + (int)take(d, 30);
    c->message_recipient_minimum = 1 + (int)take(d, 5);
    c->minimal_backoff_time = USEC_PER_SEC * (1 + take(d, 20));
    c->process_limit = 1 + (int)take(d, CONNECTIONS);
    c->connection_idle_limit = USEC_PER_SEC * take(d, 8);
    c->must_resolve = take(d, 2) == 0;
    c->unasked_selection = take(d, 2) == 0;
    c->feedback_debug = take(d, 2) == 0;
    c->pipeline_depth = take(d, 3) == 0 ? 1 : 1 + (int)take(d, 6);
    c->connection_age_limit = take(d, 3) == 0 ? USEC_PER_SEC * take(d, 20) : 0;
    c->connection_reuse_limit = take(d, 3) == 0 ? (int)take(d, 5) : 0;
    c->host_concurrency_limit = take(d, 2) == 0 ? (int)take(d, 5) : 0;
    c->max_message_concurrency = take(d, 4) == 0 ? (int)take(d, 4) : 0;
    c->scale_max_concurrency = take(d, 4) == 0 ? (int)take(d, 4) : 0;
    c->awaits_end = take(d, 2) == 0;
    c->site_concurrency_limit = take(d, 4) == 0 ? (int)take(d, 6) : 0;
    c->lane_memory = take(d, 2) == 0 ? USEC_PER_SEC * take(d, 100) : 0;
    c->scheduler = take(d, 2) == 0 ? (enum sched_scheduler)take(d, 3) : SCHED_BY_PREEMPTION;
}

void driver_configure_riders(struct driver *d)
{
    struct sched_config *c = &d->config;
    c->destination_concurrency_limit = 1 + (int)take(d, 3);
    c->destination_recipient_limit = 1 + (int)take(d, 2);
    c->destination_rate_delay = c->transport_rate_delay = 0;
    c->recipient_limit = c->message_recipient_limit = MESSAGES * RECIPIENTS;
    c->must_resolve = true;
    c->pipeline_depth = 2 + (int)take(d, 4);
    c->host_concurrency_limit = c->max_message_concurrency = c->scale_max_concurrency = 0;
    c->connection_age_limit = 0;
    c->connection_reuse_limit = 0;
    c->process_limit = take(d, 4) == 0 ? c->process_limit : CONNECTIONS;
    c->scheduler = SCHED_BY_PREEMPTION;
}
