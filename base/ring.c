/* Vyukov's bounded queue with one consumer.
 *
 * Concurrency. Position p uses slot p modulo capacity. A slot's turn is
 *   p             free for the producer that claims position p,
 *   p + 1         holds the record of position p,
 *   p + capacity  free again, for the next lap.
 * Claim: compare-and-swap on `tail`, relaxed; it only decides who owns the slot. Publication: the
 * producer's release store of p + 1 pairs with the consumer's acquire load in ring_pop. Reuse: the
 * consumer's release store of p + capacity pairs with the acquire load in ring_try_push, so that a
 * record is never overwritten while it is copied out. `head` is written by the consumer alone and
 * atomic only because ring_count may read it from elsewhere. */
#include "base/ring.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define RING_RECORD_LIMIT   64
#define RING_CAPACITY_LIMIT ((size_t)1 << 30)

struct slot {
    _Atomic uint64_t turn;
    unsigned char record[];
};

struct ring {
    /* Set at creation; read by everybody, so away from the indices. */
    unsigned char *slots;
    uint64_t mask;
    size_t record_bytes;
    size_t slot_bytes;
    _Alignas(CACHE_LINE) _Atomic uint64_t tail; /* next position to claim; any thread */
    _Alignas(CACHE_LINE) _Atomic uint64_t head; /* next position to take; written by the consumer */
};

static_assert(sizeof(struct ring) == (size_t)3 * CACHE_LINE, "each index has a line of its own");

static size_t power_of_two(size_t at_least)
{
    size_t power = 2;
    while (power < at_least) {
        power *= 2;
    }
    return power;
}

static struct slot *slot_at(const struct ring *r, uint64_t position)
{
    return (struct slot *)(void *)(r->slots + (position & r->mask) * r->slot_bytes);
}

struct ring *ring_new(size_t capacity, size_t record_bytes)
{
    assert(record_bytes > 0 && record_bytes <= RING_RECORD_LIMIT);
    if (capacity > RING_CAPACITY_LIMIT) {
        return NULL;
    }
    capacity = power_of_two(capacity);
    /* A power of two, so that a slot of up to a line never lies across two. */
    size_t slot_bytes = power_of_two(sizeof(struct slot) + record_bytes);
    struct ring *r = aligned_alloc(CACHE_LINE, sizeof(struct ring));
    unsigned char *slots = aligned_alloc(
        CACHE_LINE, capacity * slot_bytes < CACHE_LINE ? CACHE_LINE : capacity * slot_bytes);
    if (r == NULL || slots == NULL) {
        free(r);
        free(slots);
        return NULL;
    }
    r->slots = slots;
    r->mask = capacity - 1;
    r->record_bytes = record_bytes;
    r->slot_bytes = slot_bytes;
    atomic_init(&r->tail, 0);
    atomic_init(&r->head, 0);
    for (uint64_t i = 0; i < capacity; i++) {
        atomic_init(&slot_at(r, i)->turn, i);
    }
    return r;
}

void ring_free(struct ring *r)
{
    if (r != NULL) {
        free(r->slots);
        free(r);
    }
}

bool ring_try_push(struct ring *r, const void *record)
{
    uint64_t position = atomic_load_explicit(&r->tail, memory_order_relaxed);
    for (;;) {
        struct slot *slot = slot_at(r, position);
        /* Partner: the consumer's release store at the end of ring_pop. */
        uint64_t turn = atomic_load_explicit(&slot->turn, memory_order_acquire);
        if (turn == position) {
            if (atomic_compare_exchange_weak_explicit(&r->tail, &position, position + 1,
                                                      memory_order_relaxed, memory_order_relaxed)) {
                memcpy(slot->record, record, r->record_bytes);
                /* Partner: the consumer's acquire load in ring_pop. */
                atomic_store_explicit(&slot->turn, position + 1, memory_order_release);
                return true;
            }
        } else if (turn < position) {
            return false; /* still holds a record of the lap before */
        } else {
            position = atomic_load_explicit(&r->tail, memory_order_relaxed);
        }
    }
}

void ring_push(struct ring *r, const void *record)
{
    bool has_room = ring_try_push(r, record);
    assert(has_room && "more records in flight than credits");
    (void)has_room; /* read by the assertion only */
}

bool ring_pop(struct ring *r, void *ret_record)
{
    uint64_t position = atomic_load_explicit(&r->head, memory_order_relaxed);
    struct slot *slot = slot_at(r, position);
    /* Partner: the producer's release store at the end of ring_try_push. */
    if (atomic_load_explicit(&slot->turn, memory_order_acquire) != position + 1) {
        return false;
    }
    memcpy(ret_record, slot->record, r->record_bytes);
    /* Partner: the acquire load of the producer of the next lap. */
    atomic_store_explicit(&slot->turn, position + r->mask + 1, memory_order_release);
    atomic_store_explicit(&r->head, position + 1, memory_order_relaxed);
    return true;
}

size_t ring_count(const struct ring *r)
{
    /* Two moments, so the difference is clamped to what a ring can hold. */
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    uint64_t count = tail >= head ? tail - head : 0;
    return (size_t)(count > r->mask + 1 ? r->mask + 1 : count);
}
