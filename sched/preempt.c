/* Preemption: which small job may slip in front of the current one, when, and what it pays. Called
 * by selection; the end of a preempting job comes from sched/job.c. */
#include "sched/preempt.h"

#include "sched/candidate.h"
#include "sched/parking.h"
#include "sched/recipient_pool.h"
#include "sched/transport.h"

#include <assert.h>

void preempt_invalidate(struct flow *f)
{
    f->candidate_owner = NULL;
    f->candidate = NULL;
}

/* The best candidate (5.5); a cached "none" survives the clock, a cached candidate does not. */
static struct job *candidate(struct sched *s, struct job *owner)
{
    struct flow *f = owner->flow;
    int64_t second = s->now / USEC_PER_SEC;
    if (f->candidate_owner == owner && (f->candidate_second == second || f->candidate == NULL)) {
        return f->candidate;
    }
    f->candidate = candidate_search(s, owner);
    f->candidate_owner = owner;
    f->candidate_second = second;
    return f->candidate;
}

static void move_before(struct sched *s, struct job *j, struct job *parent)
{
    parking_run(s, j);
    candidate_withdraw(s, j);
    candidate_withdraw(s, parent);
    parking_remove(s, j);
    list_remove(&j->in_schedule);
    position_insert_after(j, parent->in_schedule.prev);
    j->parent = parent;
    list_push_back(&parent->children, &j->in_children);
    j->level = parent->level + 1;
    parking_add(s, j);
    candidate_file(s, j);
    candidate_file(s, parent);
    j->flow->current = j;
    preempt_invalidate(j->flow);
}

struct job *preempt_try(struct sched *s, struct job *current)
{
    const struct sched_config *c = &s->config;
    if (job_total(current) < (int64_t)c->minimum_delivery_slots * c->delivery_slot_cost) {
        return current;
    }
    if (current->slots_available <= 0) {
        if (current->slots_available >= -1) { /* one is earned with each selection */
            candidate_expect(s, current->flow, current->slots_available == 0);
        }
        return current;
    }
    struct job *j = candidate(s, current);
    if (j == NULL) {
        return current;
    }
    int64_t slots = job_need(j);
    int64_t in_hand = current->slots_available / c->delivery_slot_cost + c->delivery_slot_loan;
    if ((double)in_hand < (double)(slots * s->loan_factor) / 100.0) {
        return current;
    }
    if (j->level > 0) {
        preempt_pop(s, j);
    }
    move_before(s, j, current);
    current->slots_available -= slots * c->delivery_slot_cost;
    j->slots_used = -(int)slots;
    if (j->has_more) {
        recipient_pool_grant_preempting(s, j);
    }
    return j;
}

void preempt_pop(struct sched *s, struct job *j)
{
    assert(j->level > 0);
    struct job *parent = j->parent;
    /* An adopted job stands deeper than its parent's next level; it refunds nothing. */
    if (parent != NULL && j->level == parent->level + 1) {
        parent->slots_available -= (int64_t)j->slots_used * s->config.delivery_slot_cost;
    }
    list_remove(&j->in_children);
    j->parent = NULL;
    list_foreach_safe(child, &j->children, struct job, in_children)
    {
        list_remove(&child->in_children);
        child->parent = parent;
        if (parent != NULL) {
            list_push_back(&parent->children, &child->in_children);
        }
    }
    j->level = 0;
    candidate_withdraw(s, j);
    candidate_file(s, j);
    if (parent != NULL) {
        candidate_drift(s, parent); /* mostly it is the next one again, which is in no search */
    }
    preempt_invalidate(j->flow);
}
