/* A call from inside, for those who make it and carry it: the http thread, the clerks, tests. */
#ifndef ENGINE_API_PRIVATE_H
#define ENGINE_API_PRIVATE_H

#include "base/buf.h"
#include "base/list.h"
#include "engine/http/api.h"
#include "engine/state/tokens.h"

enum {
    API_PARAMS_MAX = 32,
    API_ANSWER_MAX_BYTES = 64 * 1024 * 1024,
    API_NAME_MAX = TOKEN_NAME_MAX,
    API_ADDRESS_MAX = 46, /* an address as text, with NUL */
};

enum api_stage {
    API_STAGE_NEW,     /* its header was not looked at */
    API_STAGE_BODY,    /* the body comes */
    API_STAGE_RUNNING, /* a handler has it, or will have it; its connection is suspended */
    API_STAGE_ANSWERED,
};

struct api_pair {
    char *name; /* decoded, without NUL */
    struct slice value;
};

struct MHD_Connection;

struct api_call {
    /* http thread only */
    struct list link;                  /* in its list of running calls */
    struct MHD_Connection *connection; /* NULL: it comes from inside (inner_call.h) */
    enum api_stage stage;
    uint64_t held_bytes;    /* of body or answer, counted in the http thread's sum */
    uint64_t skipped_bytes; /* of a body that is not wanted */

    /* the request; constant once its body is complete */
    const struct api_route *route; /* NULL: none was found */
    char *target;                  /* path and query, decoded in place */
    struct slice path, argument;
    struct api_pair pairs[API_PARAMS_MAX];
    size_t pair_count;
    struct buf in;
    json_t *body;
    char type[64]; /* Content-Type */
    char who[API_NAME_MAX + 1];
    unsigned rights;     /* bits of enum token_right */
    struct label tenant; /* see api_tenant */
    char address[API_ADDRESS_MAX];
    int peer; /* the connection's socket, open as long as the call; -1: not known */

    /* the answer; whoever has the call */
    int status;         /* 0: none yet */
    enum denial denial; /* why it is refused because of who asks */
    const char *content_type;
    const char *allow;    /* of 405 and OPTIONS, or NULL */
    const char *policy;   /* Content-Security-Policy of a page, or NULL */
    unsigned retry_after; /* seconds; 0: not said */
    bool closes;          /* the connection, behind the answer */
    struct buf out;
    uint64_t count;
    bool is_kept;

    /* of a call from inside; constant */
    const char *method;
    bool is_from_node; /* of the cluster, see inner_call.h */
    inner_call_answer *inner_answer;
    void *inner_ctx;

    /* between clerks (clerk_pass_on) */
    api_handler *next; /* instead of the route's */
    json_t *kept;      /* owned */
};

/* target   as it stands in the request line: path, '?', query; copied
 * returns  NULL: out of memory. A target that is not understood is answered already (400) */
MUST_USE struct api_call *api_call_new(const char *target);
void api_call_free(struct api_call *c); /* accepts NULL */

/* Find its route and check its parameters; otherwise the call is answered: 404, 405, 400, or the
 * Allow header of OPTIONS.
 *
 * routes   count of them */
void api_call_route(struct api_call *c, const char *method, const struct api_route *routes,
                    size_t count);
/* Bytes that its body may have, where the door takes `most`. */
uint64_t api_call_body_max(const struct api_call *c, uint64_t most);
/* The body is complete: parse it, or answer 400 or 413. */
void api_call_take_body(struct api_call *c);
/* Nobody looks at the body any more. */
void api_call_forget_body(struct api_call *c);

#endif
