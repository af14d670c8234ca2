/* Who may ask over HTTP, and for what: a file of tokens. Immutable once loaded, for any thread. */
#ifndef ENGINE_TOKENS_H
#define ENGINE_TOKENS_H

#include "base/attr.h"
#include "engine/config/label.h"

#define TOKEN_NAME_MAX 64
#define TOKEN_MIN      16 /* bytes of a token that is written in clear */

/* What somebody may do. Bits. */
enum token_right {
    TOKEN_LOOK = 1,   /* GET */
    TOKEN_INJECT = 2, /* give mail */
    TOKEN_CHANGE = 4, /* everything else: orders, lanes, flush, reload */
    TOKEN_ALL = TOKEN_LOOK | TOKEN_INJECT | TOKEN_CHANGE,
};

/* What a token opens. */
struct token_grant {
    char name[TOKEN_NAME_MAX + 1];
    unsigned rights;     /* bits of enum token_right */
    struct label tenant; /* it is bound to this one: it reaches nothing of others; len 0: to none */
};

struct tokens;

/* Read a file of lines NAME:TOKEN or NAME:SHA256-HEX. In front may stand one of the words full (as
 * without one), read (it may look) and inject (it may inject), and behind that tenant=T.
 *
 * ret_text  "FILE:LINE: what is wrong"
 * errors    -errno, ERR_SYNTAX (a line, or a file that others may read), ERR_LIMIT */
MUST_USE int tokens_load(const char *path, struct tokens **ret, char ret_text[512]);
void tokens_free(struct tokens *t); /* accepts NULL */

/* What the token in an Authorization header ("Bearer TOKEN") opens, or NULL. Takes as long whether
 * one fits or not.
 *
 * authorization  NULL when there is none
 * returns        valid as long as t */
const struct token_grant *tokens_check(const struct tokens *t, const char *authorization);

#endif
