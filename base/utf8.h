/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing beyond U+10FFFF. Pure. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/slice.h"

#include <stddef.h>
#include <stdint.h>

#define UTF8_LENGTH_MAX 4 /* bytes of a character */

/* Bytes of the valid character at the start of s, 1 to UTF8_LENGTH_MAX; 0: s is empty or begins with none. */
size_t utf8_length(struct slice s);

/* The same, and the character's number. ret is unchanged where 0 is returned. */
size_t utf8_decode(struct slice s, uint32_t *ret);

#endif
