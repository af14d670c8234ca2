/* What the operators' interface says of messages in the spool. */
#ifndef ENGINE_MESSAGE_REPORT_H
#define ENGINE_MESSAGE_REPORT_H

#include "engine/http/api.h"

/* Messages in order of id: id, created, sender ("" is the null sender), size,
 *   recipients   number, all
 *   pending      number that are neither delivered nor failed
 *   state        "incoming" (accepted, not yet scheduled) | "active" (a scheduler has it) |
 *                "deferred" | "scheduled" (not wanted yet) | "suspended" (by an order)
 *   due?         tried before: when the next attempt is due
 *   attempts     how often it was deferred
 *   last_reply?  the newest reason, "451 4.3.0 text"
 * Query: limit, after (an id), and CLERK_FILTER_PARAMS: a message fits when one of its recipients
 * that are not done does. */
api_handler message_report_list;

/* One message: the members above, and
 *   expires      when it is returned to its sender
 *   peer_name, peer_address, protocol, auth_user   of the reception; "" when unknown
 *   signatures?  that it went out with and goes out with again, of a message that waits for another
 *                attempt: domain, selector, algorithm, signed (when)
 *   list         its recipients in order of index; of each: recipient, index,
 *     state        "pending" | "deferred" | "delivered" | "failed"
 *     transport?, destination?    where its route leads now; absent when there is no route
 *     time?        of the last result
 *     code?, status?, reply?, remote_mta?   of the last result: 451, "4.3.0", "text", "mx.example"
 *   more         there are recipients beyond the list
 * Query: limit (recipients), after (an index). */
api_handler message_report_show;

#endif
