/* Changes of the lists of suppressed recipients on their way: made by the http thread from a request,
 * put into a transaction by the spool writer, and sent back with what became of each when that is
 * durable. One owner at a time, as with an intake. */
#ifndef ENGINE_SUPPRESS_BATCH_H
#define ENGINE_SUPPRESS_BATCH_H

#include "base/attr.h"
#include "base/buf.h"
#include "engine/spool/spool_suppress.h"

#include <stdbool.h>
#include <stdint.h>

/* Changes of one batch, and so what one transaction does for a request: some 5 ms. */
#define SUPPRESS_BATCH_MAX 1000

struct suppress_change {
    bool is_removal;
    enum spool_suppress_reason reason;
    usec_t added;   /* wall; 0: now */
    usec_t expires; /* wall; 0: never */
    uint32_t tenant_len, address_len, source_len;
    size_t at; /* of tenant, address and source in the batch's text, one behind the other */

    /* set by the spool writer */
    bool was_there;
};

struct suppress_batch {
    /* set by the http thread */
    void *owner;
    bool is_told; /* each change has an event */
    uint32_t count;
    struct buf text;
    struct suppress_change changes[SUPPRESS_BATCH_MAX];

    /* set by the spool writer */
    int error; /* of the commit: nothing of it is there */
};

/* NULL: out of memory */
struct suppress_batch *suppress_batch_new(void *owner);
void suppress_batch_free(struct suppress_batch *b); /* accepts NULL */
/* Empty again. */
void suppress_batch_clear(struct suppress_batch *b);
/* errors: -ENOMEM. There must be room. */
MUST_USE int suppress_batch_add(struct suppress_batch *b, const struct spool_suppression *s,
                                bool is_removal);
/* What the change was made from; slices are valid until the batch changes. */
void suppress_batch_get(const struct suppress_batch *b, uint32_t index,
                        struct spool_suppression *ret);

#endif
