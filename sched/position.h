/* Where a job stands on the schedule, as a number: jobs are compared by position without a walk
 * along the list. Positions are spread anew where room runs out; their order stays. */
#ifndef SCHED_POSITION_H
#define SCHED_POSITION_H

#include "base/list.h"

#define POSITION_NONE 0 /* before all */

struct job;
struct sched;

/* Link j into the schedule behind `at`, a link of the list or its head. */
void position_insert_after(struct job *j, struct list *at);

#endif
