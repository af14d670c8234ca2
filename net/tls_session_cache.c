/* Sessions by key: a chained hash table and a list in order of use. Filled by the TLS library's
 * new-session callback on the worker's own thread, read when a connection begins. */
#include "net/tls_session_cache.h"

#include "base/hash.h"
#include "base/list.h"

#include <assert.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKETS 64

struct entry {
    struct entry *next_in_bucket;
    struct list use; /* in cache->used, most recently used first */
    uint64_t hash;
    SSL_SESSION *sessions[TLS_SESSIONS_PER_KEY]; /* oldest first */
    unsigned count;                              /* >= 1 between calls */
    size_t key_len;
    char key[];
};

struct tls_session_cache {
    struct entry **buckets;
    size_t bucket_count; /* a power of two */
    size_t entry_count;
    size_t session_count;
    size_t max_sessions;
    uint64_t hash_seed;
    struct list used;
};

struct tls_session_cache *tls_session_cache_new(size_t max_sessions, uint64_t hash_seed)
{
    assert(max_sessions > 0);
    struct tls_session_cache *cache = calloc(1, sizeof(*cache));
    if (cache == NULL) {
        return NULL;
    }
    cache->buckets = calloc(FIRST_BUCKETS, sizeof(struct entry *));
    if (cache->buckets == NULL) {
        free(cache);
        return NULL;
    }
    cache->bucket_count = FIRST_BUCKETS;
    cache->max_sessions = max_sessions;
    cache->hash_seed = hash_seed;
    list_init(&cache->used);
    return cache;
}

static struct entry **session_bucket(struct tls_session_cache *cache, uint64_t hash)
{
    return &cache->buckets[hash & (cache->bucket_count - 1)];
}

static struct entry *entry_find(struct tls_session_cache *cache, struct slice key, uint64_t hash)
{
    for (struct entry *e = *session_bucket(cache, hash); e != NULL; e = e->next_in_bucket) {
        if (e->hash == hash && slice_eq(key, slice_make(e->key, e->key_len))) {
            return e;
        }
    }
    return NULL;
}

/* Forget session i of e without releasing it. */
static void entry_drop(struct tls_session_cache *cache, struct entry *e, unsigned i)
{
    e->count--;
    memmove(&e->sessions[i], &e->sessions[i + 1], (e->count - i) * sizeof(e->sessions[0]));
    cache->session_count--;
}

static void entry_free(struct tls_session_cache *cache, struct entry *e)
{
    struct entry **link = session_bucket(cache, e->hash);
    while (*link != e) {
        link = &(*link)->next_in_bucket;
    }
    *link = e->next_in_bucket;
    list_remove(&e->use);
    for (unsigned i = 0; i < e->count; i++) {
        SSL_SESSION_free(e->sessions[i]);
    }
    cache->session_count -= e->count;
    cache->entry_count--;
    free(e);
}

void tls_session_cache_free(struct tls_session_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    while (!list_is_empty(&cache->used)) {
        entry_free(cache, list_first(&cache->used, struct entry, use));
    }
    free(cache->buckets);
    free(cache);
}

/* Twice the buckets; a table that stays small for want of memory is only slower. */
static void grow_session_cache(struct tls_session_cache *cache)
{
    size_t count = cache->bucket_count * 2;
    struct entry **buckets = calloc(count, sizeof(struct entry *));
    if (buckets == NULL) {
        return;
    }
    free(cache->buckets);
    cache->buckets = buckets;
    cache->bucket_count = count;
    list_foreach(e, &cache->used, struct entry, use)
    {
        struct entry **bucket = session_bucket(cache, e->hash);
        e->next_in_bucket = *bucket;
        *bucket = e;
    }
}

static bool is_usable(const SSL_SESSION *session, int64_t now_sec)
{
    int64_t until = (int64_t)SSL_SESSION_get_time(session) + SSL_SESSION_get_timeout(session);
    return now_sec < until && SSL_SESSION_is_resumable(session) == 1;
}

SSL_SESSION *tls_session_cache_take(struct tls_session_cache *cache, struct slice key,
                                    int64_t now_sec)
{
    struct entry *e = entry_find(cache, key, hash_bytes(key.data, key.len, cache->hash_seed));
    SSL_SESSION *found = NULL;
    if (e == NULL) {
        return NULL;
    }
    while (found == NULL && e->count > 0) {
        SSL_SESSION *newest = e->sessions[e->count - 1];
        if (!is_usable(newest, now_sec)) {
            entry_drop(cache, e, e->count - 1);
            SSL_SESSION_free(newest);
            continue;
        }
        found = newest;
        if (SSL_SESSION_get_protocol_version(found) >= TLS1_3_VERSION) {
            entry_drop(cache, e, e->count - 1);
        } else if (SSL_SESSION_up_ref(found) != 1) {
            return NULL;
        }
    }
    if (e->count == 0) {
        entry_free(cache, e);
    } else {
        list_remove(&e->use);
        list_push_front(&cache->used, &e->use);
    }
    return found;
}

static struct entry *entry_new(struct tls_session_cache *cache, struct slice key, uint64_t hash)
{
    struct entry *e = malloc(sizeof(*e) + key.len);
    if (e == NULL) {
        return NULL;
    }
    if (cache->entry_count >= cache->bucket_count) {
        grow_session_cache(cache);
    }
    memset(e, 0, sizeof(*e));
    e->hash = hash;
    e->key_len = key.len;
    if (key.len > 0) {
        memcpy(e->key, key.data, key.len);
    }
    list_init(&e->use);
    list_push_front(&cache->used, &e->use);
    struct entry **bucket = session_bucket(cache, hash);
    e->next_in_bucket = *bucket;
    *bucket = e;
    cache->entry_count++;
    return e;
}

void tls_session_cache_put(struct tls_session_cache *cache, struct slice key, SSL_SESSION *session)
{
    if (key.len > TLS_SESSION_KEY_MAX) {
        SSL_SESSION_free(session);
        return;
    }
    uint64_t hash = hash_bytes(key.data, key.len, cache->hash_seed);
    struct entry *e = entry_find(cache, key, hash);
    if (e == NULL) {
        e = entry_new(cache, key, hash);
        if (e == NULL) {
            SSL_SESSION_free(session);
            return;
        }
    } else {
        list_remove(&e->use);
        list_push_front(&cache->used, &e->use);
    }
    bool is_scarce = cache->session_count > cache->max_sessions / 2;
    while (e->count >= (is_scarce ? TLS_SESSIONS_SCARCE : TLS_SESSIONS_PER_KEY)) {
        SSL_SESSION *oldest = e->sessions[0];
        entry_drop(cache, e, 0);
        SSL_SESSION_free(oldest);
    }
    e->sessions[e->count++] = session;
    cache->session_count++;
    while (cache->session_count > cache->max_sessions) {
        struct entry *last = list_last(&cache->used, struct entry, use);
        if (last == e) {
            SSL_SESSION *oldest = e->sessions[0];
            entry_drop(cache, e, 0);
            SSL_SESSION_free(oldest);
            continue;
        }
        entry_free(cache, last);
    }
}

size_t tls_session_cache_count(const struct tls_session_cache *cache)
{
    return cache->session_count;
}
