/* Entries: the life of some recipients from waiting to reported or dropped, with every count that
 * follows (5.9). Called by batch (in), selection, and the report path (out). */
#include "sched/entry.h"

#include "sched/candidate.h"
#include "sched/parking.h"
#include "sched/recipient_pool.h"
#include "sched/transport.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

struct sched_entry *entry_new(struct sched *s, struct job *job, uint32_t capacity)
{
    struct sched_entry *e = &job->first_entry;
    bool is_embedded = !job->has_first_entry;
    if (!is_embedded) {
        e = s->host.alloc(s->host.ctx, sizeof(*e));
        if (e == NULL) {
            return NULL;
        }
    }
    list_init(&e->in_peer);
    action_init(&e->place);
    e->job = job;
    e->indexes = e->inline_indexes;
    e->count = 0;
    e->capacity = ENTRY_INLINE_INDEXES;
    e->connection = ENTRY_NO_CONNECTION;
    e->state = ENTRY_NEW;
    e->destination = NULL;
    e->peer = NULL;
    e->tried = 0;
    if (entry_reserve(s, e, capacity) != 0) {
        if (!is_embedded) {
            s->host.release(s->host.ctx, e);
        }
        return NULL;
    }
    job->has_first_entry = true;
    return e;
}

void entry_free(struct sched *s, struct sched_entry *e)
{
    if (e->state == ENTRY_SETTLED) {
        e->destination->settled--;
        destination_settle(s, e->destination);
        reason_put(s, e->reason);
    }
    if (e->indexes != e->inline_indexes) {
        s->host.release(s->host.ctx, e->indexes);
        e->indexes = e->inline_indexes;
    }
    if (e == &e->job->first_entry) {
        e->job->has_first_entry = false;
        return;
    }
    s->host.release(s->host.ctx, e);
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
    memcpy(indexes, e->indexes, e->count * sizeof(uint32_t));
    if (e->indexes != e->inline_indexes) {
        s->host.release(s->host.ctx, e->indexes);
    }
    e->indexes = indexes;
    e->capacity = capacity;
    return 0;
}

void entry_wait(struct sched *s, struct sched_entry *e, struct peer *p)
{
    assert(e->state == ENTRY_NEW && e->place.kind == SCHED_NONE);
    struct sched_destination *d = p->destination;
    e->state = ENTRY_WAITING;
    e->destination = d;
    e->peer = p;
    p->entries++;
    list_push_back(&p->waiting, &e->in_peer);
    list_push_back(&d->todo, &e->place.link);
    shared_add(&d->waiting, 1);
    shared_add(&e->job->waiting, 1);
    shared_add(&s->shared.entries_waiting, 1);
    destination_recount(s, d);
    e->job->read_entries++;
}

static void leave_waiting(struct sched *s, struct sched_entry *e)
{
    assert(e->state == ENTRY_WAITING);
    list_remove(&e->in_peer);
    list_remove(&e->place.link);
    shared_sub(&e->destination->waiting, 1);
    shared_sub(&e->job->waiting, 1);
    shared_sub(&s->shared.entries_waiting, 1);
    e->job->selected_entries++;
    if (!peer_is_waiting(e->peer)) {
        parking_forget_peer(s, e->peer);
    }
    destination_recount(s, e->destination);
}

void entry_select(struct sched *s, struct sched_entry *e)
{
    leave_waiting(s, e);
    e->state = ENTRY_BUSY;
    e->tried = 0;
    shared_add(&e->destination->in_flight, 1);
    shared_add(&e->job->busy, 1);
    shared_add(&s->shared.entries_in_flight, 1);
    shared_add(&s->shared.selections, 1);
}

static void uncount_recipients(struct sched *s, struct job *j, uint32_t count)
{
    shared_sub(&j->rcpt_count, (int)count);
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
        peer_free(s, p);
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
    struct job *j = e->job;
    struct peer *p = e->peer;
    struct sched_destination *d = e->destination;
    list_remove(&e->in_peer);
    shared_sub(&d->in_flight, 1);
    shared_sub(&j->busy, 1);
    shared_sub(&s->shared.entries_in_flight, 1);
    uncount_recipients(s, j, e->count);
    if (s->config.destination_rate_delay > 0) {
        destination_suspend(s, d);
    }
    destination_reconsider(s, d);
    drop_peer_if_empty(s, p);
    entry_free(s, e);
    destination_settle(s, d);
    settle_job_if_empty(s, j);
}

static void settle(struct sched *s, struct sched_entry *e, enum sched_action_kind kind,
                   struct reason *reason)
{
    e->state = ENTRY_SETTLED;
    e->peer = NULL;
    e->destination->settled++;
    e->reason = reason_get(reason);
    action_queue(s, &e->place, kind);
}

void entry_drop(struct sched *s, struct sched_entry *e, enum sched_action_kind kind,
                struct reason *reason)
{
    struct job *j = e->job;
    struct peer *p = e->peer;
    struct sched_destination *d = e->destination;
    leave_waiting(s, e);
    if (job_is_linked(j)) {
        candidate_file(s, j);
    }
    settle(s, e, kind, reason);
    uncount_recipients(s, j, e->count);
    destination_reconsider(s, d);
    drop_peer_if_empty(s, p);
    destination_settle(s, d);
    settle_job_if_empty(s, j);
}

void entry_refuse(struct sched *s, struct sched_entry *e, struct sched_destination *d)
{
    assert(e->state == ENTRY_NEW);
    e->destination = d;
    settle(s, e, SCHED_DEFER, d->reason);
}
