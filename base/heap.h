/* Indexed 4-ary min-heap of deadlines; the node knows its position, so removal needs no search.
 * Pure; one owner. Nodes are embedded in objects that the caller owns. Equal keys leave in the
 * order of insertion (a sequence number breaks ties), so that the order is reproducible; heap_move
 * keeps a node's place among its equals. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
    int64_t key;
    uint64_t sequence; /* set by heap_insert */
    uint32_t position; /* 1-based; 0 = not in a heap */
};

struct heap {
    struct heap_node **nodes;
    uint32_t count, capacity;
    uint64_t next_sequence;
    void *(*alloc)(void *ctx, size_t size);
    void (*release)(void *ctx, void *obj);
    void *ctx;
};

/* alloc and release NULL: malloc and free. */
void heap_init(struct heap *h, void *(*alloc)(void *, size_t), void (*release)(void *, void *),
               void *ctx);
void heap_fini(struct heap *h);
/* errors: -ENOMEM, nothing changed */
MUST_USE int heap_insert(struct heap *h, struct heap_node *node, int64_t key);
void heap_remove(struct heap *h, struct heap_node *node); /* no-op when not in the heap */
void heap_move(struct heap *h, struct heap_node *node, int64_t key); /* must be in the heap */
static inline struct heap_node *heap_min(const struct heap *h)
{
    return h->count == 0 ? NULL : h->nodes[0];
}

#endif
