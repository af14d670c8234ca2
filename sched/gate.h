/* The cap on the workers of one message (max_message_concurrency, scale_max_concurrency): a large
 * message may not hold all connections while others wait, but may use what is free. A gated job is
 * passed over like a blocked one; it may still use the connections that its destinations
 * have, active ones with room and idle ones. Owner thread only.
 *
 * source   T. Finch, "How to schedule delivery", allowed_new_worker */
#ifndef SCHED_GATE_H
#define SCHED_GATE_H

#include "sched/sched.h"

struct job;

/* There is a cap. */
bool gate_is_on(const struct sched *s);
/* The job may occupy one more worker. */
bool gate_allows(const struct sched *s, const struct job *j);
/* A delivery ended: gated jobs that may go on now are not blocked any more. */
void gate_reconsider(struct sched *s);

#endif
