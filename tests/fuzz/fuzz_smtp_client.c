/* A whole client session in which the input chooses the server's bytes and the order of events:
 * flushes, body ends, end of file, time, handshakes. Checked: every recipient gets exactly one
 * verdict; success only behind a wholly written message; nothing after CLOSED; commands are never
 * anything but whole command lines. */
#include "net/smtp_client.h"

#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RECIPIENTS 5

struct world {
    struct smtp_client_config config;
    struct smtp_client client;
    struct slice recipients[RECIPIENTS];
    bool is_decided[RECIPIENTS];
    uint32_t count; /* recipients of the transaction */
    bool in_transaction, wants_body, wants_tls, body_done, is_closed, is_ready;
    usec_t now;
};

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void check_verdict(const struct world *w, const struct outcome_verdict *v)
{
    require(v->text.len > 0 && v->text.len <= OUTCOME_TEXT_MAX);
    for (size_t i = 0; i < v->text.len; i++) {
        require((unsigned char)v->text.data[i] >= 0x20 && v->text.data[i] != 0x7f);
    }
    static const char digits[] = {'2', '4', '5'};
    require(v->status.text[0] == digits[v->class]);
    if (v->class == OUTCOME_SUCCESS) {
        require(w->body_done && v->code / 100 == 2 && !v->is_ambiguous);
    }
    require(!v->is_protocol_error || v->class == OUTCOME_SOFT);
}

static uint32_t undecided(const struct world *w)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        count += w->is_decided[i] ? 0 : 1;
    }
    return count;
}

static void on_event(struct world *w, const struct smtp_client_event *event)
{
    require(!w->is_closed);
    if (event->verdict != NULL) {
        check_verdict(w, event->verdict);
    }
    switch (event->kind) {
    case SMTP_CLIENT_RECIPIENT:
        require(w->in_transaction && event->index < w->count && !w->is_decided[event->index]);
        w->is_decided[event->index] = true;
        break;
    case SMTP_CLIENT_REST:
        require(w->in_transaction && undecided(w) > 0);
        memset(w->is_decided, true, sizeof(w->is_decided));
        break;
    case SMTP_CLIENT_DONE:
        require(w->in_transaction && undecided(w) == 0);
        w->in_transaction = false;
        break;
    case SMTP_CLIENT_FAILED:
        require(!w->in_transaction || event->retry_fresh);
        require(!event->retry_fresh || undecided(w) == w->count);
        w->in_transaction = false;
        break;
    case SMTP_CLIENT_READY:
        require(!w->in_transaction);
        w->is_ready = true;
        break;
    case SMTP_CLIENT_WANT_BODY:
        require(w->in_transaction && undecided(w) > 0);
        w->wants_body = true;
        break;
    case SMTP_CLIENT_STOP_BODY:
        require(w->wants_body);
        w->wants_body = false;
        break;
    case SMTP_CLIENT_WANT_TLS:
        w->wants_tls = true;
        break;
    case SMTP_CLIENT_CLOSED:
        require(!w->in_transaction);
        w->is_closed = true;
        break;
    case SMTP_CLIENT_NONE:
    case SMTP_CLIENT_EVENT_COUNT:
        abort();
    }
}

static void pull(struct world *w)
{
    struct smtp_client_event event;
    while (smtp_client_next_event(&w->client, &event)) {
        on_event(w, &event);
    }
    require(!w->is_closed || smtp_client_deadline(&w->client) == USEC_NEVER);
}

/* Take what is to be written; it must be whole lines that begin with a known verb. */
static void flush(struct world *w)
{
    static const char *const verbs[] = {"EHLO ",       "HELO ",     "STARTTLS\r\n",
                                        "MAIL FROM:<", "RCPT TO:<", "DATA\r\n",
                                        ".\r\n",       "RSET\r\n",  "QUIT\r\n"};
    struct buf *out = &w->client.out;
    struct slice rest = buf_slice(out);
    require(out->len < 10000);
    while (rest.len > 0) {
        size_t lf = slice_find(rest, '\n');
        require(lf < rest.len && lf > 0 && rest.data[lf - 1] == '\r');
        bool is_known = false;
        for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
            size_t len = strlen(verbs[i]);
            is_known = is_known || (len <= lf + 1 && memcmp(rest.data, verbs[i], len) == 0);
        }
        require(is_known);
        rest = slice_from(rest, lf + 1);
    }
    buf_consume(out, out->len);
    if (w->client.state == SMTP_CLIENT_STATE_DOT && !w->client.envelope.is_lone_dot) {
        w->body_done = true;
    }
}

static void feed(struct world *w, struct slice text)
{
    char *copy = malloc(text.len > 0 ? text.len : 1);
    require(copy != NULL);
    memcpy(copy, text.data, text.len);
    struct slice in = slice_make(copy, text.len);
    while (in.len > 0) {
        size_t before = in.len;
        smtp_client_input(&w->client, &in, w->now);
        require(in.len < before || w->client.event_count > 0);
        pull(w);
    }
    free(copy);
}

static void start(struct world *w, uint8_t flags)
{
    if (w->client.state != SMTP_CLIENT_STATE_IDLE) {
        return;
    }
    w->count = 1 + flags % RECIPIENTS;
    memset(w->is_decided, false, sizeof(w->is_decided));
    w->in_transaction = true;
    w->body_done = false;
    w->wants_body = false;
    struct smtp_transaction t = {
        .sender = SLICE("sender@example.com"),
        .recipients = w->recipients,
        .recipient_count = w->count,
        .size_bytes = (flags & 0x40) != 0 ? 100000 : 10,
        .has_8bit = (flags & 0x20) != 0,
        .needs_smtputf8 = (flags & 0x10) != 0,
    };
    require(smtp_client_start(&w->client, &t, w->now) == 0);
}

static const struct slice canned[] = {
    SLICE("220 mx\r\n"),
    SLICE("250 ok\r\n"),
    SLICE("250-mx\r\n250 PIPELINING\r\n"),
    SLICE("354 go\r\n"),
    SLICE("550 5.1.1 no\r\n"),
    SLICE("450 4.2.0 later\r\n"),
    SLICE("421 bye\r\n"),
    SLICE("250-mx\r\n250-PIPELINING\r\n250-SIZE 1000\r\n250 STARTTLS\r\n"),
};

/* One step; arguments come out of in. */
static void act(struct world *w, uint8_t op, struct slice *in)
{
    struct smtp_client *c = &w->client;
    uint8_t argument = 0;
    if (in->len > 0 && op >= 8 && op != 9) {
        argument = (uint8_t)in->data[0];
        *in = slice_from(*in, 1);
    }
    if (op < 8) {
        flush(w);
        feed(w, canned[op]);
    } else if (op == 8) {
        size_t len = argument < in->len ? argument : in->len;
        feed(w, slice_to(*in, len));
        *in = slice_from(*in, len);
    } else if (op == 9) {
        flush(w);
    } else if (op == 10) {
        start(w, argument);
    } else if (op == 11) {
        smtp_client_body_progress(c, argument, w->now);
        smtp_client_body_sent(c, w->now);
    } else if (op == 12 && w->wants_tls) {
        w->wants_tls = false;
        smtp_client_tls_done(c, argument % 2 == 0, SLICE("no\r\n"), w->now);
    } else if (op == 13) {
        w->now += argument * 10 * USEC_PER_SEC;
        smtp_client_timeout(c, w->now);
    } else if (op == 14 && argument % 4 == 0) {
        smtp_client_body_failed(c, argument % 8 == 0, SLICE("lost"), w->now);
    } else if (op == 14 && argument % 4 == 1 && c->state == SMTP_CLIENT_STATE_IDLE) {
        smtp_client_quit(c, w->now);
    } else if (op == 15 && argument % 2 == 0) {
        smtp_client_eof(c, w->now);
    } else if (op == 15) {
        smtp_client_io_error(c, argument % 3 == 0 ? ETIMEDOUT : ECONNRESET, w->now);
    }
    pull(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    struct world *w = calloc(1, sizeof(*w));
    require(w != NULL);
    smtp_client_config_defaults(&w->config);
    w->config.tls = (enum smtp_client_tls)(data[0] % 3);
    w->config.use_pipelining = (data[0] & 4) == 0;
    w->config.skip_quit_response = (data[0] & 8) == 0;
    w->config.bounce_5xx_handshake = (data[0] & 16) != 0;
    w->config.skip_5xx_greeting = (data[0] & 32) == 0;
    w->config.unacked_max = (data[0] & 64) == 0 ? 4096 : 60;
    w->config.always_send_ehlo = (data[0] & 128) == 0;
    for (uint32_t i = 0; i < RECIPIENTS; i++) {
        w->recipients[i] = SLICE("recipient@example.com");
    }
    struct smtp_client_peer peer = {
        .host = SLICE("mx\r\n\xff"), .address = SLICE("::1"), .nexthop = SLICE("b"), .port = 25};
    smtp_client_init(&w->client, &w->config, &peer, 0);
    struct slice in = slice_make((const char *)data + 1, size - 1);
    while (in.len > 0) {
        uint8_t op = (uint8_t)in.data[0] % 16;
        in = slice_from(in, 1);
        act(w, op, &in);
    }
    /* Whatever happened, the end of the connection settles everything. */
    smtp_client_eof(&w->client, w->now);
    pull(w);
    require(w->is_closed && !w->in_transaction);
    smtp_client_fini(&w->client);
    free(w);
    return 0;
}
