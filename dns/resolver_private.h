/* What the two halves of the resolver share: resolver.c asks, resolver_result.c says what the
 * answers amount to. Nobody else includes this. */
#ifndef DNS_RESOLVER_PRIVATE_H
#define DNS_RESOLVER_PRIVATE_H

#include "base/list.h"
#include "dns/dane.h"
#include "dns/lookup.h"
#include "dns/nexthop.h"
#include "dns/resolver.h"

/* What has been found out about a resolution. */
enum finding {
    FINDING_NONE,     /* still asking */
    FINDING_BAD_NAME, /* the next hop is not one */
    FINDING_LITERAL,  /* an IP address, nothing to ask */
    FINDING_NO_MX,    /* the MX question failed for another reason than "there are none" */
    FINDING_NULL_MX,
    FINDING_NO_NAME,   /* no MX record names a possible host */
    FINDING_HOSTS,     /* all addresses are answered: order them */
    FINDING_LATE,      /* deadline */
    FINDING_NO_MEMORY, /* or, of a reader, no answer */
};

/* The TLSA lookup of one host. */
struct dane_lookup {
    struct dane dane;
    struct lookup_waiter waiter; /* `set` of it is the answer to the question asked last */
    bool is_asking;
};

struct resolution {
    struct list link;
    struct resolver *owner;
    void *user;
    usec_t deadline;
    enum finding finding;
    struct nexthop hop;
    char label[DNS_NAME_MAX + 1]; /* printable name for messages */
    uint32_t pending;             /* answers awaited */
    uint32_t known;               /* answers that a reader found */
    struct lookup_waiter mx;
    struct mx_random random; /* the same for all that have the same MX records in an hour */
    uint16_t best_preference;
    uint32_t host_count;
    struct mx_host *hosts;         /* [host_count] */
    struct lookup_waiter *waiters; /* [host_count * 2]: A and AAAA of each */
    bool wants_dane;
    struct dane_lookup *danes; /* [host_count], once addresses are known and if wanted */
    struct lookup_waiter txt;  /* asked together with mx */
};

/* Asked by before a reconfiguration; it goes when all its questions are answered. */
struct leaving_lookup {
    struct list link;
    struct lookup *lookup;
};

struct resolver {
    /* set at creation */
    struct resolver_hooks hooks;
    /* owner thread only */
    struct lookup *lookup;    /* NULL: it is a reader */
    struct dns_cache *cache;  /* own reference */
    struct dns_config config; /* servers are not kept */
    struct mx_own *own;
    struct list leaving;                  /* struct leaving_lookup */
    uint64_t past_queries, past_timeouts; /* of lookups that are gone */
    struct list active;
    struct list done;
    uint32_t active_count;
    uint64_t resolutions;
};

/* The result of a resolution whose finding is not FINDING_NONE, without its txt. */
void resolver_conclude(struct resolution *n, struct dns_result *ret, usec_t now);

#endif
