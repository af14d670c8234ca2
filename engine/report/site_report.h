/* What schedulers know of sites. */
#ifndef ENGINE_SITE_REPORT_H
#define ENGINE_SITE_REPORT_H

#include "base/buf.h"
#include "engine/http/api.h"

#include <stdint.h>

struct engine;
struct sched;

/* One object for each transport and site that its scheduler knows, also without mail:
 *   transport, site     as sluice explains names it (engine/schedule/receiver.h)
 *   provider?           its name
 *   state               "ready" | "dead" | "closed" (all of its lanes are)
 *   until?              when the first dead lane is tried again
 *   destinations        that have mail
 *   todo, in_flight     deliveries
 *   window, busy, connections, idle   of all lanes together
 *   lanes               how many sources it is sent from
 *   closed_lanes, paced_lanes   how many of them are closed or probed; paced or paused
 *   last_error?         as of a destination
 * Query: match, a part of the site; transport; state; sort, name or load; limit. */
api_handler site_report_list;

/* The sum of the windows of all sites that have mail. Thread: online under RCU. */
uint64_t site_report_windows(const struct sched *s);
/* Gauges for /metrics: how many sites there are, and those of the configuration's providers one by
 * one. Other sites have none of their own: nobody knows beforehand how many there will be. */
void site_report_metrics(struct buf *out, const struct engine *e);

#endif
