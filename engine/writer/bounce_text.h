/* Pieces of mail text from bytes that strangers chose: header values, folded paragraphs, copies of
 * messages. Everything comes out with CRLF line ends, no line over 998 bytes, no stray controls.
 * Pure; used by bounce.c only. */
#ifndef ENGINE_BOUNCE_TEXT_H
#define ENGINE_BOUNCE_TEXT_H

#include "base/buf.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>

#define BOUNCE_TEXT_LINE_MAX  998  /* RFC 5322 section 2.1.1, without CRLF */
#define BOUNCE_TEXT_VALUE_MAX 900  /* bytes of one value that cannot be folded */
#define BOUNCE_TEXT_REPLY_MAX 2000 /* bytes of a peer's reply that are passed on */

/* One value on the current line: controls become spaces, runs of spaces one; bytes that are not
 * UTF-8, or without allow_utf8 not ASCII, become '?'. Cut after `max` bytes, at most
 * BOUNCE_TEXT_REPLY_MAX. */
void bounce_text_value(struct buf *out, struct slice value, size_t max, bool allow_utf8);

/* The same without a buffer: at most `max` bytes into ret. returns: how many */
size_t bounce_text_clean(char *ret, size_t max, struct slice value, bool allow_utf8);

/* As bounce_text_value, folded at spaces: a new line begins with `indent`. The line so far is
 * `column` bytes long. Ends without a line end. */
void bounce_text_folded(struct buf *out, struct slice value, size_t column, const char *indent,
                        bool allow_utf8);

/* Copy a message or its start: bare CR and LF become line ends, a longer line is broken with CRLF
 * and a space, NUL becomes '?'. The last line is ended. */
void bounce_text_copy(struct buf *out, const struct slice *parts, size_t count, size_t limit);

struct bounce_text_facts {
    size_t total;           /* bytes of all parts */
    size_t header;          /* bytes before the empty line, the last header line's end included */
    bool has_8bit_header;   /* bytes above 127 there */
    bool has_8bit_anywhere; /* or in the body; only looked for up to `limit` */
};

/* Measure a message; looks at the header at most and, when the whole is not longer than `limit`, at
 * the body. */
void bounce_text_measure(const struct slice *parts, size_t count, size_t limit,
                         struct bounce_text_facts *ret);

bool bounce_text_is_ascii(struct slice text);

#endif
