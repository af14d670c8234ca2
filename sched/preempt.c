/* Preemption: which small job may slip in front of the current one, when, and what it pays. Called
 * by selection; the end of a preempting job comes from sched/job.c. */
#include "sched/preempt.h"

#include "sched/recipient_pool.h"
#include "sched/transport.h"

#include <assert.h>

void preempt_invalidate(struct sched *s)
{
    s->candidate_owner = NULL;
    s->candidate = NULL;
}

/* Slots that the job needs to be delivered completely. */
static int64_t need(const struct job *j)
{
    return job_total(j) - j->selected_entries;
}

/* Whole seconds, from 1; mail of the same second has the same age. */
static double age(const struct sched *s, const struct job *j)
{
    int64_t now = s->now / USEC_PER_SEC, queued = j->queued_time / USEC_PER_SEC;
    return (double)(now - queued + 1);
}

static struct job *search(const struct sched *s, const struct job *owner)
{
    int max_slots = (owner->read_entries - owner->selected_entries + owner->slots_available) /
                    s->config.delivery_slot_cost;
    if (max_slots <= 0) {
        return NULL;
    }
    struct job *best = NULL;
    double best_score = 0;
    for (struct job *j = job_next(s, owner); j != NULL; j = job_next(s, j)) {
        if (!list_is_empty(&j->children) || j->tag == s->tag) {
            continue;
        }
        double j_age = age(s, j);
        if (need(j) > 0 && need(j) <= max_slots) {
            double score = j_age / (double)job_total(j);
            if (score > best_score) {
                best_score = score;
                best = j;
            }
        }
        /* Those behind are not older, and none has fewer than one entry. */
        if (j_age <= best_score && j->level == 0) {
            break;
        }
    }
    return best;
}

/* The best candidate (5.5); a cached "none" survives the clock, a cached candidate does not. */
static struct job *candidate(struct sched *s, struct job *owner)
{
    int64_t second = s->now / USEC_PER_SEC;
    if (s->candidate_owner == owner && (s->candidate_second == second || s->candidate == NULL)) {
        return s->candidate;
    }
    s->candidate = search(s, owner);
    s->candidate_owner = owner;
    s->candidate_second = second;
    return s->candidate;
}

static void move_before(struct sched *s, struct job *j, struct job *parent)
{
    list_remove(&j->in_schedule);
    list_insert_before(&parent->in_schedule, &j->in_schedule);
    j->parent = parent;
    list_push_back(&parent->children, &j->in_children);
    j->level = parent->level + 1;
    s->current = j;
    preempt_invalidate(s);
}

struct job *preempt_try(struct sched *s, struct job *current)
{
    const struct sched_config *c = &s->config;
    if (current->slots_available <= 0 ||
        job_total(current) < (int64_t)c->minimum_delivery_slots * c->delivery_slot_cost) {
        return current;
    }
    struct job *j = candidate(s, current);
    if (j == NULL) {
        return current;
    }
    int slots = (int)need(j);
    int in_hand = current->slots_available / c->delivery_slot_cost + c->delivery_slot_loan;
    if (in_hand < slots * s->loan_factor / 100.0) {
        return current;
    }
    if (j->level > 0) {
        preempt_pop(s, j);
    }
    move_before(s, j, current);
    current->slots_available -= slots * c->delivery_slot_cost;
    j->slots_used = -slots;
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
        parent->slots_available -= j->slots_used * s->config.delivery_slot_cost;
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
    preempt_invalidate(s);
}
