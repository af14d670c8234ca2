/* Walks the recipients of a stored message in order: address and state of each, as the reader's
 * view of the spool has them. The reader is open as long as the walk is used. */
#ifndef ENGINE_RECIPIENT_WALK_H
#define ENGINE_RECIPIENT_WALK_H

#include "base/attr.h"
#include "base/slice.h"
#include "engine/spool/spool_store.h"

#include <stdbool.h>
#include <stdint.h>

struct recipient_walk {
    struct spool_reader *reader;
    uint64_t id;
    uint32_t total, index; /* index: of the recipient that comes next */
    struct slice packed, states;
    int error; /* why it ended early; 0: it did not */
};

/* from: number of the first recipient wanted */
void recipient_walk_init(struct recipient_walk *w, struct spool_reader *reader,
                         const struct spool_envelope *envelope, uint32_t from);
/* ret_state: enum spool_recipient_state; false at the end or on an error */
MUST_USE bool recipient_walk_next(struct recipient_walk *w, uint32_t *ret_index,
                                  struct slice *ret_address, int *ret_state);

/* Whether the recipient is to be tried again. */
static inline bool recipient_is_undone(int state)
{
    return state == SPOOL_RECIPIENT_PENDING || state == SPOOL_RECIPIENT_DEFERRED;
}

#endif
