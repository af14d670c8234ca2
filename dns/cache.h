/* The TTL cache of DNS answers, positive and negative, shared by all workers.
 *
 * Concurrency: a set-associative table of atomic pointers to immutable rrsets. Readers load them
 * with acquire, inserters exchange them by compare-and-swap with release; whoever swaps an rrset
 * out retires it through RCU, exactly once. No lock anywhere. Every caller is registered with RCU
 * and online; what dns_cache_find returns is valid until the end of the pass, or for as long as a
 * reference is held (dns_rrset_get). Two threads that insert the same key at once may leave two
 * copies; lookups find the one that expires later, and both age away. */
#ifndef DNS_CACHE_H
#define DNS_CACHE_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "dns/rrset.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dns_cache;

struct dns_cache_config {
    uint32_t entry_limit;    /* rrsets; default 100,000, rounded down to a multiple of 8 */
    size_t memory_limit;     /* bytes of all rrsets; default 64 MB */
    usec_t positive_ttl_min; /* default 5 s: a TTL of 0 must not mean a query for each message */
    usec_t positive_ttl_max; /* default 1 day */
    usec_t negative_ttl_min; /* default 30 s */
    usec_t negative_ttl_max; /* default 1 hour */
    usec_t soft_ttl;         /* default 30 s; SERVFAIL, timeouts */
    uint64_t hash_seed;
};

struct dns_cache_counters {
    uint64_t entries, size_bytes, hits, misses, evictions; /* evictions: of live entries */
};

/* The defaults; hash_seed 0 (the caller sets it). */
void dns_cache_config_defaults(struct dns_cache_config *ret);
/* errors: NULL when out of memory. */
struct dns_cache *dns_cache_new(const struct dns_cache_config *config);
/* Another reference, beside the creator's. Returns cache. */
struct dns_cache *dns_cache_get(struct dns_cache *cache);
/* Let one reference go; the last one frees it. Accepts NULL. Any thread. */
void dns_cache_put(struct dns_cache *cache);

uint64_t dns_cache_hash(const struct dns_cache *cache, struct slice name, enum dns_type type);
/* When an answer expires that came now with this TTL (seconds, as received). */
usec_t dns_cache_expiry(const struct dns_cache *cache, enum dns_status status, uint32_t ttl,
                        usec_t now);
/* The unexpired rrset of a lower-case name, or NULL. Thread: online reader. */
const struct dns_rrset *dns_cache_find(struct dns_cache *cache, struct slice name,
                                       enum dns_type type, usec_t now);
/* The same for one who may have to leave the question to another, and is not counted until it is known
 * whether. Thread: online reader. */
const struct dns_rrset *dns_cache_peek(const struct dns_cache *cache, struct slice name,
                                       enum dns_type type, usec_t now);
/* So many answers of dns_cache_peek were used. */
void dns_cache_count_hits(struct dns_cache *cache, uint32_t hits);
/* Publish; the cache takes a reference of its own, and may decline when memory is short.
 * Thread: online. */
void dns_cache_insert(struct dns_cache *cache, struct dns_rrset *set, usec_t now);
/* Forget everything (flush). Thread: online. */
void dns_cache_clear(struct dns_cache *cache);
/* The next rrset, expired ones included, in no order; *cursor starts at 0; NULL at the end.
 * Thread: online reader. */
const struct dns_rrset *dns_cache_next(const struct dns_cache *cache, uint64_t *cursor);
void dns_cache_read_counters(const struct dns_cache *cache, struct dns_cache_counters *ret);

#endif
