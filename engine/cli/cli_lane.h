/* What stands of a lane in words, from its object of GET /v1/lanes (lane_object.h). Pure. */
#ifndef ENGINE_CLI_LANE_H
#define ENGINE_CLI_LANE_H

#include "base/attr.h"

#include <jansson.h>

#define CLI_LANE_LINE 1200
#define CLI_LANE_SITE 64
#define CLI_LANE_PACE 64

/* The name of a site as a table has room for it: cut in its middle, with "..". */
const char *cli_lane_site(const char *site, char ret[static CLI_LANE_SITE]) NONNULL_RET;
/* "19.6/s", "none" for one that is not paced; of the slowest unit, which is named unless it is
 * messages. */
const char *cli_lane_pace(const json_t *lane, char ret[static CLI_LANE_PACE]) NONNULL_RET;
/* Calls `take` with a name and a text for all that stands: closed, paused, paces, ceilings, what its
 * next message waits for, quotas that are used up, destinations that avoid it. */
typedef void cli_lane_take(void *ctx, const char *name, const char *text);
void cli_lane_facts(const json_t *lane, double now, cli_lane_take *take, void *ctx);
/* Of them the tenants and campaigns whose mail waits at the site; also of an object of GET /v1/sites. */
void cli_lane_suspensions(const json_t *o, double now, cli_lane_take *take, void *ctx);
/* The same for configured rates and quotas. */
void cli_lane_rates(const json_t *lane, cli_lane_take *take, void *ctx);

#endif
