/* Pieces of JSON text written where a cursor stands; the caller has made room, and writes the
 * punctuation. Each returns where its text ended. Pure.
 *
 * What comes out is valid UTF-8 without control characters, whatever goes in: bytes that are not
 * UTF-8 become U+FFFD, controls (also DEL and U+0080 to U+009F) are escaped. */
#ifndef BASE_JSON_LINE_H
#define BASE_JSON_LINE_H

#include "base/slice.h"

#include <stdint.h>

#define JSON_LINE_NUMBER_MAX 20 /* digits of 2^64, or of 2^63 and a sign */

/* The most bytes that a string of so many bytes can take. */
static inline size_t json_line_string_max(size_t len)
{
    return 6 * len + 2;
}

/* A string with its quotes. */
char *json_line_string(char *at, struct slice text);
char *json_line_unsigned(char *at, uint64_t value);
char *json_line_signed(char *at, int64_t value);

#endif
