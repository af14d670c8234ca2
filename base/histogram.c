/* Buckets: values below 32 have one each; above, every power of two is cut into 32 equal parts, so
 * a bucket is at most 1/32 of its lowest value wide. Pure. */
#include "base/histogram.h"

#include <assert.h>
#include <stddef.h>

#define PART_BITS   5
#define PARTS       (1U << PART_BITS)
#define TOP_BIT_MAX (HISTOGRAM_BUCKETS / PARTS + PART_BITS - 2)

static_assert(HISTOGRAM_BUCKETS % PARTS == 0 && TOP_BIT_MAX == 41,
              "the range is that of the header");

uint32_t histogram_bucket(uint64_t value)
{
    if (value < PARTS) {
        return (uint32_t)value;
    }
    uint32_t top_bit = 63 - (uint32_t)__builtin_clzll(value);
    if (top_bit > TOP_BIT_MAX) {
        return HISTOGRAM_BUCKETS - 1;
    }
    uint32_t shift = top_bit - PART_BITS;
    return (shift + 1) * PARTS + ((uint32_t)(value >> shift) & (PARTS - 1));
}

uint64_t histogram_bucket_end(uint32_t bucket)
{
    if (bucket < PARTS) {
        return bucket;
    }
    uint32_t shift = bucket / PARTS - 1;
    return ((uint64_t)(bucket % PARTS + PARTS + 1) << shift) - 1;
}

void histogram_add(struct histogram *h, uint64_t value)
{
    h->buckets[histogram_bucket(value)]++;
    h->count++;
    h->sum += value;
    if (value > h->max) {
        h->max = value;
    }
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        into->buckets[i] += from->buckets[i];
    }
    into->count += from->count;
    into->sum += from->sum;
    if (from->max > into->max) {
        into->max = from->max;
    }
}

uint64_t histogram_quantile(const struct histogram *h, double share)
{
    if (h->count == 0) {
        return 0;
    }
    double wanted = share * (double)h->count;
    uint64_t below = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS - 1; i++) {
        below += h->buckets[i];
        if (below > 0 && (double)below >= wanted) {
            uint64_t end = histogram_bucket_end(i);
            return end < h->max ? end : h->max;
        }
    }
    return h->max; /* the last bucket is open-ended */
}
