/* Whether a scheduler core leaves work lying, by a look at every waiting entry and at no count or
 * mark that the core keeps to be quick. For the driver of the random simulation. */
#ifndef TESTS_SIM_SCHED_WORK_H
#define TESTS_SIM_SCHED_WORK_H

#include "sched/sched.h"

/* Some entry waits for a destination whose window is open and whose hosts are known, and the cap
 * on the workers of its message allows it. With a free worker sched_pull must find one. */
bool sched_work_is_ready(const struct sched *s);

#endif
