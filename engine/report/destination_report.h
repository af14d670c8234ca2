/* What the schedulers say of their destinations and transports. */
#ifndef ENGINE_DESTINATION_REPORT_H
#define ENGINE_DESTINATION_REPORT_H

#include "engine/http/api.h"

/* One object a destination that a scheduler knows: transport, destination,
 *   state        "ready" | "dead" | "suspended" | "resolving"
 *   why          sched_why_text: why it was last passed over
 *   until?       dead, suspended: when that ends
 *   window, busy                connections that may, that do carry entries
 *   in_flight, todo             entries: on connections, waiting
 *   connections, idle           open, of which idle
 *   delivered, deferred         entries since start
 *   order?       id of a standing order for all mail to it
 *   last_error?  {"time", "text"} of the last failure that made its window smaller or it dead, as
 *                long as the scheduler's history has it
 * Query: match, a part of the name; state, one or some with commas; transport; limit; sort, one of
 * name, load (in_flight + todo), delivered, deferred: then the best `limit` of all. */
api_handler destination_report_list;

/* One object a transport: transport, hold, process_limit, source_pool?, destinations, dead,
 * connections, idle, entries_waiting, entries_in_flight, recipients_in_core. */
api_handler destination_report_transports;

/* One object a source of the configuration: source, address?, address6?, helo_name?, proxy?
 * ("haproxy" | "socks5"), closed? {"order", "until", "remaining", "reason"}: the order that keeps
 * new connections from it; pools: [{"pool", "weight", "transports": [names]}]. */
api_handler destination_report_sources;

#endif
