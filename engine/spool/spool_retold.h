/* How far all mail was told to the log anew (engine/replica/replica.h), so that the next process need not
 * begin again: a record of the meta table, in the tables' commits while a retelling is under way. It lags
 * behind what the log has, never the other way round. A spool that was written to without a log has none,
 * as the log has not heard of that. `sluice repair --salvage` leaves it out.
 *
 * Thread: the writer, but for what takes a reader, and before the threads start. */
#ifndef ENGINE_SPOOL_RETOLD_H
#define ENGINE_SPOOL_RETOLD_H

#include "base/attr.h"
#include "engine/spool/spool_store.h"

#include <stdint.h>

struct spool_retold {
    uint64_t made;                 /* of the stream, in the servers' count */
    uint64_t start;                /* place at which the retelling began */
    uint64_t place, epoch, serial; /* of the last frame when this was noted */
    uint64_t after; /* of the messages there were, all up to this one lie between both places */
    uint64_t told;  /* bytes of the retelling */
};

MUST_USE int spool_put_retold(struct spool_txn *t, const struct spool_retold *retold);
/* errors: storage; that there is none is no error */
MUST_USE int spool_forget_retold(struct spool_txn *t);
/* errors: ERR_MISSING, ERR_CORRUPT, storage */
MUST_USE int spool_read_retold(struct spool_reader *r, struct spool_retold *ret);
/* The spool is about to be written to without a log. Writes nothing if there is no record. */
MUST_USE int spool_store_without_log(struct spool_store *s);

#endif
