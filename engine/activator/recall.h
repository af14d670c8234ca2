/* A recall: messages that left memory until the turn that their receiver gave them, and may go now
 * already, as it takes more than it did then. A scheduler that had sent them away names them by
 * their places in the queue; a place where the message is no more is passed over.
 *
 * struct recall is passed by ownership in LETTER_RECALL; struct recaller is the activator's. */
#ifndef ENGINE_RECALL_H
#define ENGINE_RECALL_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/id_set.h"
#include "engine/spool/spool_store.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct recall {
    struct recall *next;       /* activator only */
    _Atomic uint32_t *counter; /* is one higher until this recall is freed */
    uint32_t count, done;
    struct spool_position at[];
};

/* With room for so many; `count` is 0. NULL when out of memory. */
MUST_USE struct recall *recall_new(uint32_t capacity, _Atomic uint32_t *counter);
void recall_free(struct recall *r); /* accepts NULL */

struct recaller {
    struct recall *first, *last;
    struct id_set missed; /* called back while they were active: at no place yet */
};

void recaller_fini(struct recaller *c);
void recaller_add(struct recaller *c, struct recall *r); /* takes it over */

static inline bool recaller_is_busy(const struct recaller *c)
{
    return c->first != NULL;
}

/* The next message that is still at its place; the same one comes again until recaller_pass.
 *
 * active   messages that are: they may come to wait for their turn when they are settled
 * budget   counted down by each place that is looked at
 * errors   ERR_MISSING when the budget is used up or nothing is left; ERR_AGAIN when a page cannot
 *          be read for now */
MUST_USE int recaller_next(struct recaller *c, struct spool_reader *reader, int *budget,
                           const struct id_set *active, struct spool_position *ret);
void recaller_pass(struct recaller *c);

/* A message that was active has settled. If it was called back meanwhile, it is so now.
 *
 * turn      where it waits (wall); 0: it does not wait for a turn
 * counter   as of recall_new */
void recaller_settled(struct recaller *c, uint64_t id, uint32_t flow, usec_t turn,
                      _Atomic uint32_t *counter);

#endif
