/* What a request for an order or a flush says: read from its JSON body, checked, and nothing more.
 * Pure. A member that nobody knows is an error here: a selector with a slip of the pen in it would
 * mean more mail than was meant. */
#ifndef ENGINE_ORDER_REQUEST_H
#define ENGINE_ORDER_REQUEST_H

#include "base/attr.h"
#include "base/clock.h"
#include "engine/order/order.h"

#include <jansson.h>
#include <stdbool.h>

#define ORDER_REQUEST_TEXT_MAX 300
#define ORDER_FOR_DEFAULT      (3600 * USEC_PER_SEC) /* of suspend */
#define ORDER_FOR_MAX          (366 * 86400 * USEC_PER_SEC)

struct order_request {
    struct order order; /* kind, is_once, selector, reason, by, created and until */
    bool is_dry_run;
    bool is_here; /* at this node of a cluster alone */
};

/* body     NULL: there was none
 * by       who asks
 * ret      order_fini(&ret->order)
 * errors   ERR_SYNTAX, ERR_LIMIT: text says what is wrong; -ENOMEM */
MUST_USE int order_request_read(const json_t *body, const char *by, usec_t now_wall,
                                struct order_request *ret,
                                char text[static ORDER_REQUEST_TEXT_MAX]);

/* Of a flush: the selector, and `dry_run`.
 *
 * ret      selector_fini in any case */
MUST_USE int order_request_read_flush(const json_t *body, struct selector *ret,
                                      bool *ret_is_dry_run,
                                      char text[static ORDER_REQUEST_TEXT_MAX]);

/* "suspend tenant=acme source=ip*", for the log; cut to what there is room for. */
void order_describe(const struct order *o, char *text, size_t size);

#endif
