/* Who may ask over HTTP: a file of tokens. Immutable once loaded, for any thread. */
#ifndef ENGINE_TOKENS_H
#define ENGINE_TOKENS_H

#include "base/attr.h"

#include <stdbool.h>

#define TOKEN_NAME_MAX 64
#define TOKEN_MIN      16 /* bytes of a token that is written in clear */

struct tokens;

/* Read a file of lines NAME:TOKEN or NAME:SHA256-HEX. With "read " in front the token may only
 * look.
 *
 * ret_text  "FILE:LINE: what is wrong"
 * errors    -errno, ERR_SYNTAX (a line, or a file that others may read), ERR_LIMIT */
MUST_USE int tokens_load(const char *path, struct tokens **ret, char ret_text[512]);
void tokens_free(struct tokens *t); /* accepts NULL */

/* The name of the token in an Authorization header ("Bearer TOKEN"), or NULL. Takes as long whether
 * one fits or not.
 *
 * authorization  NULL when there is none
 * ret_is_reader  it may only look */
const char *tokens_check(const struct tokens *t, const char *authorization, bool *ret_is_reader);

#endif
