/* Calls of the operators' interface from inside the process: made on any thread, they go the way of
 * those that come by HTTP, without a door, and are trusted as the control socket's are, but for those
 * that another node asks. */
#ifndef ENGINE_INNER_CALL_H
#define ENGINE_INNER_CALL_H

#include "base/attr.h"
#include "base/slice.h"
#include "engine/config/label.h"
#include "engine/http/api.h"

struct http;

struct inner_request {
    const char *method; /* a literal */
    const char *target; /* path and query, percent-encoded */
    const char *type;   /* Content-Type of the body, a literal; "" without one */
    struct slice body;
    /* Asked by another node of the cluster: it may look, for a tenant where it says one, as a token of
     * that tenant; and of routes only that have a reach (api.h). */
    bool is_from_node;
    struct label tenant; /* len 0: none */
};

/* Make a call; answer(ctx, ...) comes on the http thread, which must run. What the request points
 * to is copied, except its literals.
 *
 * errors   -ENOMEM; nothing will be answered */
MUST_USE int inner_call_make(struct http *h, const struct inner_request *r,
                             inner_call_answer *answer, void *ctx);

#endif
