/* The spool writer: the one thread that changes the spool. It gathers what waits in its mailbox,
 * writes it in one transaction, syncs once, and only then answers (group commit).
 *
 * When a transaction fails, receptions in it are refused, results stay in memory and are written
 * first as soon as the store works again; meanwhile intake is refused and nothing is dispatched
 * (engine_gate). */
#ifndef ENGINE_SPOOL_WRITER_H
#define ENGINE_SPOOL_WRITER_H

#include "base/attr.h"
#include "base/mailbox.h"

struct engine;
struct spool_writer;

/* errors: -ENOMEM, what the store says (the reservation of ids is committed here) */
MUST_USE int spool_writer_new(struct engine *engine, struct spool_writer **ret);
struct mailbox *spool_writer_box(struct spool_writer *w);
/* For receptions alone, which do not wait behind results: clients wait for them. */
struct mailbox *spool_writer_receptions(struct spool_writer *w);
MUST_USE int spool_writer_start(struct spool_writer *w);
/* Writes everything in the mailbox, commits, ends the thread. All senders must have stopped. */
void spool_writer_stop(struct spool_writer *w);
void spool_writer_free(struct spool_writer *w); /* accepts NULL */

#endif
