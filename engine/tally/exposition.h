/* Figures as a monitoring system reads them: Prometheus' text format, version 0.0.4. Pure: writes
 * to a buffer whose sticky flag says when memory ran out. */
#ifndef ENGINE_EXPOSITION_H
#define ENGINE_EXPOSITION_H

#include "base/buf.h"
#include "base/slice.h"

#include <stdint.h>

#define EXPOSITION_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum exposition_kind { EXPOSITION_COUNTER, EXPOSITION_GAUGE, EXPOSITION_HISTOGRAM };

#define EXPOSITION_LABELS 3

/* name NULL: none. The value may hold any bytes: it is escaped, and what is no UTF-8 becomes '?'.
 */
struct exposition_label {
    const char *name;
    struct slice value;
};
struct exposition_labels {
    struct exposition_label items[EXPOSITION_LABELS];
};

/* The two lines in front of a family's samples, which all follow at once. help: one line, without
 * a backslash */
void exposition_family(struct buf *out, const char *name, enum exposition_kind kind,
                       const char *help);
/* labels NULL: none */
void exposition_sample(struct buf *out, const char *name, const struct exposition_labels *labels,
                       double value);
struct exposition_buckets {
    const double *bounds; /* [count] ascending, in seconds */
    uint32_t count;
    const uint64_t *buckets; /* [count + 1] how many lie up to each bound and above the one before;
                              * the last one: above all bounds */
    double sum;              /* in seconds */
};
/* labels NULL: none */
void exposition_histogram(struct buf *out, const char *name, const struct exposition_labels *labels,
                          const struct exposition_buckets *b);

#endif
