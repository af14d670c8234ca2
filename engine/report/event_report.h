/* Questions about events: the lines of the event log from a place on, and who else reads them. */
#ifndef ENGINE_EVENT_REPORT_H
#define ENGINE_EVENT_REPORT_H

#include "engine/http/api.h"

/* GET /v1/events?after=&limit=&type=: lines as they are in the log; the last line of the list has
 * "cursor", with which the next question goes on, and "lost": true when lines behind `after` are no
 * longer there.
 *
 * after   missing: from now on; "start": from the oldest; else a cursor */
api_handler event_report_list;
/* GET /v1/events/consumers: kind, name, title, cursor, behind_bytes, behind (seconds), events,
 * failures, gaps, failing_since?, why? */
api_handler event_report_consumers;

#endif
