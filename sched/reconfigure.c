/* A config that changes under messages, destinations and connections: what was derived from the old
 * one is taken down, the values change, and everything is derived anew. Takes a step for each
 * object, once for each reload. Holds no rule: each noun refits its own. */
#include "sched/reconfigure.h"

#include "sched/candidate.h"
#include "sched/division.h"
#include "sched/parking.h"
#include "sched/place/host_queue.h"
#include "sched/preempt.h"
#include "sched/purse.h"
#include "sched/recipient_pool.h"
#include "sched/selection.h"
#include "sched/transport.h"

#include <assert.h>

void reconfigure_set(struct sched *s, const struct sched_config *config)
{
    s->config = *config;
    struct sched_config *c = &s->config;
    assert(c->initial_destination_concurrency >= 1 && c->destination_concurrency_limit >= 0);
    assert(c->process_limit >= 1 && c->process_limit <= UINT16_MAX);
    assert(c->message_recipient_minimum >= 1 && c->recipient_refill_limit >= 1);
    feedback_rule_of(c, &s->rule);
    c->destination_concurrency_limit = s->rule.limit;
    c->initial_destination_concurrency = s->rule.initial;
    if (c->scheduler != SCHED_BY_PREEMPTION) {
        c->delivery_slot_cost = 0;
    }
    if (c->scheduler == SCHED_BY_TURNS) {
        c->max_message_concurrency = c->scale_max_concurrency = 0;
    }
    s->loan_factor = 100 - c->delivery_slot_discount;
    shared_set(&s->hold, c->hold);
    shared_set(&s->process_limit, c->process_limit);
    shared_set(&s->transport_rate_delay, c->transport_rate_delay);
    if (s->depth_max < c->pipeline_depth) {
        s->depth_max = c->pipeline_depth;
    }
    if (s->overdraft_max < c->extra_recipient_limit) {
        s->overdraft_max = c->extra_recipient_limit;
    }
}

static void take_down(struct sched *s)
{
    list_foreach(d, &s->destinations, struct sched_destination, all)
    {
        host_queue_leave(s, &d->own);
    }
    list_foreach(site, &s->all_sites, struct site, all)
    {
        list_foreach(q, &site->parties, struct shared_party, in_site)
        {
            host_queue_leave(s, &q->party);
        }
    }
    list_foreach(f, &s->flows.all, struct flow, all)
    {
        list_foreach(j, &f->schedule, struct job, in_schedule)
        {
            candidate_withdraw(s, j);
        }
        f->adrift = NULL;
    }
}

static void change(struct sched *s, const struct sched_config *config)
{
    const struct sched_config old = s->config;
    int64_t pool = (int64_t)config->recipient_limit - old.recipient_limit;
    reconfigure_set(s, config);
    s->none_expires = 0;
    s->config.must_resolve = old.must_resolve;
    s->config.awaits_end = old.awaits_end;
    s->config.unasked_selection = old.unasked_selection;
    s->overdraft_max += pool < 0 ? -pool : 0;
    recipient_pool_resize(s, pool);
    if (s->rate == RATE_WAITING) {
        s->rate = RATE_FREE; /* it begins again, with the delay as it is now */
    }
}

static void derive_flow(struct sched *s, struct flow *f)
{
    list_foreach(j, &f->schedule, struct job, in_schedule)
    {
        candidate_file(s, j);
    }
    job_unblock_all(s, f);
    list_foreach(j, &f->schedule, struct job, in_schedule)
    {
        parking_review(s, j); /* it may read now */
    }
}

static void derive(struct sched *s)
{
    destdb_refit(s);
    connection_refit_all(s);
    lane_refit_all(s);
    list_foreach(d, &s->destinations, struct sched_destination, all)
    {
        destination_refit(s, d);
        if (d->waiting > 0) {
            destination_want_hosts(s, d); /* on hold nobody asked */
        }
    }
    list_foreach(f, &s->flows.all, struct flow, all)
    {
        derive_flow(s, f);
    }
    list_foreach_safe(d, &s->destinations, struct sched_destination, all)
    {
        destination_settle(s, d); /* it may have been there for a connection only */
    }
    site_settle_all(s);
    site_touch_all(s);
    purse_touch_all(s); /* on hold none asked */
}

void reconfigure(struct sched *s, const struct sched_config *config, struct entry_queue *pieces)
{
    enum sched_scheduler before = s->config.scheduler;
    take_down(s);
    division_commit(s, (uint32_t)config->destination_recipient_limit, pieces);
    change(s, config);
    derive(s);
    if ((before == SCHED_BY_TURNS) != (config->scheduler == SCHED_BY_TURNS)) {
        selection_change(s);
    }
}
