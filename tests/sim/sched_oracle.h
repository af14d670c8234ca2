/* What a scheduler core ought to do, found by a look at every entry and job and at no count or
 * order that the core keeps to be quick. For the driver of the random simulation. */
#ifndef TESTS_SIM_SCHED_ORACLE_H
#define TESTS_SIM_SCHED_ORACLE_H

#include "sched/sched.h"

struct job;

/* Some entry waits for a destination whose window is open and whose hosts are known, and the cap
 * on the workers of its message allows it. With a free worker sched_pull must find one. */
bool sched_oracle_has_work(const struct sched *s);
/* The candidate search as the queue manager does it (5.5), job by job. slot cost >= 2 */
struct job *sched_oracle_candidate(const struct sched *s, const struct job *owner);

#endif
