/* Pieces of JSON text appended to a buffer; the caller writes the punctuation. Pure.
 *
 * What comes out is valid UTF-8 without control characters, whatever goes in: bytes that are not
 * UTF-8 become U+FFFD, controls (also DEL and U+0080 to U+009F) are escaped. */
#ifndef ENGINE_JSON_LINE_H
#define ENGINE_JSON_LINE_H

#include "base/buf.h"
#include "base/slice.h"

#include <stdint.h>

/* A string with its quotes. */
void json_line_string(struct buf *out, struct slice text);
void json_line_unsigned(struct buf *out, uint64_t value);
void json_line_signed(struct buf *out, int64_t value);

/* Length of the valid UTF-8 sequence (RFC 3629) at the start of s, 1 to 4; 0: there is none. */
size_t json_utf8_length(struct slice s);

#endif
