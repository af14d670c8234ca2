/* One of many by weight, in constant time: an alias table. Immutable once built, so any thread. */
#ifndef BENCH_CHOICE_H
#define BENCH_CHOICE_H

#include "base/attr.h"

#include <stdint.h>

struct choice_column {
    uint32_t own;   /* of 2^32: the share of the column that is its own */
    uint32_t other; /* whom the rest belongs to; itself when there is none */
};

/* Zeroed: nothing to choose from. */
struct choice {
    struct choice_column *columns; /* heap; count of them */
    uint32_t count;
};

/* weights: count > 0 finite numbers >= 0, not all 0; not kept. errors: -ENOMEM
 * source: Vose, A linear algorithm for generating random numbers with a given distribution, 1991 */
MUST_USE int choice_init(struct choice *c, const double *weights, uint32_t count);
/* Zipf's law: the k-th of count (from 1) has the weight 1/k^exponent; with exponent 0 all have the
 * same. */
MUST_USE int choice_init_zipf(struct choice *c, uint32_t count, double exponent);
void choice_fini(struct choice *c);
/* random: 64 uniform bits. returns: 0 to count - 1; shares are exact to count/2^32 of themselves */
uint32_t choice_pick(const struct choice *c, uint64_t random);

#endif
