/* Which requests over TCP may be a browser's that other people's pages send. Pure. */
#ifndef ENGINE_HTTP_GUARD_H
#define ENGINE_HTTP_GUARD_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>

/* Whether a Host header names this machine rather than somebody's name for it: an IP literal,
 * localhost, or hostname; with or without port. Otherwise the browser believes that we are another
 * site (DNS rebinding). */
MUST_USE bool http_guard_host(struct slice host, const char *hostname);
/* Whether the page that sent a request is ours: its origin has the host and port of the Host
 * header. */
MUST_USE bool http_guard_origin(struct slice origin, struct slice host);

#endif
