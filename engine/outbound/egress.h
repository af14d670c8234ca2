/* From which source a new connection goes out: a pool's sources in turn, by weight. One per worker,
 * on its thread, for one configuration; a pool is known by its place there.
 *
 * The turn is smooth weighted round robin as nginx does it: at each choice every source that can
 * reach the target gains its weight, the richest is chosen and pays the sum. Weights 3 and 1 give
 * a a b a. IPv4 and IPv6 have turns of their own, so that each family sees the weights. */
#ifndef ENGINE_EGRESS_H
#define ENGINE_EGRESS_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct config;
struct config_address;
struct config_egress_pool;
struct config_egress_source;
struct dns_host;
struct dns_hosts;
struct egress;
struct order_book;
struct stream;

/* orders: close sources, see order_book.h; NULL: none do.  errors: -ENOMEM */
MUST_USE int egress_new(const struct config *config, const struct order_book *orders,
                        struct egress **ret);
void egress_free(struct egress *e); /* accepts NULL */

/* Valid as long as the configuration. Zeroed: no source, the system chooses the address. */
struct egress_choice {
    const struct config_egress_source *source;
    uint32_t slot; /* its position in the pool; 0 without one. it chooses the client settings */
};

/* Whether the pool (NULL: none) has a source with a weight that can reach targets of family 4 or 6:
 * one with an address of that family, with no address at all, or behind a SOCKS proxy. */
MUST_USE bool egress_can_reach(const struct config_egress_pool *pool, int family);

/* The hosts whose addresses the pool can reach, so that the others use up no limit. When it can
 * reach none, all of them stay, and the delivery says why it failed.
 *
 * hosts    one reference, which passes to the result */
MUST_USE struct dns_hosts *egress_reachable(const struct config_egress_pool *pool,
                                            struct dns_hosts *hosts);

/* Whether a standing order bars the source from use.
 *
 * orders, s   either may be NULL: it is open
 * thread      online under RCU */
MUST_USE bool egress_is_closed(const struct order_book *orders,
                               const struct config_egress_source *s);

/* The source of the next connection to an address of family 4 or 6.
 *
 * pool     NULL: none, which always succeeds
 * ret      zeroed when there is none
 * returns  false when no source of the pool that is open reaches that family */
MUST_USE bool egress_choose(struct egress *e, const struct config_egress_pool *pool, int family,
                            struct egress_choice *ret);

/* The proxy in front of the target, or NULL. */
const struct config_address *egress_proxy(const struct egress_choice *c);
/* Begin to connect, from the source's address to the target or to the source's proxy; errors as
 * stream_connect. */
MUST_USE int egress_connect(const struct egress_choice *c, const struct dns_host *target,
                            struct stream *s);

/* Whether a connection that could not be made says nothing about the target: the proxy failed, no
 * source reaches it, or this machine lacks the address, a port or memory.
 *
 * err      of stream_connect, of its result, or ERR_MISSING when egress_choose found none */
MUST_USE bool egress_is_own_failure(const struct egress_choice *c, int err);
/* In words; static or thread-local, as err_str. */
const char *egress_error_text(int err);

#define EGRESS_TEXT_MAX 160
/* ` from source "a"`, ` from source "a" through 192.0.2.1:1080`, or nothing; for the text of a
 * failure. returns text */
const char *egress_describe(const struct egress_choice *c, char text[static EGRESS_TEXT_MAX]);
/* Empty without a source. */
struct slice egress_source_name(const struct egress_choice *c);

#endif
