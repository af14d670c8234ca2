/* Lanes: what each receiver sees of each of our sources, what it allows, and why. */
#ifndef ENGINE_LANE_REPORT_H
#define ENGINE_LANE_REPORT_H

#include "engine/http/api.h"

/* GET /v1/lanes: one object for each lane of each transport (lane_object.h), then those that no
 * transport uses now and that are remembered, in no order.
 * Query: match, a part of the site; destination, the site that this destination belongs to; transport;
 * source, "-" where the system chooses; state; destinations, how many of those that avoid a lane are
 * listed; sort, name or load of the sites; limit, of sites and of remembered lanes. */
api_handler lane_report_list;

#endif
