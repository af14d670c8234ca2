/* Requests that change the lists of suppressed recipients: one entry, or a file of them. The http thread
 * reads the body in batches (post/suppress_batch.h); each goes to the spool writer, and the next one is
 * read when it is durable, so that mail comes in between. The answer comes behind the last. */
#ifndef ENGINE_SUPPRESS_REQUEST_H
#define ENGINE_SUPPRESS_REQUEST_H

#include "engine/http/api.h"

struct http;

/* POST: an entry as JSON, or lines of CSV or NDJSON. DELETE: one address. */
api_handler suppress_request_post, suppress_request_delete;
extern const char *const suppress_request_params[];

/* The http thread is to tell of what the spool writer has answered. Before it starts. */
void suppress_request_open(struct http *h);

#endif
