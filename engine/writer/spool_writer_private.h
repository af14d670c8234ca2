/* What the files of the spool writer share with each other; nobody else includes it. spool_writer.c
 * has the thread and what a pass commits, spool_writer_batch.c how a batch is written and who hears
 * of it. Everything is the writer thread's alone. */
#ifndef ENGINE_SPOOL_WRITER_PRIVATE_H
#define ENGINE_SPOOL_WRITER_PRIVATE_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/post.h"
#include "engine/writer/admission.h"
#include "engine/writer/adopter.h"
#include "engine/writer/hearings.h"
#include "engine/writer/housekeeping.h"
#include "engine/writer/journaled.h"
#include "engine/writer/reaction_log.h"
#include "engine/writer/settle.h"
#include "engine/writer/spool_writer.h"
#include "engine/writer/suppressor.h"

struct intake;
struct replica;

enum { SPOOL_WRITER_PARTS = 4096 }; /* of a batch, at most */

struct spool_writer {
    /* set at creation */
    struct engine *engine;
    struct post post;

    /* writer thread only */
    struct outbox *to_activator; /* of the post */
    struct outbox *to_workers;   /* [engine->worker_count + 2], the last: the http thread and
                                  * the one that reports on TLS */
    struct settle settle;
    struct suppressor suppressor;
    struct hearings hearings;
    struct journaled journaled;
    struct spool_reader *reader;
    struct buf log;        /* event lines not yet in the file */
    struct intake **parts; /* [SPOOL_WRITER_PARTS] STAGE and STORE letters of the batch, in order */
    uint32_t part_count;
    struct housekeeping housekeeping;
    struct reaction_log reactions;
    size_t batch_bytes;
    bool has_more;   /* the batch limit was hit */
    bool has_limits; /* tenants have queue limits, which receptions of this pass are judged by */
    bool rotate;
    bool is_broken;
    bool waits_for_log; /* nothing is committed: the log has not what was sent to it last */
    usec_t log_missed;  /* monotonic: since when, while the daemon stops; 0: it does not */
    usec_t retry_at;
    usec_t synced;        /* monotonic: last sync of the event log */
    usec_t delivered_due; /* monotonic: settle.delivered must be written by then; 0: it is empty */
    usec_t touched_due;   /* likewise for results that need a transaction */
    usec_t touched_since; /* monotonic: when the first of them came; 0: they have waited */
    usec_t tables_took;   /* the last transaction, all of it */
    usec_t commit_took;   /* of the last transaction: from the last change to durable */
    usec_t shipped_for;   /* how long the servers took for the last batch that they were sent */
    usec_t gathers_until; /* monotonic: no batch begins before; 0: at once */
    usec_t received;      /* monotonic: when the last part of a reception came; 0: none did */
    usec_t journal_after; /* monotonic: the journal failed and is not used before */
    struct admission admission;
    struct adopter adopter;
};

/* --- spool_writer_batch.c --------------------------------------------------------------------- */

/* The way to the http thread. It stands behind those to the workers. */
struct outbox *spool_writer_to_http(struct spool_writer *w);
/* Puts a part of a reception into the batch. */
void spool_writer_take_part(struct spool_writer *w, struct intake *in, bool is_last);
/* Puts the parts of receptions that wait into the batch, as far as it has room. */
void spool_writer_take_receptions(struct spool_writer *w) ON_ROLE(w->post);
/* Refuses what its tenant has no room for, and keeps the names of the others. */
void spool_writer_admit_parts(struct spool_writer *w);
/* Whether the journal can be used, and has the shape for all parts of the batch. */
MUST_USE bool spool_writer_journal_takes(const struct spool_writer *w, usec_t now);
/* It could not be written: it is left alone for a while. */
void spool_writer_rest_journal(struct spool_writer *w, int err);
/* Between two messages of a transaction (settle.between; ctx: the writer): receptions that have come are
 * committed to the journal and answered. What cannot go there stays in the batch, for the transaction. */
void spool_writer_take_meanwhile(void *ctx);
/* The event lines of results must be in the file before the commit that acts on them.
 *
 * errors  as event_log_append; the lines stay in memory then */
int spool_writer_write_log(struct spool_writer *w);
/* One transaction with everything that waits; when mail of another log cannot be taken in, without that.
 * On an error nothing of it is stored. */
MUST_USE int spool_writer_write_tables(struct spool_writer *w);
/* One batch of the journal: the receptions that wait and the removals of delivered messages, whose
 * event lines are written already. errors: ERR_LIMIT: it has no room */
MUST_USE int spool_writer_write_journal(struct spool_writer *w);
/* Only a piece of what the log is told anew. errors: of replica_ship */
MUST_USE int spool_writer_retell(struct spool_writer *w);
/* The batch is durable: all whom it concerns hear of it. */
void spool_writer_committed(struct spool_writer *w, bool is_journal) ON_ROLE(w->post);
/* The parts of the batch, and the changes of lists, are answered with this error. */
void spool_writer_refuse_parts(struct spool_writer *w, int err);

#endif
