/* The fields that are written into mail that is signed and has none of its own: Feedback-ID by its
 * tenant's template, and how to unsubscribe. Pure but for the book's tokens. */
#ifndef ENGINE_SEAL_FIELD_H
#define ENGINE_SEAL_FIELD_H

#include "base/buf.h"

#include <stddef.h>

struct config;
struct dkim_header;
struct message;
struct return_book;

struct seal_fields_of {
    const struct config *config;
    const struct message *message;
    const struct dkim_header *header; /* what the message has */
    const struct return_book *book;   /* NULL: there are no tokens */
    size_t transport;                 /* index in the configuration */
};

/* Write them into `out`, which is cleared first, each with its CRLF. Failure is the buffer's.
 *
 * A field is shared by all who get the message, and one recipient's token in another's copy would let
 * that one unsubscribe the first: so mail with several recipients gets none to unsubscribe with, and
 * neither does mail of ours about other mail (the null sender, reports of TLS).
 *
 * thread  online under RCU
 * source  RFC 2369 section 3.2, RFC 8058 section 3.1 */
void seal_field_put_all(const struct seal_fields_of *of, struct buf *out);

#endif
