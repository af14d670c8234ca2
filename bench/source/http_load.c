/* Owns the load of sluice-inject: its connections and its numbers. Called by sluice_inject.c; knows
 * no more of HTTP than the answers of the daemon need. */
#include "bench/source/http_load.h"

#include "base/error.h"
#include "bench/tool/report.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EVENTS_PER_PASS = 256,
    READ_BYTES = 4096,
    ANSWER_MAX_BYTES = 65536, /* with the ids of a full batch */
    LINE_TEXT = 72,           /* of the message's text */
};
#define PATIENCE (10 * USEC_PER_SEC)

/* --- the request ------------------------------------------------------------------------------ */

/* About size bytes of message: what the header will take is left out. */
static void write_text(struct buf *out, uint64_t size)
{
    enum { HEADER = 420 };
    uint64_t left = size > HEADER ? size - HEADER : 1;
    while (left > 0) {
        uint64_t line = left < LINE_TEXT + 2 ? left : LINE_TEXT + 2; /* with CRLF */
        for (uint64_t i = 0; i + 2 < line; i++) {
            buf_append_char(out, (char)('a' + i % 26));
        }
        buf_append_str(out, "\\n");
        left -= line;
    }
}

/* What each message has of its own. */
static void write_message(struct buf *out, const struct http_load_options *o, uint64_t number)
{
    buf_printf(out,
               "\"recipients\":[\"r%llu@%s\"],"
               "\"headers\":{\"Subject\":\"An injected message\"},\"text\":\"",
               (unsigned long long)number, o->domain);
    write_text(out, o->size);
    buf_append_str(out, "\"}");
}

static void write_batch(struct buf *out, const struct http_load_options *o)
{
    buf_printf(out, "{\"defaults\":{\"from\":\"%s\"},\"messages\":[", o->sender);
    for (uint64_t i = 0; i < o->batch; i++) {
        buf_append_str(out, i == 0 ? "{" : ",{");
        write_message(out, o, i);
    }
    buf_append_str(out, "]}");
}

static int write_request(struct http_load *l)
{
    const struct http_load_options *o = l->options;
    struct buf body;
    buf_init(&body, 0);
    if (o->batch > 1) {
        write_batch(&body, o);
    } else {
        buf_printf(&body, "{\"from\":\"%s\",", o->sender);
        write_message(&body, o, 0);
    }
    buf_printf(&l->request,
               "POST /v1/inject HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
               "Content-Length: %zu\r\n\r\n",
               o->host, body.len);
    buf_append_slice(&l->request, buf_slice(&body));
    bool has_failed = body.failed || l->request.failed;
    buf_fini(&body);
    return has_failed ? -ENOMEM : 0;
}

/* --- connections ------------------------------------------------------------------------------ */

static void tell_problem(struct http_load *l, const char *what, struct slice text)
{
    size_t len = text.len < 150 ? text.len : 150;
    (void)snprintf(l->last_problem, sizeof(l->last_problem), "%s: %.*s", what, (int)len,
                   text.data); /* it fits */
}

static void disconnect(struct http_session *s, const char *why)
{
    struct http_load *l = s->load;
    if (s->is_busy) {
        l->failed++;
        tell_problem(l, "no answer", slice_of(why));
    }
    poller_remove(&l->poller, &s->watch);
    if (s->fd >= 0) {
        (void)close(s->fd);
    }
    s->fd = -1;
    s->is_busy = false;
    buf_clear(&s->in);
}

static void on_ready(struct poller_watch *watch, unsigned events);

/* errors: -errno; then it stays closed */
static int connect_to(struct http_session *s)
{
    struct http_load *l = s->load;
    const struct endpoint *to = &l->options->to;
    const int on = 1;
    s->fd = socket(to->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->fd < 0) {
        return -errno;
    }
    (void)setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* only slower without */
    int err = 0;
    if (connect(s->fd, (const struct sockaddr *)&to->address, to->len) != 0 &&
        errno != EINPROGRESS) {
        err = -errno;
    }
    err = err == 0 ? poller_add(&l->poller, &s->watch, s->fd, on_ready) : err;
    if (err != 0) {
        disconnect(s, "");
        tell_problem(l, "connecting", slice_of(err_str(err)));
        return err;
    }
    l->connects++;
    return 0;
}

static void write_some(struct http_session *s)
{
    const struct buf *request = &s->load->request;
    while (s->is_busy && s->sent < request->len) {
        ssize_t n = send(s->fd, request->data + s->sent, request->len - s->sent, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno != EAGAIN && errno != ENOTCONN) {
                disconnect(s, err_str(-errno));
            }
            return;
        }
        s->sent += (size_t)n;
    }
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Bytes of a whole answer at the start of the text; 0: more must come; -1: it is none. */
static ssize_t answer_length(struct slice text, int *ret_status)
{
    static const char field[] = "\r\nContent-Length: ";
    const char *end = memmem(text.data, text.len, "\r\n\r\n", 4);
    if (end == NULL) {
        return text.len < ANSWER_MAX_BYTES ? 0 : -1;
    }
    size_t head = (size_t)(end - text.data);
    const char *length = memmem(text.data, head + 2, field, sizeof(field) - 1);
    if (length == NULL || head < 12 || strncmp(text.data, "HTTP/1.1 ", 9) != 0) {
        return -1;
    }
    *ret_status = atoi(text.data + 9);
    size_t whole = head + 4 + (size_t)atol(length + sizeof(field) - 1);
    if (whole > ANSWER_MAX_BYTES) {
        return -1;
    }
    return text.len < whole ? 0 : (ssize_t)whole;
}

static void take_http_answer(struct http_session *s, int status, struct slice text)
{
    struct http_load *l = s->load;
    usec_t now = clock_mono();
    l->last_answer = clock_wall();
    if (status == 202) {
        l->accepted++;
        histogram_add(&l->answer, (uint64_t)(now - s->due));
    } else {
        /* not NULL: answer_length has found the end of the head */
        const char *body = memmem(text.data, text.len, "\r\n\r\n", 4);
        size_t head = (size_t)(body - text.data) + 4;
        l->refused++;
        tell_problem(l, "refused", slice_from(text, head));
    }
    s->is_busy = false;
}

static void read_some(struct http_session *s)
{
    for (;;) {
        int status = 0;
        char *room = buf_reserve(&s->in, READ_BYTES + 1);
        ssize_t n = room == NULL ? 0 : recv(s->fd, room, READ_BYTES, 0);
        if (n <= 0) {
            if (n == 0 || errno != EAGAIN) {
                disconnect(s, n == 0 ? "the connection was closed" : err_str(-errno));
            }
            return;
        }
        room[n] = '\0';
        s->in.len += (size_t)n;
        ssize_t whole = answer_length(buf_slice(&s->in), &status);
        if (whole < 0 || (whole > 0 && !s->is_busy)) {
            disconnect(s, "this is no answer");
            return;
        }
        if (whole > 0) {
            take_http_answer(s, status, slice_to(buf_slice(&s->in), (size_t)whole));
            /* a connection has one request at a time, so nothing follows its answer */
            buf_clear(&s->in);
        }
    }
}

static void on_ready(struct poller_watch *watch, unsigned events)
{
    struct http_session *s = container_of(watch, struct http_session, watch);
    if ((events & POLLER_WRITE) != 0) {
        write_some(s);
    }
    if (s->fd >= 0 && (events & (POLLER_READ | POLLER_HANGUP)) != 0) {
        read_some(s);
    }
}

/* --- the loop --------------------------------------------------------------------------------- */

static usec_t due_of(const struct http_load *l, uint64_t number)
{
    uint64_t messages = number * l->options->batch;
    return l->started + (usec_t)(messages * (uint64_t)USEC_PER_SEC / l->options->rate);
}

/* Requests. */
static uint64_t total_of(const struct http_load *l)
{
    const struct http_load_options *o = l->options;
    return (o->rate * o->seconds + o->batch - 1) / o->batch;
}

bool http_load_is_complete(const struct http_load *l)
{
    return l->accepted == total_of(l);
}

/* Send every request that is due, as long as some connection has none under way. */
static void offer_requests(struct http_load *l, usec_t now)
{
    for (uint64_t i = 0; i < l->options->connections; i++) {
        struct http_session *s = &l->sessions[i];
        if (l->offered == total_of(l) || due_of(l, l->offered) > now) {
            return;
        }
        if (s->is_busy || (s->fd < 0 && connect_to(s) != 0)) {
            continue;
        }
        s->due = due_of(l, l->offered++);
        s->is_busy = true;
        s->sent = 0;
        if (l->first_offer == 0) {
            l->first_offer = clock_wall();
        }
        write_some(s);
    }
}

static uint64_t under_way(const struct http_load *l)
{
    return l->offered - l->accepted - l->refused - l->failed;
}

int http_load_run(struct http_load *l)
{
    l->started = clock_mono();
    usec_t progress = l->started;
    uint64_t settled = 0;
    while (l->offered < total_of(l) || under_way(l) > 0) {
        usec_t now = clock_mono();
        uint64_t ended = l->offered - under_way(l);
        progress = ended != settled || under_way(l) == 0 ? now : progress;
        settled = ended;
        if (now - progress > PATIENCE) {
            break;
        }
        offer_requests(l, now);
        usec_t next = l->offered < total_of(l) ? due_of(l, l->offered) : USEC_NEVER;
        /* While all connections are busy no request is sent; an answer ends this wait early. */
        usec_t pause = next == USEC_NEVER || next <= now ? PATIENCE / 100 : next - now;
        int n = poller_wait_exact(&l->poller, pause);
        if (n < 0) {
            return n;
        }
        (void)poller_dispatch(&l->poller);
    }
    l->failed += under_way(l);
    return 0;
}

/* --- life ------------------------------------------------------------------------------------- */

int http_load_init(struct http_load *l, const struct http_load_options *options)
{
    memset(l, 0, sizeof(*l));
    l->options = options;
    buf_init(&l->request, 0);
    l->sessions = calloc(options->connections, sizeof(*l->sessions));
    int err = l->sessions == NULL ? -ENOMEM : write_request(l);
    err = err == 0 ? poller_init(&l->poller, EVENTS_PER_PASS) : err;
    for (uint64_t i = 0; err == 0 && i < options->connections; i++) {
        l->sessions[i].load = l;
        l->sessions[i].fd = -1;
        buf_init(&l->sessions[i].in, ANSWER_MAX_BYTES + READ_BYTES + 1);
    }
    return err;
}

void http_load_fini(struct http_load *l)
{
    for (uint64_t i = 0; l->sessions != NULL && i < l->options->connections; i++) {
        struct http_session *s = &l->sessions[i];
        if (s->load != NULL) {
            s->is_busy = false; /* the loop has counted this request as unanswered */
            disconnect(s, "");
            buf_fini(&s->in);
        }
    }
    free(l->sessions);
    buf_fini(&l->request);
    poller_fini(&l->poller);
}

void http_load_report(const struct http_load *l, struct buf *out)
{
    double elapsed = l->last_answer > l->first_offer
                         ? (double)(l->last_answer - l->first_offer) / USEC_PER_SEC
                         : 0;
    uint64_t batch = l->options->batch;
    buf_printf(out, "{\"offered\": %llu, \"accepted\": %llu, \"refused\": %llu, \"failed\": %llu, ",
               (unsigned long long)(total_of(l) * batch), (unsigned long long)(l->accepted * batch),
               (unsigned long long)(l->refused * batch),
               (unsigned long long)((l->failed + total_of(l) - l->offered) * batch));
    buf_printf(out, "\"connects\": %llu, \"request_bytes\": %zu, ", (unsigned long long)l->connects,
               l->request.len);
    report_seconds(out, "first_offer", l->first_offer);
    buf_append_str(out, ", ");
    report_seconds(out, "last_answer", l->last_answer);
    buf_printf(out, ", \"rate\": %.1f, ",
               elapsed > 0 ? (double)(l->accepted * batch) / elapsed : 0);
    report_quantiles(out, "answer", &l->answer);
    buf_append_str(out, ", \"last_problem\": ");
    report_string(out, slice_of(l->last_problem));
    buf_append_str(out, "}\n");
}
