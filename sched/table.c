/* Hash table of pointers with one writer and lock-free readers. Called by sched/destination.c and
 * sched/job.c; knows nothing of what the nodes are embedded in. */
#include "sched/table.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define MIN_BITS   4
#define MAX_BITS   30
#define CACHE_LINE 64
/* Rebuild at 5/8 full, into an array that the nodes fill to 5/16 at most. Those that were promised may fill it to 15/16
 * when they come, until the next one that was not promised: they seldom come, and then where others left. */
#define FULL(capacity)     ((capacity) / 8 * 5)
#define PROMISED(capacity) ((capacity) / 16 * 15)
#define REBUILT(capacity)  ((capacity) / 16 * 13) /* of one that is rebuilt: an eighth to go */

/* A search waits for one cache line, not for two in pages of their own. */
struct table_slot {
    struct table_node *node; /* any thread, RCU-published */
    /* Low half of the hash: so a rebuild reads no node, and a search none but the one it looks for. Any thread,
     * relaxed: it was stored before the node, and is another one's only when that node was removed since. */
    uint32_t prefix;
};

struct table_slots {
    uint32_t bits;                       /* capacity = 1 << bits */
    _Alignas(16) struct table_slot at[]; /* as memory from malloc is: none lies in two lines */
};

static uint64_t reversed(uint64_t v)
{
    v = ((v >> 1) & UINT64_C(0x5555555555555555)) | ((v & UINT64_C(0x5555555555555555)) << 1);
    v = ((v >> 2) & UINT64_C(0x3333333333333333)) | ((v & UINT64_C(0x3333333333333333)) << 2);
    v = ((v >> 4) & UINT64_C(0x0f0f0f0f0f0f0f0f)) | ((v & UINT64_C(0x0f0f0f0f0f0f0f0f)) << 4);
    return __builtin_bswap64(v);
}

static uint32_t mask_of(const struct table_slots *slots)
{
    return (UINT32_C(1) << slots->bits) - 1;
}

static struct table_slots *slots_new(const struct sched_host *host, uint32_t bits)
{
    size_t size = sizeof(struct table_slots) + ((size_t)1 << bits) * sizeof(struct table_slot);
    struct table_slots *slots = host->alloc(host->ctx, size);
    if (slots == NULL) {
        return NULL;
    }
    memset(slots, 0, size);
    slots->bits = bits;
    return slots;
}

int table_init(struct table *t, const struct sched_host *host)
{
    *t = (struct table){.slots = slots_new(host, MIN_BITS), .host = host};
    return t->slots == NULL ? -ENOMEM : 0;
}

void table_fini(struct table *t)
{
    if (t->slots != NULL) {
        t->host->retire(t->host->ctx, t->slots);
        t->slots = NULL;
    }
}

/* Release pairs with the acquire of readers: they see the node that they reach. */
static void store_slot(struct table_slots *slots, uint32_t at, struct table_node *node)
{
    __atomic_store_n(&slots->at[at].node, node, __ATOMIC_RELEASE);
}

static struct table_node *load_slot(const struct table_slots *slots, uint32_t at)
{
    return __atomic_load_n(&slots->at[at].node, __ATOMIC_ACQUIRE);
}

static uint32_t prefix_of(const struct table_slots *slots, uint32_t at)
{
    return __atomic_load_n(&slots->at[at].prefix, __ATOMIC_RELAXED);
}

int table_reserve(struct table *t)
{
    struct table_slots *old = t->slots;
    uint32_t capacity = mask_of(old) + 1, bits = MIN_BITS;
    if (t->used + 1 <= FULL(capacity) && t->used + t->promised + 1 <= PROMISED(capacity)) {
        return 0;
    }
    while (bits < MAX_BITS && (FULL(UINT32_C(1) << bits) < 2 * (t->count + 1) ||
                               REBUILT(UINT32_C(1) << bits) < t->count + t->promised + 1)) {
        bits++;
    }
    struct table_slots *slots = slots_new(t->host, bits);
    if (slots == NULL) {
        return -ENOMEM;
    }
    uint32_t mask = mask_of(slots);
    assert(t->count < mask);
    for (uint32_t i = 0; i < capacity; i++) {
        struct table_node *node = old->at[i].node;
        if (node == NULL || node == &t->tomb) {
            continue;
        }
        uint32_t at = old->at[i].prefix & mask;
        while (slots->at[at].node != NULL) {
            at = (at + 1) & mask;
        }
        slots->at[at].node = node;
        slots->at[at].prefix = old->at[i].prefix;
    }
    t->used = t->count;
    __atomic_store_n(&t->slots, slots, __ATOMIC_RELEASE);
    t->host->retire(t->host->ctx, old);
    return 0;
}

int table_promise(struct table *t)
{
    int err = table_reserve(t);
    t->promised += err == 0;
    return err;
}

void table_take_back(struct table *t)
{
    assert(t->promised > 0);
    t->promised--;
}

void table_insert(struct table *t, struct table_node *node)
{
    struct table_slots *slots = t->slots;
    uint32_t mask = mask_of(slots);
    /* One bit is given up so that a cursor one past the last node does not wrap. */
    node->hash &= INT64_MAX;
    uint32_t at = (uint32_t)node->hash & mask;
    while (slots->at[at].node != NULL && slots->at[at].node != &t->tomb) {
        at = (at + 1) & mask;
    }
    if (slots->at[at].node == NULL) {
        t->used++;
        assert(t->used <= mask);
    }
    __atomic_store_n(&slots->at[at].prefix, (uint32_t)node->hash, __ATOMIC_RELAXED);
    store_slot(slots, at, node);
    t->count++;
}

void table_remove(struct table *t, struct table_node *node)
{
    struct table_slots *slots = t->slots;
    uint32_t mask = mask_of(slots);
    uint32_t at = (uint32_t)node->hash & mask;
    while (slots->at[at].node != node) {
        assert(slots->at[at].node != NULL);
        at = (at + 1) & mask;
    }
    t->count--;
    if (slots->at[(at + 1) & mask].node != NULL) {
        store_slot(slots, at, &t->tomb);
        return;
    }
    /* No probe goes on past an empty slot, so this one and the tombs before it can be empty too. */
    do {
        store_slot(slots, at, NULL);
        t->used--;
        at = (at - 1) & mask;
    } while (slots->at[at].node == &t->tomb);
}

struct table_node *table_find(const struct table *t, uint64_t hash, table_match *match,
                              const void *key)
{
    const struct table_slots *slots = __atomic_load_n(&t->slots, __ATOMIC_ACQUIRE);
    uint32_t mask = mask_of(slots);
    hash &= INT64_MAX;
    for (uint32_t at = (uint32_t)hash & mask;; at = (at + 1) & mask) {
        struct table_node *node = load_slot(slots, at);
        if (node == NULL) {
            return NULL;
        }
        if (node != &t->tomb && prefix_of(slots, at) == (uint32_t)hash && node->hash == hash &&
            match(node, key)) {
            return node;
        }
    }
}

void table_expect(const struct table *t, uint64_t hash)
{
    const struct table_slots *slots = __atomic_load_n(&t->slots, __ATOMIC_ACQUIRE);
    uint32_t at = (uint32_t)hash & mask_of(slots);
    __builtin_prefetch(&slots->at[at]);
}

void table_expect_node(const struct table *t, uint64_t hash, size_t offset, size_t bytes)
{
    const struct table_slots *slots = __atomic_load_n(&t->slots, __ATOMIC_ACQUIRE);
    uint32_t mask = mask_of(slots);
    hash &= INT64_MAX;
    uint32_t at = (uint32_t)hash & mask;
    const struct table_node *node = load_slot(slots, at);
    while (node != NULL && (node == &t->tomb || prefix_of(slots, at) != (uint32_t)hash)) {
        at = (at + 1) & mask;
        node = load_slot(slots, at);
    }
    if (node == NULL) {
        return;
    }
    const char *from = (const char *)node - offset;
    for (size_t i = 0; i < bytes + CACHE_LINE - 1; i += CACHE_LINE) {
        __builtin_prefetch(from + (i < bytes ? i : bytes - 1));
    }
}

/* The node of one bucket with the smallest reversed hash >= from. A bucket's nodes lie between its
 * first slot and the next empty one, among those of its neighbours. */
static struct table_node *first_in_bucket(const struct table *t, const struct table_slots *slots,
                                          uint32_t bucket, uint64_t from, uint64_t *ret_order)
{
    uint32_t mask = mask_of(slots);
    struct table_node *best = NULL;
    for (uint32_t at = bucket;; at = (at + 1) & mask) {
        struct table_node *node = load_slot(slots, at);
        if (node == NULL) {
            return best;
        }
        if (node == &t->tomb || ((uint32_t)node->hash & mask) != bucket) {
            continue;
        }
        uint64_t order = reversed(node->hash);
        if (order >= from && (best == NULL || order < *ret_order)) {
            best = node;
            *ret_order = order;
        }
    }
}

struct table_node *table_next(const struct table *t, uint64_t *cursor)
{
    const struct table_slots *slots = __atomic_load_n(&t->slots, __ATOMIC_ACQUIRE);
    /* Buckets in the order of their reversed numbers: an array twice as long splits each bucket in
     * two neighbours of this order, so the position means the same in both. */
    uint32_t last = mask_of(slots);
    for (uint64_t i = *cursor >> (64 - slots->bits); i <= last; i++) {
        uint32_t bucket = (uint32_t)(reversed(i) >> (64 - slots->bits));
        uint64_t order = 0;
        struct table_node *node = first_in_bucket(t, slots, bucket, *cursor, &order);
        if (node != NULL) {
            *cursor = order + 1;
            return node;
        }
    }
    *cursor = UINT64_MAX;
    return NULL;
}
