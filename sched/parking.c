/* Parked jobs, see sched/parking.h. Called by job and selection; destination says what opens. */
#include "sched/parking.h"

#include "sched/candidate.h"
#include "sched/place/host_queue.h"
#include "sched/place/shortage.h"
#include "sched/place/site.h"
#include "sched/preempt.h"
#include "sched/recipient_pool.h"
#include "sched/transport.h"
#include "sched/turn.h"

#include <assert.h>

static uint64_t job_key(const struct tree_node *n)
{
    return container_of(n, const struct job, in_place)->position;
}

static uint64_t peer_key(const struct tree_node *n)
{
    return container_of(n, const struct peer, in_parked)->job->position;
}

static inline uint64_t first_position(const struct sched_destination *d)
{
    return tree_is_empty(&d->parked) ? d->round : peer_key(d->parked.first);
}

uint64_t parking_first_position(const struct sched_destination *d)
{
    return first_position(d);
}

static uint64_t party_key(const struct tree_node *n)
{
    return first_position(party_first_parked(container_of(n, const struct party, in_ready)));
}

void parking_init(struct flow *f)
{
    tree_init(&f->runnable, job_key);
    tree_init(&f->aside, job_key);
}

void parking_init_ready(struct sched *s)
{
    tree_init(&s->flows.ready[OPEN_NOW], party_key);
    tree_init(&s->flows.ready[OPEN_SLOT], party_key);
}

void parking_add(struct sched *s, struct job *j)
{
    j->place = JOB_RUNNABLE;
    tree_insert(&j->flow->runnable, &j->in_place);
    if (j->owner != 0) {
        purse_count_runnable(s, j, 1);
    }
}

void parking_update(struct sched *s, struct party *p)
{
    if (flows_take_turns(s)) {
        turn_touch(s, p); /* and where no job is parked that one flow alone would have */
    }
    if (p->site != NULL) {
        lane_set_file(s, p);
        host_queue_update(s, p);
        return;
    }
    if (tree_node_is_linked(&p->in_ready)) {
        tree_remove(&s->flows.ready[p->ready_in], &p->in_ready);
    }
    if (party_has_parked(p) && (p->work == OPEN_NOW || p->work == OPEN_SLOT)) {
        p->ready_in = p->work;
        tree_insert(&s->flows.ready[p->ready_in], &p->in_ready);
    }
    host_queue_update(s, p);
}

static void update_destination(struct sched *s, struct sched_destination *d)
{
    if (d->party == &d->own) {
        parking_update(s, &d->own);
    } else {
        site_file_member(s, d);
    }
}

static void park_peer(struct sched *s, struct peer *p)
{
    struct sched_destination *d = p->destination;
    if (flows_take_turns(s)) {
        turn_park(s, p);
        return;
    }
    if (tree_is_empty(&d->parked)) {
        tree_init(&d->parked, peer_key);
    }
    tree_insert(&d->parked, &p->in_parked);
    if (d->parked.first == &p->in_parked) {
        update_destination(s, d);
    }
}

static void unpark_peer(struct sched *s, struct peer *p)
{
    struct sched_destination *d = p->destination;
    if (flows_take_turns(s)) {
        turn_unpark(s, p);
        return;
    }
    bool was_first = d->parked.first == &p->in_parked;
    tree_remove(&d->parked, &p->in_parked);
    if (was_first) {
        update_destination(s, d);
    }
}

void parking_forget_peer(struct sched *s, struct peer *p)
{
    if (tree_node_is_linked(&p->in_parked)) {
        unpark_peer(s, p);
    }
}

/* Looking at it would do nothing but mark it, until a destination of it opens. */
static bool is_quiet_job(const struct sched *s, const struct job *j)
{
    return !j->is_reading && !j->is_gated && j->waiting > 0 && !recipient_pool_can_read(s, j);
}

static void park(struct sched *s, struct job *j)
{
    j->place = JOB_PARKED;
    list_foreach(p, &j->peers, struct peer, link)
    {
        if (peer_is_waiting(p)) {
            park_peer(s, p);
        }
    }
}

/* What its place meant for its destinations stays true: they get the tag themselves. */
static void unpark(struct sched *s, struct job *j)
{
    bool is_blocked = parking_is_blocked(j);
    list_foreach(p, &j->peers, struct peer, link)
    {
        if (tree_node_is_linked(&p->in_parked)) {
            if (is_blocked) {
                parking_mark(s, p);
            }
            unpark_peer(s, p);
        }
    }
}

static void leave_parking(struct sched *s, struct job *j)
{
    switch (j->place) {
    case JOB_RUNNABLE:
        tree_remove(&j->flow->runnable, &j->in_place);
        if (j->owner != 0) {
            purse_count_runnable(s, j, -1);
        }
        break;
    case JOB_ASIDE:
        tree_remove(&j->flow->aside, &j->in_place);
        break;
    case JOB_PARKED:
        unpark(s, j);
        break;
    case JOB_HELD:
        purse_let_go(s, j);
        break;
    }
}

void parking_remove(struct sched *s, struct job *j)
{
    leave_parking(s, j);
    j->place = JOB_RUNNABLE;
}

void parking_block(struct sched *s, struct job *j)
{
    assert(j->flow->passed > j->position);
    candidate_withdraw(s, j);
    leave_parking(s, j);
    if (is_quiet_job(s, j)) {
        park(s, j);
    } else {
        j->place = JOB_ASIDE;
        tree_insert(&j->flow->aside, &j->in_place);
    }
    candidate_file(s, j);
}

void parking_hold(struct sched *s, struct job *j, struct tree *held)
{
    candidate_withdraw(s, j);
    leave_parking(s, j);
    j->place = JOB_HELD;
    tree_insert(held, &j->in_place);
    candidate_file(s, j);
    if (j->flow->candidate == j) {
        preempt_invalidate(j->flow);
    }
}

void parking_run(struct sched *s, struct job *j)
{
    if (j->place == JOB_RUNNABLE) {
        return;
    }
    candidate_withdraw(s, j);
    leave_parking(s, j);
    parking_add(s, j);
    candidate_file(s, j);
}

void parking_review(struct sched *s, struct job *j)
{
    if (!job_is_linked(j) || j->place != JOB_PARKED || is_quiet_job(s, j)) {
        return;
    }
    if (!parking_is_blocked(j)) {
        parking_run(s, j);
        return;
    }
    candidate_withdraw(s, j);
    leave_parking(s, j);
    j->place = JOB_ASIDE;
    tree_insert(&j->flow->aside, &j->in_place);
    candidate_file(s, j);
}

void parking_unblock_all(struct sched *s, struct flow *f)
{
    f->tag += 2;
    f->passed = POSITION_NONE;
    while (!tree_is_empty(&f->aside)) {
        parking_run(s, container_of(f->aside.first, struct job, in_place));
    }
}

bool parking_is_blocked(const struct job *j)
{
    return j->place == JOB_ASIDE || j->place == JOB_HELD ||
           (j->place == JOB_PARKED && j->position < j->flow->passed);
}

bool parking_blocks(const struct sched *s, const struct sched_destination *d)
{
    return d->tag == s->flow.tag ||
           (!tree_is_empty(&d->parked) && peer_key(d->parked.first) < s->flow.passed);
}

void parking_mark(struct sched *s, const struct peer *p)
{
    if (flows_take_turns(s)) {
        turn_mark(s, p);
    } else {
        destination_mark(s, p->destination);
    }
}

void parking_unblock_flows(struct sched *s)
{
    list_foreach(f, &s->flows.all, struct flow, all)
    {
        job_unblock_all(s, f);
    }
}

void parking_slot_opened(struct sched *s)
{
    if (flows_take_turns(s)) {
        return; /* a flow is let go on when it is picked */
    }
    bool did_pass = s->flow.passed_without_slot;
    s->flow.passed_without_slot = false;
    if (did_pass && s->with_work[OPEN_SLOT] + s->with_work[OPEN_HOST] > 0) {
        job_unblock_all(s, &s->flow);
    }
}

/* p: NULL for none */
static struct job *earlier_job(struct job *a, const struct party *p)
{
    if (p == NULL) {
        return a;
    }
    const struct sched_destination *d = party_first_parked(p);
    struct job *b = container_of(d->parked.first, struct peer, in_parked)->job;
    return a == NULL || b->position < a->position ? b : a;
}

/* Both may be NULL; b counts from a position on. */
static struct job *earlier_of(struct job *a, struct job *b, uint64_t position)
{
    if (b == NULL || b->position < position) {
        return a;
    }
    return a == NULL || b->position < a->position ? b : a;
}

static const struct party *first_ready(const struct sched *s, enum openness need)
{
    const struct tree_node *n = s->flows.ready[need].first;
    return n == NULL ? NULL : container_of(n, const struct party, in_ready);
}

static const struct party *first_at_sites(const struct sched *s)
{
    if (tree_is_empty(&s->ready_sites)) {
        return NULL;
    }
    const struct site_stand *stand =
        container_of(s->ready_sites.first, const struct site_stand, in_ready);
    return container_of(stand->parties.first, const struct party, in_ready);
}

/* NULL: there is none. */
static struct job *first_for_slot(struct flow *f)
{
    const struct share *share = shortage_first(f);
    return share == NULL ? NULL : turn_first_job(share);
}

struct job *parking_next(const struct sched *s, struct flow *f, uint64_t position)
{
    const struct tree_node *n = tree_find_from(&f->runnable, position);
    struct job *next = n == NULL ? NULL : container_of(n, struct job, in_place);
    if (flows_take_turns(s)) {
        next = earlier_of(next, turn_first(f, OPEN_NOW), position);
        if (connection_has_slot(s)) {
            next = earlier_of(next, turn_first(f, OPEN_SLOT), position);
            next = earlier_of(next, first_for_slot(f), position);
        }
        return next;
    }
    next = earlier_job(next, first_ready(s, OPEN_NOW));
    if (connection_has_slot(s)) {
        next = earlier_job(next, first_ready(s, OPEN_SLOT));
        next = earlier_job(next, first_at_sites(s));
        next = earlier_job(next, host_queue_first(s));
    }
    return next;
}

static const struct sched_destination *earlier_destination(const struct sched_destination *a,
                                                           const struct party *p)
{
    const struct sched_destination *b = p == NULL ? NULL : party_first_parked(p);
    return a == NULL || (b != NULL && b->round < a->round) ? b : a;
}

const struct sched_destination *parking_first_destination(const struct sched *s)
{
    const struct sched_destination *d = earlier_destination(NULL, first_ready(s, OPEN_NOW));
    if (connection_has_slot(s)) {
        d = earlier_destination(d, first_ready(s, OPEN_SLOT));
        d = earlier_destination(d, first_at_sites(s));
        d = earlier_destination(d, host_queue_first(s));
    }
    return d;
}
