/* POST /v1/inject: messages that come as JSON, or as finished text, over the operators' interface.
 *
 * A request is checked as a whole, then its messages go to the spool writer like receptions, and
 * the answer waits for their commits. The http thread owns all of it; the writer has an intake from
 * its letter to its answer. */
#ifndef ENGINE_INJECT_H
#define ENGINE_INJECT_H

#include "base/attr.h"
#include "engine/http/api.h"

#include <stdbool.h>

struct engine;
struct http;
struct injector;
struct intake;

#define INJECT_MESSAGES_MAX 1000 /* of one request */

/* errors: -ENOMEM */
MUST_USE int injector_new(struct engine *engine, struct http *http, struct injector **ret);
void injector_free(struct injector *j); /* accepts NULL */

api_handler inject_post;
extern const char *const inject_params[];

#endif
