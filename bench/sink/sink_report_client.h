/* The clients of each receiver as JSON: what they got, in all and over time. Main thread. */
#ifndef BENCH_SINK_REPORT_CLIENT_H
#define BENCH_SINK_REPORT_CLIENT_H

#include "base/buf.h"
#include "bench/sink/sink_worker.h"

#include <stdint.h>

/* The objects of the arrays "clients" that sink_report.h describes. */
void sink_report_clients(const struct sink *sink, struct buf *out);
/* intervals: since the start */
void sink_report_courses(const struct sink *sink, uint32_t intervals, struct buf *out);

#endif
