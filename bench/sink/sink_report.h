/* The sink's numbers as JSON. Main thread. */
#ifndef BENCH_SINK_REPORT_H
#define BENCH_SINK_REPORT_H

#include "base/attr.h"
#include "base/buf.h"
#include "bench/sink/sink_worker.h"

/* One JSON object and a newline: "messages", "recipients", "bytes", "deferred", "rejected",
 * "connections", "refused", "open", "max_in_flight" (transactions that one connection had begun
 * and whose last reply was not let go yet), "first" and "last" (wall clock seconds of accepted
 * messages), "elapsed" (first to last), "rate" (messages / elapsed), "latency" {count p50 p90 p99
 * max},
 * "time", "uptime", and the same per entry of "domains" ("domain") and "listeners" ("address",
 * "connections", "refused", "open", "max_open", "max_in_flight"). Seconds with 6 digits. "clients" has
 * an object for each client address at each destination of the file ("destination": its title, "" for
 * the other addresses) and at each domain with a rate ("domain"): "client", "messages", "recipients"
 * (accepted ones), "refused" (MAILs that came to nothing on purpose; all of a pipelined group count),
 * "refused_recipients", "connections", "refused_connections".
 *
 * is_end   with the timeline, if the options want one: "timeline" {"interval", "start" (wall
 * clock), "listeners": {ADDRESS: {"messages", "deferred", "open" (the most in the interval),
 *          "latency_p50", "latency_p99" (null where no message had one)}}}, each an array with one
 *          number for each interval since the start; "clients": the objects above with such arrays,
 *          and "limit" and "recipient_limit" (messages and recipients a second that the hidden limits
 *          allowed on average; null where there was none)
 * errors   -ENOMEM
 */
MUST_USE int sink_report(struct sink *sink, struct sink_worker *workers, int count, bool is_end,
                         struct buf *out);

#endif
