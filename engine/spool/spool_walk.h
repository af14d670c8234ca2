/* Walking all messages of the spool in the order of their ids, for counts and searches over the
 * whole queue: what stands at the head of each record, and its recipients' states beside it.
 *
 * Two cursors go side by side, through the messages and through the states, so that a message
 * costs a step of each and no look-up. The content is never touched: bounds are checked, but not
 * the checksum, which covers it; delivery finds damage, a walk only counts.
 *
 * Thread: the reader's. A walk lives for one pass of its reader (spool_reader_begin and _end);
 * longer walks go on in the next pass behind the last id. */
#ifndef ENGINE_SPOOL_WALK_H
#define ENGINE_SPOOL_WALK_H

#include "base/attr.h"
#include "base/slice.h"
#include "engine/spool/spool_store.h"

#include <stdbool.h>
#include <stdint.h>

struct spool_walk {
    struct spool_reader *reader;
    uint64_t last;   /* the message last found, or behind which the walk began */
    bool is_placed;  /* the messages' cursor stands on it */
    bool has_states; /* the states' cursor stands on the record below */
    uint64_t state_id;
    uint32_t state_number;
    struct slice state_record;
    uint64_t damaged;               /* records passed over */
    uintptr_t asked_from, asked_to; /* what of the tree was asked for; kept from pass to pass */
};

/* Slices are valid until spool_reader_end. */
struct spool_walked {
    struct spool_envelope envelope;
    uint32_t batch_count;     /* recipient batches outside the record, 0: all are in `packed` */
    struct slice packed;      /* see packed_next */
    struct slice states;      /* of batch 0, one byte a recipient; behind its end: pending */
    struct spool_retry retry; /* zeroes when never deferred */
};

/* A walk from the first message behind `after` on. w: zeroed before the first pass. errors: of the
 * storage */
MUST_USE int spool_walk_begin(struct spool_walk *w, struct spool_reader *r, uint64_t after);
/* The next message. Damaged records are passed over. errors: ERR_MISSING at the end; storage */
MUST_USE int spool_walk_next(struct spool_walk *w, struct spool_walked *ret);
/* Addresses and states of a batch of a message whose recipients are outside; a look-up each.
 * errors: ERR_MISSING, ERR_CORRUPT, storage */
MUST_USE int spool_walk_batch(struct spool_walk *w, uint64_t id, uint32_t batch,
                              struct slice *ret_packed, struct slice *ret_states);
/* Asks the kernel for the pages that the next `count` messages begin on. Worth it only where they
 * are not in memory. */
void spool_walk_prefetch(struct spool_walk *w, uint32_t count);

#endif
