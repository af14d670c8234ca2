/* Fixed-size objects from blocks, with a free list; one owner thread. pool_put of an object makes
 * it available at once; nothing is zeroed. Objects are aligned like malloc's (16 bytes). Under a
 * sanitizer each object is its own allocation. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <stddef.h>

struct pool {
    size_t object_bytes;
    size_t objects_per_block;
    void *blocks;
    void *free_list;
    size_t in_use;
};

void pool_init(struct pool *p, size_t object_bytes, size_t objects_per_block);
void pool_fini(struct pool *p); /* asserts in_use == 0 */
void *pool_get(struct pool *p); /* NULL when out of memory */
void pool_put(struct pool *p, void *object);

#endif
