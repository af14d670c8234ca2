/* What a source means for a socket: from which address a connection goes out, or through which proxy,
 * and what a failure of it is called. Which source it is, the scheduler says. */
#ifndef ENGINE_EGRESS_H
#define ENGINE_EGRESS_H

#include "base/attr.h"
#include "base/slice.h"
#include "dns/ip.h"

#include <stdbool.h>
#include <stdint.h>

struct config_address;
struct config_egress_source;
struct dns_host;
struct order_book;
struct settings;
struct stream;

/* Valid as long as the settings. Zeroed: no source, the system chooses the address. */
struct egress {
    const struct config_egress_source *source;
    uint32_t place; /* of it among the transport's: source_table_place */
};

/* The source of this id, for a connection to an address of family 4 or 6.
 *
 * s        by which the transport connects
 * returns  false when the transport does not have it any more, or it does not reach that family */
MUST_USE bool egress_find(const struct settings *s, size_t transport, uint32_t id, int family,
                          struct egress *ret);

/* Whether a standing order bars the source from use.
 *
 * orders, s   either may be NULL: it is open
 * thread      online under RCU */
MUST_USE bool egress_is_closed(const struct order_book *orders,
                               const struct config_egress_source *s);

/* The proxy in front of the target, or NULL. */
const struct config_address *egress_proxy(const struct egress *c);
/* Begin to connect, from the source's address to the target or to the source's proxy; errors as
 * stream_connect. */
MUST_USE int egress_connect(const struct egress *c, const struct dns_host *target,
                            struct stream *s);

/* The address of ours that the target sees: the source's, or the socket's own; family 0: not known, as
 * a proxy has one of its own. */
struct ip egress_address(const struct egress *c, const struct dns_host *target,
                         const struct stream *s);

/* Whether a connection that could not be made says nothing about the target: the proxy failed, or this
 * machine lacks the address, a port or memory.
 *
 * err      of stream_connect, or of its result */
MUST_USE bool egress_is_own_failure(const struct egress *c, int err);
/* In words; static or thread-local, as err_str. */
const char *egress_error_text(int err);

#define EGRESS_TEXT_MAX 160
/* ` from source "a"`, ` from source "a" through 192.0.2.1:1080`, or nothing; for the text of a
 * failure. returns text */
const char *egress_describe(const struct egress *c, char text[static EGRESS_TEXT_MAX]);
/* Empty without a source. */
struct slice egress_source_name(const struct egress *c);

#endif
