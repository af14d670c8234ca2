/* Which jobs selection must look at. A job that was passed over and can change only when one of its
 * destinations opens is parked at these, so that selection finds the first job of an open
 * destination without a step for each of the others. Owner thread only.
 *
 * The blocker tags of 5.8 are exact: a parked job is blocked when selection passed its position
 * since all jobs were unblocked last (flow.passed), and so are the destinations where a blocked
 * job is parked. Unblocking all jobs is therefore one assignment. */
#ifndef SCHED_PARKING_H
#define SCHED_PARKING_H

#include "sched/sched.h"

struct flow;
struct job;
struct party;
struct peer;
struct sched_destination;
struct tree;

void parking_init(struct flow *f);
void parking_init_ready(struct sched *s);
/* Linked, to be looked at; its position is set. */
void parking_add(struct sched *s, struct job *j);
void parking_remove(struct sched *s, struct job *j);
/* Passed over: parked where that is possible, else set aside. */
void parking_block(struct sched *s, struct job *j);
/* Its owner may not send now: it is one of those, and blocked, until parking_run. */
void parking_hold(struct sched *s, struct job *j, struct tree *held);
/* To be looked at again; whether blocked or not. */
void parking_run(struct sched *s, struct job *j);
/* Its recipients, slots or entries changed: it may have to be looked at after all. */
void parking_review(struct sched *s, struct job *j);
/* No job of the flow and no destination is blocked any more. */
void parking_unblock_all(struct sched *s, struct flow *f);
/* The same for all flows. */
void parking_unblock_flows(struct sched *s);
/* The peer waits where its job was passed over (5.8). */
void parking_mark(struct sched *s, const struct peer *p);
/* A waiting peer has no entry left. */
void parking_forget_peer(struct sched *s, struct peer *p);
/* It opened or closed. */
void parking_update(struct sched *s, struct party *p);
/* A slot is to be had again: jobs that were passed over for want of one may go on. */
void parking_slot_opened(struct sched *s);
bool parking_is_blocked(const struct job *j);
/* Some blocked job waits for it, and it was not reconsidered since. */
bool parking_blocks(const struct sched *s, const struct sched_destination *d);
/* The position of the first job parked at a destination that has any, or its number where these take
 * turns. */
uint64_t parking_first_position(const struct sched_destination *d);
/* The first job of a flow from a position on that must be looked at; NULL when none is left. */
struct job *parking_next(const struct sched *s, struct flow *f, uint64_t position);
/* Where destinations take turns: the one with the least number of those that are open; NULL: none. */
const struct sched_destination *parking_first_destination(const struct sched *s);

#endif
