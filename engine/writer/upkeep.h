/* What the spool writer's transactions carry besides mail: staged receptions to forget, damaged
 * messages to put aside, suspended ones to put off, and the reservation of ids. Owner: the spool
 * writer; what is to be done is kept over a commit that fails. */
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
    uint32_t discarded; /* in the transaction under way: the first so many */
    struct spool_position **damaged;
    uint32_t damaged_count, damaged_capacity;
    struct upkeep_park *parks;
    uint32_t park_count, park_capacity;
    uint64_t reserved_ids;         /* as committed */
    uint64_t reserving_ids;        /* in the transaction under way; 0: nothing */
    struct dispatch_bound bound;   /* on what a crash can repeat, as committed */
    struct dispatch_bound binding; /* in the transaction under way, when is_binding */
    bool is_binding;
};

/* Makes the first commit: ids that no earlier run handed out, and the bound that a crash is held
 * to. errors: of the store; upkeep_fini is due all the same */
MUST_USE int upkeep_init(struct upkeep *u, struct engine *engine);
void upkeep_fini(struct upkeep *u); /* accepts a zeroed one */

/* Forget a staged reception, or what a large message left (spool_remove). */
void upkeep_discard(struct upkeep *u, uint64_t id);
/* Put a damaged message aside; takes the position over. The activator gets its place back. */
void upkeep_quarantine(struct upkeep *u, struct spool_position *position,
                       struct outbox *to_activator);

/* A message that an order suspends waits from now on for `until` (wall). The activator gets its
 * place back. */
void upkeep_park(struct upkeep *u, const struct spool_position *from, usec_t until,
                 struct outbox *to_activator);

/* Whether a transaction is wanted. */
bool upkeep_is_due(const struct upkeep *u);
/* errors: of the store */
MUST_USE int upkeep_put(struct upkeep *u, struct spool_txn *txn);
void upkeep_committed(struct upkeep *u, struct outbox *to_activator);

#endif
