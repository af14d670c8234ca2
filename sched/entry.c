/* Entries: the life of some recipients from waiting to reported or dropped, with every count that
 * follows (5.9). Called by batch (in), selection, and the report path (out). */
#include "sched/entry.h"

#include "sched/candidate.h"
#include "sched/parking.h"
#include "sched/recipient_pool.h"
#include "sched/terms.h"
#include "sched/transport.h"
#include "sched/turn.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

void entry_queue_push(struct entry_queue *q, struct sched_entry *e)
{
    if (q->last == NULL) {
        e->next = e;
    } else {
        e->next = q->last->next;
        q->last->next = e;
    }
    q->last = e;
}

void entry_queue_push_front(struct entry_queue *q, struct sched_entry *e)
{
    if (q->last == NULL) {
        entry_queue_push(q, e);
    } else {
        e->next = q->last->next;
        q->last->next = e;
    }
}

void entry_queue_push_behind(struct entry_queue *q, struct sched_entry *e,
                             struct sched_entry *before)
{
    e->next = before->next;
    before->next = e;
    if (q->last == before) {
        q->last = e;
    }
}

struct sched_entry *entry_queue_pop(struct entry_queue *q)
{
    struct sched_entry *e = entry_queue_first(q);
    if (e != NULL && e == q->last) {
        q->last = NULL;
    } else if (e != NULL) {
        q->last->next = e->next;
    }
    return e;
}

struct job *entry_job(const struct sched_entry *e)
{
    return e->peer->job;
}

struct sched_destination *entry_destination(const struct sched_entry *e)
{
    return e->peer->destination;
}

static void release_entry(struct sched *s, struct sched_entry *e)
{
    if (e == &e->peer->first_entry) {
        e->state = ENTRY_NONE;
    } else {
        s->host.release(s->host.ctx, e);
    }
}

struct sched_entry *entry_new(struct sched *s, struct peer *p, uint32_t capacity)
{
    struct sched_entry *e = &p->first_entry;
    if (e->state != ENTRY_NONE) {
        e = s->host.alloc(s->host.ctx, sizeof(*e));
        if (e == NULL) {
            return NULL;
        }
    }
    action_init(&e->place);
    e->peer = p;
    e->count = 0;
    e->capacity = ENTRY_INLINE_INDEXES;
    e->connection = ENTRY_NO_CONNECTION;
    e->state = ENTRY_NEW;
    e->is_withdrawn = false;
    e->is_charged = e->is_charged_at_lanes = false;
    e->is_paced = false;
    if (entry_reserve(s, e, capacity) != 0) {
        release_entry(s, e);
        return NULL;
    }
    p->held++;
    return e;
}

void entry_free(struct sched *s, struct sched_entry *e)
{
    struct peer *p = e->peer;
    if (e->place.note != 0) {
        source_tried_forget(s, e);
    }
    if (e->state == ENTRY_SETTLED) {
        p->destination->settled--;
        destination_settle(s, p->destination);
        reason_put(s, e->reason);
    }
    if (e->capacity > ENTRY_INLINE_INDEXES) {
        s->host.release(s->host.ctx, e->indexes);
    }
    release_entry(s, e);
    peer_release(s, p);
}

int entry_reserve(struct sched *s, struct sched_entry *e, uint32_t capacity)
{
    if (capacity <= e->capacity) {
        return 0;
    }
    uint32_t *indexes = s->host.alloc(s->host.ctx, capacity * sizeof(uint32_t));
    if (indexes == NULL) {
        return -ENOMEM;
    }
    memcpy(indexes, entry_indexes(e), e->count * sizeof(uint32_t));
    if (e->capacity > ENTRY_INLINE_INDEXES) {
        s->host.release(s->host.ctx, e->indexes);
    }
    e->indexes = indexes;
    e->capacity = capacity;
    return 0;
}

/* It is in the lists of its peer and its destination. */
static void begin_to_wait(struct sched *s, struct sched_entry *e)
{
    assert(e->state == ENTRY_NEW && e->place.kind == SCHED_NONE);
    struct peer *p = e->peer;
    struct sched_destination *d = p->destination;
    e->state = ENTRY_WAITING;
    p->entries++;
    shared_add(&d->waiting, 1);
    shared_add(&p->job->waiting, 1);
    shared_add(&p->job->flow->waiting, 1);
    shared_add(&s->shared.entries_waiting, 1);
    if (p->job->owner != 0) {
        purse_count_waiting(s, p, 1);
    }
    if (flows_take_turns(s)) {
        turn_count_waiting(s, p, 1);
    }
    destination_recount(s, d);
    p->job->read_entries++;
}

void entry_wait(struct sched *s, struct sched_entry *e)
{
    entry_queue_push(&e->peer->waiting, e);
    list_push_back(&e->peer->destination->todo, &e->place.link);
    begin_to_wait(s, e);
}

void entry_wait_behind(struct sched *s, struct sched_entry *e, struct sched_entry *before)
{
    assert(before->state == ENTRY_WAITING && before->peer == e->peer);
    entry_queue_push_behind(&e->peer->waiting, e, before);
    list_insert_after(&before->place.link, &e->place.link);
    begin_to_wait(s, e);
}

/* The first of its peer: entries leave in the order in which they came, whether they are selected
 * or dropped with all that wait for the destination. */
static void leave_waiting(struct sched *s, struct sched_entry *e)
{
    assert(e->state == ENTRY_WAITING);
    struct peer *p = e->peer;
    struct sched_entry *first = entry_queue_pop(&p->waiting);
    assert(first == e);
    list_remove(&e->place.link);
    shared_sub(&p->destination->waiting, 1);
    shared_sub(&p->job->waiting, 1);
    shared_sub(&p->job->flow->waiting, 1);
    shared_sub(&s->shared.entries_waiting, 1);
    p->job->selected_entries++;
    if (p->job->owner != 0) {
        purse_count_waiting(s, p, -1);
    }
    if (flows_take_turns(s)) {
        turn_count_waiting(s, p, -1);
    }
    if (!peer_is_waiting(p)) {
        parking_forget_peer(s, p);
    }
    destination_recount(s, p->destination);
}

/* Without a site and a bound, what it has in flight matters to its connections alone, which recount
 * it. */
static void recount_in_flight(struct sched *s, struct sched_destination *d)
{
    if (d->party != &d->own || d->terms != NULL) {
        destination_recount(s, d);
    }
}

void entry_select(struct sched *s, struct sched_entry *e)
{
    if (flows_take_turns(s)) {
        turn_charge(s, e);
    }
    leave_waiting(s, e);
    e->state = ENTRY_BUSY;
    e->tried = 0;
    shared_add(&entry_destination(e)->in_flight, 1);
    shared_add(&entry_job(e)->busy, 1);
    shared_add(&s->shared.entries_in_flight, 1);
    shared_add(&s->shared.selections, 1);
    recount_in_flight(s, entry_destination(e));
}

static void uncount_recipients(struct sched *s, struct job *j, uint32_t count)
{
    shared_sub(&j->rcpt_count, (int)count);
    shared_sub(&j->flow->recipients, count);
    assert(j->rcpt_count >= 0);
    shared_sub(&s->shared.recipients_in_core, count);
    parking_review(s, j);
    if (!j->has_more) {
        recipient_pool_move(s, j);
    }
}

static void drop_peer_if_empty(struct sched *s, struct peer *p)
{
    assert(p->entries > 0);
    p->entries--;
    if (p->entries == 0) {
        peer_remove(s, p);
    }
}

static void settle_job_if_empty(struct sched *s, struct job *j)
{
    if (j->waiting + j->busy == 0) {
        job_settle(s, j);
    }
}

void entry_complete(struct sched *s, struct sched_entry *e)
{
    assert(e->state == ENTRY_BUSY && e->connection == ENTRY_NO_CONNECTION);
    struct peer *p = e->peer;
    struct job *j = p->job;
    struct sched_destination *d = p->destination;
    list_remove(&e->place.link);
    shared_sub(&d->in_flight, 1);
    shared_sub(&j->busy, 1);
    shared_sub(&s->shared.entries_in_flight, 1);
    recount_in_flight(s, d);
    uncount_recipients(s, j, e->count);
    if (terms_rate_delay(s, d) > 0) {
        destination_suspend(s, d);
    }
    destination_reconsider(s, d);
    drop_peer_if_empty(s, p);
    entry_free(s, e);
    destination_settle(s, d);
    settle_job_if_empty(s, j);
}

/* An entry that is larger than another config allows could not be sent again. */
static bool is_too_large(const struct sched *s, const struct sched_entry *e)
{
    uint32_t limit = terms_recipient_limit(entry_destination(e),
                                           (uint32_t)s->config.destination_recipient_limit);
    return limit > 0 && e->count > limit;
}

/* It is as if it had not been selected: the slot that its job earned is given back. */
static void link_again(struct sched *s, struct sched_entry *e)
{
    struct peer *p = e->peer;
    struct job *j = p->job;
    struct sched_destination *d = p->destination;
    job_obtain_again(s, j);
    e->state = ENTRY_WAITING;
    entry_queue_push_front(&p->waiting, e);
    list_push_front(&d->todo, &e->place.link);
    shared_add(&d->waiting, 1);
    shared_add(&j->waiting, 1);
    shared_add(&j->flow->waiting, 1);
    shared_add(&s->shared.entries_waiting, 1);
    if (flows_take_turns(s)) {
        turn_count_waiting(s, p, 1);
        turn_give_back(s, e);
    }
    j->selected_entries--;
    j->slots_available--;
    j->slots_used--;
    candidate_file(s, j);
}

void entry_return(struct sched *s, struct sched_entry *e)
{
    assert(e->state == ENTRY_BUSY && e->connection == ENTRY_NO_CONNECTION);
    struct sched_destination *d = e->peer->destination;
    list_remove(&e->place.link);
    source_tried_forget(s, e);
    shared_sub(&d->in_flight, 1);
    shared_sub(&e->peer->job->busy, 1);
    shared_sub(&s->shared.entries_in_flight, 1);
    link_again(s, e);
    destination_recount(s, d);
    if (terms_rate_delay(s, d) > 0) {
        destination_suspend(s, d);
    }
    if (destination_refuses(s, d)) {
        entry_drop(s, e, SCHED_DEFER, destination_reason(d));
        return;
    }
    if (is_too_large(s, e)) {
        const struct sched_reason text = {"4.7.0", "not taken, and to be divided anew"};
        struct reason *reason = reason_new(s, &text, false);
        entry_shed(s, e, s->now, reason);
        reason_put(s, reason);
        return;
    }
    destination_want_hosts(s, d);
    destination_reconsider(s, d);
}

static void settle_entry(struct sched *s, struct sched_entry *e, enum sched_action_kind kind,
                         struct reason *reason)
{
    e->state = ENTRY_SETTLED;
    entry_destination(e)->settled++;
    e->reason = reason_get(reason);
    action_queue(s, &e->place, kind);
}

void entry_drop(struct sched *s, struct sched_entry *e, enum sched_action_kind kind,
                struct reason *reason)
{
    struct peer *p = e->peer;
    struct job *j = p->job;
    struct sched_destination *d = p->destination;
    leave_waiting(s, e);
    if (job_is_linked(j)) {
        candidate_file(s, j);
    }
    settle_entry(s, e, kind, reason);
    uncount_recipients(s, j, e->count);
    destination_reconsider(s, d);
    drop_peer_if_empty(s, p);
    destination_settle(s, d);
    settle_job_if_empty(s, j);
}

void entry_withdraw(struct sched *s, struct sched_entry *e, struct reason *reason)
{
    e->is_withdrawn = true;
    entry_drop(s, e, SCHED_DEFER, reason);
}

void entry_shed(struct sched *s, struct sched_entry *e, usec_t turn, struct reason *reason)
{
    e->is_paced = true;
    e->connection = (uint32_t)((turn + USEC_PER_SEC - 1) / USEC_PER_SEC);
    shared_add(&s->shared.put_back, 1);
    entry_drop(s, e, SCHED_DEFER, reason);
}

void entry_refuse(struct sched *s, struct sched_entry *e)
{
    assert(e->state == ENTRY_NEW);
    settle_entry(s, e, SCHED_DEFER, destination_reason(entry_destination(e)));
}
