/* Waiting entries that hold more recipients than another config allows: each is divided, in its
 * place. Called by sched_reconfigure, and for one destination that gets terms of its own. Owner thread
 * only. */
#ifndef SCHED_DIVISION_H
#define SCHED_DIVISION_H

#include "sched/entry.h"
#include "sched/sched.h"

/* All the memory that it takes, a step for each recipient that waits in such an entry.
 *
 * limit       of the config: recipients an entry; 0: none. Terms of a destination go before it
 * ret_pieces  NEW entries; for division_commit at once, or division_abandon
 * errors      -ENOMEM, nothing changed */
MUST_USE int division_stage(struct sched *s, uint32_t limit, struct entry_queue *ret_pieces);
void division_commit(struct sched *s, uint32_t limit, struct entry_queue *pieces);
/* The same of one destination, whose limit it is. */
MUST_USE int division_stage_one(struct sched *s, const struct sched_destination *d, uint32_t limit,
                                struct entry_queue *ret_pieces);
void division_commit_one(struct sched *s, const struct sched_destination *d, uint32_t limit,
                         struct entry_queue *pieces);
void division_abandon(struct sched *s, struct entry_queue *pieces);

#endif
