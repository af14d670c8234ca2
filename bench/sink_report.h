/* The sink's numbers as JSON. Main thread. */
#ifndef BENCH_SINK_REPORT_H
#define BENCH_SINK_REPORT_H

#include "base/attr.h"
#include "base/buf.h"
#include "bench/sink_worker.h"

/* One JSON object and a newline: "messages", "recipients", "bytes", "deferred", "rejected",
 * "connections", "refused", "open", "max_in_flight" (transactions that one connection had begun
 * and whose last reply was not let go yet), "first" and "last" (wall clock seconds of accepted
 * messages), "elapsed" (first to last), "rate" (messages / elapsed), "latency" {count p50 p99 max},
 * "time", "uptime", and the same per entry of "domains" ("domain") and "listeners" ("address",
 * "connections", "refused", "open", "max_open", "max_in_flight"). Seconds with 6 digits. errors:
 * -ENOMEM */
MUST_USE int sink_report(const struct sink *sink, struct sink_worker *workers, int count,
                         struct buf *out);

#endif
