/* The client's side of SMTP, one command at a time or pipelined, with reconnects. Called by the
 * load's loop; decides nothing about what is sent when. */
#include "bench/source_session.h"

#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READ_BYTES    (16UL * 1024)
#define REPLY_MAX     (64UL * 1024) /* bytes of one line */
#define WRITE_BYTES   (64UL * 1024) /* of pipelined commands kept ready */
#define BACKOFF_FIRST (50 * USEC_PER_MSEC)
#define BACKOFF_LAST  USEC_PER_SEC

static void session_ready(struct poller_watch *watch, unsigned events);
static void session_expired(struct timeout *t, usec_t now);

static void arm(struct source_session *s, usec_t span)
{
    timeout_set(&s->load->timeouts, &s->timer,
                span == USEC_NEVER ? USEC_NEVER : clock_mono() + span);
}

static void give_up(struct source_session *s)
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
    s->done_here = 0;
}

static void settle(struct source_session *s, enum source_fate fate, struct slice text)
{
    s->has_offer = false;
    s->done_here++;
    source_load_settle(s->load, &s->offer, fate, text, buf_slice(&s->refused));
}

/* The connection is unusable: its message gets its fate, and a new one is made if wanted. */
static void lose(struct source_session *s, const char *what, struct slice why)
{
    list_remove(&s->link);
    close_connection(s);
    s->load->failures++;
    source_load_problem(s->load, what, why);
    if (s->has_offer) {
        settle(s, s->is_content_sent ? SOURCE_UNKNOWN : SOURCE_UNSENT, why);
    }
    if (!s->load->options->does_retry || source_load_is_done(s->load)) {
        give_up(s);
        return;
    }
    s->state = SOURCE_WAITING;
    arm(s, s->backoff);
    s->backoff = s->backoff * 2 < BACKOFF_LAST ? s->backoff * 2 : BACKOFF_LAST;
}

static void connect_now(struct source_session *s)
{
    const struct endpoint *to = &s->load->options->to.items[0];
    s->state = SOURCE_CONNECTING;
    arm(s, s->load->options->timeout);
    int err = stream_connect(&s->stream, (const struct sockaddr *)&to->address, to->len, NULL, 0);
    if (err == 0) {
        err = poller_add(&s->load->poller, &s->watch, s->stream.fd, session_ready);
    }
    if (err != 0) {
        lose(s, "connect", slice_of(err_str(err)));
    }
}

int source_session_init(struct source_session *s, struct source_load *load)
{
    s->load = load;
    s->backoff = BACKOFF_FIRST;
    s->stream.fd = -1;
    list_init(&s->link);
    buf_init(&s->in, 0);
    buf_init(&s->out, 0);
    buf_init(&s->refused, 0);
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
    if (s->state == SOURCE_IDLE) {
        (void)!stream_write(&s->stream, "QUIT\r\n", 6, false); /* a courtesy */
    }
    close_connection(s);
    timeout_remove(&s->load->timeouts, &s->timer);
    buf_fini(&s->in);
    buf_fini(&s->out);
    buf_fini(&s->refused);
}

static void say(struct source_session *s, enum source_state state, const char *line)
{
    buf_append_str(&s->out, line);
    buf_append_str(&s->out, "\r\n");
    s->state = state;
    arm(s, s->load->options->timeout);
}

static void put_rcpt(struct source_session *s, uint32_t index)
{
    buf_append_str(&s->out, "RCPT TO:<");
    source_message_recipient(&s->load->template, s->offer.number, index, &s->out);
    buf_append_str(&s->out, ">\r\n");
}

/* Pipelined: as many commands as the output should hold; a million recipients never wait in
 * memory. */
static void fill_envelope(struct source_session *s)
{
    const struct source_options *o = s->load->options;
    if (!s->has_pipelining || !s->has_offer || s->is_envelope_put) {
        return;
    }
    while (s->put < o->recipients && s->out.len < WRITE_BYTES) {
        put_rcpt(s, s->put++);
    }
    if (s->put == o->recipients) {
        buf_append_str(&s->out, "DATA\r\n");
        s->is_envelope_put = true;
    }
}

static void begin_offer(struct source_session *s)
{
    const struct source_options *o = s->load->options;
    s->has_offer = true;
    s->is_content_sent = false;
    s->is_envelope_put = false;
    s->put = s->answered = s->accepted = 0;
    s->verdict = 0;
    buf_clear(&s->refused);
    int err = source_load_offered(s->load, &s->offer);
    if (err != 0) {
        lose(s, "ledger", slice_of(err_str(err)));
        return;
    }
    buf_printf(&s->out, "MAIL FROM:<%s>\r\n", o->sender);
    fill_envelope(s);
    s->state = SOURCE_MAIL;
    arm(s, o->timeout);
}

/* Between two messages: the next one, a new connection, the end, or wait. */
static void next_offer(struct source_session *s)
{
    const struct source_options *o = s->load->options;
    s->state = SOURCE_IDLE;
    bool is_used_up = o->per_connection != 0 && s->done_here >= o->per_connection;
    if (is_used_up || source_load_is_done(s->load)) {
        say(s, SOURCE_QUIT, "QUIT");
    } else if (source_load_take(s->load, &s->offer)) {
        begin_offer(s);
    } else {
        arm(s, USEC_NEVER);
        list_push_back(&s->load->idle, &s->link);
    }
}

static void finish_refused(struct source_session *s, struct slice text)
{
    settle(s, s->verdict < 500 ? SOURCE_DEFERRED : SOURCE_REFUSED, text);
    say(s, SOURCE_RSET, "RSET");
}

static void note_refusal(struct source_session *s, int code, struct slice text)
{
    if (s->verdict == 0) {
        s->verdict = code;
        (void)snprintf(s->reason, sizeof(s->reason), SLICE_FMT,
                       (int)(text.len < 190 ? text.len : 190), text.data);
    }
}

static void on_mail(struct source_session *s, int code, struct slice text)
{
    if (code >= 400) {
        note_refusal(s, code, text);
    }
    if (s->has_pipelining) {
        s->state = SOURCE_RCPT;
    } else if (code >= 400) {
        finish_refused(s, text);
    } else {
        put_rcpt(s, 0);
        s->state = SOURCE_RCPT;
    }
}

static void on_rcpt(struct source_session *s, int code, struct slice text)
{
    const struct source_options *o = s->load->options;
    if (code < 400) {
        s->accepted++;
    } else {
        note_refusal(s, code, text);
        source_message_recipient(&s->load->template, s->offer.number, s->answered, &s->refused);
        buf_append_char(&s->refused, '\n');
    }
    s->answered++;
    if (s->answered < o->recipients) {
        if (!s->has_pipelining) {
            put_rcpt(s, s->answered);
        }
    } else if (s->has_pipelining) {
        s->state = SOURCE_DATA;
    } else if (s->accepted == 0) {
        finish_refused(s, slice_of(s->reason));
    } else {
        say(s, SOURCE_DATA, "DATA");
    }
}

static void on_data(struct source_session *s, int code, struct slice text)
{
    if (code != 354) {
        note_refusal(s, code >= 400 ? code : 500, text);
        finish_refused(s, slice_of(s->reason));
        return;
    }
    /* The stamp of an open load is the moment it was due: a queue in front of the connections is
     * part of the latency. */
    usec_t stamp = clock_wall();
    if (s->load->options->rate > 0) {
        stamp -= clock_mono() - s->offer.due;
    }
    source_message_content(&s->load->template, s->offer.number, stamp, &s->out);
    s->is_content_sent = true;
    say(s, SOURCE_DOT, ".");
}

static void on_dot(struct source_session *s, int code, struct slice text)
{
    settle(s, code < 400 ? SOURCE_ACKED : code < 500 ? SOURCE_DEFERRED : SOURCE_REFUSED, text);
    next_offer(s);
}

/* The whole reply has come; `text` is its last line, `all` every line. */
static void on_reply(struct source_session *s, int code, struct slice text, struct slice all)
{
    const struct source_options *o = s->load->options;
    char line[300];
    if (code == 421 && s->state != SOURCE_QUIT) {
        if (s->has_offer) {
            settle(s, SOURCE_DEFERRED, text); /* an answer, and it says no */
        }
        lose(s, "421", text);
        return;
    }
    switch (s->state) {
    case SOURCE_GREETING:
    case SOURCE_EHLO:
    case SOURCE_HELO:
        if (code >= 400 && s->state != SOURCE_EHLO) {
            lose(s, "refused", text);
            return;
        }
        if (s->state == SOURCE_GREETING || code >= 400) {
            bool is_esmtp = s->state == SOURCE_GREETING;
            (void)snprintf(line, sizeof(line), "%s %.250s", is_esmtp ? "EHLO" : "HELO", o->helo);
            say(s, is_esmtp ? SOURCE_EHLO : SOURCE_HELO, line);
            return;
        }
        s->has_pipelining = o->does_pipeline && memmem(all.data, all.len, "PIPELINING", 10) != NULL;
        s->backoff = BACKOFF_FIRST;
        next_offer(s);
        return;
    case SOURCE_MAIL:
        on_mail(s, code, text);
        return;
    case SOURCE_RCPT:
        on_rcpt(s, code, text);
        return;
    case SOURCE_DATA:
        on_data(s, code, text);
        return;
    case SOURCE_DOT:
        on_dot(s, code, text);
        return;
    case SOURCE_RSET:
        next_offer(s);
        return;
    case SOURCE_QUIT:
        close_connection(s);
        if (source_load_is_done(s->load)) {
            give_up(s);
        } else {
            connect_now(s);
        }
        return;
    case SOURCE_IDLE:
    case SOURCE_WAITING:
    case SOURCE_CONNECTING:
    case SOURCE_GONE:
        lose(s, "unexpected reply", text);
        return;
    }
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
                lose(s, "reply", SLICE("too long"));
            }
            return false;
        }
        struct slice line = slice_trim(slice_to(rest, len));
        at += len + 1;
        if (line.len < 3 || strspn(line.data, "0123456789") != 3) {
            lose(s, "no SMTP reply", line);
            return false;
        }
        if (line.len == 3 || line.data[3] != '-') {
            int code = (line.data[0] - '0') * 100 + (line.data[1] - '0') * 10 + line.data[2] - '0';
            s->taken += at;
            on_reply(s, code, line, slice_to(input, at));
            return s->stream.fd >= 0 && s->state != SOURCE_CONNECTING;
        }
    }
}

/* returns: false when the connection was lost or replaced */
static bool flush(struct source_session *s)
{
    for (;;) {
        fill_envelope(s);
        if (s->out.len == 0 || !stream_can_write(&s->stream)) {
            return true;
        }
        ssize_t n = stream_write(&s->stream, s->out.data, s->out.len, false);
        if (n == ERR_AGAIN) {
            return true;
        }
        if (n < 0) {
            lose(s, "write", slice_of(err_str((int)n)));
            return false;
        }
        buf_consume(&s->out, (size_t)n);
    }
}

static void advance(struct source_session *s)
{
    for (;;) {
        while (take_reply(s)) {
        }
        if (s->stream.fd < 0 || s->state == SOURCE_CONNECTING) {
            return;
        }
        buf_consume(&s->in, s->taken);
        s->taken = 0;
        if (!flush(s) || !stream_can_read(&s->stream)) {
            return;
        }
        char *to = buf_reserve(&s->in, READ_BYTES + 1);
        if (to == NULL) {
            lose(s, "memory", SLICE("none"));
            return;
        }
        ssize_t n = stream_read(&s->stream, to, READ_BYTES);
        if (n == ERR_AGAIN) {
            return;
        }
        if (n <= 0) {
            lose(s, "connection lost", slice_of(n == 0 ? "closed by the peer" : err_str((int)n)));
            return;
        }
        s->in.len += (size_t)n;
        to[n] = '\0'; /* a stop for strspn */
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
            lose(s, "connect", slice_of(err_str(err)));
            return;
        }
        s->load->connections++;
        s->state = SOURCE_GREETING;
    }
    advance(s);
}

static void session_expired(struct timeout *t, usec_t now)
{
    struct source_session *s = container_of(t, struct source_session, timer);
    (void)now;
    if (s->state == SOURCE_WAITING) {
        connect_now(s);
    } else {
        lose(s, "timeout", SLICE("no answer"));
    }
}

void source_session_wake(struct source_session *s)
{
    next_offer(s);
    if (s->stream.fd >= 0 && !flush(s)) {
        return;
    }
}
