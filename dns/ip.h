/* An IP address as a value: family and bytes, without port or scope. Pure, no owner.
 *
 * Called by the resolver, by whoever builds socket addresses from resolved hosts, and by the
 * router for address literals. Does no I/O and knows no interfaces. */
#ifndef DNS_IP_H
#define DNS_IP_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct sockaddr_storage;

#define IP_TEXT_MAX 46 /* bytes of the longest text with its NUL (INET6_ADDRSTRLEN) */

struct ip {
    uint8_t family;    /* 4 or 6 */
    uint8_t bytes[16]; /* network order; family 4 uses the first 4, the rest is 0 */
};

/* What an address is good for; a mail host found by MX should be IP_PUBLIC or IP_PRIVATE. */
enum ip_scope {
    IP_PUBLIC,
    IP_PRIVATE,     /* 10/8, 172.16/12, 192.168/16, 100.64/10, fc00::/7 */
    IP_LOOPBACK,    /* 127/8, ::1 */
    IP_UNSPECIFIED, /* 0/8, :: */
    IP_LINK_LOCAL,  /* 169.254/16 (cloud metadata lives there), fe80::/10 */
    IP_UNUSABLE,    /* multicast, broadcast, reserved */
    IP_SCOPE_COUNT
};

bool ip_eq(const struct ip *a, const struct ip *b);
/* IPv4-mapped, IPv4-compatible and NAT64 (64:ff9b::/96) addresses have the scope of the IPv4
 * address within. */
enum ip_scope ip_scope(const struct ip *ip);
/* "1.2.3.4", "::1", "IPv6:::1" (RFC 5321 literal); no brackets, no scope id.
 * errors   ERR_SYNTAX */
MUST_USE int ip_parse(struct slice text, struct ip *ret);
/* Writes at most IP_TEXT_MAX bytes and returns text. */
const char *ip_text(const struct ip *ip, char text[static IP_TEXT_MAX]);
/* Fills *ret and returns the length that connect(2) wants. */
unsigned ip_to_sockaddr(const struct ip *ip, uint16_t port, struct sockaddr_storage *ret);
/* errors   ERR_SYNTAX for other families; an IPv4-mapped address becomes family 4 */
MUST_USE int ip_from_sockaddr(const struct sockaddr_storage *sa, struct ip *ret,
                              uint16_t *ret_port);

#endif
