/* The client side of the control socket, and the definition of what goes over it.
 *
 * The daemon listens on a Unix stream socket (`control { path }`, mode 0660). A client connects,
 * sends one request line of at most 1,000 bytes that ends in LF (a CR before it is ignored), and
 * reads the answer until the daemon closes. Unix file permissions decide who may connect; whoever
 * may connect is trusted.
 *
 *   SMTP
 *     The socket becomes an ordinary SMTP session of a client that may relay: the daemon sends its
 *     220 greeting, the client EHLO and so on.
 *   queue list [limit=N] [after=ID]
 *     Messages in order of id, N at most (default 1000, 1..100000), those beyond ID.
 *   queue counts
 *     Destinations and totals.
 *   queue hosts [TEXT]
 *     Hosts that deliveries went to; only those with TEXT in "TRANSPORT [ADDRESS]:PORT".
 *   queue show ID
 *     One message.
 *
 * The answer to `queue` is JSON, one object a line (no object spans lines), UTF-8, and ends with an
 * end object; an answer without one was cut off. Message ids are strings of 16 lower-case hex
 * digits; sizes are bytes; points in time are wall clock seconds since 1970 with a fraction (6
 * digits); spans are seconds. Unknown members must be ignored; a member marked ? may be absent.
 *
 *   any request
 *     {"error": TEXT, "code": "usage" | "missing" | "unavailable"}   instead of everything else
 *     {"end": true, "count": objects before this one, "more": bool}  last line; more: the limit cut
 *   queue list: one object a message
 *     id, created, sender ("" is the null sender), size,
 *     recipients   number, all
 *     pending      number that are neither delivered nor failed
 *     state        "incoming" (accepted, not yet scheduled) | "active" (a scheduler has it) |
 *                  "deferred"
 *     due?         deferred: when the next attempt is due
 *     attempts     how often it was deferred
 *     last_reply?  the newest reason, "451 4.3.0 text"
 *   queue counts: one object a destination that a scheduler knows, then one totals object
 *     transport, destination,
 *     state        "ready" | "dead" | "suspended" | "resolving"
 *     why          sched_why_text: why it was last passed over
 *     until?       dead, suspended: when that ends
 *     window, busy                connections that may, that do carry entries
 *     in_flight, todo             entries: on connections, waiting
 *     connections, idle           open, of which idle
 *     delivered, deferred         entries since start
 *   totals
 *     totals       true
 *     messages, incoming, deferred, quarantined   in the spool
 *     active       messages that schedulers hold
 *     recipients_in_core, entries_waiting, entries_in_flight, connections, idle, destinations, dead
 *     used_bytes, map_bytes       of the spool
 *   queue hosts: one object an address and port that a scheduler remembers
 *     transport, address, port,
 *     state        "active" (carries deliveries) | "idle" (a connection is open) | "closed" (was
 *                  connected to) | "retry" (its last connections failed)
 *     until?       retry: when it is tried again
 *     connections  open, of all destinations of the transport
 *     in_flight    deliveries on them
 *     failures     connections in a row that did not come as far as MAIL
 *     notes        texts: "TLS is broken" (at level may it gets mail in clear for a while), "one
 *                  delivery at a time" (it broke the order of pipelined replies)
 *   queue show: one message object, then one object a recipient in order of index
 *     id, created, sender, size, recipients, pending, state, due?, attempts as above,
 *     expires      when it is returned to its sender
 *     peer_name, peer_address, protocol, auth_user   of the reception; "" when unknown
 *   recipient
 *     recipient    address
 *     index        its number within the message
 *     state        "pending" | "deferred" | "delivered" | "failed"
 *     transport?, destination?    where its route leads now; absent when there is no route
 *     time?        of the last result
 *     code?, status?, reply?, remote_mta?   of the last result: 451, "4.3.0", "text", "mx.example"
 *
 * Used by the commands, one thread, blocking I/O with a timeout. */
#ifndef ENGINE_CONTROL_CLIENT_H
#define ENGINE_CONTROL_CLIENT_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>

#define CONTROL_REQUEST_MAX_BYTES 1000
#define CONTROL_LINE_MAX_BYTES    (1024 * 1024) /* of one JSON line; longer is a protocol error */

struct control_client {
    int fd;
    struct buf in; /* received and not yet handed out */
    size_t taken;  /* bytes at the start of `in` that were */
};

/* Connects and sends the request (without LF).
 *
 * timeout  of each later wait for the daemon
 * errors   -ENOENT, -ECONNREFUSED: no daemon listens there; -EACCES; other -errno */
MUST_USE int control_client_open(struct control_client *c, const char *path, const char *request,
                                 usec_t timeout);
void control_client_close(struct control_client *c);
/* The next line without its end (CRLF or LF), valid until the next call.
 * errors: ERR_CLOSED, ERR_LIMIT, -ETIMEDOUT, -errno */
MUST_USE int control_client_line(struct control_client *c, struct slice *ret);
/* All of it. errors: ERR_CLOSED, -ETIMEDOUT, -errno. SIGPIPE is not raised. */
MUST_USE int control_client_write(struct control_client *c, const void *data, size_t len);

#endif
