/* Who may ask over TCP: tokens, and browsers that other people's pages send. Pure but for reading
 * the file of tokens; tokens are immutable once loaded, for any thread. */
#ifndef ENGINE_HTTP_GUARD_H
#define ENGINE_HTTP_GUARD_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>

#define HTTP_TOKEN_NAME_MAX 64
#define HTTP_TOKEN_MIN      16 /* bytes of a token that is written in clear */

struct http_tokens;

/* Read a file of lines NAME:TOKEN or NAME:SHA256-HEX. With "read " in front the token may only
 * look.
 *
 * ret_text  "FILE:LINE: what is wrong"
 * errors    -errno, ERR_SYNTAX (a line, or a file that others may read), ERR_LIMIT */
MUST_USE int http_tokens_load(const char *path, struct http_tokens **ret, char ret_text[512]);
void http_tokens_free(struct http_tokens *t); /* accepts NULL */

/* The name of the token in an Authorization header ("Bearer TOKEN"), or NULL. Takes as long whether
 * one fits or not.
 *
 * authorization  NULL when there is none
 * ret_is_reader  it may only look */
const char *http_tokens_check(const struct http_tokens *t, const char *authorization,
                              bool *ret_is_reader);

/* Whether a Host header names this machine rather than somebody's name for it: an IP literal,
 * localhost, or hostname; with or without port. Otherwise the browser believes that we are another
 * site (DNS rebinding). */
MUST_USE bool http_guard_host(struct slice host, const char *hostname);
/* Whether the page that sent a request is ours: its origin has the host and port of the Host
 * header. */
MUST_USE bool http_guard_origin(struct slice origin, struct slice host);

#endif
