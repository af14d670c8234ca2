/* SMTP replies out of a byte stream: incremental, bounded, the same result for every segmentation.
 * Called by smtp_client; pure. It judges syntax only: which command a reply answers and what it
 * means there is the caller's. */
#ifndef NET_SMTP_REPLY_H
#define NET_SMTP_REPLY_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/slice.h"
#include "net/outcome.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* reliability-security 3.1, R8 */
#define SMTP_REPLY_LINE_MAX  4096  /* bytes of a line that are looked at, the rest is dropped */
#define SMTP_REPLY_BYTES_MAX 65536 /* bytes of a whole reply, dropped ones included */
#define SMTP_REPLY_LINES_MAX 128
#define SMTP_REPLY_TEXT_MAX  1000 /* bytes of sanitised text kept */

enum smtp_reply_result {
    SMTP_REPLY_MORE, /* input used up, reply not complete */
    SMTP_REPLY_LINE, /* a line that is not the last: see line; call again */
    SMTP_REPLY_DONE, /* the last line: see line, code, text */
    SMTP_REPLY_BAD,  /* not SMTP, or beyond a limit: see problem; the connection is lost for good */
};

struct smtp_reply {
    /* valid from the first LINE until smtp_reply_next */
    uint16_t code; /* 200..599; of the last line; 421 when any line said 421 */
    uint16_t line_count;
    bool is_mixed;    /* lines disagree in their first digit */
    bool has_bare_lf; /* a line ended without CR */
    bool is_unclean;  /* NUL, other controls or bytes above 127 in some line */
    bool is_line_unclean;
    struct outcome_status status; /* first enhanced code whose class is the reply's, else x.0.0 */
    /* After LINE and DONE: raw text behind the code of the line just read, without line end, at
     * most SMTP_REPLY_LINE_MAX bytes; valid until the next call and as long as the input. */
    struct slice line;
    const char *problem; /* BAD: static text */

    /* private */
    struct buf text;    /* "550 5.1.1 no such user": all lines, sanitised, joined by spaces */
    struct buf partial; /* a line cut by the end of the input */
    size_t bytes;       /* of this reply so far */
    size_t line_bytes;  /* of the line under way, without LF */
    uint16_t first_code;
    bool ends_cr; /* the last byte of the line under way is CR */
    bool has_status, is_line_given, is_done;
};

void smtp_reply_init(struct smtp_reply *r);
void smtp_reply_fini(struct smtp_reply *r); /* accepts a zeroed one */
/* Forget the finished reply; the next call reads a new one. */
void smtp_reply_next(struct smtp_reply *r);

/* Read up to the end of one line.
 *
 * in       advanced past what was read; nothing behind the line's end is touched
 * errors   SMTP_REPLY_BAD is final until smtp_reply_next; also when out of memory */
MUST_USE enum smtp_reply_result smtp_reply_feed(struct smtp_reply *r, struct slice *in);

/* True when some bytes of a reply have been read but not all. */
bool smtp_reply_is_partial(const struct smtp_reply *r);

/* "550 5.1.1 no such user", sanitised; valid until smtp_reply_next. */
struct slice smtp_reply_text(const struct smtp_reply *r);

/* Append raw to out as valid UTF-8 without control characters (each bad byte becomes '?'), never
 * growing out beyond max bytes and never cutting a character. */
void smtp_reply_sanitise(struct buf *out, struct slice raw, size_t max);

/* Read "D.D.D" (class 2, 4 or 5) at the start of text, followed by a space or the end.
 * errors   ERR_SYNTAX */
MUST_USE int smtp_reply_parse_status(struct slice text, struct outcome_status *ret);

#endif
