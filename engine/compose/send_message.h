/* What `sluice send` does to a message before it goes over SMTP: complete its header, take the
 * recipients out of it, and turn lines into CRLF lines with dots stuffed. Pure; no I/O. */
#ifndef ENGINE_SEND_MESSAGE_H
#define ENGINE_SEND_MESSAGE_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEND_HEADER_MAX_BYTES ((size_t)1 << 20)

struct send_options {
    struct slice sender;    /* "" = null sender */
    struct slice full_name; /* for a From that is missing; may be empty */
    struct slice hostname;  /* completes bare local parts and names the Message-ID */
    bool takes_recipients;  /* -t: recipients from To, Cc, Bcc (or Resent-...); Bcc is removed */
    usec_t now;             /* wall clock */
    uint64_t unique;        /* makes the Message-ID differ from others of the same second */
};

/* Where the header of this text ends: at the first empty line, or at the first line that is no
 * header. *ret_header: bytes of the header; *ret_body: where the body starts.
 * returns false when more text is needed to say (never with is_all) */
MUST_USE bool send_message_split(struct slice text, bool is_all, size_t *ret_header,
                                 size_t *ret_body);

/* Append the finished header and its empty line to *out, dots stuffed, CRLF; and to *recipients
 * each address that -t finds, each followed by NUL, completed with @hostname.
 *
 * header   as send_message_split cut it; an mbox "From " line is dropped
 * errors   ERR_SYNTAX: an address header cannot be understood; ERR_LIMIT: out of room */
MUST_USE int send_message_header(struct slice header, const struct send_options *options,
                                 struct buf *out, struct buf *recipients);

/* Append address and NUL, with @hostname when it has no domain.
 * errors: ERR_SYNTAX: empty, white space, angle or control character */
MUST_USE int send_message_recipient(struct slice address, struct slice hostname,
                                    struct buf *recipients);

/* The body, in pieces of any size. */
struct send_body {
    bool dot_ends;  /* set by the caller: a line of one dot ends the message (no -i) */
    bool has_ended; /* a line of one dot was seen; the rest is ignored */
    bool in_line;   /* the current line has bytes already */
    bool had_cr;    /* the last byte was a CR */
    bool had_dot;   /* the line is "." so far, not yet written */
};
/* LF, CRLF and lone CR become CRLF. */
void send_body_convert(struct send_body *b, struct slice in, struct buf *out);
/* Ends the last line and appends the final dot line. */
void send_body_finish(struct send_body *b, struct buf *out);

#endif
