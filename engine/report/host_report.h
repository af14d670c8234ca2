/* What the schedulers' destdbs know of the hosts that deliveries went to. */
#ifndef ENGINE_HOST_REPORT_H
#define ENGINE_HOST_REPORT_H

#include "engine/http/api.h"

/* One object an address and port that a scheduler remembers: transport, address, port,
 *   state        "active" (carries deliveries) | "idle" (a connection is open) | "closed" (was
 *                connected to) | "retry" (its last connections failed)
 *   until?       retry: when it is tried again
 *   connections  open, of all destinations of the transport
 *   in_flight    deliveries on them
 *   failures     connections in a row that did not come as far as MAIL
 *   notes        texts: "TLS is broken" (at level may it gets mail in clear for a while), "one
 *                delivery at a time" (it broke the order of pipelined replies)
 * Query: match, a part of "TRANSPORT [ADDRESS]:PORT". */
api_handler host_report_list;

#endif
