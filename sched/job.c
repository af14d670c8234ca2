/* Jobs: their two lists, blocking, and the end of a message. Called by batch, selection and entry;
 * preemption is in sched/preempt.c, recipient slots in sched/recipient_pool.c. */
#include "sched/job.h"

#include "sched/candidate.h"
#include "sched/parking.h"
#include "sched/preempt.h"
#include "sched/recipient_pool.h"
#include "sched/shared.h"
#include "sched/transport.h"
#include "sched/turn.h"

#include <assert.h>
#include <string.h>

/* Groups of eight neighbouring ids share a cache line of the table, so that mail in order of
 * arrival does not miss the cache on each insertion; the groups are spread by a bijection. */
uint64_t job_hash(const struct sched *s, uint64_t id)
{
    const uint64_t mask = UINT64_MAX >> 3;
    uint64_t group = (id >> 3) ^ (s->hash_seed & mask);
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

/* It is the first one's as yet. false: no memory. */
static bool choose_flow(struct sched *s, struct job *j, const struct sched_message *m)
{
    shared_sub(&s->flow.jobs, 1);
    j->flow = flow_obtain(s, &m->flow);
    if (j->flow != NULL && j->flow->jobs == 1 && m->weight > 0) {
        flow_weigh(s, j->flow, m->weight);
    } else if (j->flow != NULL && m->weight > 0 && m->weight != j->flow->weight) {
        sched_tenant_weight(s, m->flow.tenant, m->weight, s->now);
    }
    return j->flow != NULL;
}

struct job *job_new(struct sched *s, const struct sched_message *m)
{
    struct job *j = s->host.alloc(s->host.ctx, sizeof(*j));
    if (j == NULL) {
        return NULL;
    }
    memset(j, 0, offsetof(struct job, first_peer));
    j->first_peer.job = NULL;
    j->node.hash = job_hash(s, m->id);
    j->id = m->id;
    j->handle = m->handle;
    j->queued_time = s->now;
    list_init(&j->in_schedule);
    tree_node_init(&j->in_time);
    tree_node_init(&j->in_unread);
    tree_node_init(&j->in_place);
    tree_node_init(&j->in_class);
    list_init(&j->in_irregular);
    list_init(&j->peers);
    list_init(&j->children);
    list_init(&j->in_children);
    action_init(&j->action);
    j->level = JOB_UNLINKED;
    j->has_more = m->more;
    j->flow = &s->flow;
    shared_add(&s->flow.jobs, 1);
    if ((memcmp(&m->flow, &s->flow.key, sizeof(m->flow)) != 0 || m->weight > 0) &&
        !choose_flow(s, j, m)) {
        s->host.release(s->host.ctx, j);
        return NULL;
    }
    purse_own(s, j, m->owner);
    return j;
}

void job_leave_flow(struct sched *s, const struct job *j)
{
    if (flows_take_turns(s) || j->flow != &s->flow) {
        flow_put(s, j->flow);
    } else {
        shared_sub(&s->flow.jobs, 1);
    }
}

void job_free(struct sched *s, struct job *j)
{
    assert(!job_is_linked(j) && j->first_peer.job == NULL);
    purse_own(s, j, NULL);
    table_remove(&s->by_id, &j->node);
    shared_sub(&s->shared.jobs, 1);
    job_leave_flow(s, j);
    s->host.retire(s->host.ctx, j);
}

struct job *job_next(const struct job *j)
{
    const struct list *next = j->in_schedule.next;
    return next == &j->flow->schedule ? NULL : container_of(next, struct job, in_schedule);
}

static uint64_t time_key(const struct tree_node *n)
{
    return (uint64_t)container_of(n, const struct job, in_time)->queued_time;
}

static uint64_t unread_key(const struct tree_node *n)
{
    return (uint64_t)container_of(n, const struct job, in_unread)->queued_time;
}

void job_init_lists(struct flow *f)
{
    list_init(&f->schedule);
    tree_init(&f->by_time, time_key);
}

void job_init_unread(struct sched *s)
{
    tree_init(&s->unread, unread_key);
}

/* The last job at level 0 that was queued before that time; these stand in the order of their
 * ages. */
static struct list *last_before(struct flow *f, uint64_t time)
{
    const struct tree_node *n = f->by_time.last;
    if (n != NULL && time_key(n) >= time) {
        n = tree_find_from(&f->by_time, time);
        n = tree_previous(n);
    }
    for (; n != NULL; n = tree_previous(n)) {
        struct job *before = container_of(n, struct job, in_time);
        if (before->level == 0) {
            return &before->in_schedule;
        }
    }
    return &f->schedule;
}

/* Behind the last job without a parent that was queued before that time: one at level 0, or an
 * orphan, which is still irregular. j is not linked by time. */
static void link_by_schedule(struct job *j, uint64_t time)
{
    struct flow *f = j->flow;
    struct list *at = last_before(f, time);
    uint64_t position =
        at == &f->schedule ? POSITION_NONE : container_of(at, struct job, in_schedule)->position;
    list_foreach(o, &f->irregular, struct job, in_irregular)
    {
        if (o->parent == NULL && (uint64_t)o->queued_time < time && o->position > position) {
            at = &o->in_schedule;
            position = o->position;
        }
    }
    position_insert_after(j, at);
    if (f->current == NULL || f->current->position > j->position) {
        f->current = j;
    }
}

static void publish_oldest(struct flow *f)
{
    const struct tree_node *n = f->by_time.first;
    shared_set(&f->oldest, n == NULL ? 0 : container_of(n, const struct job, in_time)->queued_time);
}

static void link_by_time(struct sched *s, struct job *j)
{
    struct job *displaced = s->next_unread;
    bool passes_unread = displaced == NULL || displaced->queued_time > j->queued_time;
    tree_insert(&j->flow->by_time, &j->in_time);
    publish_oldest(j->flow);
    if (j->has_more || passes_unread) {
        tree_insert(&s->unread, &j->in_unread);
    }
    if (passes_unread) {
        s->next_unread = j;
        if (displaced != NULL) {
            recipient_pool_move(s, displaced);
        }
    }
}

void job_obtain(struct sched *s, struct job *j)
{
    if (!job_is_linked(j)) {
        link_by_schedule(j, (uint64_t)j->queued_time + 1); /* none before it is younger */
        link_by_time(s, j);
        j->level = 0;
        parking_add(s, j);
        recipient_pool_grant(s, j);
    }
    preempt_invalidate(j->flow);
    job_unblock(s, j);
}

/* Linked at level 0: to the front of those of its age. */
static void move_before_equals(struct sched *s, struct job *j)
{
    candidate_withdraw(s, j);
    parking_remove(s, j);
    struct flow *f = j->flow;
    if (f->current == j) {
        f->current = job_next(j);
    }
    list_remove(&j->in_schedule);
    tree_remove(&f->by_time, &j->in_time);
    link_by_schedule(j, (uint64_t)j->queued_time);
    tree_insert_before(&f->by_time, &j->in_time);
    publish_oldest(f);
    parking_add(s, j);
}

void job_obtain_again(struct sched *s, struct job *j)
{
    bool was_linked = job_is_linked(j);
    job_obtain(s, j);
    if (!was_linked) {
        move_before_equals(s, j);
    }
}

void job_unblock(struct sched *s, struct job *j)
{
    j->is_stalled = false;
    j->is_gated = false;
    bool was_blocked = job_is_blocked(j);
    parking_run(s, j);
    if (was_blocked) {
        j->flow->current = list_first(&j->flow->schedule, struct job, in_schedule);
        s->resume_job = NULL;
    }
    if (flows_take_turns(s)) {
        flow_wake(s, j->flow);
    }
}

static void unlink_job(struct sched *s, struct job *j)
{
    struct flow *f = j->flow;
    assert(j->level == 0);
    list_foreach_safe(child, &j->children, struct job, in_children)
    {
        list_remove(&child->in_children);
        child->parent = NULL;
    }
    candidate_withdraw(s, j);
    if (f->adrift == j) {
        f->adrift = NULL;
    }
    parking_remove(s, j);
    if (f->current == j) {
        f->current = job_next(j);
    }
    if (f->candidate_owner == j || f->candidate == j) {
        preempt_invalidate(f);
    }
    list_remove(&j->in_schedule);
    tree_remove(&f->by_time, &j->in_time);
    publish_oldest(f);
    if (tree_node_is_linked(&j->in_unread)) {
        tree_remove(&s->unread, &j->in_unread);
    }
    j->is_gated = false;
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

/* Entries in flight keep their peer, and so the job; the last peer to go settles the job. */
void job_withdraw(struct sched *s, struct job *j, struct slice destination, struct reason *reason)
{
    list_foreach_safe(p, &j->peers, struct peer, link)
    {
        if (destination.len > 0 && !destination_is_called(p->destination, destination)) {
            continue;
        }
        struct sched_entry *e;
        while ((e = entry_queue_first(&p->waiting)) != NULL) {
            entry_withdraw(s, e, reason);
        }
    }
}

void job_block(struct sched *s, struct job *j, enum sched_why why)
{
    shared_set(&j->why, why);
    list_foreach(p, &j->peers, struct peer, link)
    {
        if (peer_is_waiting(p)) {
            parking_mark(s, p);
        }
    }
    parking_block(s, j);
}

bool job_is_blocked(const struct job *j)
{
    return parking_is_blocked(j);
}

void job_unblock_all(struct sched *s, struct flow *f)
{
    parking_unblock_all(s, f);
    s->resume_job = NULL;
    f->current =
        list_is_empty(&f->schedule) ? NULL : list_first(&f->schedule, struct job, in_schedule);
    preempt_invalidate(f);
    if (flows_take_turns(s) && f->current != NULL) {
        flow_wake(s, f);
    }
}
