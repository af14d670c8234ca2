/* How the whole daemon is: totals, gates, health. */
#ifndef ENGINE_STATUS_REPORT_H
#define ENGINE_STATUS_REPORT_H

#include "engine/http/api.h"

/* One object: version, started, now, hostname,
 *   messages     in the queue: the sum of incoming, active, deferred, scheduled, suspended
 *   states_as_of, is_estimate   of these (queue_figures.h)
 *   quarantined  messages apart from these
 *   recipients_in_core, entries_waiting, entries_in_flight, connections, idle, destinations, dead
 *   used_bytes, map_bytes       of the spool
 *   free_bytes, free_limit      what it can still take, and what ends that: disk or map
 *   received                                           messages since start
 *   delivered, deferrals, failed, expired, ambiguous   recipients since start
 *   orders       standing orders in force
 *   dkim?        messages since start, by what became of their signatures (seal_result_text): those
 *                that are not 0. Absent where no key signs nor did
 *   rates        received, delivered, deferred, failed: a second, over the last 10
 *   gates        texts: "low space", "broken", "stopping" */
api_handler status_report_show;

/* 200 while the process turns; whether it takes mail, 503 with the reason otherwise. */
api_handler status_report_health, status_report_readiness;
/* Every route with its summary. */
api_handler status_report_routes;

#endif
