/* Header fields as mail writes them: folding, encoded words (RFC 2047), display names, parameters
 * (RFC 2231). Pure; the caller has checked that no value has control characters. */
#ifndef ENGINE_MIME_FIELD_H
#define ENGINE_MIME_FIELD_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>

#define MIME_FIELD_NAME_MAX    76  /* bytes */
#define MIME_FIELD_WORD_MAX    900 /* bytes without white space: no line may have more than 998 */
#define MIME_FIELD_DISPLAY_MAX 400 /* bytes of a display name, which quoting may double */

/* A field being written; failure is the buffer's sticky flag. */
struct mime_field {
    struct buf *out;
    size_t column; /* of the current line */
};

/* "Name:"; the name is printable ASCII without a colon. */
void mime_field_begin(struct mime_field *f, struct buf *out, struct slice name);
/* CRLF. */
void mime_field_end(struct mime_field *f);

/* Words as they are, folded at their white space where a line would pass 76 bytes; white space at
 * both ends is dropped. ASCII (or the UTF-8 of RFC 6532). */
void mime_field_words(struct mime_field *f, struct slice text);
/* The same, but text that is not ASCII becomes encoded words. text: UTF-8 */
void mime_field_text(struct mime_field *f, struct slice text);
/* "Name <address>", or the address alone without a name. name: at most MIME_FIELD_DISPLAY_MAX */
void mime_field_mailbox(struct mime_field *f, struct slice name, struct slice address);
/* ";" and NAME=VALUE on a line of its own; value: UTF-8. */
void mime_field_parameter(struct mime_field *f, const char *name, struct slice value);

/* Whether every byte is below 128. */
MUST_USE bool mime_is_ascii(struct slice text);
/* Whether a value can stand in a header: no control characters but tab. */
MUST_USE bool mime_is_field_value(struct slice text);
/* Whether it has a word that no line can hold. */
MUST_USE bool mime_has_long_word(struct slice text);
/* Whether it is the name of a field. */
MUST_USE bool mime_is_field_name(struct slice name);

#endif
