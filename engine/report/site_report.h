/* What schedulers know of sites, and of their lanes: one for each source. */
#ifndef ENGINE_SITE_REPORT_H
#define ENGINE_SITE_REPORT_H

#include "engine/http/api.h"

/* One object for each transport and site that its scheduler knows, also without mail:
 *   transport, site     as sluice explains names it (engine/schedule/receiver.h)
 *   provider?           its name
 *   state               "ready" | "dead" (all of its lanes are)
 *   until?              when the first dead lane is tried again
 *   destinations        that have mail
 *   todo, in_flight     deliveries
 *   window, busy, connections, idle   of all lanes together
 *   lanes               how many sources it is sent from
 *   last_error?         as of a destination
 * Query: match, a part of the site; transport; state; sort, name or load; limit. */
api_handler site_report_list;
/* One object for each lane: transport, site, provider?, source ("": the system chooses), state (as above,
 * or "closed" | "probing": it was closed, and one delivery at a time tries it), until?, window, busy,
 * connections, idle, in_flight. Query: match, transport, sort and limit choose sites, and the lanes are
 * in their order; of these, source and state. */
api_handler site_report_lanes;

#endif
