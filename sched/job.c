/* Jobs: their two lists, blocking, and the end of a message. Called by batch, selection and entry;
 * preemption is in sched/preempt.c, recipient slots in sched/recipient_pool.c. */
#include "sched/job.h"

#include "sched/preempt.h"
#include "sched/recipient_pool.h"
#include "sched/transport.h"

#include <assert.h>
#include <string.h>

/* Groups of eight neighbouring ids share a cache line of the table, so that mail in order of
 * arrival does not miss the cache on each insertion; the groups are spread by a bijection. */
uint64_t job_hash(const struct sched *s, uint64_t id)
{
    const uint64_t mask = UINT64_MAX >> 3;
    uint64_t group = (id >> 3) ^ (s->config.hash_seed & mask);
    group ^= group >> 31;
    group = (group * UINT64_C(0x9fb21c651e98df25)) & mask;
    group ^= group >> 28;
    group = (group * UINT64_C(0xd6e8feb86659fd93)) & mask;
    group ^= group >> 32;
    return group << 3 | (id & 7);
}

static bool id_matches(const struct table_node *node, const void *key)
{
    return container_of(node, const struct job, node)->id == *(const uint64_t *)key;
}

struct job *job_find(const struct sched *s, uint64_t id)
{
    struct table_node *node = table_find(&s->by_id, job_hash(s, id), id_matches, &id);
    return node == NULL ? NULL : container_of(node, struct job, node);
}

struct job *job_new(struct sched *s, const struct sched_message *m)
{
    struct job *j = s->host.alloc(s->host.ctx, sizeof(*j));
    if (j == NULL) {
        return NULL;
    }
    memset(j, 0, offsetof(struct job, first_peer));
    j->node.hash = job_hash(s, m->id);
    j->id = m->id;
    j->handle = m->handle;
    j->queued_time = s->now;
    list_init(&j->in_schedule);
    list_init(&j->in_time);
    list_init(&j->peers);
    list_init(&j->children);
    list_init(&j->in_children);
    action_init(&j->action);
    j->level = JOB_UNLINKED;
    j->has_more = m->more;
    return j;
}

void job_free(struct sched *s, struct job *j)
{
    assert(!job_is_linked(j) && !j->has_first_entry && !j->has_first_peer);
    table_remove(&s->by_id, &j->node);
    shared_sub(&s->shared.jobs, 1);
    s->host.retire(s->host.ctx, j);
}

struct job *job_next(const struct sched *s, const struct job *j)
{
    const struct list *next = j->in_schedule.next;
    return next == &s->schedule ? NULL : container_of(next, struct job, in_schedule);
}

static void link_by_schedule(struct sched *s, struct job *j)
{
    struct list *at = s->schedule.prev;
    bool passes_current = s->current == NULL;
    while (at != &s->schedule) {
        struct job *before = container_of(at, struct job, in_schedule);
        if (before->parent == NULL && before->queued_time <= j->queued_time) {
            break;
        }
        passes_current = passes_current || before == s->current;
        at = at->prev;
    }
    list_insert_after(at, &j->in_schedule);
    if (passes_current) {
        s->current = j;
    }
}

static void link_by_time(struct sched *s, struct job *j)
{
    struct list *at = s->by_time.prev;
    bool passes_unread = s->next_unread == NULL;
    while (at != &s->by_time) {
        struct job *before = container_of(at, struct job, in_time);
        if (before->queued_time <= j->queued_time) {
            break;
        }
        passes_unread = passes_unread || before == s->next_unread;
        at = at->prev;
    }
    list_insert_after(at, &j->in_time);
    if (passes_unread) {
        struct job *displaced = s->next_unread;
        s->next_unread = j;
        if (displaced != NULL) {
            recipient_pool_move(s, displaced);
        }
    }
}

void job_obtain(struct sched *s, struct job *j)
{
    if (!job_is_linked(j)) {
        link_by_schedule(s, j);
        link_by_time(s, j);
        j->level = 0;
        recipient_pool_grant(s, j);
    }
    preempt_invalidate(s);
    job_unblock(s, j);
}

void job_unblock(struct sched *s, struct job *j)
{
    j->is_stalled = false;
    if (j->tag == s->tag) {
        j->tag = 0;
        s->current = list_first(&s->schedule, struct job, in_schedule);
    }
}

static void unlink_job(struct sched *s, struct job *j)
{
    assert(j->level == 0);
    list_foreach_safe(child, &j->children, struct job, in_children)
    {
        list_remove(&child->in_children);
        child->parent = NULL;
    }
    if (s->current == j) {
        s->current = job_next(s, j);
    }
    if (s->candidate_owner == j || s->candidate == j) {
        preempt_invalidate(s);
    }
    list_remove(&j->in_schedule);
    list_remove(&j->in_time);
    j->level = JOB_UNLINKED;
}

void job_retire(struct sched *s, struct job *j)
{
    if (j->level > 0) {
        preempt_pop(s, j);
    }
    recipient_pool_move(s, j);
    unlink_job(s, j);
}

void job_queue_read(struct sched *s, struct job *j)
{
    if (!j->is_reading) {
        j->is_reading = true;
        action_queue(s, &j->action, SCHED_READ);
    }
}

void job_settle(struct sched *s, struct job *j)
{
    assert(j->rcpt_count == 0 && list_is_empty(&j->peers));
    if (j->has_more) {
        job_queue_read(s, j);
        return;
    }
    if (j->level > 0) {
        preempt_pop(s, j);
    }
    recipient_pool_move(s, j);
    if (job_is_linked(j)) {
        unlink_job(s, j);
    }
    if (s->resume_job == j) {
        s->resume_job = NULL;
    }
    action_queue(s, &j->action, SCHED_FINISHED);
}

void job_block(struct sched *s, struct job *j)
{
    j->tag = s->tag;
    list_foreach(p, &j->peers, struct peer, link)
    {
        if (peer_is_waiting(p)) {
            p->destination->tag = s->tag;
        }
    }
}

void job_unblock_all(struct sched *s)
{
    s->tag += 2;
    s->current =
        list_is_empty(&s->schedule) ? NULL : list_first(&s->schedule, struct job, in_schedule);
    preempt_invalidate(s);
}
