/* The outcome of a resolution: where a destination's mail can be delivered.
 *
 * Immutable after creation and counted by an atomic reference count, so it travels through rings
 * between resolver, scheduler and workers; whoever drops the last reference frees it. */
#ifndef DNS_HOSTS_H
#define DNS_HOSTS_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "dns/dane.h"
#include "dns/ip.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct dns_host {
    struct ip ip;
    uint16_t port;
    uint16_t preference;          /* 0 when there is no MX */
    bool is_authentic;            /* name and address were DNSSEC-validated by a trusted resolver */
    enum dns_dane dane;           /* never DNS_DANE_FAILED; DNS_DANE_NONE when nobody asked */
    const struct dns_rrset *tlsa; /* DNS_DANE_RECORDS, DNS_DANE_UNUSABLE; the dns_hosts has a
                                   * reference; else NULL */
    bool is_outside;              /* the rule that is `tried` does not allow it */
    struct slice name; /* MX host, or the nexthop's host; an IP literal is its text; memory of the
                        * dns_hosts */
};

/* What is said of all hosts of a list. */
struct dns_hosts_facts {
    bool has_mx;    /* found by MX records */
    usec_t expires; /* monotonic: ask again after; USEC_NEVER for IP literals */
    /* The names to which mail may go, also those without an address just now, by preference, those of
     * one by the alphabet, each once, with ',' between; the name itself where there is no MX record.
     * Empty: they are longer than MX_NAMES_MAX. */
    struct slice names;
    uint32_t best_len; /* so many bytes of it are the names of the least preference */
};

struct dns_hosts {
    _Atomic uint32_t references;
    uint32_t count;               /* 1 .. MX_TARGETS_MAX */
    struct dns_hosts_facts facts; /* names: memory of the dns_hosts */
    struct slice policy;    /* not empty: a rule by which every host must prove its name, and which
                             * rule that is; memory of the dns_hosts */
    struct slice tried;     /* not empty: a rule that does not bind, whose worth is watched; memory
                             * of the dns_hosts */
    uint8_t tried_failure;  /* why no rule is known that might hold, of its user's own kinds; 0 */
    struct dns_host list[]; /* by preference; those of one in an order that the same hosts have in
                             * each list */
};

struct dns_hosts *dns_hosts_get(struct dns_hosts *hosts); /* any thread */
void dns_hosts_put(struct dns_hosts *hosts);              /* any thread; accepts NULL */
/* Copies list and names, each once; one reference for the caller. errors: NULL when out of memory.
 */
struct dns_hosts *dns_hosts_new(const struct dns_host *list, uint32_t count,
                                const struct dns_hosts_facts *facts);
/* The names of the least preference. */
static inline struct slice dns_hosts_best(const struct dns_hosts *hosts)
{
    return slice_to(hosts->facts.names, hosts->facts.best_len);
}
/* The hosts for which keep[] is true, at least one, under a policy (see above).
 * errors: NULL when out of memory. */
MUST_USE struct dns_hosts *dns_hosts_restrict(const struct dns_hosts *hosts, const bool *keep,
                                              struct slice policy);
/* All hosts, and what is said of a rule that does not bind. outside: [count], or NULL for none.
 * errors: NULL when out of memory. */
MUST_USE struct dns_hosts *dns_hosts_try(const struct dns_hosts *hosts, struct slice tried,
                                         uint8_t failure, const bool *outside);

#endif
