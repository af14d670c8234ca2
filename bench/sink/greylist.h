/* Who tried to send what to whom, and when first. Knows no clock. Owner: whoever holds the lock of
 * the destination it belongs to. */
#ifndef BENCH_GREYLIST_H
#define BENCH_GREYLIST_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GREYLIST_MAX 16000000 /* triples that are remembered; others pass at once */

struct greylist_entry {
    uint64_t key; /* hash of the triple; 0 = free */
    usec_t first;
};

/* Zeroed is empty. */
struct greylist {
    struct greylist_entry *entries; /* heap; open addressing */
    size_t capacity;                /* a power of two, or 0 */
    size_t count;
};

/* One try of this client, sender and recipient (any case) at `now`. Aborts when there is no memory.
 *
 * returns  true when it may pass: `delay` has passed since the first try
 */
MUST_USE bool greylist_pass(struct greylist *g, const uint8_t client[16], struct slice sender,
                            struct slice recipient, usec_t delay, usec_t now);
void greylist_fini(struct greylist *g); /* accepts a zeroed one */

#endif
