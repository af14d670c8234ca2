/* Calls of the operators' interface from inside the process: made on any thread, they go the way of
 * those that come by HTTP, without a door, and are trusted as the control socket's are. */
#ifndef ENGINE_INNER_CALL_H
#define ENGINE_INNER_CALL_H

#include "base/attr.h"
#include "base/slice.h"
#include "engine/http/api.h"

struct http;

/* Make a call. The http thread runs.
 *
 * method   a literal
 * target   path and query, percent-encoded
 * type     Content-Type of the body, a literal; "" without one
 * errors   -ENOMEM; nothing will be answered */
MUST_USE int inner_call_make(struct http *h, const char *method, const char *target,
                             const char *type, struct slice body, inner_call_answer *answer,
                             void *ctx);

#endif
