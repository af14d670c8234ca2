/* What results mean for a message: recipient states, the event log, and at the end of an
 * activation its removal, its next retry, and the notices to its sender.
 *
 * Everything runs on the spool writer. A message's results stay in memory until the transaction
 * that stores them is durable, so settle_write may run again for the same messages after a failed
 * commit. */
#ifndef ENGINE_SETTLE_H
#define ENGINE_SETTLE_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/list.h"
#include "engine/spool/spool_store.h"
#include "engine/writer/notice.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct intake;
struct message;
struct result;
struct suppressor;

struct settle {
    struct engine *engine;
    struct spool_reader *reader;   /* the writer's own; for notices */
    struct suppressor *suppressor; /* the writer's own */
    struct list touched;           /* messages with results that are not durable yet */
    struct list delivered;   /* likewise, but every recipient is delivered and only the journal
                                  * has the message: a removal in the journal is enough */
    bool is_journal_only;    /* the commit under way writes only `delivered`, to the journal */
    struct notice_log log;   /* event lines that must be written before the commit */
    struct intake **notices; /* bounces that the current transaction gets, or has */
    uint32_t notice_count, notice_capacity;
    uint64_t notice_bytes;     /* contents of these notices */
    bool has_deferred;         /* the current transaction defers something */
    uint64_t suppressed;       /* notices that the current transaction leaves out */
    struct message *unwritten; /* first one in `touched` that this transaction has no room for */
    usec_t
        span; /* after so long a transaction takes no further message; the writer's; USEC_NEVER */
    void (*between)(void *ctx); /* settle_write calls it between messages, the transaction open; set
                                 * behind settle_init, or NULL */
    void *between_ctx;
    unsigned expired_at_once; /* event lines of one message in a transaction */
    uint64_t without_result;  /* dispatched recipients without a result, since the last commit */
};

/* Takes over a result and accounts for it. */
void settle_collect(struct settle *s, struct result *result);

/* `count` recipients of m will have no result (result_send): they stay as they are stored, and the
 * message is deferred. */
void settle_without_result(struct settle *s, struct message *m, uint32_t count, unsigned shares);

/* Put the news of touched messages into the transaction: of all, or of as many as it has room and time
 * for, but at least of one. The others wait for the next one (settle_has_rest).
 *
 * now      wall clock
 * errors   of the store: the transaction must be aborted; call again with the next one */
MUST_USE int settle_write(struct settle *s, struct spool_txn *txn, usec_t now);

/* Whether the transaction that settle_write has filled leaves messages for the next one. Until
 * settle_committed. */
bool settle_has_rest(const struct settle *s);

/* Append the event lines of the messages in `delivered` to the log; before settle_write_journal. */
void settle_log_delivered(struct settle *s);
/* Put the removals of the messages in `delivered`, and nothing else, into the journal's batch.
 *
 * errors  ERR_LIMIT when they do not fit: the batch must be aborted */
MUST_USE int settle_write_journal(struct settle *s, struct spool_store *store);

/* Whether no result waits to be written. */
bool settle_is_idle(const struct settle *s);

/* The transaction, or the journal's batch, is durable: forget what is written. done(ctx, message)
 * is called for each message that is no longer active and takes it over. Returns the number of
 * dispatched recipients whose results are now durable (the engine's duplicate bound). */
uint64_t settle_committed(struct settle *s, void (*done)(void *ctx, struct message *m), void *ctx);

/* The transaction failed: drop what only it needed. */
void settle_failed(struct settle *s);

void settle_init(struct settle *s, struct engine *engine, struct spool_reader *reader,
                 struct suppressor *suppressor, const struct notice_log *log);
/* Drop everything, at shutdown. */
void settle_fini(struct settle *s);

#endif
