/* Walks over the queue for handlers: what of a request says which mail is meant, and a clerk as
 * the source of a walk. On a clerk's thread, for routes with place API_SLOW. */
#ifndef ENGINE_CLERK_WALK_H
#define ENGINE_CLERK_WALK_H

#include "base/attr.h"
#include "engine/census/queue_walk.h"
#include "engine/http/api.h"

/* Query parameters of a filter, for api_routes.c. */
#define CLERK_FILTER_PARAMS                                                                        \
    "tenant", "campaign", "domain", "destination", "transport", "source", "sender", "recipient",   \
        "state", "older"

/* Read them. older: a span since reception; state: one or several, "deferred,scheduled".
 *
 * ret      initialised here in any case; queue_filter_fini
 * returns  false: the call was answered */
MUST_USE bool clerk_filter(struct api_call *c, struct queue_filter *ret);
/* Where the clerk's walks read. The messages that are active are asked anew. */
void clerk_source(struct clerk *k, struct queue_source *ret);
/* Between pages of a walk: let others run, and go on by the settings in force. */
void clerk_walk_between_pages(struct clerk *k, struct queue_walk *w);
/* Answer for a walk that ended early. err: of queue_walk or census */
void clerk_walk_error(const struct clerk *k, struct api_call *c, int err);

#endif
