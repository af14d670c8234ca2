/* What libmicrohttpd tells of one request, made into a call and back: its callbacks and its
 * responses. Called on the http thread only. Must not block, nor hold more of a request than its
 * door allows. */
#include "base/log.h"
#include "engine/config/config.h"
#include "engine/http/api_private.h"
#include "engine/http/http_caller.h"
#include "engine/http/http_private.h"
#include "engine/post/letter.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    HEADER_BYTES = 32 * 1024, /* a connection's memory for headers, its answer's included */
    TARGET_BYTES = 30 * 1024, /* of a request line; beyond there is no room left for an answer */
    PARAM_BYTES = 64, /* of that memory that libmicrohttpd needs beside it for each parameter */
    PATIENCE = 10,    /* timeouts for a body, and for taking an answer */
    SHORT_BYTES = 64 * 1024, /* a body that is read although it is not wanted; an answer that is
                               * given whoever else takes up memory */
};

#define BODIES_MAX_BYTES (512ULL * 1024 * 1024) /* of all requests and answers together */

/* Our object for a connection of libmicrohttpd. NULL: there was no memory for it, and the
 * connection takes no request. */
static struct http_connection *connection_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info->socket_context;
}

/* timeouts: of the door; 0: none */
static void set_deadline(const struct api_call *c, unsigned timeouts)
{
    struct http_connection *n = connection_of(c->connection);
    n->deadline =
        timeouts == 0 ? USEC_NEVER : n->door->http->now + (usec_t)timeouts * n->door->timeout;
}

/* --- memory ----------------------------------------------------------------------------------- */

/* Counts `len` more bytes for this call. false: all bodies and answers together would exceed
 * BODIES_MAX_BYTES. */
static bool has_body_room(struct http *h, struct api_call *c, size_t len)
{
    if (h->held_bytes + len > BODIES_MAX_BYTES) {
        return false;
    }
    h->held_bytes += len;
    c->held_bytes += len;
    return true;
}

static void drop_body(struct http *h, struct api_call *c)
{
    h->held_bytes -= c->held_bytes;
    c->held_bytes = 0;
    api_call_forget_body(c);
}

/* --- answers ---------------------------------------------------------------------------------- */

static bool add_header(struct MHD_Response *r, const char *name, const char *value)
{
    return MHD_add_response_header(r, name, value) == MHD_YES;
}

static bool add_retry_after(struct MHD_Response *r, unsigned seconds)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%u", seconds); /* it fits */
    return add_header(r, "Retry-After", text);
}

/* Adds the headers of an answer, among them those that keep caches from storing it and pages of
 * other sites from reading it. */
static bool add_headers(struct MHD_Response *r, const struct api_call *c)
{
    return (c->content_type == NULL || add_header(r, "Content-Type", c->content_type)) &&
           (c->allow == NULL || add_header(r, "Allow", c->allow)) &&
           (c->status != 401 || add_header(r, "WWW-Authenticate", "Bearer realm=\"sluice\"")) &&
           (c->policy == NULL || add_header(r, "Content-Security-Policy", c->policy)) &&
           (c->retry_after == 0 || add_retry_after(r, c->retry_after)) &&
           (!(c->closes || connection_of(c->connection)->door->is_leaving) ||
            add_header(r, "Connection", "close")) &&
           add_header(r, "Cache-Control", "no-store") &&
           add_header(r, "X-Content-Type-Options", "nosniff") &&
           add_header(r, "X-Frame-Options", "DENY") &&
           add_header(r, "Referrer-Policy", "no-referrer") &&
           add_header(r, "Cross-Origin-Resource-Policy", "same-origin");
}

/* MHD_NO closes the connection. */
static enum MHD_Result reply(struct api_call *c)
{
    struct http_door *d = connection_of(c->connection)->door;
    struct http *h = d->http;
    size_t len = 0;
    drop_body(h, c);
    http_caller_note(d, c);
    if (c->out.len > SHORT_BYTES && !has_body_room(h, c, c->out.len)) {
        api_retry_after(c, 1);
        api_error(c, 429, "busy", "too many large answers at a time");
    }
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
    set_deadline(c, PATIENCE);
    return queued;
}

/* --- requests --------------------------------------------------------------------------------- */

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

static bool has_body(const struct api_call *c)
{
    const char *length = header_of(c, "Content-Length");
    return header_of(c, "Transfer-Encoding") != NULL ||
           (length != NULL && length[strspn(length, "0")] != '\0');
}

static void check_length(struct api_call *c, const struct http_door *d)
{
    const char *text = header_of(c, "Content-Length");
    c->in.limit = api_call_body_max(c, d->body_max);
    if (text != NULL && strtoull(text, NULL, 10) > c->in.limit) { /* its syntax is checked */
        api_error(c, 413, "large", "the body is larger than %llu bytes",
                  (unsigned long long)c->in.limit);
    } else if (strcmp(c->route->method, "POST") != 0 && has_body(c)) {
        api_error(c, 400, "usage", "%s takes no body", c->route->method);
    }
}

/* What the headers of a request say about where its body ends, and what a proxy in front of us
 * could understand in another way. */
struct framing {
    unsigned headers;  /* number of Content-Length and Transfer-Encoding headers */
    const char *wrong; /* NULL: nothing */
};

static enum MHD_Result look_at_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    struct framing *f = cls;
    struct slice text = slice_of(name == NULL ? "" : name);
    bool is_coding = slice_ieq(text, SLICE("Transfer-Encoding")), is_name = text.len > 0;
    (void)kind;
    for (size_t i = 0; i < text.len; i++) {
        is_name = is_name && text.data[i] > ' ' && text.data[i] <= '~';
    }
    f->headers += is_coding || slice_ieq(text, SLICE("Content-Length")) ? 1 : 0;
    if (!is_name) { /* a proxy may take "Content-Length :" for Content-Length, and we do not */
        f->wrong = "the name of a header is empty or has other characters than visible ASCII";
    } else if (is_coding && (value == NULL || !slice_ieq(slice_of(value), SLICE("chunked")))) {
        f->wrong = "Transfer-Encoding can be chunked only";
    } else if (f->headers > 1) {
        f->wrong = "more than one header says how long the body is";
    }
    return MHD_YES;
}

/* Refuses a request whose end is not certain, and reads nothing more from its connection. If a
 * proxy in front of us saw the end elsewhere, a part of one client's body could become the request
 * of another (RFC 9112 section 11.2). */
static void check_framing(struct api_call *c)
{
    struct framing f = {0};
    (void)MHD_get_connection_values(c->connection, MHD_HEADER_KIND, look_at_header, &f);
    if (f.wrong != NULL) {
        c->closes = true;
        api_error(c, 400, "usage", "%s", f.wrong);
    }
}

static bool is_type_of_lines(const struct api_call *c)
{
    return strcmp(c->type, "text/csv") == 0 || strcmp(c->type, "application/x-ndjson") == 0;
}

/* Accepts only types of body for which a browser must ask us first (CORS). A page of another site
 * can make a browser post a form, with a form's type, without asking. */
static void check_type(struct api_call *c)
{
    if (has_body(c) && strcmp(c->route->method, "POST") == 0 &&
        strcmp(c->type, "application/json") != 0 &&
        !(c->route->takes_message && strcmp(c->type, "message/rfc822") == 0) &&
        !(c->route->takes_lines && is_type_of_lines(c))) {
        const char *lines = c->route->takes_lines ? ", text/csv or application/x-ndjson" : "";
        api_error(c, 415, "usage", "Content-Type must be application/json%s",
                  c->route->takes_message ? " or message/rfc822" : lines);
    }
}

/* Whether the body is so short that it is read before an error is answered. An answer before its
 * end would close the connection, and may get lost while the client is still sending. */
static bool is_short(const struct api_call *c)
{
    const char *length = header_of(c, "Content-Length");
    return header_of(c, "Transfer-Encoding") == NULL &&
           (length == NULL || strtoull(length, NULL, 10) <= SHORT_BYTES);
}

static void begin_call(struct http_door *d, struct api_call *c, const char *method)
{
    c->stage = API_STAGE_BODY;
    set_deadline(c, PATIENCE);
    http_caller_take(d, c);
    check_framing(c);
    if (c->closes || !http_caller_is_own_page(d, c)) {
        return;
    }
    if (!api_is_answered(c)) {
        api_call_route(c, method, d->http->routes, d->http->route_count);
    }
    http_caller_check(d, c);
    if (!api_is_answered(c)) {
        take_type(c);
        check_type(c);
    }
    if (!api_is_answered(c)) {
        check_length(c, d);
    }
}

/* Takes more of the body. MHD_NO, which closes the connection, when the body of a refused request
 * goes on beyond what is read and thrown away. */
static enum MHD_Result take_request_body(struct http_door *d, struct api_call *c, const char *data,
                                         size_t len)
{
    if (api_is_answered(c)) {
        /* The call is refused already, but its answer can only begin behind the body: the rest of
         * the body is read and thrown away, up to a limit. */
        c->skipped_bytes += len;
        return c->skipped_bytes > d->body_max + SHORT_BYTES ? MHD_NO : MHD_YES;
    }
    if (!has_body_room(d->http, c, len)) {
        api_error(c, 429, "busy", "too many large requests at a time");
    } else {
        buf_append(&c->in, data, len);
        if (c->in.failed) {
            api_error(c, 413, "large", "the body is larger than %llu bytes",
                      (unsigned long long)c->in.limit);
        }
    }
    if (api_is_answered(c)) {
        drop_body(d->http, c);
    }
    return MHD_YES;
}

/* The socket of a connection, so that api_is_deserted can look at it while it is suspended. */
static int socket_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info == NULL ? -1 : info->connect_fd;
}

/* false: it is answered already */
static bool ask_nodes(struct http *h, struct api_call *c)
{
    if (h->gatherer.take == NULL) {
        api_error(c, 404, "missing",
                  "this daemon is in no cluster; its configuration has no cluster { node }");
        return false;
    }
    c->stage = API_STAGE_RUNNING; /* before it is another thread's */
    list_push_back(&h->running, &c->link);
    if (!h->gatherer.take(h->gatherer.ctx, c)) {
        list_remove(&c->link);
        return false;
    }
    return true;
}

bool http_exchange_run(struct http *h, struct api_call *c)
{
    if (!api_is_answered(c) && post_must_end(&h->post)) {
        /* A request that a client sent behind an earlier one while the daemon stops: the clerks
         * have ended and would not answer it. */
        api_error(c, 503, "unavailable", "the daemon is stopping");
    }
    if (!api_is_answered(c)) {
        api_call_take_body(c);
    }
    if (!api_is_answered(c) && api_is_for_nodes(c)) {
        return !ask_nodes(h, c);
    }
    if (!api_is_answered(c) && c->route->place == API_INLINE) {
        c->route->run(&h->self, c);
        if (!api_is_answered(c) && !c->is_kept) {
            api_error(c, 503, "unavailable", "%s gave no answer", c->route->path);
        }
    }
    if (api_is_answered(c)) {
        return true;
    }
    c->stage = API_STAGE_RUNNING;
    list_push_back(&h->running, &c->link);
    if (c->route->place != API_INLINE) {
        struct outbox *o = &h->to_clerks[c->route->place == API_SLOW ? 1 : 0];
        letter_put_call(o, c);
        (void)outbox_flush(o); /* what does not fit goes with the next pass */
    }
    return false;
}

/* Answer, or suspend until the answer is there. */
static enum MHD_Result run_call(struct http *h, struct api_call *c)
{
    post_assert_owner(&h->post);
    c->peer = socket_of(c->connection);
    if (http_exchange_run(h, c)) {
        return reply(c);
    }
    if (c->route->place == API_INLINE) {
        drop_body(h, c); /* what it kept of the body is its own */
    }
    set_deadline(c, 0);
    MHD_suspend_connection(c->connection);
    return MHD_YES;
}

void http_exchange_resume(struct api_call *c)
{
    list_remove(&c->link);
    if (c->connection == NULL) {
        http_exchange_end_inner(c);
    } else {
        MHD_resume_connection(c->connection);
        struct http_connection *n = connection_of(c->connection);
        if (n != NULL) {
            n->door->is_due = true;
        }
    }
}

/* --- callbacks -------------------------------------------------------------------------------- */

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
    switch (c->stage) {
    case API_STAGE_NEW:
        begin_call(d, c, method);
        return api_is_answered(c) && (c->closes || !is_short(c)) ? reply(c) : MHD_YES;
    case API_STAGE_BODY:
        if (*len > 0) {
            size_t taken = *len;
            *len = 0;
            return take_request_body(d, c, data, taken);
        }
        return run_call(d->http, c);
    case API_STAGE_RUNNING:
        return reply(c);
    case API_STAGE_ANSWERED:
        break;
    }
    return MHD_NO;
}

static void end_call(struct http_connection *n)
{
    if (n->call != NULL) {
        drop_body(n->door->http, n->call);
        api_call_free(n->call);
        n->call = NULL;
    }
}

/* Answers a request line that is too long. libmicrohttpd has no memory left for an answer and would
 * be silent until the timeout. Under TLS only libmicrohttpd could answer, so the connection is just
 * closed. */
static void refuse_target(const struct http_connection *n)
{
    static const char answer[] = "HTTP/1.1 414 URI Too Long\r\nContent-Length: 0\r\n"
                                 "Connection: close\r\n\r\n";
    if (n->door->key == NULL) {
        (void)send(n->fd, answer, sizeof(answer) - 1, MSG_DONTWAIT | MSG_NOSIGNAL); /* it closes */
    }
    (void)shutdown(n->fd, SHUT_RDWR); /* libmicrohttpd then finds it at its end */
    n->door->is_due = true;
}

/* What a target takes of a connection's memory; there is room for a first parameter. */
static size_t target_bytes(const char *target)
{
    const char *at = strchr(target, '?');
    size_t params = 0;
    while (at != NULL && (at = strchr(at + 1, '&')) != NULL) {
        params++;
    }
    return strlen(target) + params * PARAM_BYTES;
}

/* The request line was read: the call begins. */
static void *on_target(void *cls, const char *target, struct MHD_Connection *connection)
{
    struct http_connection *n = connection_of(connection);
    (void)cls;
    if (n == NULL) {
        return NULL;
    }
    end_call(n);
    if (target_bytes(target) > TARGET_BYTES) {
        refuse_target(n);
        return NULL;
    }
    n->call = api_call_new(target);
    if (n->call != NULL) {
        n->call->connection = connection;
    }
    return n->call;
}

static void on_end(void *cls, struct MHD_Connection *connection, void **context,
                   enum MHD_RequestTerminationCode how)
{
    struct http_connection *n = connection_of(connection);
    (void)cls;
    (void)how; /* a suspended connection does not end, so no handler has the call now */
    if (*context != NULL) {
        set_deadline(*context, 1); /* for the head of the connection's next request */
        end_call(n);
    }
    *context = NULL;
}

/* A connection begins or ends. Its call is ended here too, as on_end is not called for a request
 * that libmicrohttpd gives up before it has announced it to us. */
static void on_mhd_connection(void *cls, struct MHD_Connection *connection, void **context,
                              enum MHD_ConnectionNotificationCode what)
{
    struct http_door *d = cls;
    struct http_connection *n = *context;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (n != NULL) {
            end_call(n);
            list_remove(&n->link);
            free(n);
        }
        *context = NULL;
        return;
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    n = calloc(1, sizeof(*n));
    if (n != NULL) {
        n->door = d;
        n->fd = (int)info->connect_fd;
        n->deadline = d->http->now + d->timeout;
        list_push_back(&d->http->connections, &n->link);
    }
    *context = n;
}

void http_exchange_expire(struct http *h)
{
    list_foreach_safe(n, &h->connections, struct http_connection, link)
    {
        if (n->deadline <= h->now) {
            (void)shutdown(n->fd, SHUT_RDWR); /* libmicrohttpd then finds it at its end */
            n->deadline = USEC_NEVER;
        }
    }
}

__attribute__((format(printf, 2, 0))) static void on_log(void *cls, const char *fmt, va_list args)
{
    char text[300];
    const struct http_door *d = cls;
    (void)vsnprintf(text, sizeof(text), fmt, args);
    text[strcspn(text, "\n")] = '\0';
    log_debug("%s: %s", d->name, text);
}

int http_exchange_open(struct http_door *d)
{
    unsigned flags =
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    static char priorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";
    struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, d->certificate},
                                   {MHD_OPTION_HTTPS_MEM_KEY, 0, d->key},
                                   {MHD_OPTION_HTTPS_PRIORITIES, 0, priorities},
                                   {MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    unsigned seconds = (unsigned)((d->timeout + USEC_PER_SEC - 1) / USEC_PER_SEC);
    d->daemon = MHD_start_daemon(
        d->key != NULL ? flags | MHD_USE_TLS : flags, 0, NULL, NULL, on_request, d,
        MHD_OPTION_EXTERNAL_LOGGER, on_log, d, MHD_OPTION_URI_LOG_CALLBACK, on_target, d,
        MHD_OPTION_NOTIFY_COMPLETED, on_end, d, MHD_OPTION_NOTIFY_CONNECTION, on_mhd_connection, d,
        MHD_OPTION_CONNECTION_LIMIT, d->capacity, MHD_OPTION_CONNECTION_TIMEOUT, seconds,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_ARRAY, d->key != NULL ? tls : none, MHD_OPTION_END);
    return d->daemon == NULL ? -EINVAL : 0;
}

/* --- calls from inside ------------------------------------------------------------------------ */

void http_exchange_begin_inner(struct http *h, struct api_call *c)
{
    if (!api_is_answered(c)) {
        api_call_route(c, c->method, h->routes, h->route_count);
    }
    if (!api_is_answered(c)) {
        http_caller_check_inner(c);
    }
    if (http_exchange_run(h, c)) {
        http_exchange_end_inner(c);
    }
}

void http_exchange_end_inner(struct api_call *c)
{
    c->inner_answer(c->inner_ctx, c->status, buf_slice(&c->out));
    api_call_free(c);
}
