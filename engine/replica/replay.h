/* A spool from the frames of a log: receptions less results. The frames come in the order of their
 * places, from the first that the log still has; those that do not count (log_prefix.h) change
 * nothing. Reading a log again into the same spool ends with the same messages.
 *
 * Mail that the log's writer took over from other logs is believed only with the mark behind it, and
 * marks that it took over only with that of their log (engine/cluster/adoption.h); what is not believed
 * at the end is taken out again. */
#ifndef ENGINE_REPLAY_H
#define ENGINE_REPLAY_H

#include "base/attr.h"
#include "engine/cluster/log_prefix.h"
#include "engine/spool/spool_store.h"

#include <stdint.h>

struct replay_doubt;

/* All zero but for the store: nothing read. */
struct replay {
    struct spool_store *store; /* the caller's; nobody else writes to it */
    struct spool_txn *txn;     /* NULL: none is open */
    struct log_reader reader;
    size_t pending; /* bytes of frames that the transaction has */
    uint64_t frames, void_frames, epochs, changes;
    uint64_t damaged;            /* changes that are none, and were passed over */
    uint64_t dropped;            /* messages that were not believed */
    uint64_t bound;              /* deliveries that the writer's end may repeat, as it said last */
    uint64_t greatest;           /* of the ids in the log, without the spool's number */
    uint16_t writer;             /* number of the spool that wrote the frame under way */
    struct replay_doubt *doubts; /* heap, [doubt_count]: messages and marks not believed yet */
    size_t doubt_count, doubt_room;
};

/* Take the next frame.
 *
 * errors  ERR_CORRUPT: it is none, and changes nothing; -EPROTONOSUPPORT: it is of a later version; -ENOMEM;
 *         of
 *         the store: nothing more can be done */
MUST_USE int replay_frame(struct replay *r, struct slice frame);
/* All frames were read: take out what is not believed, leave the ids out that the log has, also those of mail
 * that is gone, and commit what is pending. To be called
 * in any case. errors: of the store */
MUST_USE int replay_end(struct replay *r);

#endif
