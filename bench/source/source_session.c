/* The connection of one sender: connects, reads whole replies, writes, times out. Runs in the
 * load's loop; what is said is the dialogue's. */
#include "bench/source/source_session.h"

#include "base/error.h"
#include "bench/source/source_dialogue.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

#define READ_BYTES   (16UL * 1024)
#define REPLY_MAX    (64UL * 1024) /* bytes of one line */
#define BACKOFF_LAST USEC_PER_SEC

static void session_ready(struct poller_watch *watch, unsigned events);
static void session_expired(struct timeout *t, usec_t now);

static void arm(struct source_session *s, usec_t span)
{
    timeout_set(&s->load->timeouts, &s->timer,
                span == USEC_NEVER ? USEC_NEVER : s->load->now + span);
}

static void give_up_session(struct source_session *s)
{
    s->state = SOURCE_GONE;
    s->load->alive--;
    arm(s, USEC_NEVER);
}

static void close_connection(struct source_session *s)
{
    poller_remove(&s->load->poller, &s->watch);
    stream_close(&s->stream);
    buf_clear(&s->in);
    buf_clear(&s->out);
    s->taken = 0;
    s->begun_here = 0;
}

void source_session_lose(struct source_session *s, const char *what, struct slice why)
{
    list_remove(&s->link);
    close_connection(s);
    s->load->failures++;
    source_load_problem(s->load, what, why);
    source_dialogue_abort(s, why);
    if (!s->load->options->does_retry || source_load_is_done(s->load)) {
        give_up_session(s);
        return;
    }
    s->state = SOURCE_WAITING;
    arm(s, s->backoff);
    s->backoff = s->backoff * 2 < BACKOFF_LAST ? s->backoff * 2 : BACKOFF_LAST;
}

/* Nothing is lost or queued on the way to the same machine, so the simplest algorithm does, and a
 * costly default (bbr) takes no time from the server under test. */
static void choose_congestion_control(int fd, const struct sockaddr_storage *peer)
{
    static const char name[] = "reno"; /* in every kernel; the default stays if that is not so */
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    memcpy(&v4, peer, sizeof(v4));
    memcpy(&v6, peer, sizeof(v6));
    if (peer->ss_family == AF_INET ? ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
                                   : IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr)) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, sizeof(name) - 1);
    }
}

static void connect_now(struct source_session *s)
{
    const struct endpoint *to = &s->load->options->to.items[0];
    s->state = SOURCE_CONNECTING;
    arm(s, s->load->options->timeout);
    int err = stream_connect(&s->stream, (const struct sockaddr *)&to->address, to->len, NULL, 0);
    if (err == 0) {
        choose_congestion_control(s->stream.fd, &to->address);
        err = poller_add(&s->load->poller, &s->watch, s->stream.fd, session_ready);
    }
    if (err != 0) {
        source_session_lose(s, "connect", slice_of(err_str(err)));
    }
}

static uint32_t depth_of(const struct source_options *o)
{
    return o->mode == SOURCE_CHUNKING && o->in_flight > 2 ? o->in_flight : 2;
}

void source_session_quit(struct source_session *s)
{
    close_connection(s);
    if (source_load_is_done(s->load)) {
        give_up_session(s);
    } else {
        connect_now(s);
    }
}

int source_session_init(struct source_session *s, struct source_load *load)
{
    s->load = load;
    s->backoff = SOURCE_BACKOFF_FIRST;
    s->stream.fd = -1;
    list_init(&s->link);
    buf_init(&s->in, 0);
    buf_init(&s->out, 0);
    s->depth = depth_of(load->options);
    s->transactions = calloc(s->depth, sizeof(*s->transactions)); /* zeroed buffers are empty */
    if (s->transactions == NULL) {
        return -ENOMEM;
    }
    int err = timeout_add(&load->timeouts, &s->timer, session_expired);
    if (err == 0) {
        connect_now(s);
    }
    return err;
}

void source_session_fini(struct source_session *s)
{
    if (s->load == NULL) {
        return;
    }
    list_remove(&s->link);
    if (s->state == SOURCE_READY && s->count == 0) {
        (void)!stream_write(&s->stream, "QUIT\r\n", 6, false); /* a courtesy */
    }
    close_connection(s);
    timeout_remove(&s->load->timeouts, &s->timer);
    buf_fini(&s->in);
    buf_fini(&s->out);
    for (uint32_t i = 0; s->transactions != NULL && i < s->depth; i++) {
        buf_fini(&s->transactions[i].reason);
        buf_fini(&s->transactions[i].refused);
    }
    free(s->transactions);
}

static bool is_code_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Take one whole reply from `in`. returns: false when there is none, or the connection is lost */
static bool take_reply(struct source_session *s)
{
    struct slice input = slice_from(buf_slice(&s->in), s->taken);
    size_t at = 0;
    for (;;) {
        struct slice rest = slice_from(input, at);
        size_t len = slice_find(rest, '\n');
        if (len == rest.len) {
            if (input.len > REPLY_MAX) {
                source_session_lose(s, "reply", SLICE("too long"));
            }
            return false;
        }
        struct slice line = slice_trim(slice_to(rest, len));
        at += len + 1;
        if (line.len < 3 || !is_code_digit(line.data[0]) || !is_code_digit(line.data[1]) ||
            !is_code_digit(line.data[2]) || (line.len > 3 && is_code_digit(line.data[3]))) {
            source_session_lose(s, "no SMTP reply", line);
            return false;
        }
        if (line.len == 3 || line.data[3] != '-') {
            int code = (line.data[0] - '0') * 100 + (line.data[1] - '0') * 10 + line.data[2] - '0';
            s->taken += at;
            source_dialogue_reply(s, code, line, slice_to(input, at));
            return s->stream.fd >= 0 && s->state != SOURCE_CONNECTING;
        }
    }
}

/* returns: false when the connection was lost or replaced */
static bool flush_commands(struct source_session *s)
{
    for (;;) {
        source_dialogue_fill(s);
        if (s->out.len == 0 || !stream_can_write(&s->stream)) {
            return true;
        }
        ssize_t n = stream_write(&s->stream, s->out.data, s->out.len, false);
        if (n == ERR_AGAIN) {
            return true;
        }
        if (n < 0) {
            source_session_lose(s, "write", slice_of(err_str((int)n)));
            return false;
        }
        buf_consume(&s->out, (size_t)n);
    }
}

/* Each event is progress; what comes next must come in time again. */
static void rearm(struct source_session *s)
{
    if (s->stream.fd >= 0 && s->state != SOURCE_CONNECTING) {
        bool is_idle = s->state == SOURCE_READY && s->count == 0;
        arm(s, is_idle ? USEC_NEVER : s->load->options->timeout);
    }
}

static void advance_source(struct source_session *s)
{
    for (;;) {
        while (take_reply(s)) {
        }
        if (s->stream.fd < 0 || s->state == SOURCE_CONNECTING) {
            return;
        }
        buf_consume(&s->in, s->taken);
        s->taken = 0;
        if (!flush_commands(s) || !stream_can_read(&s->stream)) {
            return;
        }
        char *to = buf_reserve(&s->in, READ_BYTES);
        if (to == NULL) {
            source_session_lose(s, "memory", SLICE("none"));
            return;
        }
        ssize_t n = stream_read(&s->stream, to, READ_BYTES);
        if (n == ERR_AGAIN) {
            return;
        }
        if (n <= 0) {
            source_session_lose(s, "connection lost",
                                slice_of(n == 0 ? "closed by the peer" : err_str((int)n)));
            return;
        }
        s->in.len += (size_t)n;
    }
}

static void session_ready(struct poller_watch *watch, unsigned events)
{
    struct source_session *s = container_of(watch, struct source_session, watch);
    stream_ready(&s->stream, events);
    if (s->state == SOURCE_CONNECTING) {
        int err = stream_connect_result(&s->stream);
        if (err == ERR_AGAIN) {
            return;
        }
        if (err != 0) {
            source_session_lose(s, "connect", slice_of(err_str(err)));
            return;
        }
        s->load->connections++;
        s->state = SOURCE_GREETING;
    }
    advance_source(s);
    rearm(s);
}

static void session_expired(struct timeout *t, usec_t now)
{
    struct source_session *s = container_of(t, struct source_session, timer);
    (void)now;
    if (s->state == SOURCE_WAITING) {
        connect_now(s);
    } else {
        source_session_lose(s, "timeout", SLICE("no answer"));
    }
}

void source_session_wake(struct source_session *s)
{
    (void)flush_commands(s); /* a loss has its consequences already */
    rearm(s);
}
