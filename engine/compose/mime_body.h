/* The body of a message from its texts and attachments: the MIME fields of the header, the empty
 * line, and the parts (RFC 2045, 2046, 2387). Pure.
 *
 * With attachments it is multipart/mixed; text and html beside each other are
 * multipart/alternative; html and what it shows by Content-ID are multipart/related. A boundary
 * cannot occur in any part: text in which it could is quoted-printable, where "=_" never stands. */
#ifndef ENGINE_MIME_BODY_H
#define ENGINE_MIME_BODY_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mime_part {
    struct slice content_type; /* "image/png", perhaps with parameters */
    struct slice filename;     /* UTF-8; "": none */
    struct slice content_id;   /* without angle brackets; "": none */
    struct slice content;      /* base64; white space may stand in it */
    bool is_inline;            /* Content-Disposition */
};

struct mime_body {
    bool has_text, has_html;
    struct slice text, html; /* UTF-8 with any line ends */
    const struct mime_part *parts;
    size_t part_count;
    uint64_t unique; /* for the boundaries: no other message's */
};

/* Append everything from MIME-Version to the end, which is a CRLF. ret_wrong: see below.
 * errors: ERR_SYNTAX: the content of parts[*ret_wrong] is not base64; memory: the sticky flag */
MUST_USE int mime_body_write(struct buf *out, const struct mime_body *body, size_t *ret_wrong);

/* Append text with every line end (CRLF, LF, lone CR) as CRLF. */
void mime_body_lines(struct buf *out, struct slice text);

#endif
