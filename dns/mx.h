/* From MX and address answers to the ordered list of addresses to try, or the reason why there is
 * none: the rules of the Postfix SMTP client.
 *
 * Pure: no clock, I/O or allocation; randomness is a seeded generator that the caller keeps. Called
 * by the resolver once the answers are in. */
#ifndef DNS_MX_H
#define DNS_MX_H

#include "base/attr.h"
#include "base/slice.h"
#include "dns/ip.h"
#include "dns/rrset.h"

#include <stdbool.h>
#include <stdint.h>

#define MX_HOSTS_MAX   32   /* names of one MX answer whose addresses are asked for */
#define MX_TARGETS_MAX 50   /* addresses in one list */
#define MX_NAMES_MAX   2048 /* bytes of the names of one MX answer, as mx_names writes them */
#define MX_SMTP_PORT   25

enum mx_verdict {
    MX_OK,
    MX_NULL,       /* the domain accepts no mail (RFC 7505) */
    MX_NO_HOST,    /* no name has addresses, for good */
    MX_SOFT,       /* no name has addresses, some only for now */
    MX_LOOP,       /* the best host is this machine, or an address that no mail host has */
    MX_NO_PRIMARY, /* this machine is one of the hosts, and no better host was found */
    MX_VERDICT_COUNT
};

enum mx_family_preference { MX_FAMILY_ANY, MX_FAMILY_IPV4, MX_FAMILY_IPV6 };

/* An address where this machine itself takes mail. */
struct mx_own {
    struct ip ip;
    uint16_t port; /* of the listener; 0: an interface or proxy address */
};

struct mx_policy {
    const struct mx_own *own; /* [own_count]; matches on its own port and on port 25 */
    uint32_t own_count;
    uint16_t port;        /* of the delivery */
    bool has_scope_check; /* false for hosts the operator named: only `own` is refused */
    bool allow_loopback;  /* loopback addresses are hosts like others */
    enum mx_family_preference family; /* first among equal preference */
    uint32_t balance_limit; /* smtp_mx_address_limit: balance families above it; 0: never */
};

/* A name that may receive the mail, with what was found for it. */
struct mx_host {
    struct slice name;
    uint16_t preference;
    bool has_soft_failure; /* a lookup of its addresses failed for now */
    const struct ip *ips[2];
    uint32_t ip_counts[2];
};

/* The names of one MX answer, by preference, as mx_select left them. */
struct mx_hosts {
    const struct mx_host *list; /* [count] */
    uint32_t count;
    uint16_t best; /* the least preference of the answer, names left out included */
};

struct mx_target {
    struct ip ip;
    uint16_t preference;
    uint16_t host; /* index of its mx_host */
};

struct mx_random {
    uint64_t state; /* any seed */
};

/* Uniform in 0 .. bound - 1; bound > 0. */
uint32_t mx_random_below(struct mx_random *random, uint32_t bound);

/* The names to ask for, by preference, equal ones in random order; at most MX_HOSTS_MAX.
 * A root name among others is ignored; names that cannot be mail hosts (localhost, one label,
 * invalid, all digits) are left out. Fills name and preference only.
 *
 * ret_best  the least preference of the answer, names left out included
 * returns   MX_OK, MX_NULL or MX_NO_HOST */
MUST_USE enum mx_verdict mx_select(const struct dns_rrset *answer, struct mx_random *random,
                                   struct mx_host ret_hosts[static MX_HOSTS_MAX],
                                   uint32_t *ret_count, uint16_t *ret_best);

/* The names that mx_select chooses from, whatever it can ask for: by preference, those of one by the
 * alphabet, each once, with ',' between.
 *
 * ret_best_len  so many bytes are the names of the least preference among them
 * returns       the length; 0: there are none, or they are too long */
MUST_USE size_t mx_names(const struct dns_rrset *answer, char ret[static MX_NAMES_MAX],
                         uint32_t *ret_best_len);

/* Order the addresses of hosts: cut the list at this machine's own preference, shuffle equals, put
 * the preferred family first, balance families.
 *
 * returns   MX_OK (then *ret_count > 0), MX_NO_HOST, MX_SOFT, MX_LOOP or MX_NO_PRIMARY */
MUST_USE enum mx_verdict mx_order(const struct mx_policy *policy, const struct mx_hosts *hosts,
                                  struct mx_random *random,
                                  struct mx_target ret_targets[static MX_TARGETS_MAX],
                                  uint32_t *ret_count);

#endif
