/* Finds the hosts of destinations: MX, A and AAAA queries through a c-ares channel, many at a time.
 *
 * One per worker thread, made, used and freed there; only the cache is shared. A thread that asks
 * nobody itself may have a reader, which knows what the cache knows (resolver_from_cache). The thread
 * is registered with RCU and online during each call. Nothing blocks: sockets are watched by the
 * owner's epoll loop, and finished resolutions are pulled with resolver_next(). No call other than
 * resolver_next() completes a resolution, so a caller never meets its result inside a call. */
#ifndef DNS_RESOLVER_H
#define DNS_RESOLVER_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "dns/cache.h"
#include "dns/dns_config.h"
#include "dns/hosts.h"

#include <stdbool.h>
#include <stdint.h>

struct resolver;

enum dns_verdict {
    DNS_OK,
    DNS_SOFT, /* try again, not before `expires` */
    DNS_HARD, /* the destination does not exist or takes no mail */
};

#define DNS_TEXT_MAX 500

struct dns_result {
    void *user;
    enum dns_verdict verdict;
    struct dns_hosts *hosts; /* DNS_OK: one reference, the caller's */
    struct dns_rrset *txt;   /* of the question's txt_label: one reference, the caller's; NULL when
                              * there was none, or no answer in time */
    usec_t expires;          /* monotonic: when to ask again; USEC_NEVER for IP literals */
    bool has_bad_tlsa;       /* not DNS_OK: of no host it could be found out whether DANE holds */
    char status[12];         /* not DNS_OK: enhanced status code, "4.4.3" */
    char text[DNS_TEXT_MAX]; /* not DNS_OK: as Postfix words it; printable ASCII */
};

struct resolver_counters {
    uint64_t resolutions, queries, timeouts;
    uint32_t active;      /* resolutions under way */
    uint32_t outstanding; /* queries sent */
    uint32_t waiting;     /* queries held back by query_limit */
};

/* cache: shared; the resolver takes a reference. errors: -ENOMEM, ERR_SYNTAX for a bad server. */
MUST_USE int resolver_new(const struct dns_config *config, struct dns_cache *cache,
                          const struct resolver_hooks *hooks, struct resolver **ret);
/* One that asks nobody: only resolver_from_cache may be asked, and resolver_reconfigure. Of the config
 * it uses all but servers and limits of questions. errors: -ENOMEM */
MUST_USE int resolver_new_reader(const struct dns_config *config, struct dns_cache *cache,
                                 struct resolver **ret);
/* Ask other servers, or in another way, from now on. Questions that are out are answered by the
 * servers that they were sent to; resolutions under way ask what follows from that by the new
 * config. errors: as resolver_new, all is as before */
MUST_USE int resolver_reconfigure(struct resolver *r, const struct dns_config *config,
                                  struct dns_cache *cache);
/* Resolutions under way are dropped without a result. Accepts NULL. */
void resolver_free(struct resolver *r);

/* What to find out about a next hop besides its hosts. */
struct resolver_wants {
    bool dane;             /* TLSA records of hosts found by validated answers */
    const char *txt_label; /* TXT record of this label in front of the next hop's domain, unless the
                            * next hop has brackets; valid during the call; NULL: none */
};

/* Find the hosts of a next hop (dns/nexthop.h says what it looks like); exactly one result with
 * `user` follows from resolver_next(), for a bad next hop too.
 *
 * wants    NULL: nothing
 * errors   -ENOMEM, no result follows */
MUST_USE int resolver_start(struct resolver *r, struct slice nexthop, uint16_t default_port,
                            const struct resolver_wants *wants, void *user, usec_t now);
/* What resolver_start would lead to, at once: of a next hop about which the cache has all answers, or
 * that needs none. r is a reader.
 *
 * ret      as from resolver_next, without user
 * returns  false: an answer is missing, or memory; a resolver must be asked */
MUST_USE bool resolver_from_cache(struct resolver *r, struct slice nexthop, uint16_t default_port,
                                  const struct resolver_wants *wants, struct dns_result *ret,
                                  usec_t now);
/* Whether an answer of its servers can be authentic at all. */
MUST_USE bool resolver_trusts_ad(const struct resolver *r);
/* The next finished resolution; false when there is none. Call until false after each of the other
 * calls, at the latest before sleeping: it also sends queries that waited. */
MUST_USE bool resolver_next(struct resolver *r, struct dns_result *ret, usec_t now);
/* An fd given to hooks.watch is ready. */
void resolver_fd_event(struct resolver *r, int fd, bool is_readable, bool is_writable, usec_t now);
/* Time has passed; cheap when nothing is due. */
void resolver_tick(struct resolver *r, usec_t now);
/* When to call resolver_tick at the latest: USEC_NEVER when idle, in the past when resolver_next
 * has work. */
usec_t resolver_wake_at(const struct resolver *r);
void resolver_read_counters(const struct resolver *r, struct resolver_counters *ret);

#endif
