/* Who asks over HTTP, and whether they may: by the door that they came through, by what a browser
 * says of the page that sent it, by token and route. Thread: http. */
#ifndef ENGINE_HTTP_CALLER_H
#define ENGINE_HTTP_CALLER_H

#include "base/attr.h"

#include <stdbool.h>

struct api_call;
struct http_door;

/* Set who asks, as far as the door alone says it, and from where. */
void http_caller_take(const struct http_door *d, struct api_call *c);
/* Whether a request can come from our own page. Host and Origin tell when a page of another site,
 * or another name for this machine, brought a browser here; then the call is answered. */
MUST_USE bool http_caller_is_own_page(const struct http_door *d, struct api_call *c);
/* Behind the routing: whoever asks may not, and the call is answered with 401 or 403. */
void http_caller_check(const struct http_door *d, struct api_call *c);
/* The same of a call from inside. */
void http_caller_check_inner(struct api_call *c);
/* When a call is answered: a refusal because of who asks is counted and logged. */
void http_caller_note(const struct http_door *d, const struct api_call *c);

#endif
