/* Log-linear histogram of microseconds: exact below 32, relative error <= 1/32 above, range up to
 * 2^42 us (50 days); larger values share the last bucket. One owner, or a merge of copies. Zeroed
 * is empty. */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS 1216

struct histogram {
    uint64_t count;
    uint64_t sum;
    uint64_t max;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *h, uint64_t value);
void histogram_merge(struct histogram *into, const struct histogram *from);
/* The highest value that falls into the bucket; the last one has no end (its value tells nothing).
 */
uint64_t histogram_bucket_end(uint32_t bucket);
/* The highest value of the first bucket up to which at least share (0..1) of the values lie, but
 * never more than the largest value added; 0 when empty. */
uint64_t histogram_quantile(const struct histogram *h, double share);

/* The scale itself, for those who keep the counts in a shape of their own. */
uint32_t histogram_bucket(uint64_t value);      /* < HISTOGRAM_BUCKETS */
uint64_t histogram_bucket_end(uint32_t bucket); /* the highest value that falls into it */

#endif
