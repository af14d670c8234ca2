/* What waits for the pace of its lanes does not fill memory: beyond a part of the places it is deferred
 * until its turn is near. Owner thread only. */
#ifndef SCHED_SHED_H
#define SCHED_SHED_H

#include "sched/sched.h"

struct lane_set;
struct sched_destination;
struct sched_owner;
struct site;
struct terms;

/* What waits for a set, or what its lanes may send, has changed; only where some lane is limited. */
void shed_touch(struct sched *s, struct lane_set *set);
void shed_touch_all(struct sched *s, struct site *site, uint64_t lanes);
void shed_leave(struct sched *s, struct lane_set *set); /* it goes */
/* Defer what is beyond; before each action. */
void shed_run(struct sched *s);
/* What is held of an owner, or what it may send, has changed. */
void shed_touch_owner(struct sched *s, struct sched_owner *o);
void shed_leave_owner(struct sched *s, struct sched_owner *o); /* it goes */
int64_t shed_excess_of_owner(const struct sched *s, const struct sched_owner *o);
/* What waits for a destination that has terms has changed, or for how long. */
void shed_count_destination(struct sched *s, struct sched_destination *d);
void shed_leave_destination(struct sched *s, struct terms *t); /* they go */
int64_t shed_excess_of_destinations(const struct sched *s);    /* of all (for sched_check) */
/* Entries of a set that its lanes cannot take within half a minute (for sched_check). */
int64_t shed_excess(const struct sched *s, const struct lane_set *set);

#endif
