/* What a verb of the operators' interface is written with: one request, its parameters, its answer.
 *
 * Every verb is a row of api_routes.c with a handler in the file of its noun. A handler runs to its
 * end on one thread and answers exactly once: a list (api_put..., api_end), one object, an error or
 * raw bytes. A call belongs to the thread that has it: the http thread, or the clerk that it was
 * sent to (clerk.h), which sends it back.
 *
 * Lists are one JSON object a line (application/x-ndjson); the last line is {"end": true, "count":
 * N, "more": bool}, and an answer without it was cut. Points in time are wall clock seconds since
 * 1970 with 6 digits, spans seconds, ids 16 hex digits. Unknown members must be ignored. */
#ifndef ENGINE_API_H
#define ENGINE_API_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "engine/state/denial.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define API_LIST_DEFAULT 1000
#define API_LIST_MAX     10000

enum api_place {
    API_INLINE, /* on the http thread: answers at once, or keeps the call (api_keep) */
    API_FAST,   /* a clerk: reads what threads publish, and single messages */
    API_SLOW,   /* the other clerk: walks through the spool */
};

/* What of a route may be asked of other nodes of a cluster; each goes further than the one before. */
enum api_reach {
    API_HERE,      /* nothing */
    API_ANY_NODE,  /* parameter `node`: of one, named */
    API_ALL_NODES, /* and `nodes`: of all; rows stand node after node */
    API_BY_ID,     /* the same; rows are in the order of their member `id` over all nodes */
};

struct api_call;
struct buf;
struct clerk;
typedef void api_handler(struct clerk *k, struct api_call *c);

/* Of a call from inside the process (inner_call.h): called on the http thread with the answer,
 * once; must not block. body: valid during the call */
typedef void inner_call_answer(void *ctx, int status, struct slice body);

struct api_route {
    const char *method; /* "GET", "POST", "DELETE"; HEAD follows GET */
    const char *path;   /* "/v1/messages", or with one argument at the end: "/v1/messages/:id" */
    enum api_place place;
    api_handler *run;
    const char *const *params; /* NULL-terminated names of the query parameters; NULL: none */
    const char *summary;
    enum api_reach reach;
    bool takes_message; /* POST: its body may be message/rfc822 and is not parsed */
    bool takes_lines;   /* POST: its body may be text/csv or application/x-ndjson, likewise */
    bool is_open;       /* needs no token */
    bool injects;       /* giving mail: of the others GET looks, and the rest changes something */
    bool is_tenants; /* whoever is bound to a tenant may ask, and the handler answers with what is
                           the tenant's alone (api_tenant). Of all other routes they get 403. */
};

/* The right that a caller needs; a bit of enum token_right, 0: none. */
unsigned api_route_right(const struct api_route *r);
/* "none", "look", "inject", "change". */
const char *api_right_text(unsigned right) NONNULL_RET;

/* --- the request -------------------------------------------------------------------------------
 * Slices are valid as long as the call. */

/* The :id part, decoded; "" for a route without. */
struct slice api_argument(const struct api_call *c);
/* A query parameter, decoded; false: it is not there, and *ret unchanged. */
bool api_param(const struct api_call *c, const char *name, struct slice *ret);
/* These answer 400 and return false when the parameter is there and wrong. */
MUST_USE bool api_param_number(struct api_call *c, const char *name, uint64_t min, uint64_t max,
                               uint64_t initial, uint64_t *ret);
/* "90s", "15m", "2h", "5d", "1w"; a number alone means seconds. */
MUST_USE bool api_param_span(struct api_call *c, const char *name, usec_t initial, usec_t *ret);
/* "limit", 1 to API_LIST_MAX. */
MUST_USE bool api_param_limit(struct api_call *c, uint64_t *ret);
/* Whether another node is asked as well, or instead (API_ANY_NODE and further). */
MUST_USE bool api_is_for_nodes(const struct api_call *c);
/* Its path and parameters, encoded as in a request line, but for `node` and `nodes`. */
void api_put_target(const struct api_call *c, struct buf *ret);
enum api_reach api_reach_of(const struct api_call *c);
/* The JSON object that was sent, or NULL when the body is empty or no JSON was expected. */
const json_t *api_body(const struct api_call *c);
/* The body as it came. */
struct slice api_bytes(const struct api_call *c);
/* Its Content-Type without parameters, lower case; "" when none was sent. */
const char *api_content_type(const struct api_call *c);
/* Who asks: "local" (control socket), "loopback", or the name of a token. */
const char *api_who(const struct api_call *c);
/* The tenant that whoever asks is bound to; "" for those who are not. Compared byte by byte: acme and
 * ACME are two. */
struct slice api_tenant(const struct api_call *c);
/* The address it comes from, as text; "" for the control socket. */
const char *api_address(const struct api_call *c);

/* Nobody waits for the answer: the client has closed its end. A system call; for long walks,
 * between pages. */
MUST_USE bool api_is_deserted(const struct api_call *c);

/* --- the answer ------------------------------------------------------------------------------- */

/* A line of a list; takes the reference. NULL: out of memory, the answer then becomes an error. */
void api_put(struct api_call *c, json_t *object);
/* The same, of an object that is text already, without LF. */
void api_put_text(struct api_call *c, struct slice object);
void api_end(struct api_call *c, bool has_more);
/* The same with further members for the last line; takes the reference. */
void api_end_with(struct api_call *c, bool has_more, json_t *members);
void api_object(struct api_call *c, int status, json_t *object); /* takes the reference */
/* {"error": TEXT, "code": CODE} instead of everything that was put before.
 *
 * code     "usage" 400, "token" 401, "forbidden" 403, "missing" 404, "method" 405, "large" 413,
 *          "wrong" 422, "busy" 429, "unavailable" 503 */
void api_error(struct api_call *c, int status, const char *code, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* 403, or 401 for DENIAL_TOKEN, with the reason; it is counted and goes to the log. */
void api_deny(struct api_call *c, enum denial kind, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Whoever is bound to a tenant named this one: false when it is another, and the call is answered. */
MUST_USE bool api_may_name(struct api_call *c, struct slice tenant);
/* With an error: when to try again, in seconds (Retry-After). */
void api_retry_after(struct api_call *c, unsigned seconds);
/* The bytes are copied. content_type: a literal */
void api_raw(struct api_call *c, int status, const char *content_type, struct slice bytes);
/* An answer came together. */
MUST_USE bool api_is_answered(const struct api_call *c);
/* Lines put so far. */
uint64_t api_count(const struct api_call *c);
/* So much has come together that a list had better end here. */
MUST_USE bool api_is_long(const struct api_call *c);

/* Of an inline handler: the answer comes later, on the http thread, which is then told with
 * http_answer (http.h). The handler has stored the call; it lives until then. */
void api_keep(struct api_call *c);

/* --- members of objects ----------------------------------------------------------------------- */

/* A string that may hold anything: what is no UTF-8 is shown as '?'. NULL: out of memory. */
json_t *api_text(struct slice s);
json_t *api_time(usec_t t);
/* A member; out of memory leaves it out. */
void api_set_text(json_t *o, const char *key, struct slice s);
void api_set_number(json_t *o, const char *key, uint64_t n);
void api_set_time(json_t *o, const char *key, usec_t t);

#endif
