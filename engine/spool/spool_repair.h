/* What is done about damage and leftovers when the spool is opened. Inside the spool files only;
 * spool_quarantine, the part that a running spool uses, is in spool_store.h. */
#ifndef ENGINE_SPOOL_REPAIR_H
#define ENGINE_SPOOL_REPAIR_H

#include "engine/spool/spool_env.h"

/* Delete receptions that were never finished, about limit records of them; *ret_done when none is
 * left. */
MUST_USE int spool_clear_staging(struct spool_txn *t, unsigned limit, bool *ret_done);
/* The number that the highest key of a table starts with (an id or a time); 0 when empty. */
MUST_USE int spool_last_number(struct spool_txn *t, enum spool_table table, uint64_t *ret);
/* Which spool of a cluster this is; 0: none. */
MUST_USE int spool_read_node(struct spool_txn *t, uint16_t *ret);
/* The first id that was never handed out: as reserved, and above all that is there. */
MUST_USE int spool_read_first_id(struct spool_txn *t, uint64_t *ret);
/* Sequences of INCOMING places are below the ids that may be used, so that the next start, which goes on
 * with the first id, repeats none. */
MUST_USE int spool_reserve_sequence(struct spool_txn *t);
/* Messages that no queue entry names are queued again as INCOMING. Costs nothing while the tables
 * count the same, else one walk over all of them. */
MUST_USE int spool_requeue_lost(struct spool_txn *t, uint64_t *ret_requeued);
/* Put a message that has no place in the queue as if it had just come, but never before its sender
 * wants it, nor before a retry is due. */
MUST_USE int spool_requeue_message(struct spool_txn *t, uint64_t id, struct slice record,
                                   struct spool_position *ret);
/* Recipients whose failure has no reason because it is lost (s->lost) get one that says so: without
 * any they would count as those whose sender was told. */
MUST_USE int spool_restore_reasons(struct spool_txn *t);

#endif
