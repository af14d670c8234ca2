/* Bytes in and out of one SMTP connection, delays, and the order of things. Called by the worker's
 * loop; what commands mean is in sink_command.c. */
#include "bench/sink_session.h"

#include "base/error.h"
#include "base/log.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES       (64UL * 1024)
#define READS_A_PASS     16 /* then others have their turn */
#define OUT_HIGH_BYTES   (64UL * 1024)
#define LINE_MAX_BYTES   4096
#define RECIPIENTS_BYTES (64UL * 1024 * 1024)
#define IDLE_LIMIT       (600 * USEC_PER_SEC)

static void session_ready(struct poller_watch *watch, unsigned events);
static void session_expired(struct timeout *t, usec_t now);

static void client_key(const struct sockaddr_storage *peer, uint8_t ret[16])
{
    memset(ret, 0, 16);
    if (peer->ss_family == AF_INET6) {
        struct sockaddr_in6 in;
        memcpy(&in, peer, sizeof(in));
        memcpy(ret, &in.sin6_addr, 16);
    } else {
        struct sockaddr_in in;
        memcpy(&in, peer, sizeof(in));
        memcpy(ret + 12, &in.sin_addr, 4);
    }
}

int sink_session_start(struct sink_worker *w, size_t listener_index, int fd,
                       const struct sockaddr_storage *peer)
{
    const struct sink_options *o = w->sink->options;
    struct sink_session *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        (void)close(fd);
        return -ENOMEM;
    }
    s->worker = w;
    s->listener = &w->sink->listeners[listener_index];
    s->listener_index = listener_index;
    stream_init(&s->stream, fd);
    buf_init(&s->in, 0);
    buf_init(&s->out, 0);
    buf_init(&s->sender, LINE_MAX_BYTES);
    buf_init(&s->recipients, RECIPIENTS_BYTES);
    list_init(&s->link);
    list_push_back(&w->sessions, &s->link);
    client_key(peer, s->client);
    s->is_refused = !sink_listener_enter(s->listener, s->client, o->connections_per_client);
    struct sink_listener_count *count = &w->count.listeners[listener_index];
    count->connections++;
    count->refused += s->is_refused ? 1 : 0;

    int err = sink_content_init(&s->content, ledger_is_open(&w->sink->ledger),
                                o->store_path != NULL, o->size_limit);
    if (err == 0) {
        err = timeout_add(&w->timeouts, &s->timer, session_expired);
    }
    if (err == 0) {
        err = poller_add(&w->poller, &s->watch, fd, session_ready);
    }
    if (err != 0) {
        sink_session_free(s);
        return err;
    }
    timeout_set(&w->timeouts, &s->timer, clock_mono() + IDLE_LIMIT);
    return 0; /* the socket is writable, so session_ready comes and sends the greeting */
}

void sink_session_free(struct sink_session *s)
{
    if (!s->is_refused) {
        sink_listener_leave(s->listener, s->client);
    }
    poller_remove(&s->worker->poller, &s->watch);
    timeout_remove(&s->worker->timeouts, &s->timer);
    list_remove(&s->link);
    stream_close(&s->stream);
    sink_content_fini(&s->content);
    buf_fini(&s->in);
    buf_fini(&s->out);
    buf_fini(&s->sender);
    buf_fini(&s->recipients);
    free(s);
}

void sink_session_reset(struct sink_session *s)
{
    s->has_sender = false;
    buf_clear(&s->sender);
    buf_clear(&s->recipients);
    s->recipient_count = 0;
}

void sink_session_reply(struct sink_session *s, const char *text)
{
    buf_append_str(&s->out, text);
    buf_append_str(&s->out, "\r\n");
}

bool sink_session_pause(struct sink_session *s, usec_t delay)
{
    if (delay == 0 || s->is_delayed) {
        s->is_delayed = false;
        return false;
    }
    s->is_paused = true;
    timeout_set(&s->worker->timeouts, &s->timer, clock_mono() + delay);
    return true;
}

static void greet(struct sink_session *s)
{
    if (sink_session_pause(s, s->worker->sink->options->delay_banner)) {
        return;
    }
    if (s->is_refused) {
        sink_session_reply(s, "421 4.7.0 too many connections from you");
        s->state = SINK_CLOSING;
        return;
    }
    buf_printf(&s->out, "220 %s ESMTP sluice-sink\r\n", s->worker->sink->options->hostname);
    s->state = SINK_COMMAND;
}

/* One line of input as a command. returns: false when there is nothing to do now */
static bool take_line(struct sink_session *s)
{
    struct slice input = slice_from(buf_slice(&s->in), s->taken);
    size_t len = slice_find(input, '\n');
    if (len == input.len) {
        if (len > LINE_MAX_BYTES) {
            sink_session_reply(s, "500 5.5.2 line too long");
            s->state = SINK_CLOSING;
        }
        return false;
    }
    struct slice line = slice_to(input, len > 0 && input.data[len - 1] == '\r' ? len - 1 : len);
    if (!sink_command(s, line)) {
        return false;
    }
    s->taken += len + 1;
    return true;
}

/* returns: true when it stopped only because much output waits */
static bool process(struct sink_session *s)
{
    bool goes_on = true;
    while (goes_on && !s->is_paused && s->out.len < OUT_HIGH_BYTES) {
        bool is_done = false;
        switch (s->state) {
        case SINK_BANNER:
            greet(s);
            break;
        case SINK_COMMAND:
            goes_on = take_line(s);
            break;
        case SINK_CONTENT: {
            struct slice raw = slice_from(buf_slice(&s->in), s->taken);
            s->taken += sink_content_feed(&s->content, raw, &is_done);
            if (is_done) {
                s->state = SINK_CONTENT_END;
            }
            goes_on = is_done;
            break;
        }
        case SINK_CONTENT_END:
            if (!sink_session_pause(s, s->worker->sink->options->delay_dot)) {
                sink_delivery(s);
                s->state = SINK_COMMAND;
            }
            break;
        case SINK_HANDSHAKE:
            goes_on = false;
            break;
        case SINK_CLOSING:
            s->taken = s->in.len; /* whatever it still says */
            goes_on = false;
            break;
        }
    }
    if (s->state == SINK_HANDSHAKE) {
        s->taken = s->in.len; /* nothing that was sent in clear may count after STARTTLS */
    }
    buf_consume(&s->in, s->taken);
    s->taken = 0;
    return goes_on && !s->is_paused;
}

/* returns: false when the connection is broken */
static bool flush(struct sink_session *s)
{
    while (s->out.len > 0 && stream_can_write(&s->stream)) {
        ssize_t n = stream_write(&s->stream, s->out.data, s->out.len, false);
        if (n == ERR_AGAIN) {
            return true;
        }
        if (n < 0) {
            return false;
        }
        buf_consume(&s->out, (size_t)n);
    }
    return true;
}

/* The 220 to STARTTLS is out. returns: false when the connection is broken */
static bool secure(struct sink_session *s)
{
    if (!stream_is_tls(&s->stream) && !s->stream.is_handshaking) {
        struct ssl_st *ssl = tls_server_connection(s->worker->sink->tls);
        if (ssl == NULL || stream_start_tls(&s->stream, ssl) != 0) {
            return false;
        }
    }
    int err = stream_handshake(&s->stream);
    if (err == 0) {
        s->state = SINK_COMMAND;
    }
    return err == 0 || err == ERR_AGAIN;
}

/* returns: > 0: bytes came; 0: none now; < 0: it is over */
static int receive(struct sink_session *s)
{
    if (s->is_paused || s->out.len >= OUT_HIGH_BYTES || !stream_can_read(&s->stream)) {
        return 0;
    }
    char *to = buf_reserve(&s->in, READ_BYTES);
    if (to == NULL) {
        return -ENOMEM;
    }
    ssize_t n = stream_read(&s->stream, to, READ_BYTES);
    if (n > 0) {
        s->in.len += (size_t)n;
        return 1;
    }
    return n == ERR_AGAIN ? 0 : -1;
}

/* Everything that can be done now. returns: false when the session is over */
static bool advance(struct sink_session *s)
{
    s->is_yielding = false;
    for (int reads = 0;; reads++) {
        bool is_full = process(s);
        if (!flush(s)) {
            return false;
        }
        if (is_full && s->out.len == 0) {
            continue;
        }
        if (s->state == SINK_HANDSHAKE && s->out.len == 0) {
            if (!secure(s)) {
                return false;
            }
            if (s->state == SINK_HANDSHAKE) {
                return true;
            }
        }
        if (s->state == SINK_CLOSING && s->out.len == 0 && !s->is_input_over) {
            s->is_input_over = true;
            stream_shutdown(&s->stream);
        }
        if (s->is_paused) {
            return true;
        }
        if (reads >= READS_A_PASS) {
            s->is_yielding = true;
            timeout_set(&s->worker->timeouts, &s->timer, clock_mono());
            return true;
        }
        int result = receive(s);
        if (result <= 0) {
            return result == 0;
        }
    }
}

static void run(struct sink_session *s)
{
    if (!advance(s)) {
        sink_session_free(s);
    } else if (!s->is_paused && !s->is_yielding) {
        timeout_set(&s->worker->timeouts, &s->timer, clock_mono() + IDLE_LIMIT);
    }
}

static void session_ready(struct poller_watch *watch, unsigned events)
{
    struct sink_session *s = container_of(watch, struct sink_session, watch);
    stream_ready(&s->stream, events);
    run(s);
}

static void session_expired(struct timeout *t, usec_t now)
{
    struct sink_session *s = container_of(t, struct sink_session, timer);
    (void)now;
    if (s->is_paused) {
        s->is_paused = false;
        s->is_delayed = true;
    } else if (!s->is_yielding) {
        sink_session_free(s); /* silent for too long */
        return;
    }
    run(s);
}
