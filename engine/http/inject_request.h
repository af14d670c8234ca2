/* What a request to inject mail asks for: which messages, with what said for all of them; and how
 * it is answered. Called by inject.c on the http thread; knows nothing of the spool. */
#ifndef ENGINE_INJECT_REQUEST_H
#define ENGINE_INJECT_REQUEST_H

#include "base/attr.h"
#include "base/slice.h"
#include "engine/compose/compose.h"
#include "engine/http/api.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct inject_request {
    size_t count;           /* of messages */
    const json_t *list;     /* "messages", or NULL: a single one */
    const json_t *single;   /* the message, when there is no list */
    const json_t *defaults; /* may be NULL */
    json_t *overrides;      /* from the query: said of all messages; own reference */
    struct slice raw;       /* the body, when it is message/rfc822; else data NULL */
    struct slice tenant;    /* of messages that name none: the token's, or its name; may be "" */
};

/* False: the call is answered. messages_max: of a batch */
MUST_USE bool inject_request_init(struct inject_request *r, struct api_call *c,
                                  size_t messages_max);
void inject_request_fini(struct inject_request *r);
/* Compose message `index` into *ret. errors: -ENOMEM */
MUST_USE int inject_request_compose(const struct inject_request *r, size_t index,
                                    const struct compose_options *options, uint64_t id,
                                    struct compose_mistakes *mistakes, struct composition *ret);

/* --- answers ---------------------------------------------------------------------------------- */

/* 422 with all mistakes that are kept. */
void inject_request_refuse(struct api_call *c, const struct compose_mistakes *mistakes);
/* 202, or 207 when results say that some messages could not be stored. Takes both references.
 *
 * ids      of those that were stored
 * results  of each message, in order; NULL: all of them were stored */
void inject_request_accept(struct api_call *c, json_t *ids, json_t *results);
/* What a client is told of a storage error. */
const char *inject_request_error(int error);

#endif
