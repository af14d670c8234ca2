/* Every invariant of the core, walked from the root (scheduler-semantics section 11 and the counts
 * of this implementation). Called by tests, the simulator and debug builds; changes nothing. */
#include "base/error.h"
#include "sched/candidate.h"
#include "sched/recipient_pool.h"
#include "sched/transport.h"

#include <string.h>

struct tally {
    uint64_t destinations, dead, waiting, busy, connections, idle;
    uint64_t jobs, recipients;
    int64_t slots;
    int with_work;
};

static int fault(struct sched_fault *ret, const char *text)
{
    size_t len = strnlen(text, sizeof(ret->text) - 1);
    memcpy(ret->text, text, len);
    ret->text[len] = '\0';
    return ERR_CORRUPT;
}

#define HOLD_TRUE(condition)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            return fault(ret, #condition);                                                         \
        }                                                                                          \
    } while (false)

static int check_window(const struct sched *s, const struct sched_destination *d,
                        struct sched_fault *ret)
{
    HOLD_TRUE(d->window >= WINDOW_SUSPENDED);
    HOLD_TRUE(s->rule.limit == 0 || d->window <= s->rule.limit);
    HOLD_TRUE((d->window > 0) == (d->timer.key == USEC_NEVER));
    HOLD_TRUE((d->window == WINDOW_DEAD) == (d->reason != NULL));
    HOLD_TRUE(d->window != WINDOW_DEAD || list_is_empty(&d->todo));
    HOLD_TRUE(d->timer.position != 0);
    HOLD_TRUE(d->feedback.success >= -0.5 && d->feedback.fail_cohorts >= 0);
    HOLD_TRUE(!s->config.must_resolve || d->lacks_hosts == (d->hosts == NULL));
    HOLD_TRUE(d->resolve.kind == SCHED_NONE || d->is_resolving);
    HOLD_TRUE(!d->lacks_hosts || d->waiting == 0 || d->is_resolving || s->hold);
    HOLD_TRUE(d->has_work == (d->waiting > 0 && destination_is_open(d)));
    HOLD_TRUE(!d->is_pinned && d->scratch == NULL);
    return 0;
}

static int check_destination(const struct sched *s, const struct sched_destination *d,
                             struct tally *t, struct sched_fault *ret)
{
    int waiting = 0, idle = 0;
    list_foreach(e, &d->todo, const struct sched_entry, place.link)
    {
        HOLD_TRUE(e->state == ENTRY_WAITING && e->place.kind == SCHED_NONE);
        HOLD_TRUE(entry_destination(e) == d);
        waiting++;
    }
    list_foreach(c, &d->idle, const struct connection, in_destination)
    {
        HOLD_TRUE(c->state == CONNECTION_IDLE && c->destination == d);
        idle++;
    }
    HOLD_TRUE(d->waiting == waiting && d->busy >= 0);
    HOLD_TRUE(d->idle_connections == idle);
    HOLD_TRUE(d->connections == d->idle_connections + d->busy);
    /* It exists for some reason. */
    HOLD_TRUE(d->waiting + d->busy + d->connections > 0 || d->settled > 0 || d->window <= 0 ||
              d->is_resolving);
    HOLD_TRUE(destination_find(s, sched_destination_name(d)) == d);
    t->destinations++;
    t->with_work += d->has_work;
    t->dead += d->window == WINDOW_DEAD;
    t->waiting += (uint64_t)d->waiting;
    t->busy += (uint64_t)d->busy;
    t->connections += (uint64_t)d->connections;
    t->idle += (uint64_t)idle;
    return check_window(s, d, ret);
}

static int check_peers(const struct job *j, struct sched_fault *ret)
{
    uint32_t waiting = 0, entries = 0, recipients = 0;
    list_foreach(p, &j->peers, const struct peer, link)
    {
        HOLD_TRUE(p->job == j && p->entries > 0 && p->held > p->entries);
        entries += p->entries;
        for (const struct sched_entry *e = entry_queue_first(&p->waiting); e != NULL;
             e = entry_queue_next(&p->waiting, e)) {
            HOLD_TRUE(e->state == ENTRY_WAITING && e->peer == p);
            HOLD_TRUE(e->count > 0 && e->count <= e->capacity);
            waiting++;
            recipients += e->count;
        }
    }
    HOLD_TRUE(j->waiting == waiting);
    HOLD_TRUE(j->waiting + j->busy == entries);
    HOLD_TRUE(j->rcpt_count >= (int)recipients);
    return 0;
}

static int check_job(const struct sched *s, const struct job *j, struct tally *t,
                     struct sched_fault *ret)
{
    HOLD_TRUE(j->selected_entries >= 0 && j->selected_entries <= j->read_entries);
    HOLD_TRUE(j->read_entries - j->selected_entries == (int)j->waiting);
    HOLD_TRUE(j->rcpt_count >= 0 && j->rcpt_limit >= 0);
    HOLD_TRUE(j->has_more || j->rcpt_unread == 0);
    HOLD_TRUE(job_is_linked(j) || (j->parent == NULL && list_is_empty(&j->children)));
    HOLD_TRUE(job_is_linked(j) || j->waiting == 0);
    HOLD_TRUE(job_is_linked(j) == list_is_linked(&j->in_schedule));
    HOLD_TRUE(job_is_linked(j) == tree_node_is_linked(&j->in_time));
    /* Alive, or on its way out, or about to grow. */
    bool is_finished = j->action.kind == SCHED_FINISHED;
    HOLD_TRUE(is_finished == (j->waiting + j->busy == 0 && !j->is_reading));
    HOLD_TRUE(j->action.kind != SCHED_READ || j->is_reading);
    HOLD_TRUE(!j->is_reading || j->has_more);
    HOLD_TRUE(!j->is_stalled || j->is_reading);
    HOLD_TRUE(job_find(s, j->id) == j);
    t->jobs++;
    t->recipients += (uint64_t)j->rcpt_count;
    t->slots += j->rcpt_limit;
    return check_peers(j, ret);
}

static int check_schedule(const struct sched *s, struct tally *t, struct sched_fault *ret)
{
    bool has_current = s->current == NULL;
    usec_t last = INT64_MIN;
    for (const struct job *j = list_first(&s->schedule, struct job, in_schedule);
         &j->in_schedule != &s->schedule; j = list_next(j, struct job, in_schedule)) {
        HOLD_TRUE(job_is_linked(j));
        has_current = has_current || s->current == j;
        if (j->level == 0) {
            HOLD_TRUE(j->parent == NULL && j->queued_time >= last);
            last = j->queued_time;
        }
        list_foreach(child, &j->children, const struct job, in_children)
        {
            HOLD_TRUE(child->parent == j && child->level > j->level);
        }
        if (j->parent != NULL) {
            bool precedes = false;
            for (const struct job *k = j; k != NULL && !precedes; k = job_next(s, k)) {
                precedes = k == j->parent;
            }
            HOLD_TRUE(precedes);
        }
        t->jobs++;
    }
    HOLD_TRUE(has_current);
    return 0;
}

static int check_by_time(const struct sched *s, struct tally *t, struct sched_fault *ret)
{
    usec_t last = INT64_MIN;
    for (const struct tree_node *n = s->by_time.first; n != NULL; n = tree_next(n)) {
        const struct job *j = container_of(n, const struct job, in_time);
        HOLD_TRUE(job_is_linked(j) && j->queued_time >= last);
        HOLD_TRUE(tree_node_is_linked(&j->in_unread) == (j->has_more || s->next_unread == j));
        last = j->queued_time;
        t->jobs++;
    }
    last = INT64_MIN;
    for (const struct tree_node *n = s->unread.first; n != NULL; n = tree_next(n)) {
        const struct job *j = container_of(n, const struct job, in_unread);
        HOLD_TRUE(job_is_linked(j) && j->queued_time >= last);
        last = j->queued_time;
    }
    HOLD_TRUE(s->next_unread == NULL || job_is_linked(s->next_unread));
    return 0;
}

static int check_parked(const struct sched *s, const struct job *j, struct sched_fault *ret)
{
    HOLD_TRUE(!j->is_reading && !j->is_gated && j->waiting > 0);
    HOLD_TRUE(!recipient_pool_can_read(s, j));
    list_foreach(p, &j->peers, const struct peer, link)
    {
        HOLD_TRUE(tree_node_is_linked(&p->in_parked) == peer_is_waiting(p));
        /* Selection finds it when it can go on. */
        HOLD_TRUE(!peer_is_waiting(p) || !destination_is_open(p->destination) ||
                  (!job_is_blocked(s, j) && tree_node_is_linked(&p->destination->in_ready)));
    }
    return 0;
}

/* Its place, and its class of candidates. */
static int check_place(const struct sched *s, const struct job *j, struct sched_fault *ret)
{
    bool is_irregular = j->level > 0 || !list_is_empty(&j->children);
    HOLD_TRUE(tree_node_is_linked(&j->in_place) == (j->place != JOB_PARKED));
    HOLD_TRUE(j->size_class == NULL || !list_is_linked(&j->in_irregular));
    HOLD_TRUE(s->config.delivery_slot_cost < 2 ||
              is_irregular == list_is_linked(&j->in_irregular) || j->size_class == NULL);
    HOLD_TRUE(j->size_class == NULL || j == s->adrift ||
              (j->size_class->need == job_need(j) && j->size_class->total == job_total(j) &&
               j->place != JOB_ASIDE && !is_irregular));
    if (j->place == JOB_PARKED) {
        return check_parked(s, j, ret);
    }
    list_foreach(p, &j->peers, const struct peer, link)
    {
        HOLD_TRUE(!tree_node_is_linked(&p->in_parked));
        HOLD_TRUE(!job_is_blocked(s, j) || j->is_gated || !peer_is_waiting(p) ||
                  !destination_is_open(p->destination));
    }
    return 0;
}

/* All that stand before the current job are blocked; positions grow. */
static int check_positions(const struct sched *s, struct sched_fault *ret)
{
    uint64_t last = POSITION_NONE;
    bool is_passed = true;
    list_foreach(j, &s->schedule, const struct job, in_schedule)
    {
        HOLD_TRUE(j->position > last);
        last = j->position;
        is_passed = is_passed && s->current != j;
        HOLD_TRUE(!is_passed || job_is_blocked(s, j));
        int err = check_place(s, j, ret);
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

static int check_connections(const struct sched *s, struct sched_fault *ret)
{
    uint64_t idle = 0, busy = 0, recipients = 0;
    size_t listed = 0;
    for (int i = 0; i < s->config.process_limit; i++) {
        const struct connection *c = &s->connections[i];
        HOLD_TRUE((c->state == CONNECTION_FREE) == (c->destination == NULL));
        HOLD_TRUE((c->state == CONNECTION_BUSY) == (c->entry != NULL));
        HOLD_TRUE((c->state == CONNECTION_IDLE) == list_is_linked(&c->in_destination));
        idle += c->state == CONNECTION_IDLE;
        busy += c->state == CONNECTION_BUSY;
        if (c->entry != NULL) {
            HOLD_TRUE(c->entry->state == ENTRY_BUSY && c->entry->connection == (uint32_t)i);
            HOLD_TRUE(entry_destination(c->entry) == c->destination);
            recipients += c->entry->count;
        }
    }
    list_foreach(c, &s->free_connections, const struct connection, in_transport)
    {
        HOLD_TRUE(c->state == CONNECTION_FREE);
        listed++;
    }
    usec_t last = INT64_MIN;
    list_foreach(c, &s->idle_connections, const struct connection, in_transport)
    {
        HOLD_TRUE(c->state == CONNECTION_IDLE && c->idle_since >= last);
        last = c->idle_since;
        listed++;
    }
    HOLD_TRUE(listed + busy == (size_t)s->config.process_limit);
    HOLD_TRUE(s->shared.idle == idle && s->shared.connections == idle + busy);
    HOLD_TRUE(s->shared.entries_in_flight == busy);
    list_foreach(e, &s->destinations, const struct sched_destination, all)
    {
        list_foreach(w, &e->todo, const struct sched_entry, place.link)
        {
            recipients += w->count;
        }
    }
    HOLD_TRUE(s->shared.recipients_in_core == recipients);
    return 0;
}

static int check_counts(const struct sched *s, const struct tally *t, struct sched_fault *ret)
{
    HOLD_TRUE(s->shared.destinations == t->destinations && s->by_name.count == t->destinations);
    HOLD_TRUE(s->timers.count == t->destinations);
    HOLD_TRUE(s->shared.dead == t->dead && s->with_work == t->with_work);
    HOLD_TRUE(s->shared.entries_waiting == t->waiting);
    HOLD_TRUE(s->shared.entries_in_flight == t->busy);
    HOLD_TRUE(s->shared.connections == t->connections && s->shared.idle == t->idle);
    HOLD_TRUE(s->shared.jobs == t->jobs && s->by_id.count == t->jobs);
    HOLD_TRUE(s->shared.recipients_in_core == t->recipients);
    HOLD_TRUE(s->rcpt_unused + t->slots == s->config.recipient_limit);
    HOLD_TRUE(s->rcpt_unused >= -s->config.extra_recipient_limit);
    HOLD_TRUE(s->shared.pool_unused == s->rcpt_unused);
    return 0;
}

static int check_jobs(const struct sched *s, struct tally *t, struct sched_fault *ret)
{
    struct tally scheduled = {0}, timed = {0};
    int err = check_schedule(s, &scheduled, ret);
    if (err == 0) {
        err = check_by_time(s, &timed, ret);
    }
    if (err == 0) {
        err = check_positions(s, ret);
    }
    if (err != 0) {
        return err;
    }
    uint64_t linked = 0, cursor = 0;
    const struct table_node *node;
    while ((node = table_next(&s->by_id, &cursor)) != NULL) {
        const struct job *j = container_of(node, const struct job, node);
        linked += job_is_linked(j);
        err = check_job(s, j, t, ret);
        if (err != 0) {
            return err;
        }
    }
    HOLD_TRUE(scheduled.jobs == linked && timed.jobs == linked);
    return 0;
}

int sched_check(const struct sched *s, struct sched_fault *ret)
{
    struct tally t = {0};
    list_foreach(d, &s->destinations, const struct sched_destination, all)
    {
        int err = check_destination(s, d, &t, ret);
        if (err != 0) {
            return err;
        }
    }
    int err = check_jobs(s, &t, ret);
    if (err == 0) {
        err = check_connections(s, ret);
    }
    if (err == 0) {
        err = check_counts(s, &t, ret);
    }
    list_foreach(p, &s->pending, const struct pending, link)
    {
        HOLD_TRUE(p->kind != SCHED_NONE);
    }
    HOLD_TRUE(s->tag % 2 == 1);
    HOLD_TRUE(s->undelivered == NULL || s->undelivered->state == ENTRY_BUSY);
    return err;
}
