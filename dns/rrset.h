/* One cached answer: the records of a name and type, or the fact that there are none.
 *
 * Immutable once published, so any number of threads read it. Kept alive by references; the cache
 * holds one and gives it up a grace period after removal. A reader that found an rrset under RCU
 * may take a reference during the same pass and keep it beyond. */
#ifndef DNS_RRSET_H
#define DNS_RRSET_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/rcu.h"
#include "base/slice.h"
#include "dns/dns_wire.h"
#include "dns/ip.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum dns_status {
    DNS_FOUND,
    DNS_NODATA,        /* the name exists, records of the type do not */
    DNS_NXDOMAIN,      /* no such name */
    DNS_ALIAS_LOOP,    /* CNAME circle or chain too long: counts as not found */
    DNS_SERVFAIL,      /* soft: SERVFAIL, REFUSED, odd codes */
    DNS_TIMEOUT,       /* soft: no server answered */
    DNS_MALFORMED,     /* soft: the answer makes no sense or stays truncated */
    DNS_UNRECOVERABLE, /* hard: FORMERR, NOTIMP */
    DNS_STATUS_COUNT
};

struct dns_mx {
    uint16_t preference;
    bool is_valid;     /* a host name that can be asked for; the root is valid and empty */
    struct slice name; /* lower case, no last dot; memory of the rrset */
};

/* A TLSA record (RFC 6698 2.1). */
struct dns_tlsa {
    uint8_t usage, selector, matching;
    struct slice data; /* memory of the rrset */
};

struct dns_rrset {
    /* set at creation */
    struct slice name; /* asked for, lower case; memory of the rrset */
    struct slice end;  /* of the aliases followed from `name`; empty without any */
    uint64_t hash;     /* of name and type, by the cache's seed */
    enum dns_type type;
    enum dns_status status;
    bool is_authentic; /* AD, from a trusted path */
    usec_t expires;    /* monotonic */
    uint32_t count;    /* records; > 0 exactly when DNS_FOUND */
    uint32_t size_bytes;
    union {
        /* [count], in an order that does not depend on the answer's: */
        const struct ip *ips;        /* A, AAAA */
        const struct dns_mx *mx;     /* MX: by preference, then name; CNAME: the target */
        const struct dns_tlsa *tlsa; /* TLSA */
        const struct slice *txt;     /* [count] as they came, the strings of each put together */
    };
    /* any thread, atomic */
    _Atomic uint32_t references;
    /* the remover only */
    struct rcu_retired retired;
};

/* What an rrset is made from. */
struct dns_rrset_source {
    struct slice name;
    struct slice end; /* empty: no alias */
    uint64_t hash;
    enum dns_type type;
    enum dns_status status;
    bool is_authentic;
    usec_t expires;
    const struct dns_record *records; /* DNS_FOUND: [count] */
    uint32_t count;
};

/* One reference, for the caller. errors: NULL when out of memory. */
struct dns_rrset *dns_rrset_new(const struct dns_rrset_source *source);
struct dns_rrset *dns_rrset_get(const struct dns_rrset *set); /* any thread */
void dns_rrset_put(struct dns_rrset *set);                    /* any thread; accepts NULL */

static inline bool dns_status_is_soft(enum dns_status status)
{
    return status == DNS_SERVFAIL || status == DNS_TIMEOUT || status == DNS_MALFORMED;
}

/* Whether SMTP can use the record: DANE-TA or DANE-EE, of a selector and a matching type that are
 * known, the digest as long as it must be.
 *
 * source   RFC 7672 3.1 */
MUST_USE bool dns_tlsa_is_usable(const struct dns_tlsa *tlsa);

/* As Postfix words it: "Host not found", "Host not found, try again", ... */
const char *dns_status_text(enum dns_status status);

#endif
