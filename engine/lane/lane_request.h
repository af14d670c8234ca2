/* What a request for an order on lanes says: read from its JSON body, checked, and nothing more. Pure.
 * A member that nobody knows is an error: a slip of the pen would mean more lanes than were meant. */
#ifndef ENGINE_LANE_REQUEST_H
#define ENGINE_LANE_REQUEST_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "engine/limit/limits_report.h"

#include <jansson.h>
#include <stdbool.h>

#define LANE_REQUEST_TEXT_MAX 300
#define LANE_REQUEST_REASON_MAX                                                                    \
    120 /* bytes: with who gave it they fit into what is kept of a cause */
#define LANE_CLOSED_DEFAULT (3600 * USEC_PER_SEC)

struct lane_request {
    enum limit_order_kind kind;
    struct slice site; /* "": LIMIT_ORDER_OPEN for all lanes of the source */
    bool has_source;
    struct slice source; /* "": where the system chooses the address */
    usec_t span;         /* LIMIT_ORDER_CLOSE */
    double rate;         /* LIMIT_ORDER_PACE, a second */
    struct slice reason; /* "": none was said */
};

/* body    NULL: there was none; ret points into it
 * errors  ERR_SYNTAX: text says what is wrong and what would be right */
MUST_USE int lane_request_read(const json_t *body, struct lane_request *ret,
                               char text[static LANE_REQUEST_TEXT_MAX]);
/* "close", "open", "pace"; static */
const char *lane_request_word(enum limit_order_kind kind) NONNULL_RET;

#endif
