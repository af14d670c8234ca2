/* What the spool writer's transactions carry besides mail: staged receptions to remove, damaged
 * messages to quarantine, suspended messages to move to the held class, the reservation of ids, and
 * the bound on repeated deliveries. Owner: the spool writer. After a commit that fails all of it is
 * still to be done. */
#ifndef ENGINE_UPKEEP_H
#define ENGINE_UPKEEP_H

#include "base/attr.h"
#include "base/clock.h"
#include "engine/state/dispatch_bound.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct outbox;
struct spool_position;
struct spool_txn;

struct upkeep {
    struct engine *engine;
    uint64_t *discards;
    uint32_t discard_count, discard_capacity;
    uint32_t discarded; /* the transaction under way removes the first so many of `discards` */
    struct spool_position **damaged;
    uint32_t damaged_count, damaged_capacity;
    struct upkeep_park *parks;
    uint32_t park_count, park_capacity;
    uint64_t reserved_ids;         /* as committed */
    uint64_t reserving_ids;        /* in the transaction under way; 0: nothing */
    struct dispatch_bound bound;   /* deliveries that a crash can repeat, as committed */
    struct dispatch_bound binding; /* the next bound, in the transaction under way, if is_binding */
    bool is_binding;
};

/* Makes the first commit: ids that no earlier run handed out, and the bound that a crash is held
 * to. errors: of the store; upkeep_fini is due all the same */
MUST_USE int upkeep_init(struct upkeep *u, struct engine *engine);
void upkeep_fini(struct upkeep *u); /* accepts a zeroed one */

/* Remove a staged reception, or the records that spool_remove leaves of a large message. */
void upkeep_discard(struct upkeep *u, uint64_t id);
/* Move a damaged message to the quarantine; takes the position over. Once that is durable, a
 * LETTER_SETTLED tells the activator that the message is not active any more. */
void upkeep_quarantine(struct upkeep *u, struct spool_position *position,
                       struct outbox *to_activator);

/* Move a message that an order suspends to the held class until `until` (wall). Once that is
 * durable, a LETTER_SETTLED tells the activator that the message is not active any more. */
void upkeep_park(struct upkeep *u, const struct spool_position *from, usec_t until,
                 struct outbox *to_activator);

/* Whether a transaction is wanted. */
bool upkeep_is_due(const struct upkeep *u);
/* errors: of the store */
MUST_USE int upkeep_put(struct upkeep *u, struct spool_txn *txn);
void upkeep_committed(struct upkeep *u, struct outbox *to_activator);

#endif
