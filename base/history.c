/* The ring and its sequences; see the head of the header. Called by whoever keeps figures over
 * time; must not lock, as schedulers write here. */
#include "base/history.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct history {
    /* set at creation */
    uint32_t capacity;
    uint32_t words; /* of a record */

    /* any thread, atomic; stored by the writer */
    _Atomic uint64_t end;
    _Atomic uint64_t slots[]; /* [capacity][1 + words]: sequence and record */
};

struct history *history_new(uint32_t capacity, size_t record_bytes)
{
    size_t words = record_bytes / sizeof(uint64_t);
    assert(capacity > 0 && words > 0 && record_bytes % sizeof(uint64_t) == 0);
    struct history *h =
        calloc(1, sizeof(struct history) + sizeof(uint64_t) * capacity * (1 + words));
    if (h != NULL) {
        h->capacity = capacity;
        h->words = (uint32_t)words;
    }
    return h;
}

void history_free(struct history *h)
{
    free(h);
}

static size_t slot_of(const struct history *h, uint64_t number)
{
    return (size_t)(number % h->capacity) * (1 + h->words);
}

/* Of a record that is complete. */
static uint64_t sequence_of(uint64_t number)
{
    return 2 * number + 2;
}

void history_put(struct history *h, const void *record)
{
    uint64_t number = atomic_load_explicit(&h->end, memory_order_relaxed);
    _Atomic uint64_t *slot = &h->slots[slot_of(h, number)];
    atomic_store_explicit(slot, sequence_of(number) - 1, memory_order_relaxed);
    for (uint32_t i = 0; i < h->words; i++) {
        uint64_t word;
        memcpy(&word, (const char *)record + i * sizeof(word), sizeof(word));
        atomic_store_explicit(&slot[1 + i], word, memory_order_release); /* see history_get */
    }
    atomic_store_explicit(slot, sequence_of(number), memory_order_release);
    atomic_store_explicit(&h->end, number + 1, memory_order_release);
}

uint64_t history_end(const struct history *h)
{
    /* Acquire pairs with the release of history_put: records below are complete. */
    return atomic_load_explicit(&h->end, memory_order_acquire);
}

uint64_t history_begin(const struct history *h)
{
    uint64_t end = history_end(h);
    return end > h->capacity ? end - h->capacity : 0;
}

bool history_get(const struct history *h, uint64_t number, void *ret)
{
    const _Atomic uint64_t *slot = &h->slots[slot_of(h, number)];
    /* Acquire pairs with the releases of history_put, here and below. */
    if (atomic_load_explicit(slot, memory_order_acquire) != sequence_of(number)) {
        return false;
    }
    for (uint32_t i = 0; i < h->words; i++) {
        uint64_t word = atomic_load_explicit(&slot[1 + i], memory_order_acquire);
        memcpy((char *)ret + i * sizeof(word), &word, sizeof(word));
    }
    return atomic_load_explicit(slot, memory_order_relaxed) == sequence_of(number);
}
