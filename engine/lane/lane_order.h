/* Orders of operators on lanes. */
#ifndef ENGINE_LANE_ORDER_H
#define ENGINE_LANE_ORDER_H

#include "engine/http/api.h"

/* POST /v1/lanes {"order": "open" | "close" | "pace", "site", "source"?, "for"?, "rate"?, "reason"?}:
 * for every lane of the site, or that of the source there, at once and for all transports.
 *   site    as /v1/sites names it; else the name of a provider, with all of its sets of hosts; else
 *           a destination, which stands for the site that it belongs to
 *           of open it may be missing where a source is named: all its lanes that something holds back
 *   source  "": where the system chooses the address; without it all lanes of the site
 *   for     of close: a span; else an hour
 *   rate    of pace: messages such as "20/s"; "none" ends all paces of the lane
 * A provider whose mail has not come yet has its lanes made, so that they can be closed beforehand.
 * Answer: {order, by, reason?, count, lanes: [as of GET /v1/lanes, without the transports' part; the first
 * hundred]}. 404: no
 * such site or source, with what is near; 422: what is wrong. */
api_handler lane_order_give;

#endif
