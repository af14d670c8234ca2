/* Objects carved from blocks; freed ones are chained through their first word. Under a sanitizer
 * every object comes from malloc, so that a late use is seen by it. */
#include "base/pool.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#define POOL_ALIGN 16

struct free_object {
    struct free_object *next;
};

struct block {
    _Alignas(POOL_ALIGN) struct block *next;
    _Alignas(POOL_ALIGN) unsigned char objects[];
};

void pool_init(struct pool *p, size_t object_bytes, size_t objects_per_block)
{
    assert(object_bytes > 0 && object_bytes <= SIZE_MAX / 2 && objects_per_block > 0);
    *p = (struct pool){
        .object_bytes = (object_bytes + POOL_ALIGN - 1) / POOL_ALIGN * POOL_ALIGN,
        .objects_per_block = objects_per_block,
    };
    assert(p->object_bytes <= (SIZE_MAX - sizeof(struct block)) / objects_per_block);
}

void pool_fini(struct pool *p)
{
    assert(p->in_use == 0);
    struct block *block = p->blocks;
    while (block != NULL) {
        struct block *next = block->next;
        free(block);
        block = next;
    }
    p->blocks = NULL;
    p->free_list = NULL;
}

#ifdef SLUICE_SANITIZED

void *pool_get(struct pool *p)
{
    void *object = malloc(p->object_bytes);
    p->in_use += object != NULL;
    return object;
}

void pool_put(struct pool *p, void *object)
{
    assert(object != NULL && p->in_use > 0);
    p->in_use--;
    free(object);
}

#else

static void push_free(struct pool *p, void *object)
{
    struct free_object *node = object;
    node->next = p->free_list;
    p->free_list = node;
}

static void add_block(struct pool *p)
{
    struct block *block = malloc(sizeof(*block) + p->object_bytes * p->objects_per_block);
    if (block == NULL) {
        return;
    }
    block->next = p->blocks;
    p->blocks = block;
    /* From the end, so that objects leave in the order of their addresses. */
    for (size_t i = p->objects_per_block; i-- > 0;) {
        push_free(p, block->objects + i * p->object_bytes);
    }
}

void *pool_get(struct pool *p)
{
    if (p->free_list == NULL) {
        add_block(p);
    }
    struct free_object *object = p->free_list;
    if (object != NULL) {
        p->free_list = object->next;
        p->in_use++;
    }
    return object;
}

void pool_put(struct pool *p, void *object)
{
    assert(object != NULL && p->in_use > 0);
    p->in_use--;
    push_free(p, object);
}

#endif
