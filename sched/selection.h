/* Which entry goes out next (5.3). Owner thread only. */
#ifndef SCHED_SELECTION_H
#define SCHED_SELECTION_H

struct flow;
struct sched;
struct sched_destination;
struct sched_entry;

enum selection {
    SELECTION_CLAIMED, /* another flow is before this one */
    SELECTION_NONE,  /* nothing can be selected until something changes */
    SELECTION_ENTRY, /* *ret is BUSY */
    SELECTION_READS, /* READ was queued; call again after it was pulled */
    SELECTION_ASKS,  /* OWNER_ASKS was; likewise */
};

/* Of one flow. */
enum selection selection_run(struct sched *s, struct flow *f, struct sched_entry **ret);
/* Of any, where they take turns. */
enum selection selection_in_turn(struct sched *s, struct sched_entry **ret);

/* Turns by destination, as the queue manager before Postfix 2.1 took them (oqmgr). A destination has a
 * number meanwhile, and is found by that where others are by the first job parked there (sched/parking.h):
 * the least goes first. Jobs are neither passed over nor preempted. */

enum selection selection_by_turns(struct sched *s, struct sched_entry **ret);
/* A destination that has no entry as yet. */
void selection_put_last(struct sched *s, struct sched_destination *d);
/* The config says that they take turns, or does not any more; nothing is blocked. */
void selection_change(struct sched *s);

#endif
