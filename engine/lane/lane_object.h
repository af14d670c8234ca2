/* A lane as JSON, the same wherever one is told of (docs/openapi.yaml, Lane):
 *   transport?          without: no transport uses it now, and what it has learned is remembered
 *   site, provider?     as of a site
 *   hosts?              of a provider that its domains alone name: the set of hosts that it is about
 *   source              "": the system chooses the address
 *   state               "open" | "paced" | "paused" | "closed" | "probing" | "dead"
 *   until?              when that ends by itself, or is looked at again
 *   suspended?          {order, until, reason}: a standing order of that number keeps mail from the source
 *   suspensions?        [{order, tenant?, campaign?, until, reason}], the first ten: mail of theirs that waits
 *                       at this site, as a reply asked for it
 *   window, busy, connections, idle, in_flight    with a transport
 *   waits?              {for: "pace" | "rate" | "share" | "connections" | "quota" | "ceiling" | "closed" | "paused", of: "lane" |
 *                       "site" | "source" | "tenant" | "domain", until?}: what its next message waits
 *                       for; share: of a rate that the nodes of a cluster share
 *   paces?              [{of: "messages" | "recipients" | "connects", per_second, until?, CAUSE}]
 *   ceilings?           [{of: "connections" | "messages", most, CAUSE}]
 *   closed?, paused?    {by: "receiver" | "order", until, CAUSE}
 *   rates?              [{of: "lane" | "site" | "source", unit: as of a pace, rate}]
 *   quotas?             [{of, quota?, left}]; without quota: it warms up
 *   open_connections    of all transports together
 *   last_accepted?
 *   closed_destinations how many avoid it
 *   destinations?       [{destination, reason, since, until}], the first of them
 * CAUSE: since, times, rule?, text?; of an order text says who gave it, and why. */
#ifndef ENGINE_LANE_OBJECT_H
#define ENGINE_LANE_OBJECT_H

#include "base/attr.h"
#include "engine/lane/lane_view.h"

#include <jansson.h>
#include <stdint.h>

struct engine;

#define LANE_DESTINATIONS_DEFAULT 10U
#define LANE_DESTINATIONS_MAX     256U

/* destinations  how many of those that avoid it, at most LANE_DESTINATIONS_MAX
 * returns       NULL: out of memory */
MUST_USE json_t *lane_object(const struct engine *e, const struct lane_view *v,
                             uint32_t destinations);

/* `suspensions` of an object about a site, as above. Also for sites. */
void lane_set_suspensions(json_t *o, const struct engine *e, struct slice site);

/* Units of a pace and a rate, by enum pace_unit: "messages", "recipients", "connects". */
extern const char *const lane_units[LIMIT_PACES];

#endif
