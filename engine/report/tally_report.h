/* Whose mail it was and what receivers said about it, since the start (tally.h). */
#ifndef ENGINE_TALLY_REPORT_H
#define ENGINE_TALLY_REPORT_H

#include "engine/http/api.h"

/* tenant ("": of nobody), received (messages), recipients, bytes, delivered, deferred, failed,
 * expired, dropped; the busiest first. Those that found no room share the name "other". */
api_handler tally_report_tenants;
/* text (what varies is *), example, code (not there when no receiver said it), status, kind
 * (deferred or failed), count, first, last, destinations, tenants (some names each); the most
 * frequent first. */
api_handler tally_report_responses;

#endif
