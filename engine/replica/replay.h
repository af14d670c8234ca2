/* A spool from the frames of a log: receptions less results. The frames come in the order of their
 * places, from the first that the log still has; those that do not count (log_prefix.h) change
 * nothing. Reading a log again into the same spool ends with the same messages. */
#ifndef ENGINE_REPLAY_H
#define ENGINE_REPLAY_H

#include "base/attr.h"
#include "engine/cluster/log_prefix.h"
#include "engine/spool/spool_store.h"

#include <stdint.h>

/* All zero but for the store: nothing read. */
struct replay {
    struct spool_store *store; /* the caller's; nobody else writes to it */
    struct spool_txn *txn;     /* NULL: none is open */
    struct log_reader reader;
    size_t pending; /* bytes of frames that the transaction has */
    uint64_t frames, void_frames, epochs, changes;
    uint64_t damaged; /* changes that are none, and were passed over */
};

/* Take the next frame.
 *
 * errors  ERR_CORRUPT: it is none, and changes nothing; ERR_LIMIT: it is of a later version; of the
 *         store: nothing more can be done */
MUST_USE int replay_frame(struct replay *r, struct slice frame);
/* Commit what is pending. errors: of the store */
MUST_USE int replay_end(struct replay *r);

#endif
