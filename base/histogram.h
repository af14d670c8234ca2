/* Log-linear histogram of microseconds: relative error <= 1/32, range 1 us to about 78 hours. One
 * owner, or a merge of copies. */
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
/* The smallest bucket bound below which at least share (0..1) of the values lie; 0 when empty. */
uint64_t histogram_quantile(const struct histogram *h, double share);

#endif
