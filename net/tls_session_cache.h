/* TLS sessions for client resumption, keyed by everything that decided trust. One per worker.
 *
 * A key keeps as many sessions as connections commonly begin together, the newest is used first. A
 * TLS 1.3 ticket is used once (it could link connections, and servers may refuse a second use): with
 * two a key, 38 of 100 connections of a window of 20 had none. While more than half of all places are
 * taken a key keeps two at most, so that many destinations have some. A TLS 1.2 session stays until it
 * expires. At the limit the least recently used key makes room. Owner: one thread. */
#ifndef NET_TLS_SESSION_CACHE_H
#define NET_TLS_SESSION_CACHE_H

#include "base/attr.h"
#include "base/slice.h"

#include <stddef.h>
#include <stdint.h>

struct ssl_session_st;
struct tls_session_cache;

#define TLS_SESSIONS_PER_KEY 16
#define TLS_SESSIONS_SCARCE  2 /* of a key while more than half of the places are taken */
#define TLS_SESSION_KEY_MAX  512 /* bytes */
/* Larger ones are not offered to the cache (tls.c): tickets and certificates are the peer's choice,
 * of up to 64 KB and 100 KB. Usual ones have 2 to 8 KB. */
#define TLS_SESSION_BYTES_MAX (16 << 10)

/* max_sessions: > 0. returns NULL when out of memory */
struct tls_session_cache *tls_session_cache_new(size_t max_sessions, uint64_t hash_seed);
void tls_session_cache_free(struct tls_session_cache *cache); /* accepts NULL */

/* The newest session for key that has not expired, or NULL. The caller owns one reference
 * (SSL_SESSION_free). now_sec: seconds since 1970 */
struct ssl_session_st *tls_session_cache_take(struct tls_session_cache *cache, struct slice key,
                                              int64_t now_sec);
/* Takes over the caller's reference, also when the session is not kept (key too long, no memory).
 */
void tls_session_cache_put(struct tls_session_cache *cache, struct slice key,
                           struct ssl_session_st *session);
/* Sessions held. */
size_t tls_session_cache_count(const struct tls_session_cache *cache);

#endif
