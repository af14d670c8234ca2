/* What a resolver is told when it is made: how to ask, whom, and who watches its sockets. */
#ifndef DNS_DNS_CONFIG_H
#define DNS_DNS_CONFIG_H

#include "base/clock.h"
#include "dns/mx.h"

#include <stdbool.h>
#include <stdint.h>

enum dns_families { DNS_FAMILIES_ALL, DNS_FAMILIES_IPV4, DNS_FAMILIES_IPV6 };

struct dns_config {
    const char *const *servers; /* [server_count] "1.2.3.4:53", "[::1]:5300", port optional;
                                 * copied; none: resolv.conf */
    uint32_t server_count;
    usec_t query_timeout;       /* first try; doubles with each round of servers; default 5 s */
    int query_tries;            /* default 3 */
    usec_t deadline;            /* of a whole resolution; default 60 s */
    uint32_t query_limit;       /* queries outstanding, the rest waits; default 1,000. Those that
                                 * have no answer for half a second do not count, up to 16 times
                                 * as many */
    enum dns_families families; /* inet_protocols */
    enum mx_family_preference prefer; /* smtp_address_preference */
    uint32_t address_limit;   /* smtp_mx_address_limit, used to balance families; default 5 */
    const struct mx_own *own; /* [own_count], copied: addresses of this machine */
    uint32_t own_count;
    bool allow_loopback; /* MX hosts on loopback are no loop */
    bool trust_ad;       /* believe the AD bit of servers that are not on loopback */
    uint64_t seed;       /* of the choice among too many hosts: resolvers that have the same one
                          * choose alike */
};

struct resolver_hooks {
    /* Watch fd for these events from now on; both false: stop watching, it is about to be closed.
     * Called inside any call of the resolver. */
    void (*watch)(void *ctx, int fd, bool want_read, bool want_write);
    void *ctx;
};

/* The defaults that are named above; the rest is empty. Pure. */
void dns_config_defaults(struct dns_config *ret);

#endif
