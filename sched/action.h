/* The queue of actions that wait to be pulled. Objects queue themselves, so that queueing can never
 * fail for want of memory; each object waits for at most one action at a time. */
#ifndef SCHED_ACTION_H
#define SCHED_ACTION_H

#include "base/list.h"
#include "sched/sched.h"

/* Embedded in entries (DELIVER, EXHAUSTED, DEFER, BOUNCE), jobs (READ, FINISHED), destinations
 * (RESOLVE) and connections (CLOSE). An entry uses the link for its destination's waiting list
 * before that. */
struct pending {
    struct list link;
    enum sched_action_kind kind; /* SCHED_NONE while not queued */
    uint32_t note;               /* an entry's; stays what it is */
};

/* Why entries are not delivered; shared by the dead destination and the entries it deferred. */
struct reason {
    uint32_t references;
    struct sched_reason text;
};

struct sched_entry;

void action_init(struct pending *p);
void action_queue(struct sched *s, struct pending *p, enum sched_action_kind kind);
void action_cancel(struct pending *p); /* no-op when not queued */
/* Take the oldest; false when there is none. Actions keep the order of their causes, so a message's
 * FINISHED follows its deferrals. */
bool action_take(struct sched *s, struct sched_action *ret);

/* A copy of r with the prefix of dead destinations when `suspends`. Never NULL: without memory it
 * is the transport's spare, whose text is general. */
struct reason *reason_new(struct sched *s, const struct sched_reason *r, bool suspends);
struct reason *reason_get(struct reason *r);
void reason_put(struct sched *s, struct reason *r); /* accepts NULL */

#endif
