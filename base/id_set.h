/* A set of message ids. One owner, one thread; open addressing, which moves nothing but on growth
 * and on removal. */
#ifndef BASE_ID_SET_H
#define BASE_ID_SET_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct id_set {
    uint64_t *ids; /* 0: free */
    size_t capacity, count;
};

/* A zeroed one is empty, and needs no other initialisation. */
void id_set_fini(struct id_set *s); /* leaves it empty, without memory */

bool id_set_has(const struct id_set *s, uint64_t id);
/* id: not 0; nothing happens when it is there already. false: out of memory, it is not in */
MUST_USE bool id_set_add(struct id_set *s, uint64_t id);
void id_set_remove(struct id_set *s, uint64_t id); /* nothing happens when it is not there */

#endif
