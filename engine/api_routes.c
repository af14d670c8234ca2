/* The table of all verbs: who wants another one adds a row here, a handler in the file of its noun,
 * and the path to docs/openapi.yaml, which a test compares with this file. */
#include "engine/api_private.h"
#include "engine/clerk_walk.h"
#include "engine/counts_report.h"
#include "engine/destination_report.h"
#include "engine/host_report.h"
#include "engine/message_report.h"
#include "engine/page.h"
#include "engine/status_report.h"
#include "engine/trace_report.h"

#define PARAMS(...)                                                                                \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

const struct api_route api_routes[] = {
    {.method = "GET",
     .path = "/v1",
     .place = API_INLINE,
     .run = status_report_routes,
     .summary = "every route of this interface"},
    {.method = "GET",
     .path = "/v1/status",
     .place = API_FAST,
     .run = status_report_show,
     .summary = "totals of the daemon and its spool"},
    {.method = "GET",
     .path = "/v1/messages",
     .place = API_SLOW,
     .run = message_report_list,
     .params = PARAMS("limit", "after", CLERK_FILTER_PARAMS),
     .summary = "messages in the spool in order of id"},
    {.method = "GET",
     .path = "/v1/counts",
     .place = API_SLOW,
     .run = counts_report_list,
     .params = PARAMS("by", "limit", CLERK_FILTER_PARAMS),
     .summary = "queued recipients by tenant, destination, state and others"},
    {.method = "GET",
     .path = "/v1/messages/:id",
     .place = API_FAST,
     .run = message_report_show,
     .params = PARAMS("limit", "after"),
     .summary = "one message with its recipients"},
    {.method = "GET",
     .path = "/v1/destinations",
     .place = API_FAST,
     .run = destination_report_list,
     .params = PARAMS("match", "state", "transport"),
     .summary = "destinations that schedulers know"},
    {.method = "GET",
     .path = "/v1/hosts",
     .place = API_FAST,
     .run = host_report_list,
     .params = PARAMS("match"),
     .summary = "addresses that deliveries went to"},
    {.method = "GET",
     .path = "/v1/transports",
     .place = API_FAST,
     .run = destination_report_transports,
     .summary = "transports with their counters"},
    {.method = "GET",
     .path = "/v1/sources",
     .place = API_FAST,
     .run = destination_report_sources,
     .summary = "egress sources and the pools they are in"},
    {.method = "GET",
     .path = "/",
     .place = API_INLINE,
     .run = page_show,
     .summary = "a page for browsers",
     .is_open = true},
    {.method = "GET",
     .path = "/v1/trace",
     .place = API_FAST,
     .run = trace_report_list,
     .params = PARAMS("destination", "transport", "after", "limit", "failed"),
     .summary = "what recent sessions with a destination said and heard"},
    {.method = "GET",
     .path = "/healthz",
     .place = API_INLINE,
     .run = status_report_health,
     .summary = "200 while the process turns",
     .is_open = true},
    {.method = "GET",
     .path = "/readyz",
     .place = API_INLINE,
     .run = status_report_readiness,
     .summary = "whether mail is taken; 503 with the gates that are closed",
     .is_open = true},
};

const size_t api_route_count = sizeof(api_routes) / sizeof(api_routes[0]);
