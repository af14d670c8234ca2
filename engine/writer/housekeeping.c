#include "engine/writer/housekeeping.h"

#include "base/log.h"
#include "base/mailbox.h"
#include "engine/config/config.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/spool/spool_store.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ID_BLOCK = 1 << 20 }; /* ids reserved at a time: one small record a million messages */

struct housekeeping_park {
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

static int store_bound(const struct housekeeping *h, struct spool_txn *txn,
                       const struct dispatch_bound *bound)
{
    return spool_store_bound(txn, dispatch_bound_deliveries(bound, h->engine->sched_count));
}

int housekeeping_init(struct housekeeping *h, struct engine *engine)
{
    uint64_t first = spool_store_first_id(engine->store);
    uint64_t by_clock =
        (uint64_t)spool_store_node(engine->store) << SPOOL_NODE_SHIFT | spool_id_at(clock_wall());
    first = first > by_clock ? first : by_clock;
    struct spool_txn *txn = NULL;
    *h = (struct housekeeping){.engine = engine,
                               .reserved_ids = first + ID_BLOCK,
                               .bound = engine->settings->dispatch_bound};
    int err = spool_begin(engine->store, &txn);
    if (err != 0) {
        return err;
    }
    err = spool_reserve_ids(txn, h->reserved_ids);
    if (err == 0) {
        err = store_bound(h, txn, &h->bound);
    }
    if (err != 0) {
        spool_abort(txn);
        return err;
    }
    err = spool_commit(txn);
    if (err == 0) {
        atomic_store(&engine->next_id, first);
        atomic_store(&engine->node_number, spool_store_node(engine->store));
        atomic_store(&engine->id_limit, h->reserved_ids);
    }
    return err;
}

void housekeeping_fini(struct housekeeping *h)
{
    for (uint32_t i = 0; i < h->damaged_count; i++) {
        free(h->damaged[i]);
    }
    free(h->damaged);
    free(h->discards);
    free(h->parks);
}

void housekeeping_discard(struct housekeeping *h, uint64_t id)
{
    /* Without memory the id is forgotten: the next start clears all staged receptions anyway. */
    uint64_t *discards =
        grown(h->discards, h->discard_count, &h->discard_capacity, sizeof(*discards));
    if (discards != NULL) {
        h->discards = discards;
        h->discards[h->discard_count++] = id;
    }
}

void housekeeping_quarantine(struct housekeeping *h, struct spool_position *position,
                             struct outbox *to_activator)
{
    struct spool_position **damaged =
        grown(h->damaged, h->damaged_count, &h->damaged_capacity, sizeof(struct spool_position *));
    if (damaged != NULL) {
        h->damaged = damaged;
        h->damaged[h->damaged_count++] = position;
    } else {
        /* Without memory the message stays where it is, and the activator finds it again. */
        letter_put_settled(to_activator, NULL, position->id);
        free(position);
    }
}

void housekeeping_park(struct housekeeping *h, const struct spool_position *from, usec_t until,
                       struct outbox *to_activator)
{
    struct housekeeping_park *parks =
        grown(h->parks, h->park_count, &h->park_capacity, sizeof(*parks));
    if (parks == NULL) {
        /* Without memory the message stays where it is, and the activator finds it again. */
        letter_put_settled(to_activator, NULL, from->id);
        return;
    }
    h->parks = parks;
    h->parks[h->park_count++] =
        (struct housekeeping_park){*from, {SPOOL_HELD, (uint64_t)until, from->id, from->flow}};
}

static bool needs_ids(const struct housekeeping *h)
{
    return atomic_load_explicit(&h->engine->next_id, memory_order_relaxed) + ID_BLOCK / 2 >
           h->reserved_ids;
}

/* The bound to commit next: how many deliveries a crash may repeat, after a reload changed the
 * limits. A smaller bound must wait until no delivery in flight and no scheduler is above it, as a
 * crash could repeat the deliveries that were begun by the old limits. */
static struct dispatch_bound next_bound(const struct housekeeping *h)
{
    const struct engine *e = h->engine;
    return dispatch_bound_next(&h->bound, &settings_of(e)->dispatch_bound,
                               atomic_load_explicit(&e->undurable, memory_order_relaxed),
                               engine_entry_limit(e));
}

static bool needs_bound(const struct housekeeping *h)
{
    const struct dispatch_bound next = next_bound(h);
    return !dispatch_bound_is_same(&next, &h->bound) || !engine_is_bound_by(h->engine, &h->bound);
}

/* Begins to replace the committed bound. Until the commit, dispatch keeps to the smaller of the old
 * and the new bound. A scheduler publishes its entry size and then reads the bound; this thread
 * sets the bound and then reads the entry sizes again. So when an entry size has grown and its
 * scheduler has not seen the new bound, this thread sees the size and the old bound stays. */
static void begin_binding(struct housekeeping *h)
{
    h->binding = next_bound(h);
    const struct dispatch_bound least = dispatch_bound_least(&h->binding, &h->bound);
    engine_set_dispatch_bound(h->engine, &least);
    const struct dispatch_bound again = next_bound(h);
    if (!dispatch_bound_is_same(&again, &h->binding)) {
        h->binding = h->bound;
    }
    h->is_binding = true;
}

bool housekeeping_is_due(const struct housekeeping *h)
{
    return h->discard_count > 0 || h->damaged_count > 0 || h->park_count > 0 || needs_ids(h) ||
           needs_bound(h);
}

int housekeeping_put(struct housekeeping *h, struct spool_txn *txn)
{
    int err = 0;
    bool is_done = true;
    h->discarded = 0;
    while (err == 0 && is_done && h->discarded < h->discard_count) {
        err = spool_discard(txn, h->discards[h->discarded], &is_done);
        h->discarded += err == 0 && is_done ? 1 : 0;
    }
    for (uint32_t i = 0; err == 0 && i < h->damaged_count; i++) {
        err = spool_quarantine(txn, h->damaged[i]);
    }
    for (uint32_t i = 0; err == 0 && i < h->park_count; i++) {
        err = spool_requeue(txn, &h->parks[i].from, &h->parks[i].to, NULL);
    }
    h->reserving_ids = 0;
    if (err == 0 && needs_ids(h)) {
        uint64_t next = atomic_load_explicit(&h->engine->next_id, memory_order_relaxed);
        uint16_t node = (uint16_t)(next >> SPOOL_NODE_SHIFT);
        h->reserving_ids = next + ID_BLOCK;
        err = spool_reserve_ids(txn, h->reserving_ids);
        if (err == 0 && node != h->reserved_ids >> SPOOL_NODE_SHIFT) {
            err = spool_set_node(txn, node);
        }
    }
    h->is_binding = false;
    if (err == 0 && needs_bound(h)) {
        begin_binding(h);
        err = store_bound(h, txn, &h->binding);
    }
    return err;
}

void housekeeping_committed(struct housekeeping *h, struct outbox *to_activator)
{
    if (h->reserving_ids != 0) {
        h->reserved_ids = h->reserving_ids;
        atomic_store_explicit(&h->engine->id_limit, h->reserved_ids, memory_order_release);
    }
    if (h->is_binding) {
        h->bound = h->binding;
        engine_set_dispatch_bound(h->engine, &h->bound);
    }
    for (uint32_t i = 0; i < h->damaged_count; i++) {
        char id[MESSAGE_ID_TEXT];
        message_id_format(h->damaged[i]->id, id);
        log_error("spool: message %s is damaged; its records are in quarantine", id);
        letter_put_settled(to_activator, NULL, h->damaged[i]->id);
        free(h->damaged[i]);
    }
    for (uint32_t i = 0; i < h->park_count; i++) {
        letter_put_settled(to_activator, NULL, h->parks[i].to.id);
        /* After LETTER_SETTLED, so that the activator no longer takes the message for active. */
        letter_put_held(to_activator, h->parks[i].to.flow, h->parks[i].to.time);
    }
    h->damaged_count = 0;
    h->discard_count -= h->discarded;
    if (h->discard_count > 0) {
        memmove(h->discards, h->discards + h->discarded, h->discard_count * sizeof(*h->discards));
    }
    h->discarded = 0;
    h->park_count = 0;
}

void housekeeping_store_end(struct engine *e)
{
    struct spool_txn *txn = NULL;
    uint64_t cut = atomic_load_explicit(&e->undurable, memory_order_relaxed);
    if (spool_begin(e->store, &txn) != 0) {
        return;
    }
    if (spool_store_bound(txn, cut) != 0) {
        spool_abort(txn);
    } else if (spool_commit(txn) != 0) {
        log_warning("spool: how the run ended could not be written");
    }
}

void housekeeping_watch_space(struct housekeeping *h)
{
    struct engine *e = h->engine;
    usec_t now = clock_mono();
    if (now - h->space_seen < 100 * USEC_PER_MSEC) {
        return;
    }
    h->space_seen = now;
    uint64_t reserve = e->config->spool.reserve;
    uint64_t free_bytes = spool_store_free_bytes(e->store);
    atomic_store_explicit(&e->free_bytes, free_bytes, memory_order_relaxed);
    bool is_low = (engine_gate(e) & ENGINE_GATE_LOW_SPACE) != 0;
    if (!is_low && free_bytes < reserve) {
        log_warning("spool: %llu bytes free, below spool_reserve; new mail is refused with 452",
                    (unsigned long long)free_bytes);
        engine_gate_set(e, ENGINE_GATE_LOW_SPACE);
    } else if (is_low && free_bytes >= reserve + reserve / 16) {
        log_info("spool: space is back, mail is accepted again");
        engine_gate_clear(e, ENGINE_GATE_LOW_SPACE);
        spool_store_restore_ballast(e->store);
    }
}
