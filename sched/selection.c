/* Which entry goes out next: the jobs in the order of the schedule, each job's destinations in
 * turn. Called by the pull loop when an entry can be placed, never earlier, so that the choice
 * reflects the state at hand-off. */
#include "sched/selection.h"

#include "sched/candidate.h"
#include "sched/gate.h"
#include "sched/parking.h"
#include "sched/place/claim.h"
#include "sched/place/handover.h"
#include "sched/place/site.h"
#include "sched/preempt.h"
#include "sched/recipient_pool.h"
#include "sched/transport.h"
#include "sched/turn.h"

#include <assert.h>

static inline void make_current(struct job *j)
{
    struct flow *f = j->flow;
    if (f->candidate_owner != j) {
        preempt_invalidate(f);
    }
    f->current = j;
}

static inline struct sched_entry *take_entry(struct sched *s, struct job *j, struct peer *p)
{
    struct sched_entry *e = entry_queue_first(&p->waiting);
    entry_select(s, e);
    j->slots_available++;
    j->slots_used++;
    make_current(j);
    shared_set(&j->why, SCHED_WHY_NOTHING);
    candidate_drift(s, j);
    if (j->owner != 0) {
        purse_use(s, j, e->count);
    }
    if (!job_has_entries(j) && !j->has_more) {
        job_retire(s, j);
    }
    return e;
}

/* Reading is the shell's business and comes back through sched_submit_more. When that is the very
 * next call, the examination goes on where it stopped; otherwise the job is met again later. */
static enum selection read_first(struct sched *s, struct job *j, enum selection_stage then)
{
    s->resume_job = j;
    s->resume_stage = then;
    job_queue_read(s, j);
    return SELECTION_READS;
}

/* What bars the first of its destinations. */
static enum sched_why why_blocked(const struct sched *s, const struct job *j)
{
    if (j->is_gated) {
        return SCHED_WHY_MESSAGE_LIMIT;
    }
    if (j->waiting == 0) {
        return SCHED_WHY_POOL;
    }
    list_foreach(p, &j->peers, const struct peer, link)
    {
        if (peer_is_waiting(p)) {
            enum sched_why why = destination_bar(s, p->destination);
            bool is_turn = why == SCHED_WHY_NOTHING && flows_take_turns(s);
            return is_turn ? SCHED_WHY_TURN : why;
        }
    }
    return SCHED_WHY_NOTHING;
}

static struct peer *pick(struct sched *s, struct job *j)
{
    bool needs_connection = !gate_allows(s, j);
    struct peer *p = peer_pick(s, j, needs_connection);
    j->is_gated = p == NULL && needs_connection;
    s->needs_connection = needs_connection;
    return p;
}

static enum selection examine(struct sched *s, struct job *j, enum selection_stage stage,
                              struct sched_entry **ret)
{
    if (j->owner != 0 && j->waiting > 0 && !purse_allows(s, j)) {
        return purse_hold(s, j) ? SELECTION_ASKS : SELECTION_NONE;
    }
    if (stage == SELECTION_REFILL && recipient_pool_should_refill(s, j)) {
        return read_first(s, j, SELECTION_PICK);
    }
    struct peer *p = pick(s, j);
    if (p != NULL) {
        if (!list_is_empty(&s->flows.claims) && claim_precedes(s, j->flow, p)) {
            list_remove(&j->peers); /* it is the next one's turn still */
            list_insert_before(&p->link, &j->peers);
            make_current(j);
            return SELECTION_CLAIMED;
        }
        *ret = take_entry(s, j, p);
        return SELECTION_ENTRY;
    }
    if (stage != SELECTION_LAST && recipient_pool_can_read(s, j)) {
        return read_first(s, j, SELECTION_LAST);
    }
    /* A job whose recipients are being read has work, though not in memory. */
    if (job_has_entries(j) || j->is_reading) {
        j->is_stalled = j->is_reading;
        job_block(s, j, why_blocked(s, j));
    } else {
        shared_set(&j->why, SCHED_WHY_POOL);
        job_retire(s, j);
    }
    return SELECTION_NONE;
}

/* Everything before this position has been looked at, or need not be. */
static void pass_position(struct flow *f, uint64_t position)
{
    if (f->passed < position) {
        f->passed = position;
    }
}

static enum selection walk_jobs(struct sched *s, struct job *start, enum selection_stage stage,
                                struct sched_entry **ret)
{
    struct flow *f = start->flow;
    uint64_t position = start->position;
    struct job *j;
    while ((j = parking_next(s, f, position)) != NULL) {
        position = j->position + 1;
        parking_run(s, j);
        pass_position(f, position);
        enum selection found = examine(s, j, j == start ? stage : SELECTION_REFILL, ret);
        if (found != SELECTION_NONE) {
            return found;
        }
    }
    return SELECTION_NONE;
}

enum selection selection_run(struct sched *s, struct flow *f, struct sched_entry **ret)
{
    struct job *j = s->resume_job;
    enum selection_stage stage = s->resume_stage;
    s->resume_job = NULL;
    if (j == NULL || j->is_reading) {
        j = f->current;
        stage = SELECTION_REFILL;
        if (j != NULL && s->config.delivery_slot_cost >= 2) {
            j = preempt_try(s, j);
        }
    }
    if (j != NULL) {
        enum selection found = walk_jobs(s, j, stage, ret);
        if (found != SELECTION_NONE) {
            return found;
        }
        if (!list_is_empty(&f->schedule)) {
            pass_position(f, list_last(&f->schedule, struct job, in_schedule)->position + 1);
        }
    }
    f->current = NULL;
    return SELECTION_NONE;
}

static enum selection look_in_turn(struct sched *s, struct sched_entry **ret)
{
    s->flows.has_claimed = false;
    for (;;) {
        turn_settle_all(s);
        struct flow *claims = claim_flow(s);
        if (claims != NULL) {
            flow_look_again(s, claims);
        }
        struct flow *f = s->resume_job != NULL ? s->resume_job->flow : claims;
        f = f == NULL ? flow_pick(s) : f;
        if (!list_is_empty(&s->flows.touched)) {
            continue; /* it was let go on: it may have the turn elsewhere; or a claim is not one any more */
        }
        if (f == NULL) {
            handover_run(s);
            return SELECTION_NONE;
        }
        f->passed_without_slot |= !connection_has_slot(s);
        enum selection found = selection_run(s, f, ret);
        if (found == SELECTION_CLAIMED) {
            continue;
        }
        claim_end(s);
        if (found == SELECTION_ENTRY) {
            flow_charge(s, f);
        }
        if (found != SELECTION_NONE) {
            return found;
        }
        flow_rest(s, f);
        turn_pass(s, f);
    }
}

/* A flow that was let go on and not looked at to its end is asked again where it stayed passed: what it lacks there is
 * not marked any more. */
static void retry_live(struct sched *s)
{
    s->flows.has_kept = false;
    for (int i = 0; i < SCHED_CLASSES; i++) {
        for (struct tree_node *n = s->flows.live[i].first; n != NULL; n = tree_next(n)) {
            turn_retry(s, container_of(n, struct flow, in_live));
        }
    }
}

/* Each flow that may have something, in turn. */
enum selection selection_in_turn(struct sched *s, struct sched_entry **ret)
{
    s->flows.keeps_passed = gate_is_on(s);
    enum selection found = look_in_turn(s, ret);
    s->flows.keeps_passed = false;
    if (s->flows.has_kept) {
        retry_live(s);
    }
    return found;
}

/* --- turns by destination ------------------------------------------------------------------------- */

/* New destinations and those that were served go behind all others. So of those that are open all the
 * time, each is served once before any of them is served again. One that is not open keeps its number, and
 * goes as soon as it may; oqmgr has it wait for its next turn.
 *
 * All jobs are runnable, and the first of each schedule is the current one: when another scheduler takes
 * over, it finds them as if they had just come. A message whose recipients do not all fit in memory is read
 * on when those that did are done, as oqmgr does it. */

void selection_put_last(struct sched *s, struct sched_destination *d)
{
    d->round = ++s->rounds;
}

static void file_destination(struct sched *s, struct sched_destination *d)
{
    if (d->party == &d->own) {
        parking_update(s, &d->own);
    } else {
        site_file_member(s, d);
    }
}

/* Jobs whose owner may not send are no reason to be chosen: when all that waits is theirs, the destination
 * is not open. A step for each of their entries that came before. */
static struct sched_entry *first_entry(const struct sched_destination *d)
{
    list_foreach(e, &d->todo, struct sched_entry, place.link)
    {
        if (entry_job(e)->place != JOB_HELD) {
            return e;
        }
    }
    return NULL;
}

static void start_at_first(struct flow *f)
{
    f->current =
        list_is_empty(&f->schedule) ? NULL : list_first(&f->schedule, struct job, in_schedule);
}

enum selection selection_by_turns(struct sched *s, struct sched_entry **ret)
{
    const struct sched_destination *first;
    s->resume_job = NULL;
    while ((first = parking_first_destination(s)) != NULL) {
        struct sched_entry *e = first_entry(first);
        assert(e != NULL && destination_is_open(s, first));
        struct sched_destination *d = entry_destination(e);
        struct job *j = entry_job(e);
        struct flow *f = j->flow;
        if (j->owner != 0 && !purse_allows(s, j)) {
            if (purse_hold(s, j)) {
                return SELECTION_ASKS;
            }
            continue;
        }
        selection_put_last(s, d);
        file_destination(s, d);
        s->needs_connection = false;
        *ret = take_entry(s, j, e->peer);
        start_at_first(f);
        return SELECTION_ENTRY;
    }
    return SELECTION_NONE;
}

static void run_parked(struct sched *s, struct flow *f)
{
    list_foreach(j, &f->schedule, struct job, in_schedule)
    {
        if (j->place == JOB_PARKED) {
            parking_run(s, j);
        }
    }
}

void selection_change(struct sched *s)
{
    list_foreach(f, &s->flows.all, struct flow, all)
    {
        run_parked(s, f);
    }
    list_foreach(d, &s->destinations, struct sched_destination, all)
    {
        d->round = s->config.scheduler == SCHED_BY_TURNS ? ++s->rounds : 0;
        file_destination(s, d);
    }
}
