/* The verbs of standing orders: suspend, bounce, drop, resume, flush. */
#ifndef ENGINE_ORDER_REPORT_H
#define ENGINE_ORDER_REPORT_H

#include "base/clock.h"
#include "engine/http/api.h"

/* The orders in force, in order of id: id ("7"), order ("suspend" | "bounce" | "drop"), reason, by,
 *   tenant?, campaign?, domain?, destination?, transport?, source?
 *   created, until
 *   remaining    seconds
 *   awaited?     of an order that holds at all nodes of a cluster: the nodes that do not yet say that they
 *                obey it; missing of one that holds here alone
 *   once?        true: for what was received before `created` only
 *   matched      recipients it has met: of a suspension what was queued when it was given (by the
 *                count that answered it) and what came since, once each; of the others what they
 *                ended. It goes on over a restart, less what the last minute before a crash added
 * Owner of the order book: the clerk of these four. */
api_handler order_report_list;

/* Body: order, reason, for ("2h"; of suspend 1h when left out; of bounce and drop "0": what is
 * queued now), selectors, dry_run, all (bounce and drop without a selector), here
 * (true: at this node of a cluster alone, not at all).
 * Answers 201 with the order and would_match {messages, recipients}: what it was about; and
 * warnings, a list of texts, when it names what nobody knows. Of a dry
 * run 200, without id, and nothing happens. 422: it is not understood or not allowed. */
api_handler order_report_give;

/* The order ends; answers with it. Query: reason (for the log). */
api_handler order_report_lift;

/* Body: selectors, dry_run. Deferred mail is tried now and dead destinations are; 202. A dry run
 * answers 200 with would_match. */
api_handler order_report_flush;

/* Removes orders that are over, and gives those that replies asked for (clerk.h, between_calls). */
usec_t order_report_expire(struct clerk *k);

#endif
