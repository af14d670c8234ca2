/* The latencies of one destination among many: the scale of base/histogram.h, but only the rows of
 * buckets between the smallest and the largest value exist. A few hundred bytes where a whole
 * histogram takes ten thousand, so that each of 100,000 domains has its own. One owner. */
#ifndef BENCH_LATENCY_H
#define BENCH_LATENCY_H

#include "base/attr.h"
#include "base/clock.h"

#include <stdint.h>

#define LATENCY_ROW 32 /* buckets */

/* Zeroed is empty. */
struct latency {
    uint64_t count;
    usec_t max;
    uint32_t first_row, row_count; /* rows that exist */
    uint32_t *buckets;             /* heap; row_count * LATENCY_ROW, each stops at UINT32_MAX */
};

/* Aborts when there is no memory. value: >= 0 */
void latency_add(struct latency *l, usec_t value);
void latency_merge(struct latency *into, const struct latency *from);
/* As histogram_quantile. */
usec_t latency_quantile(const struct latency *l, double share);
/* Forget the values, keep the memory. */
void latency_clear(struct latency *l);
void latency_fini(struct latency *l);

#endif
