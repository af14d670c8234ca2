/* Base64 of RFC 4648 section 4, strict: what decodes has exactly one encoding.
 * Pure; called by the SMTP cores. */
#ifndef NET_BASE64_H
#define NET_BASE64_H

#include "base/attr.h"
#include "base/slice.h"

#include <stddef.h>

/* Bytes that len bytes of text decode to at most. */
#define BASE64_DECODED_MAX(len) ((len) / 4 * 3)
/* Characters that len bytes encode to; no terminating NUL. */
#define BASE64_ENCODED_LEN(len) (((len) + 2) / 3 * 4)

/* Decode text into out (size bytes).
 *
 * ret_len  bytes written
 * errors   ERR_SYNTAX: a character outside the alphabet (white space too), a length that is no
 *          multiple of 4, missing or extra padding, bits under the padding that are not zero;
 *          ERR_LIMIT: out is too small. out may hold partial bytes after an error. */
MUST_USE int base64_decode(struct slice text, void *out, size_t size, size_t *ret_len);

/* Encode data into out, which has room for BASE64_ENCODED_LEN(data.len); returns that length. */
size_t base64_encode(struct slice data, char *out);

#endif
