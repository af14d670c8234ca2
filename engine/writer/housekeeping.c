#include "engine/writer/housekeeping.h"

#include "base/log.h"
#include "base/mailbox.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/spool/spool_store.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ID_BLOCK = 1 << 20 }; /* ids reserved at a time: one small record a million messages */

struct upkeep_park {
    struct spool_position from, to;
};

/* Makes room for one more item and returns where the array is now. NULL: out of memory, and the
 * array is unchanged. */
static void *grown(void *items, uint32_t count, uint32_t *capacity, size_t item_bytes)
{
    if (count < *capacity) {
        return items;
    }
    uint32_t wanted = *capacity == 0 ? 64 : *capacity * 2;
    void *moved = realloc(items, wanted * item_bytes);
    if (moved != NULL) {
        *capacity = wanted;
    }
    return moved;
}

static int store_bound(const struct upkeep *u, struct spool_txn *txn,
                       const struct dispatch_bound *bound)
{
    return spool_store_bound(txn, dispatch_bound_deliveries(bound, u->engine->sched_count));
}

int upkeep_init(struct upkeep *u, struct engine *engine)
{
    uint64_t first = spool_store_first_id(engine->store);
    struct spool_txn *txn = NULL;
    *u = (struct upkeep){.engine = engine,
                         .reserved_ids = first + ID_BLOCK,
                         .bound = engine->settings->dispatch_bound};
    int err = spool_begin(engine->store, &txn);
    if (err != 0) {
        return err;
    }
    err = spool_reserve_ids(txn, u->reserved_ids);
    if (err == 0) {
        err = store_bound(u, txn, &u->bound);
    }
    if (err != 0) {
        spool_abort(txn);
        return err;
    }
    err = spool_commit(txn);
    if (err == 0) {
        atomic_store(&engine->next_id, first);
        atomic_store(&engine->id_limit, u->reserved_ids);
    }
    return err;
}

void upkeep_fini(struct upkeep *u)
{
    for (uint32_t i = 0; i < u->damaged_count; i++) {
        free(u->damaged[i]);
    }
    free(u->damaged);
    free(u->discards);
    free(u->parks);
}

void upkeep_discard(struct upkeep *u, uint64_t id)
{
    /* Without memory the id is forgotten: the next start clears all staged receptions anyway. */
    uint64_t *discards =
        grown(u->discards, u->discard_count, &u->discard_capacity, sizeof(*discards));
    if (discards != NULL) {
        u->discards = discards;
        u->discards[u->discard_count++] = id;
    }
}

void upkeep_quarantine(struct upkeep *u, struct spool_position *position,
                       struct outbox *to_activator)
{
    struct spool_position **damaged =
        grown(u->damaged, u->damaged_count, &u->damaged_capacity, sizeof(struct spool_position *));
    if (damaged != NULL) {
        u->damaged = damaged;
        u->damaged[u->damaged_count++] = position;
    } else {
        /* Without memory the message stays where it is, and the activator finds it again. */
        outbox_put(to_activator, LETTER_SETTLED, NULL, position->id);
        free(position);
    }
}

void upkeep_park(struct upkeep *u, const struct spool_position *from, usec_t until,
                 struct outbox *to_activator)
{
    struct upkeep_park *parks = grown(u->parks, u->park_count, &u->park_capacity, sizeof(*parks));
    if (parks == NULL) {
        /* Without memory the message stays where it is, and the activator finds it again. */
        outbox_put(to_activator, LETTER_SETTLED, NULL, from->id);
        return;
    }
    u->parks = parks;
    u->parks[u->park_count++] =
        (struct upkeep_park){*from, {SPOOL_HELD, (uint64_t)until, from->id}};
}

static bool needs_ids(const struct upkeep *u)
{
    return atomic_load_explicit(&u->engine->next_id, memory_order_relaxed) + ID_BLOCK / 2 >
           u->reserved_ids;
}

/* The bound to commit next: how many deliveries a crash may repeat, after a reload changed the
 * limits. A smaller bound must wait until no delivery in flight and no scheduler is above it, as a
 * crash could repeat the deliveries that were begun by the old limits. */
static struct dispatch_bound next_bound(const struct upkeep *u)
{
    const struct engine *e = u->engine;
    return dispatch_bound_next(&u->bound, &settings_of(e)->dispatch_bound,
                               atomic_load_explicit(&e->undurable, memory_order_relaxed),
                               engine_entry_limit(e));
}

static bool needs_bound(const struct upkeep *u)
{
    const struct dispatch_bound next = next_bound(u);
    return !dispatch_bound_is_same(&next, &u->bound) || !engine_is_bound_by(u->engine, &u->bound);
}

/* Begins to replace the committed bound. Until the commit, dispatch keeps to the smaller of the old
 * and the new bound. A scheduler publishes its entry size and then reads the bound; this thread
 * sets the bound and then reads the entry sizes again. So when an entry size has grown and its
 * scheduler has not seen the new bound, this thread sees the size and the old bound stays. */
static void begin_binding(struct upkeep *u)
{
    u->binding = next_bound(u);
    const struct dispatch_bound least = dispatch_bound_least(&u->binding, &u->bound);
    engine_set_dispatch_bound(u->engine, &least);
    const struct dispatch_bound again = next_bound(u);
    if (!dispatch_bound_is_same(&again, &u->binding)) {
        u->binding = u->bound;
    }
    u->is_binding = true;
}

bool upkeep_is_due(const struct upkeep *u)
{
    return u->discard_count > 0 || u->damaged_count > 0 || u->park_count > 0 || needs_ids(u) ||
           needs_bound(u);
}

int upkeep_put(struct upkeep *u, struct spool_txn *txn)
{
    int err = 0;
    bool is_done = true;
    u->discarded = 0;
    while (err == 0 && is_done && u->discarded < u->discard_count) {
        err = spool_discard(txn, u->discards[u->discarded], &is_done);
        u->discarded += err == 0 && is_done ? 1 : 0;
    }
    for (uint32_t i = 0; err == 0 && i < u->damaged_count; i++) {
        err = spool_quarantine(txn, u->damaged[i]);
    }
    for (uint32_t i = 0; err == 0 && i < u->park_count; i++) {
        err = spool_requeue(txn, &u->parks[i].from, &u->parks[i].to, NULL);
    }
    u->reserving_ids = 0;
    if (err == 0 && needs_ids(u)) {
        uint64_t next = atomic_load_explicit(&u->engine->next_id, memory_order_relaxed);
        u->reserving_ids = next + ID_BLOCK;
        err = spool_reserve_ids(txn, u->reserving_ids);
    }
    u->is_binding = false;
    if (err == 0 && needs_bound(u)) {
        begin_binding(u);
        err = store_bound(u, txn, &u->binding);
    }
    return err;
}

void upkeep_committed(struct upkeep *u, struct outbox *to_activator)
{
    if (u->reserving_ids != 0) {
        u->reserved_ids = u->reserving_ids;
        atomic_store_explicit(&u->engine->id_limit, u->reserved_ids, memory_order_release);
    }
    if (u->is_binding) {
        u->bound = u->binding;
        engine_set_dispatch_bound(u->engine, &u->bound);
    }
    for (uint32_t i = 0; i < u->damaged_count; i++) {
        char id[MESSAGE_ID_TEXT];
        message_id_format(u->damaged[i]->id, id);
        log_error("spool: message %s is damaged; its records are in quarantine", id);
        outbox_put(to_activator, LETTER_SETTLED, NULL, u->damaged[i]->id);
        free(u->damaged[i]);
    }
    for (uint32_t i = 0; i < u->park_count; i++) {
        outbox_put(to_activator, LETTER_SETTLED, NULL, u->parks[i].to.id);
        /* After LETTER_SETTLED, so that the activator no longer takes the message for active. */
        outbox_put(to_activator, LETTER_HELD, NULL, u->parks[i].to.time);
    }
    u->damaged_count = 0;
    u->discard_count -= u->discarded;
    if (u->discard_count > 0) {
        memmove(u->discards, u->discards + u->discarded, u->discard_count * sizeof(*u->discards));
    }
    u->discarded = 0;
    u->park_count = 0;
}
