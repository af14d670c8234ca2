/* The indexed 4-ary heap: four children share a cache line of pointers, so it is shallower than a
 * binary one. Pure; the order is (key, sequence), which is total, so that runs are reproducible. */
#include "base/heap.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HEAP_ARITY          4
#define HEAP_FIRST_CAPACITY 16
#define HEAP_MAX_CAPACITY   (UINT32_C(1) << 30)

static void *default_alloc(void *ctx, size_t size)
{
    return malloc(size);
}

static void default_release(void *ctx, void *obj)
{
    free(obj);
}

void heap_init(struct heap *h, void *(*alloc)(void *, size_t), void (*release)(void *, void *),
               void *ctx)
{
    assert((alloc == NULL) == (release == NULL));
    *h = (struct heap){
        .alloc = alloc == NULL ? default_alloc : alloc,
        .release = release == NULL ? default_release : release,
        .ctx = ctx,
    };
}

void heap_fini(struct heap *h)
{
    if (h->nodes != NULL) {
        h->release(h->ctx, h->nodes);
    }
    h->nodes = NULL;
    h->count = h->capacity = 0;
}

static bool is_before(const struct heap_node *a, const struct heap_node *b)
{
    return a->key != b->key ? a->key < b->key : a->sequence < b->sequence;
}

static void place(struct heap *h, struct heap_node *node, uint32_t index)
{
    h->nodes[index] = node;
    node->position = index + 1;
}

static void sift_up(struct heap *h, struct heap_node *node, uint32_t index)
{
    while (index > 0) {
        uint32_t parent = (index - 1) / HEAP_ARITY;
        if (!is_before(node, h->nodes[parent])) {
            break;
        }
        place(h, h->nodes[parent], index);
        index = parent;
    }
    place(h, node, index);
}

static void sift_down(struct heap *h, struct heap_node *node, uint32_t index)
{
    for (;;) {
        uint64_t first = (uint64_t)index * HEAP_ARITY + 1;
        if (first >= h->count) {
            break;
        }
        uint32_t best = (uint32_t)first;
        uint32_t end = h->count - best > HEAP_ARITY ? best + HEAP_ARITY : h->count;
        for (uint32_t child = best + 1; child < end; child++) {
            if (is_before(h->nodes[child], h->nodes[best])) {
                best = child;
            }
        }
        if (!is_before(h->nodes[best], node)) {
            break;
        }
        place(h, h->nodes[best], index);
        index = best;
    }
    place(h, node, index);
}

static int grow_heap(struct heap *h)
{
    uint32_t capacity = h->capacity == 0 ? HEAP_FIRST_CAPACITY : h->capacity * 2;
    if (capacity > HEAP_MAX_CAPACITY) {
        return -ENOMEM;
    }
    struct heap_node **nodes = h->alloc(h->ctx, capacity * sizeof(struct heap_node *));
    if (nodes == NULL) {
        return -ENOMEM;
    }
    if (h->nodes != NULL) {
        memcpy(nodes, h->nodes, h->count * sizeof(struct heap_node *));
        h->release(h->ctx, h->nodes);
    }
    h->nodes = nodes;
    h->capacity = capacity;
    return 0;
}

int heap_insert(struct heap *h, struct heap_node *node, int64_t key)
{
    assert(node->position == 0);
    if (h->count == h->capacity) {
        int err = grow_heap(h);
        if (err != 0) {
            return err;
        }
    }
    node->key = key;
    node->sequence = h->next_sequence++;
    sift_up(h, node, h->count++);
    return 0;
}

/* Put a node into a hole, where it may belong above or below. */
static void settle_node(struct heap *h, struct heap_node *node, uint32_t index)
{
    if (index > 0 && is_before(node, h->nodes[(index - 1) / HEAP_ARITY])) {
        sift_up(h, node, index);
    } else {
        sift_down(h, node, index);
    }
}

void heap_remove(struct heap *h, struct heap_node *node)
{
    if (node->position == 0) {
        return;
    }
    uint32_t index = node->position - 1;
    assert(index < h->count && h->nodes[index] == node);
    node->position = 0;
    struct heap_node *last = h->nodes[--h->count];
    if (last != node) {
        settle_node(h, last, index);
    }
}

void heap_move(struct heap *h, struct heap_node *node, int64_t key)
{
    assert(node->position != 0 && node->position <= h->count);
    uint32_t index = node->position - 1;
    assert(h->nodes[index] == node);
    node->key = key;
    settle_node(h, node, index);
}
