/* A window of rows on the histogram's scale, which widens when a value lies outside. Called by the
 * counters of the receiver; knows no clock and takes no lock. */
#include "bench/tool/latency.h"

#include "base/histogram.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static_assert(HISTOGRAM_BUCKETS % LATENCY_ROW == 0, "the scale ends with a whole row");

static void widen(struct latency *l, uint32_t first, uint32_t last)
{
    if (l->row_count > 0) {
        uint32_t end = l->first_row + l->row_count - 1;
        first = first < l->first_row ? first : l->first_row;
        last = last > end ? last : end;
    }
    uint32_t rows = last - first + 1;
    uint32_t *buckets = calloc((size_t)rows * LATENCY_ROW, sizeof(*buckets));
    if (buckets == NULL) {
        abort(); /* numbers that are wrong are worse than none */
    }
    if (l->row_count > 0) {
        memcpy(buckets + (size_t)(l->first_row - first) * LATENCY_ROW, l->buckets,
               (size_t)l->row_count * LATENCY_ROW * sizeof(*buckets));
    }
    free(l->buckets);
    l->buckets = buckets;
    l->first_row = first;
    l->row_count = rows;
}

static void bucket_add(struct latency *l, uint32_t at, uint32_t more)
{
    uint32_t *bucket = &l->buckets[at];
    *bucket = more > UINT32_MAX - *bucket ? UINT32_MAX : *bucket + more;
}

void latency_add(struct latency *l, usec_t value)
{
    uint32_t bucket = histogram_bucket((uint64_t)value);
    uint32_t row = bucket / LATENCY_ROW;
    if (row - l->first_row >= l->row_count) { /* also below: the difference wraps */
        widen(l, row, row);
    }
    bucket_add(l, bucket - l->first_row * LATENCY_ROW, 1);
    l->count++;
    if (value > l->max) {
        l->max = value;
    }
}

void latency_merge(struct latency *into, const struct latency *from)
{
    if (from->count == 0) {
        return;
    }
    uint32_t last = from->first_row + from->row_count - 1;
    if (from->first_row - into->first_row >= into->row_count ||
        last - into->first_row >= into->row_count) {
        widen(into, from->first_row, last);
    }
    uint32_t at = (from->first_row - into->first_row) * LATENCY_ROW;
    for (uint32_t i = 0; i < from->row_count * LATENCY_ROW; i++) {
        bucket_add(into, at + i, from->buckets[i]);
    }
    into->count += from->count;
    if (from->max > into->max) {
        into->max = from->max;
    }
}

usec_t latency_quantile(const struct latency *l, double share)
{
    double wanted = share * (double)l->count;
    uint64_t below = 0;
    for (uint32_t i = 0; i < l->row_count * LATENCY_ROW; i++) {
        below += l->buckets[i];
        if (below > 0 && (double)below >= wanted) {
            uint32_t bucket = l->first_row * LATENCY_ROW + i;
            usec_t end = (usec_t)histogram_bucket_end(bucket);
            /* The last bucket of the scale is open-ended. */
            return end < l->max && bucket < HISTOGRAM_BUCKETS - 1 ? end : l->max;
        }
    }
    return l->max;
}

void latency_clear(struct latency *l)
{
    if (l->count > 0) {
        memset(l->buckets, 0, (size_t)l->row_count * LATENCY_ROW * sizeof(*l->buckets));
    }
    l->count = 0;
    l->max = 0;
}

void latency_fini(struct latency *l)
{
    free(l->buckets);
    *l = (struct latency){0};
}
