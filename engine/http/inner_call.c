/* Owns nothing: a call belongs to who made it until its letter is sent, then to the http thread.
 * Must not wait for an answer; the letter alone may find the mailbox full for a moment. */
#include "engine/http/inner_call.h"

#include "base/mailbox.h"
#include "engine/http/api_private.h"
#include "engine/http/http.h"
#include "engine/http/http_private.h"
#include "engine/post/letter.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

int inner_call_make(struct http *h, const struct inner_request *r, inner_call_answer *answer,
                    void *ctx)
{
    struct api_call *c = api_call_new(r->target);
    if (c == NULL) {
        return -ENOMEM;
    }
    c->method = r->method;
    c->inner_answer = answer;
    c->inner_ctx = ctx;
    (void)snprintf(c->type, sizeof(c->type), "%s", r->type); /* a literal that fits */
    (void)snprintf(c->who, sizeof(c->who), r->is_from_node ? "node" : "program");
    c->rights = r->is_from_node ? TOKEN_LOOK : TOKEN_ALL;
    c->is_from_node = r->is_from_node;
    c->tenant = r->tenant;
    buf_append_slice(&c->in, r->body);
    if (c->in.failed) {
        api_call_free(c);
        return -ENOMEM;
    }
    struct outbox to_http;
    const struct timespec moment = {.tv_nsec = 1000000};
    outbox_init(&to_http, http_box(h));
    letter_put_inner(&to_http, c);
    while (!outbox_flush(&to_http)) {
        (void)nanosleep(&moment, NULL); /* thousands of calls wait: so does this one */
    }
    outbox_fini(&to_http);
    return 0;
}
