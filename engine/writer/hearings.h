/* What was heard, made durable: lines of the event log and entries of the lists of suppressed
 * recipients, in one transaction of the spool writer, and the answer behind it. Owner: the spool
 * writer. What a commit that fails had is refused: whoever sent it sends it again. */
#ifndef ENGINE_HEARINGS_H
#define ENGINE_HEARINGS_H

#include "base/attr.h"
#include "base/buf.h"
#include "engine/post/hearing.h"

#include <stdint.h>

struct engine;
struct outbox;
struct spool_txn;
struct suppressor;

struct hearings {
    struct engine *engine;
    struct hearing **waiting; /* [HEARINGS_MAX] */
    uint32_t count;
};

/* errors: -ENOMEM; hearings_fini is due all the same */
MUST_USE int hearings_init(struct hearings *h, struct engine *engine);
void hearings_fini(struct hearings *h); /* accepts a zeroed one */

/* Takes it over until it is answered. */
void hearings_take(struct hearings *h, struct hearing *one);
static inline bool hearings_are_due(const struct hearings *h)
{
    return h->count > 0;
}
/* What follows for lists of suppressed recipients, by the rules, in the transaction. errors: storage */
MUST_USE int hearings_put(struct hearings *h, struct suppressor *suppressor, struct spool_txn *txn);
/* The lines of everything that waits, for the log that is written before the commit. */
void hearings_log(const struct hearings *h, struct buf *log);
/* The transaction ended, with err == 0 durable: everything that waits is answered, when its lines are
 * synced.  to_workers: [worker_count] */
void hearings_answer(struct hearings *h, int err, struct outbox *to_workers);

#endif
