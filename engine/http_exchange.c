/* What libmicrohttpd tells of one request, made into a call and back: its callbacks and its
 * responses. Called on the http thread only. Must not block, nor hold more of a request than its
 * door allows. */
#include "base/log.h"
#include "engine/api_private.h"
#include "engine/engine.h"
#include "engine/http_private.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    IDLE_SECONDS = 30,
    HEADER_BYTES = 32 * 1024, /* a connection's memory for headers, its answer's included */
};

/* --- answers -----------------------------------------------------------------------------------
 */

static bool add_header(struct MHD_Response *r, const char *name, const char *value)
{
    return MHD_add_response_header(r, name, value) == MHD_YES;
}

/* No cache and no other site's page gets to see what is told here. */
static bool add_headers(struct MHD_Response *r, const struct api_call *c)
{
    return (c->content_type == NULL || add_header(r, "Content-Type", c->content_type)) &&
           (c->allow == NULL || add_header(r, "Allow", c->allow)) &&
           (c->status != 401 || add_header(r, "WWW-Authenticate", "Bearer realm=\"sluice\"")) &&
           add_header(r, "Cache-Control", "no-store") &&
           add_header(r, "X-Content-Type-Options", "nosniff");
}

/* MHD_NO closes the connection. */
static enum MHD_Result reply(struct api_call *c)
{
    size_t len = 0;
    char *bytes = buf_detach(&c->out, &len);
    struct MHD_Response *r = MHD_create_response_from_buffer(
        len, bytes, bytes == NULL ? MHD_RESPMEM_PERSISTENT : MHD_RESPMEM_MUST_FREE);
    if (r == NULL) {
        free(bytes);
        return MHD_NO;
    }
    enum MHD_Result queued = MHD_NO;
    if (add_headers(r, c)) {
        queued = MHD_queue_response(c->connection, (unsigned)c->status, r);
    }
    MHD_destroy_response(r);
    c->stage = API_STAGE_ANSWERED;
    return queued;
}

/* --- requests ----------------------------------------------------------------------------------
 */

static const char *header_of(const struct api_call *c, const char *name)
{
    return MHD_lookup_connection_value(c->connection, MHD_HEADER_KIND, name);
}

/* The media type alone, lower case. */
static void take_type(struct api_call *c)
{
    const char *type = header_of(c, "Content-Type");
    struct slice text = slice_of(type == NULL ? "" : type);
    text = slice_trim(slice_to(text, slice_find(text, ';')));
    if (text.len < sizeof(c->type)) {
        slice_lower(text, c->type);
        c->type[text.len] = '\0';
    }
}

static void check_length(struct api_call *c, const struct http_door *d)
{
    const char *text = header_of(c, "Content-Length");
    if (text != NULL && strtoull(text, NULL, 10) > d->body_max) { /* its syntax is checked */
        api_error(c, 413, "large", "the body is larger than %llu bytes",
                  (unsigned long long)d->body_max);
    }
}

/* A browser sends forms without asking anybody; what it sends with these types it asks for. */
static void check_type(struct api_call *c)
{
    if (strcmp(c->route->method, "POST") == 0 && strcmp(c->type, "application/json") != 0 &&
        !(c->route->takes_message && strcmp(c->type, "message/rfc822") == 0)) {
        api_error(c, 415, "usage", "Content-Type must be application/json%s",
                  c->route->takes_message ? " or message/rfc822" : "");
    }
}

static void begin(struct http_door *d, struct api_call *c, const char *method)
{
    c->stage = API_STAGE_BODY;
    c->in.limit = d->body_max;
    (void)snprintf(c->who, sizeof(c->who), "%s", d->is_control ? "local" : "loopback");
    if (!api_is_answered(c)) {
        api_call_route(c, method, api_routes, api_route_count);
    }
    if (!api_is_answered(c)) {
        take_type(c);
        check_type(c);
    }
    if (!api_is_answered(c)) {
        check_length(c, d);
    }
}

/* More of the body. MHD_NO when even what is too large does not end. */
static enum MHD_Result take_body(struct http_door *d, struct api_call *c, const char *data,
                                 size_t len)
{
    if (!api_is_answered(c)) {
        buf_append(&c->in, data, len);
        if (c->in.failed) {
            api_error(c, 413, "large", "the body is larger than %llu bytes",
                      (unsigned long long)d->body_max);
            buf_fini(&c->in);
        }
        return MHD_YES;
    }
    /* An answer cannot begin before the body ended; a little more is read to get that far. */
    c->count += len;
    return c->count > d->body_max ? MHD_NO : MHD_YES;
}

/* The request is complete: answer, or suspend until the answer is there. */
static enum MHD_Result run(struct http *h, struct api_call *c)
{
    if (!api_is_answered(c)) {
        api_call_take_body(c);
    }
    if (!api_is_answered(c) && c->route->place == API_INLINE) {
        c->route->run(&h->self, c);
        if (!api_is_answered(c) && !c->is_kept) {
            api_error(c, 503, "unavailable", "%s gave no answer", c->route->path);
        }
    }
    if (api_is_answered(c)) {
        return reply(c);
    }
    c->stage = API_STAGE_RUNNING;
    list_push_back(&h->running, &c->link);
    MHD_suspend_connection(c->connection);
    if (c->route->place != API_INLINE) {
        struct outbox *o = &h->to_clerks[c->route->place == API_SLOW ? 1 : 0];
        outbox_put(o, LETTER_CALL, c, 0);
        (void)outbox_flush(o); /* what does not fit goes with the next pass */
    }
    return MHD_YES;
}

void http_exchange_resume(struct api_call *c)
{
    list_remove(&c->link);
    MHD_resume_connection(c->connection);
}

/* --- callbacks ---------------------------------------------------------------------------------
 */

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *len, void **context)
{
    struct http_door *d = cls;
    struct api_call *c = *context;
    (void)url; /* the call has its own */
    (void)version;
    if (c == NULL) {
        return MHD_NO; /* out of memory */
    }
    c->connection = connection;
    switch (c->stage) {
    case API_STAGE_NEW:
        begin(d, c, method);
        return api_is_answered(c) ? reply(c) : MHD_YES;
    case API_STAGE_BODY:
        if (*len > 0) {
            size_t taken = *len;
            *len = 0;
            return take_body(d, c, data, taken);
        }
        return run(d->http, c);
    case API_STAGE_RUNNING:
        return reply(c);
    case API_STAGE_ANSWERED:
        break;
    }
    return MHD_NO;
}

/* The request line was read: the call begins. */
static void *on_target(void *cls, const char *target, struct MHD_Connection *connection)
{
    (void)cls;
    (void)connection;
    return api_call_new(target);
}

static void on_end(void *cls, struct MHD_Connection *connection, void **context,
                   enum MHD_RequestTerminationCode how)
{
    (void)cls;
    (void)connection;
    (void)how; /* a suspended one does not end: no handler has the call */
    api_call_free(*context);
    *context = NULL;
}

static void on_log(void *cls, const char *fmt, va_list args)
{
    char text[300];
    const struct http_door *d = cls;
    (void)vsnprintf(text, sizeof(text), fmt, args);
    text[strcspn(text, "\n")] = '\0';
    log_debug("%s: %s", d->name, text);
}

int http_exchange_open(struct http_door *d)
{
    d->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0,
        NULL, NULL, on_request, d, MHD_OPTION_EXTERNAL_LOGGER, on_log, d,
        MHD_OPTION_URI_LOG_CALLBACK, on_target, d, MHD_OPTION_NOTIFY_COMPLETED, on_end, d,
        MHD_OPTION_CONNECTION_LIMIT, d->capacity, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    return d->daemon == NULL ? -ENOMEM : 0;
}
