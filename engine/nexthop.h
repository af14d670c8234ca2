/* A nexthop as routes and recipients name it: [host], [host]:port, [address]:port, host, host:port.
 * Brackets mean no MX lookup. Pure; any thread. */
#ifndef ENGINE_NEXTHOP_H
#define ENGINE_NEXTHOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/slice.h"

#define NEXTHOP_MAX_BYTES 320 /* name 255, brackets, IPv6 prefix, port */

struct nexthop {
    struct slice host; /* view into the parsed text, without brackets and without "IPv6:" */
    uint16_t port;     /* 0: not named, use smtp_tcp_port of the transport */
    bool has_mx;       /* look MX up; false with brackets */
    bool is_address;   /* host is an IPv4 or IPv6 address */
};

/* errors   ERR_SYNTAX: empty, unbalanced bracket, port not 1..65535, not a host name or address
 *          (an address must stand in brackets); *ret unchanged */
MUST_USE int nexthop_parse(struct slice text, struct nexthop *ret);

#endif
