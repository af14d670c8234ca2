/* One message in this transport. A job is what the queue manager calls message and job: one
 * transport sees one part of a message, so both are one here. */
#ifndef SCHED_JOB_H
#define SCHED_JOB_H

#include "base/list.h"
#include "sched/action.h"
#include "sched/peer.h"
#include "sched/sched.h"
#include "sched/table.h"
#include "sched/tree.h"

#define JOB_UNLINKED (-1)

/* Where a linked job is found by selection; see sched/parking.h. */
enum job_place {
    JOB_RUNNABLE, /* to be looked at: in flow.runnable */
    JOB_PARKED,   /* blocked when last looked at; its waiting peers are parked */
    JOB_ASIDE,    /* a blocker that cannot be parked: in flow.aside */
    JOB_HELD,     /* its owner may not send now: in sched_owner.held */
};

struct flow;
struct size_class;

struct job {
    /* Set at creation, any thread. */
    struct table_node node;
    uint64_t id;
    void *handle;
    usec_t queued_time;
    /* Owner thread only. */
    struct tree_node in_time;   /* flow.by_time: order of queued_time */
    struct tree_node in_unread; /* sched.unread: the same, of those that want recipient slots */
    struct pending action;      /* READ or FINISHED */
    struct job *parent;         /* the job it preempted; NULL for none and for orphans */
    struct list children;       /* jobs that preempted it */
    struct list in_children;
    int level; /* JOB_UNLINKED, 0, or depth at the time of preemption */
    /* Wide: each selection's price is an option, of which a reload may make another. */
    int64_t slots_available;
    int slots_used;
    int rcpt_limit; /* recipient slots it owns */
    usec_t refill_time;
    uint32_t rcpt_unread; /* still in the spool */
    /* Any thread, relaxed; the owner writes. */
    int rcpt_count;         /* recipients in waiting and busy entries */
    uint32_t waiting, busy; /* entries */
    enum sched_why why;     /* it was passed over; NOTHING since it was last selected from */
    /* Owner thread only: what is looked at when the job is passed over, close together. */
    int read_entries;        /* ever created */
    int selected_entries;    /* ever selected, or dropped */
    uint32_t owner;          /* its place in sched.owners; 0: nobody who is limited */
    uint64_t position;       /* grows along the schedule */
    struct list in_schedule; /* flow.schedule: order of selection, changed by preemption */
    struct tree_node in_place;
    struct flow *flow;
    struct size_class *size_class; /* NULL: in none */
    struct tree_node in_class;     /* size_class.free or .parked */
    struct list in_irregular;      /* flow.irregular */
    struct list peers;             /* ring, the next to try first */
    uint8_t place;                 /* enum job_place */
    bool has_more;                 /* the spool may have more recipients */
    bool is_reading;               /* from queueing READ to sched_submit_more */
    bool is_stalled;               /* blocked only because it is_reading */
    bool is_gated;                 /* blocked by the limits of max_message_concurrency */
    /* Most messages have one recipient: this saves them two allocations. */
    struct peer first_peer;
};

void job_init_lists(struct flow *f);
void job_init_unread(struct sched *s);
struct job *job_new(struct sched *s, const struct sched_message *m); /* NULL: no memory */
/* It counts no longer as one of its flow, which may be gone then. */
void job_leave_flow(struct sched *s, const struct job *j);
void job_free(struct sched *s, struct job *j); /* retires it; in no list and no table */
uint64_t job_hash(const struct sched *s, uint64_t id);
struct job *job_find(const struct sched *s, uint64_t id); /* any thread */

/* Recipients are about to be assigned to it: linked, not a blocker (5.2). */
void job_obtain(struct sched *s, struct job *j);
/* An entry of it comes back: linked, before those of the same age when it was not. */
void job_obtain_again(struct sched *s, struct job *j);
/* Its last entry was selected; it may come back when more recipients are read (5.7). */
void job_retire(struct sched *s, struct job *j);
/* No entry of it is left in the core (4.6): read on, or finish. */
void job_settle(struct sched *s, struct job *j);
/* Its waiting entries are dropped: those for one name or nexthop, or all when that is empty. */
void job_withdraw(struct sched *s, struct job *j, struct slice destination, struct reason *reason);
void job_queue_read(struct sched *s, struct job *j);
/* It was passed over: mark it and its destinations, nothing of it can be selected now (5.8). */
void job_block(struct sched *s, struct job *j, enum sched_why why);
/* It is marked, and no destination of it was reconsidered since. */
bool job_is_blocked(const struct job *j);
/* No job of the flow is a blocker any more; selection starts over. */
void job_unblock_all(struct sched *s, struct flow *f);

static inline bool job_has_entries(const struct job *j)
{
    return j->selected_entries < j->read_entries;
}
/* Entries it will have had, each unread recipient counted as one. */
static inline int64_t job_total(const struct job *j)
{
    return (int64_t)j->read_entries + j->rcpt_unread;
}
/* Slots that it needs to be delivered completely. */
static inline int64_t job_need(const struct job *j)
{
    return job_total(j) - j->selected_entries;
}
static inline bool job_is_linked(const struct job *j)
{
    return j->level != JOB_UNLINKED;
}
/* A blocker may be selected again; selection starts over. */
void job_unblock(struct sched *s, struct job *j);
struct job *job_next(const struct job *j); /* on the schedule, or NULL */

#endif
