/* What the operators' interface says of the queue as a whole. */
#ifndef ENGINE_COUNTS_REPORT_H
#define ENGINE_COUNTS_REPORT_H

#include "engine/http/api.h"

/* Queued recipients that are not done, in groups, the largest first. Of each group: the words it is
 * grouped by (tenant, campaign, domain, destination, transport, source, state, age), and
 *   recipients, messages, oldest   how many, and when the oldest message came
 *   other        true in the last row instead of those words: what has no row of its own
 * The last line has as_of (when the counting began), took (seconds), and for the whole recipients,
 * messages and damaged (messages that could not be read).
 * Query: by ("tenant,state"; without it one group), limit, and CLERK_FILTER_PARAMS. */
api_handler counts_report_list;

#endif
