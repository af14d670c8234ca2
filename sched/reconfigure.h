/* Another config for a scheduler that runs. Called by the public functions in sched/sched.c. */
#ifndef SCHED_RECONFIGURE_H
#define SCHED_RECONFIGURE_H

#include "sched/entry.h"
#include "sched/sched.h"

/* Take the values over, with the cross-rules of 1.3 applied; all else is as it was. */
void reconfigure_set(struct sched *s, const struct sched_config *config);
/* The same while there are messages, destinations and connections. There is memory for everything.
 *
 * pieces  of division_stage with this config's limit */
void reconfigure(struct sched *s, const struct sched_config *config, struct entry_queue *pieces);

#endif
