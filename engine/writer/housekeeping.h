/* What the spool writer's transactions carry besides mail: staged receptions to remove, damaged
 * messages to quarantine, suspended messages to move to the held class, the reservation of ids, and
 * the bound on repeated deliveries. Owner: the spool writer. After a commit that fails all of it is
 * still to be done. */
#ifndef ENGINE_HOUSEKEEPING_H
#define ENGINE_HOUSEKEEPING_H

#include "base/attr.h"
#include "base/clock.h"
#include "engine/state/dispatch_bound.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct outbox;
struct spool_position;
struct spool_txn;

struct housekeeping {
    struct engine *engine;
    uint64_t *discards;
    uint32_t discard_count, discard_capacity;
    uint32_t discarded; /* the transaction under way removes the first so many of `discards` */
    struct spool_position **damaged;
    uint32_t damaged_count, damaged_capacity;
    struct housekeeping_park *parks;
    uint32_t park_count, park_capacity;
    uint64_t reserved_ids;         /* as committed */
    uint64_t reserving_ids;        /* in the transaction under way; 0: nothing */
    struct dispatch_bound bound;   /* deliveries that a crash can repeat, as committed */
    struct dispatch_bound binding; /* the next bound, in the transaction under way, if is_binding */
    bool is_binding;
    usec_t space_seen; /* monotonic: last look at the free space */
};

/* Makes the first commit: ids that no earlier run handed out, and the bound that a crash is held
 * to. errors: of the store; housekeeping_fini is due all the same */
MUST_USE int housekeeping_init(struct housekeeping *h, struct engine *engine);
void housekeeping_fini(struct housekeeping *h); /* accepts a zeroed one */

/* Remove a staged reception, or the records that spool_remove leaves of a large message. */
void housekeeping_discard(struct housekeeping *h, uint64_t id);
/* Move a damaged message to the quarantine; takes the position over. Once that is durable, a
 * LETTER_SETTLED tells the activator that the message is not active any more. */
void housekeeping_quarantine(struct housekeeping *h, struct spool_position *position,
                             struct outbox *to_activator);

/* Move a message that an order suspends to the held class until `until` (wall). Once that is
 * durable, a LETTER_SETTLED tells the activator that the message is not active any more. */
void housekeeping_park(struct housekeeping *h, const struct spool_position *from, usec_t until,
                       struct outbox *to_activator);

/* Whether a transaction is wanted. */
bool housekeeping_is_due(const struct housekeeping *h);
/* errors: of the store */
MUST_USE int housekeeping_put(struct housekeeping *h, struct spool_txn *txn);
void housekeeping_committed(struct housekeeping *h, struct outbox *to_activator);

/* Looks at the free space now and then: below `spool_reserve` new mail is refused until there is room. */
void housekeeping_watch_space(struct housekeeping *h);

/* Stores, at the end of an orderly run, how many dispatched recipients have no durable result: the
 * stop cut these deliveries short, and no others may repeat. When this cannot be written, the next
 * start reports the larger bound of a crash. */
void housekeeping_store_end(struct engine *e);

#endif
