/* This node's log, as the spool writer knows it: before a batch is committed, what it changes lies in
 * frames that servers have acknowledged. One batch at a time: the writer makes frames of it, hands
 * them over and waits; mail that comes meanwhile is the next batch.
 *
 * The log first, then the disk: when the servers do not answer, nothing was committed, so
 * receptions are refused and results stay in memory, as after a commit that failed, and nothing has
 * to be taken back. What then comes to lie in the log although it was refused, or the other way round,
 * is put right by a retelling.
 *
 * A retelling writes all mail of the tables to the log again, a piece in front of the changes of each batch;
 * when it is through, all that was in front of it is of no use and is purged. One begins when the
 * log does (so it need not be compared with the spool), when a batch was in doubt, and when the log
 * has grown to several times of what the last one wrote. That is all that keeps the log short: no
 * list of messages and their frames is needed, however many there are. It needs as much room as the
 * mail that there is, so new mail is refused in time: when the spool has two fifths of the log's
 * limit, or when what the spool has would leave less than a tenth for results (replica_is_full).
 *
 * How far a retelling is, is noted in the tables (spool_retold.h), so that a process that dies in it does not
 * leave what it had told as so many bytes for nothing, with no room for the next one to begin anew. The next
 * process goes on with it, if the log still has what was noted, and what was in front of the retelling's
 * beginning is purged at its end. It is as after a doubt for which there was no room: the spool may not have
 * the last batch, so all is told once more behind it. tests/sim/adopt_random has the trial, and what would be
 * unsound.
 *
 * Concurrency: the writer's functions are called by the spool writer, the keeper's by the thread
 * `log`. `lock` guards what both use. The frames are the writer's while `under_way` is 0, and the keeper's
 * to read until it is 0 again. */
#ifndef ENGINE_REPLICA_H
#define ENGINE_REPLICA_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct replica;
struct spool_retold;
struct spool_store;
struct spool_txn;

/* How long a batch waits for the servers to acknowledge its next frame before its receptions are
 * refused (design: 451 after 2 s). One bound for all frames would never let a batch through that has
 * more of them than the servers store in that time: it comes again as it was. */
#define REPLICA_PATIENCE (2 * USEC_PER_SEC)

/* max_bytes    the most that the log takes on a server
 * wake_writer  called when it can go on; any thread
 * errors       -ENOMEM, of the store's readers */
MUST_USE int replica_new(struct spool_store *store, uint64_t max_bytes,
                         void (*wake_writer)(void *ctx), void *ctx, struct replica **ret);
void replica_free(struct replica *r); /* accepts NULL */

/* --- the spool writer ------------------------------------------------------------------------- */

/* A batch can be begun: the log is open and has all of the last one. */
bool replica_is_ready(struct replica *r);
/* No new mail is to be accepted. Looks at the spool every 100 ms. */
bool replica_is_full(struct replica *r);
/* A retelling waits for a commit of the tables: to begin, with one that takes over the journal, or that it is
 * noted how far it is, each hundredth of max_bytes, or that it is through. */
bool replica_wants_tables(struct replica *r);
/* When a retelling goes on even if there is nothing to commit: a monotonic time, which may be past;
 * USEC_NEVER: none is under way. */
usec_t replica_retelling_due(const struct replica *r);
/* A batch begins, and forgets what was told for one that was not shipped. It must be ready.
 *
 * is_idle  there is nothing else to commit: more is retold at once */
void replica_begin(struct replica *r, bool is_idle);
/* The batch is one for the tables: note in its transaction how far the retelling is. errors: storage */
MUST_USE int replica_note(struct replica *r, struct spool_txn *t);
/* Hand the batch over and wait until it is acknowledged. Call it when nothing is left to be told, and
 * before the commit. Under RCU: asleep.
 *
 * errors  ERR_CLOSED: it is not acknowledged, and may be yet; -ENOMEM, ERR_LIMIT: it was not sent */
MUST_USE int replica_ship(struct replica *r);
/* The batch that was shipped is committed.
 *
 * is_journal_empty  the tables have all */
void replica_committed(struct replica *r, bool is_journal_empty);
/* The batch that was shipped is not committed: the log says what is not so. */
void replica_doubt(struct replica *r);

/* --- the keeper ------------------------------------------------------------------------------- */

/* wake  called when there is work for the keeper; the writer's thread. Before the threads start. */
void replica_set_keeper(struct replica *r, void (*wake)(void *ctx), void *ctx);
/* The retelling that the last process was at; NULL: none that is known of. */
const struct spool_retold *replica_retold(const struct replica *r);

struct replica_epoch {
    uint16_t node;         /* its number, at least 1 */
    uint64_t epoch, place; /* place: of its fence */
    uint64_t made;         /* of the stream, in the servers' count */
    bool
        is_new; /* the fence is the first frame that the log ever had, and the spool had no other log */
    bool goes_on; /* with replica_retold, whose frames are there */
};
/* The log is open. */
void replica_open(struct replica *r, const struct replica_epoch *e);
/* The epoch has ended. Frames under way are forgotten. */
void replica_close(struct replica *r);
/* The frame with this serial; empty when none is under way. Valid until all of the batch are acknowledged. */
struct slice replica_frame(struct replica *r, uint64_t serial);
/* Frames up to this serial are acknowledged, the last of them in `place`. */
void replica_acknowledged(struct replica *r, uint64_t serial, uint64_t place);
/* What is in front of this place is not needed any more; 0: nothing new is to be purged. */
uint64_t replica_take_purge(struct replica *r);
/* What was in front of this place is purged. */
void replica_purged(struct replica *r, uint64_t place);
/* Somebody needs that the log is sure, and it is not: replica_hurry. */
bool replica_is_hurried(struct replica *r);
/* What the log takes, as the servers say. */
void replica_set_size(struct replica *r, uint64_t bytes);
/* The servers have no room for a frame. */
void replica_refused(struct replica *r);

/* --- figures, any thread ---------------------------------------------------------------------- */

struct replica_view {
    bool is_open;
    uint64_t epoch, place; /* of the last acknowledged frame; 0: none */
    uint64_t size;         /* bytes of the log on each server, about */
    uint64_t batches, frames, bytes, failed_batches, retellings;
    usec_t waited; /* by the writer for acknowledgements, in all */
    bool is_retelling;
};
void replica_look(struct replica *r, struct replica_view *ret);
/* The log has nothing that the spool has not: it began new in this process and no batch was in doubt, or
 * since one was, or it began, all was told anew, and what was in front of that is purged. Any thread. */
bool replica_is_sure(struct replica *r);
/* Somebody needs that soon, or not any more: what is to be purged is, without regard to how little lies
 * behind it. When a keeper is set; any thread. */
void replica_hurry(struct replica *r, bool is_hurried);

#endif
