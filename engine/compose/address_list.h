/* The mailboxes in a header such as To (RFC 5322 3.4): comments, quoted strings, display names,
 * groups and old source routes are understood. Pure. */
#ifndef ENGINE_ADDRESS_LIST_H
#define ENGINE_ADDRESS_LIST_H

#include "base/attr.h"
#include "base/slice.h"

#define ADDRESS_LIST_ADDRESS_MAX_BYTES 1000

/* Calls found(ctx, address) for each, in order: local@domain or a bare local part, white space and
 * comments removed; valid during the call. found returns 0 to go on, or an error that ends it.
 *
 * text     unfolded or folded, without the header's name
 * errors   ERR_SYNTAX: a quote, comment, bracket or angle without its end, or an address beyond
 *          the limit; ERR_... of found */
MUST_USE int address_list_parse(struct slice text, int (*found)(void *ctx, struct slice address),
                                void *ctx);

#endif
