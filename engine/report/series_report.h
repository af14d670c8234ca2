/* How totals and windows moved lately (series.h). */
#ifndef ENGINE_SERIES_REPORT_H
#define ENGINE_SERIES_REPORT_H

#include "engine/http/api.h"

struct engine;

/* One object: step (seconds between two points), points: time; received, delivered, deferred,
 * failed since the start; queued, active, connections as they are. span: how far back, an hour at
 * most. */
api_handler series_report_points;
/* One object: destination, transport, is_watched; samples (time, window, busy, in_flight, todo),
 * one a second, of the destinations that do most; events (time, from, to, cause), each change of
 * the window that the scheduler thread still has. */
api_handler series_report_windows;

/* received, delivered, deferred, failed: a second, over the last 10. NULL: out of memory */
json_t *series_report_rates(const struct engine *e);

#endif
