/* At most so many in so much time: a bucket of tokens in whole numbers, without a clock of its own.
 * Owner: whoever holds the lock of the destination or the client it belongs to. */
#ifndef BENCH_RATE_LIMIT_H
#define BENCH_RATE_LIMIT_H

#include "base/attr.h"
#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

#define RATE_COUNT_MAX 10000000 /* with a day as the unit the arithmetic stays in 63 bits */

struct rate {
    uint64_t count; /* at most so many, 1..RATE_COUNT_MAX; 0: no limit */
    usec_t span;    /* in each of these, 1..a day */
    uint64_t burst; /* the bucket holds so many, 1..RATE_COUNT_MAX */
};

/* Zeroed is a full bucket. */
struct rate_limit {
    bool is_begun;
    usec_t last;    /* when `credit` was right */
    int64_t credit; /* a token costs `span`; `burst` tokens fit in */
};

/* Take one token at `now`. The bucket is full at first, so `burst` may come at once, and then one
 * each span / count.
 *
 * now      monotonic; an earlier one than before counts as the same time
 * returns  false when there is none
 */
MUST_USE bool rate_limit_take(struct rate_limit *l, const struct rate *rate, usec_t now);
/* From `at` on another rate holds: what is in the bucket stays in it as far as it fits. Without a
 * rate before, it is full. */
void rate_limit_change(struct rate_limit *l, const struct rate *from, const struct rate *to,
                       usec_t at);

#endif
