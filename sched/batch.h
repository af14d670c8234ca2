/* Recipients that come in together: sorted, grouped by destination, made into entries (4.3-4.5).
 * All or nothing. Owner thread only. */
#ifndef SCHED_BATCH_H
#define SCHED_BATCH_H

#include "sched/sched.h"

struct job;

/* errors: -ENOMEM, nothing changed */
MUST_USE int batch_add(struct sched *s, struct job *j, const struct sched_message *m);
/* Gives back what it keeps from one batch to the next. */
void batch_fini(struct sched *s);

#endif
