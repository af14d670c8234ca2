/* Pieces of the JSON that the load tools print, and files that readers may poll. Any thread. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "base/slice.h"

/* A JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD. */
void report_string(struct buf *out, struct slice text);
/* "name": seconds with 6 digits; no comma. */
void report_seconds(struct buf *out, const char *name, usec_t span);
/* "latency": {"count", "p50", "p99", "max"} in seconds; no comma. */
void report_latency(struct buf *out, const struct histogram *h);
/* "name": {"count", "p50", "p90", "p99", "p999", "max"} in seconds; no comma. */
void report_quantiles(struct buf *out, const char *name, const struct histogram *h);
/* Replace a file by `text` in one step: a reader sees the old or the new. errors: -errno */
MUST_USE int report_replace(const char *path, struct slice text);

#endif
