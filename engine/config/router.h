/* From a recipient's domain to a transport and a nexthop, by the routes of the configuration.
 *
 * Immutable after router_new, so any thread routes without a lock. The router points into the
 * config it was made from and lives as long as that snapshot.
 *
 * A domain matches, in this order: the route of exactly that name; the longest ".suffix" route of
 * which it is a subdomain (".example.com" matches a.b.example.com, not example.com); "*".
 *
 * An address literal that would be its own nexthop by "*" must be an address that an MX host may
 * have: loopback (without allow_loopback), link-local, unspecified and multicast ones match
 * nothing, so no client reaches this machine's own services or a cloud's metadata by mail. */
#ifndef ENGINE_ROUTER_H
#define ENGINE_ROUTER_H

#include "base/attr.h"
#include "base/slice.h"
#include "engine/config/config.h"

#include <stdbool.h>
#include <stddef.h>

struct router;

struct route_result {
    size_t transport;     /* index into config.transports */
    struct slice nexthop; /* for nexthop_parse; the route's own, or `domain` when it names none */
    const struct config_route *route; /* the route that matched */
};

struct router *router_new(const struct config *c); /* NULL when out of memory */
void router_free(struct router *r);                /* accepts NULL */

/* The part of an address behind its last '@', "" without one; a view. Pure. */
struct slice router_domain(struct slice address);

/* Route one domain (the part after the last @; brackets of an address literal included).
 *
 * domain   any case; a nexthop taken from it keeps that case, so give it in lower case to get one
 *          destination for each domain
 * tenant   whose mail it is, "" nobody's: by "*" it may take a transport of its own
 * returns  false when no route matches: the recipient is refused with 550 5.1.2 "no route to
 *          domain" (intake) or bounced with 5.1.2 (a queued recipient whose route went away)
 * thread   any; reads only */
MUST_USE bool router_route(const struct router *r, struct slice domain, struct slice tenant,
                           struct route_result *ret);

/* The TLS level of a destination: of the route that names this nexthop for this transport, else of
 * the route by which the nexthop's own domain comes to this transport, else (the routes changed
 * since its mail was queued) the transport's.
 *
 * nexthop  a destination's name, in lower case
 * thread   any; reads only */
MUST_USE enum config_tls_level router_tls_level(const struct router *r, size_t transport,
                                                struct slice nexthop);
/* That route; NULL where it says nothing or there is none. */
const struct config_route *router_level_route(const struct router *r, size_t transport,
                                              struct slice nexthop);
/* What that route says, CONFIG_TLS_OF_TRANSPORT where it says nothing or there is none. */
MUST_USE enum config_tls_level router_route_level(const struct router *r, size_t transport,
                                                  struct slice nexthop);

#endif
