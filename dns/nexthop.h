/* The syntax of a next hop: which host, whether MX records are wanted, which port.
 * Pure text; called by the resolver and by the config check of routes. */
#ifndef DNS_NEXTHOP_H
#define DNS_NEXTHOP_H

#include "base/attr.h"
#include "base/slice.h"
#include "dns/dns_wire.h"
#include "dns/ip.h"

#include <stdbool.h>
#include <stdint.h>

struct nexthop {
    struct dns_name name; /* empty for an IP literal */
    struct ip ip;         /* family 0 unless an IP literal */
    uint16_t port;
    bool wants_mx; /* no brackets */
};

/* "example.com", "example.com:2525", "[host]", "[host]:port", "[1.2.3.4]:25", "[::1]:25",
 * "[IPv6:::1]". Names outside ASCII become A-labels (IDNA 2008, UTS 46 non-transitional).
 *
 * errors   ERR_SYNTAX: not of this form; ERR_MISSING: a name that IDNA does not allow */
MUST_USE int nexthop_parse(struct slice text, uint16_t default_port, struct nexthop *ret);
/* Of a text that nexthop_parse takes: its `wants_mx`; the port, when it gives one, into *port. */
bool nexthop_wants_mx(struct slice text, uint16_t *port);
/* A name alone, as the DNS has it: lower case, those outside ASCII as A-labels. errors: as above */
MUST_USE int nexthop_name(struct slice text, struct dns_name *ret);

#endif
