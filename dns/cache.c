/* The shared table: buckets of eight atomic pointers to immutable rrsets.
 * Called by every worker for each question, and by the control socket for listings.
 * Must not block: an insertion that meets too much competition is dropped; it is only a cache.
 *
 * Concurrency: a place holds NULL or an rrset on which the table owns one reference. The thread
 * whose compare-and-swap takes an rrset out of its place is the only one that retires it; since
 * that happens after the swap, whoever loaded the pointer before is covered by the grace period. */
#include "dns/cache.h"

#include "base/hash.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    BUCKET_PLACES = 8,  /* one cache line of pointers */
    MEMORY_PROBES = 64, /* places emptied at most to get below memory_limit in one insertion */
    DEFAULT_ENTRIES = 100000,
};

typedef _Atomic(struct dns_rrset *) cache_place;

struct dns_cache {
    /* set at creation */
    struct dns_cache_config config;
    uint64_t place_count;
    cache_place *places; /* [place_count] */
    /* any thread, atomic */
    _Atomic uint32_t references;
    /* any thread, atomic, relaxed: figures, no order needed */
    _Alignas(CACHE_LINE) _Atomic uint64_t size_bytes;
    _Atomic uint64_t entries;
    _Atomic uint64_t evictions;
    _Atomic uint64_t hand; /* next place to empty when memory is short */
    _Alignas(CACHE_LINE) _Atomic uint64_t hits;
    _Alignas(CACHE_LINE) _Atomic uint64_t misses;
};

static void count(_Atomic uint64_t *counter, uint64_t by)
{
    atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

static uint64_t read_count(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void dns_cache_config_defaults(struct dns_cache_config *ret)
{
    *ret = (struct dns_cache_config){
        .entry_limit = DEFAULT_ENTRIES,
        .memory_limit = 64U << 20,
        .positive_ttl_min = 5 * USEC_PER_SEC,
        .positive_ttl_max = 86400 * USEC_PER_SEC,
        .negative_ttl_min = 30 * USEC_PER_SEC,
        .negative_ttl_max = 3600 * USEC_PER_SEC,
        .soft_ttl = 30 * USEC_PER_SEC,
    };
}

struct dns_cache *dns_cache_new(const struct dns_cache_config *config)
{
    struct dns_cache *cache = aligned_alloc(CACHE_LINE, sizeof(*cache));
    uint64_t buckets = config->entry_limit / BUCKET_PLACES;

    if (cache == NULL) {
        return NULL;
    }
    *cache = (struct dns_cache){.config = *config, .references = 1};
    cache->place_count = (buckets == 0 ? 1 : buckets) * BUCKET_PLACES;
    cache->places = aligned_alloc(CACHE_LINE, cache->place_count * sizeof(cache_place));
    if (cache->places == NULL) {
        free(cache);
        return NULL;
    }
    for (uint64_t i = 0; i < cache->place_count; i++) {
        atomic_init(&cache->places[i], NULL);
    }
    return cache;
}

struct dns_cache *dns_cache_get(struct dns_cache *cache)
{
    atomic_fetch_add_explicit(&cache->references, 1, memory_order_relaxed);
    return cache;
}

void dns_cache_put(struct dns_cache *cache)
{
    /* Release and acquire: all uses by other holders happen before the last one frees it. */
    if (cache == NULL ||
        atomic_fetch_sub_explicit(&cache->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (uint64_t i = 0; i < cache->place_count; i++) {
        dns_rrset_put(atomic_load_explicit(&cache->places[i], memory_order_acquire));
    }
    free(cache->places);
    free(cache);
}

uint64_t dns_cache_hash(const struct dns_cache *cache, struct slice name, enum dns_type type)
{
    return hash_bytes(name.data, name.len, cache->config.hash_seed ^ (uint64_t)type);
}

static usec_t clamp(uint32_t ttl, usec_t min, usec_t max)
{
    usec_t usec = ttl * USEC_PER_SEC;

    if (usec < min) {
        return min;
    }
    return usec > max ? max : usec;
}

usec_t dns_cache_expiry(const struct dns_cache *cache, enum dns_status status, uint32_t ttl,
                        usec_t now)
{
    const struct dns_cache_config *config = &cache->config;

    if (status == DNS_FOUND) {
        return now + clamp(ttl, config->positive_ttl_min, config->positive_ttl_max);
    }
    if (dns_status_is_soft(status)) {
        return now + config->soft_ttl;
    }
    return now + clamp(ttl, config->negative_ttl_min, config->negative_ttl_max);
}

/* Multiply-shift: spreads the upper half of the hash over any number of buckets. */
static cache_place *cache_bucket(const struct dns_cache *cache, uint64_t hash)
{
    uint64_t buckets = cache->place_count / BUCKET_PLACES;

    return &cache->places[((hash >> 32) * buckets >> 32) * BUCKET_PLACES];
}

/* Acquire: pairs with the release of place_swap, so the rrset is seen fully built. */
static struct dns_rrset *place_load(cache_place *place)
{
    return atomic_load_explicit(place, memory_order_acquire);
}

static void release_retired(struct rcu_retired *retired)
{
    dns_rrset_put(container_of(retired, struct dns_rrset, retired));
}

/* Put `set` (or nothing) where `old` (or nothing) is; false when somebody else was faster. */
static bool place_swap(struct dns_cache *cache, cache_place *place, struct dns_rrset *old,
                       struct dns_rrset *set)
{
    if (!atomic_compare_exchange_strong_explicit(place, &old, set, memory_order_acq_rel,
                                                 memory_order_relaxed)) {
        return false;
    }
    if (set != NULL) {
        count(&cache->size_bytes, set->size_bytes);
        count(&cache->entries, 1);
    }
    if (old != NULL) {
        count(&cache->size_bytes, -(uint64_t)old->size_bytes);
        count(&cache->entries, -(uint64_t)1);
        rcu_retire(&old->retired, release_retired);
    }
    return true;
}

static bool is_key(const struct dns_rrset *set, uint64_t hash, struct slice name,
                   enum dns_type type)
{
    return set->hash == hash && set->type == type && slice_eq(set->name, name);
}

const struct dns_rrset *dns_cache_peek(const struct dns_cache *cache, struct slice name,
                                       enum dns_type type, usec_t now)
{
    uint64_t hash = dns_cache_hash(cache, name, type);
    cache_place *bucket = cache_bucket(cache, hash);
    const struct dns_rrset *found = NULL;

    for (int i = 0; i < BUCKET_PLACES; i++) {
        const struct dns_rrset *set = place_load(&bucket[i]);
        if (set != NULL && set->expires > now && is_key(set, hash, name, type) &&
            (found == NULL || set->expires > found->expires)) {
            found = set;
        }
    }
    return found;
}

void dns_cache_count_hits(struct dns_cache *cache, uint32_t hits)
{
    count(&cache->hits, hits);
}

const struct dns_rrset *dns_cache_find(struct dns_cache *cache, struct slice name,
                                       enum dns_type type, usec_t now)
{
    const struct dns_rrset *found = dns_cache_peek(cache, name, type, now);

    count(found != NULL ? &cache->hits : &cache->misses, 1);
    return found;
}

/* Empty places, wherever the hand is, until the new rrset fits. */
static bool make_cache_room(struct dns_cache *cache, size_t size, usec_t now)
{
    size_t limit = cache->config.memory_limit;

    for (int i = 0; i < MEMORY_PROBES && read_count(&cache->size_bytes) + size > limit; i++) {
        uint64_t at = atomic_fetch_add_explicit(&cache->hand, 1, memory_order_relaxed);
        cache_place *place = &cache->places[at % cache->place_count];
        struct dns_rrset *old = place_load(place);
        bool is_live = old != NULL && old->expires > now;
        if (old != NULL && place_swap(cache, place, old, NULL) && is_live) {
            count(&cache->evictions, 1);
        }
    }
    return read_count(&cache->size_bytes) + size <= limit;
}

/* Which rrset of a bucket the new one replaces: the same key, else an empty place, else the one
 * that expires first (those expired come before all others). */
static cache_place *choose_place(cache_place *bucket, const struct dns_rrset *set,
                                 struct dns_rrset **ret_old)
{
    cache_place *chosen = NULL;

    for (int i = 0; i < BUCKET_PLACES; i++) {
        struct dns_rrset *old = place_load(&bucket[i]);
        if (old != NULL && is_key(old, set->hash, set->name, set->type)) {
            *ret_old = old;
            return &bucket[i];
        }
        if (chosen == NULL ||
            (*ret_old != NULL && (old == NULL || old->expires < (*ret_old)->expires))) {
            chosen = &bucket[i];
            *ret_old = old;
        }
    }
    return chosen;
}

void dns_cache_insert(struct dns_cache *cache, struct dns_rrset *set, usec_t now)
{
    cache_place *bucket = cache_bucket(cache, set->hash);

    if (!make_cache_room(cache, set->size_bytes, now)) {
        return;
    }
    (void)dns_rrset_get(set); /* the table's own */
    for (int attempt = 0; attempt < BUCKET_PLACES; attempt++) {
        struct dns_rrset *old = NULL;
        cache_place *place = choose_place(bucket, set, &old);
        bool is_eviction =
            old != NULL && old->expires > now && !is_key(old, set->hash, set->name, set->type);
        if (place_swap(cache, place, old, set)) {
            count(&cache->evictions, is_eviction);
            return;
        }
    }
    dns_rrset_put(set);
}

void dns_cache_clear(struct dns_cache *cache)
{
    for (uint64_t i = 0; i < cache->place_count; i++) {
        struct dns_rrset *old = place_load(&cache->places[i]);
        if (old != NULL) {
            /* A place that changed meanwhile holds a newer answer. */
            (void)place_swap(cache, &cache->places[i], old, NULL);
        }
    }
}

const struct dns_rrset *dns_cache_next(const struct dns_cache *cache, uint64_t *cursor)
{
    while (*cursor < cache->place_count) {
        const struct dns_rrset *set = place_load(&cache->places[(*cursor)++]);
        if (set != NULL) {
            return set;
        }
    }
    return NULL;
}

void dns_cache_read_counters(const struct dns_cache *cache, struct dns_cache_counters *ret)
{
    ret->entries = read_count(&cache->entries);
    ret->size_bytes = read_count(&cache->size_bytes);
    ret->hits = read_count(&cache->hits);
    ret->misses = read_count(&cache->misses);
    ret->evictions = read_count(&cache->evictions);
}
