/* A whole client session in which the input chooses the server's bytes and the order of events:
 * starts, bytes handed over in parts, bodies queued and written, end of file, time, handshakes.
 * Checked: every recipient of every transaction gets exactly one verdict, or its transaction is
 * returned whole; success only behind a wholly written message; nothing that was wholly written is
 * returned, but after 421; no MAIL inside a transaction that the server may hold open; nothing
 * after CLOSED; commands are never anything but whole command lines. */
#include "net/smtp_client.h"

#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RECIPIENTS   5
#define TRANSACTIONS 256
#define BODIES       64 /* a power of 2 */

struct tried {
    bool is_decided[RECIPIENTS];
    uint32_t count; /* recipients */
    uint64_t size_bytes;
    bool has_verdict, is_over, is_handed_over;
};

/* A body between the bytes of out. */
struct body {
    uint32_t number;
    uint64_t position; /* in the stream of out */
    uint64_t left;     /* bytes */
    bool is_chunk, is_sent;
};

struct world {
    struct smtp_client_config config;
    struct smtp_client client;
    struct slice recipients[RECIPIENTS];
    struct tried tried[TRANSACTIONS];
    struct body bodies[BODIES];
    uint32_t body_first, body_count; /* those not written */
    uint32_t in_flight;
    uint32_t dot_number;  /* whose dot comes next in out */
    uint64_t taken;       /* bytes of out */
    uint32_t open_number; /* the transaction that the server may hold open */
    bool is_open, has_dot, wants_tls, is_closed, has_said_421;
    struct buf line; /* of commands, not yet complete */
    usec_t now;
};

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void check_verdict(const struct world *w, const struct smtp_client_event *event)
{
    const struct outcome_verdict *v = event->verdict;
    require(v->text.len > 0 && v->text.len <= OUTCOME_TEXT_MAX);
    for (size_t i = 0; i < v->text.len; i++) {
        require((unsigned char)v->text.data[i] >= 0x20 && v->text.data[i] != 0x7f);
        require(v->stage != OUTCOME_STAGE_AUTH || i + 6 > v->text.len ||
                memcmp(v->text.data + i, "secret", 6) != 0);
    }
    static const char digits[] = {'2', '4', '5'};
    require(v->status.text[0] == digits[v->class]);
    if (v->class == OUTCOME_SUCCESS) {
        require(w->tried[event->transaction].is_handed_over && v->code / 100 == 2 &&
                !v->is_ambiguous);
    }
    require(!v->is_protocol_error || v->class == OUTCOME_SOFT);
}

static uint32_t undecided(const struct tried *t)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        count += t->is_decided[i] ? 0 : 1;
    }
    return count;
}

static void on_end(struct world *w, const struct smtp_client_event *event)
{
    struct tried *t = &w->tried[event->transaction];
    t->is_over = true;
    w->in_flight--;
    require(event->kind != SMTP_CLIENT_DONE || undecided(t) == 0);
    require(event->kind != SMTP_CLIENT_RETURNED ||
            (!t->has_verdict && (!t->is_handed_over || w->has_said_421)));
    w->is_open = w->is_open && w->open_number != event->transaction;
}

static void want_body(struct world *w, const struct smtp_client_event *event)
{
    require(w->body_count < BODIES);
    w->bodies[(w->body_first + w->body_count++) % BODIES] = (struct body){
        .number = event->transaction,
        .position = w->taken + w->client.out.len,
        .left = w->tried[event->transaction].size_bytes,
        .is_chunk = event->is_chunk,
    };
}

/* The body asked for last, or NULL. */
static struct body *last_body(struct world *w)
{
    struct body *b = &w->bodies[(w->body_first + w->body_count - 1) % BODIES];
    return w->body_count > 0 && !b->is_sent ? b : NULL;
}

/* Events about a transaction. */
static void on_transaction(struct world *w, const struct smtp_client_event *event)
{
    require(event->transaction < w->client.transactions);
    struct tried *t = &w->tried[event->transaction];
    require(!t->is_over);
    if (event->kind == SMTP_CLIENT_RECIPIENT) {
        require(event->index < t->count && !t->is_decided[event->index]);
        t->is_decided[event->index] = t->has_verdict = true;
    } else if (event->kind == SMTP_CLIENT_REST) {
        require(undecided(t) > 0);
        t->has_verdict = true;
        memset(t->is_decided, true, sizeof(t->is_decided));
    } else if (event->kind == SMTP_CLIENT_WANT_BODY) {
        want_body(w, event);
    } else if (event->kind == SMTP_CLIENT_STOP_BODY) {
        require(last_body(w) != NULL && last_body(w)->number == event->transaction);
        w->body_count--;
    } else {
        on_end(w, event);
    }
}

static void on_event(struct world *w, const struct smtp_client_event *event)
{
    require(!w->is_closed);
    if (event->verdict != NULL) {
        check_verdict(w, event);
    }
    switch (event->kind) {
    case SMTP_CLIENT_RECIPIENT:
    case SMTP_CLIENT_REST:
    case SMTP_CLIENT_DONE:
    case SMTP_CLIENT_RETURNED:
    case SMTP_CLIENT_WANT_BODY:
    case SMTP_CLIENT_STOP_BODY:
        on_transaction(w, event);
        break;
    case SMTP_CLIENT_FAILED:
        require(w->client.transactions == 0);
        break;
    case SMTP_CLIENT_READY:
        require(smtp_client_in_flight(&w->client) == w->in_flight &&
                !smtp_client_has_event(&w->client));
        break;
    case SMTP_CLIENT_WANT_TLS:
        w->wants_tls = true;
        break;
    case SMTP_CLIENT_CLOSED:
        require(w->in_flight == 0 && (!event->flush || w->body_count == 0));
        w->body_count = 0;
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

/* --- what is handed over ---------------------------------------------------------------------- */

static bool begins(struct slice line, const char *with)
{
    return line.len >= strlen(with) && memcmp(line.data, with, strlen(with)) == 0;
}

/* A whole line of commands, with its CRLF. */
static void check_line(struct world *w, struct slice line)
{
    static const char *const verbs[] = {"EHLO ",     "HELO ",       "STARTTLS\r\n", "AUTH ",
                                        "RCPT TO:<", "DATA\r\n",    "RSET\r\n",     "QUIT\r\n",
                                        "BDAT ",     "MAIL FROM:<", ".\r\n"};
    require(line.len > 1 && line.data[line.len - 2] == '\r');
    if (w->has_dot) {
        require(begins(line, ".\r\n"));
        w->tried[w->dot_number].is_handed_over = true;
        w->has_dot = false;
    }
    bool is_known = w->client.state == SMTP_CLIENT_STATE_AUTH;
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        is_known = is_known || begins(line, verbs[i]);
    }
    require(is_known);
    if (begins(line, "MAIL")) {
        require(!w->is_open);
        w->is_open = true;
        w->open_number = UINT32_MAX;
    } else if (begins(line, ".\r\n") || begins(line, "RSET")) {
        w->is_open = false;
    } else if (begins(line, "BDAT")) {
        /* no body any more: it could not be read, and nothing can come behind it */
        w->open_number = w->body_count > 0 ? w->bodies[w->body_first % BODIES].number : UINT32_MAX;
        w->is_open = w->body_count == 0 || !w->tried[w->open_number].is_over;
    }
}

/* Take len bytes off out; they are whole lines in the end. */
static void take_out(struct world *w, size_t len)
{
    struct slice part = slice_to(buf_slice(&w->client.out), len);
    while (part.len > 0) {
        size_t lf = slice_find(part, '\n');
        size_t n = lf < part.len ? lf + 1 : part.len;
        buf_append_slice(&w->line, slice_to(part, n));
        part = slice_from(part, n);
        if (lf < n) {
            check_line(w, buf_slice(&w->line));
            buf_clear(&w->line);
        }
    }
    smtp_client_consume(&w->client, len);
    w->taken += len;
}

/* The body at the front is written. */
static void pass_body(struct world *w, const struct body *b)
{
    if (b->is_chunk) {
        w->tried[b->number].is_handed_over = true;
    } else {
        w->has_dot = true;
        w->dot_number = b->number;
    }
    w->body_first = (w->body_first + 1) % BODIES;
    w->body_count--;
}

/* The transport takes up to max bytes, of commands and bodies in their order. */
static void hand_over(struct world *w, uint64_t max)
{
    require(w->client.out.len < 10000);
    for (;;) {
        struct body *b = w->body_count > 0 ? &w->bodies[w->body_first % BODIES] : NULL;
        uint64_t until = b != NULL ? b->position : w->taken + w->client.out.len;
        if (w->taken < until) {
            uint64_t n = until - w->taken < max ? until - w->taken : max;
            take_out(w, (size_t)n);
            max -= n;
            if (w->taken < until) {
                return;
            }
        } else if (b == NULL) {
            return;
        } else {
            uint64_t n = b->left < max ? b->left : max;
            b->left -= n;
            max -= n;
            smtp_client_body_progress(&w->client, (size_t)n, w->now);
            if (b->left > 0 || !b->is_sent) {
                return;
            }
            pass_body(w, b);
        }
    }
}

static void feed(struct world *w, struct slice text)
{
    char *copy = malloc(text.len > 0 ? text.len : 1);
    require(copy != NULL);
    memcpy(copy, text.data, text.len);
    struct slice in = slice_make(copy, text.len);
    for (size_t i = 0; i + 3 <= text.len; i++) {
        w->has_said_421 = w->has_said_421 || memcmp(text.data + i, "421", 3) == 0;
    }
    while (in.len > 0) {
        size_t before = in.len;
        smtp_client_input(&w->client, &in, w->now);
        require(in.len < before || smtp_client_has_event(&w->client));
        pull(w);
    }
    free(copy);
}

static void start(struct world *w, uint8_t flags)
{
    uint32_t number = w->client.transactions;
    if (!smtp_client_can_start(&w->client) || number == TRANSACTIONS) {
        return;
    }
    struct tried *tried = &w->tried[number];
    tried->count = 1 + flags % RECIPIENTS;
    tried->size_bytes = (flags & 0x40) != 0 ? 100000 : (flags & 0x80) != 0 ? 0 : 10;
    w->in_flight++;
    struct smtp_transaction t = {
        .sender = SLICE("sender@example.com"),
        .recipients = w->recipients,
        .recipient_count = tried->count,
        .size_bytes = tried->size_bytes,
        .has_8bit = (flags & 0x20) != 0,
        .needs_smtputf8 = (flags & 0x10) != 0,
    };
    require(smtp_client_start(&w->client, &t, w->now) == 0);
    require(w->client.transactions == number + 1);
}

static void send_body(struct world *w)
{
    struct body *b = last_body(w);
    if (b != NULL) {
        b->is_sent = true;
        smtp_client_body_sent(&w->client, w->now);
        pull(w);
        hand_over(w, 0); /* nothing may be left of it */
    }
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
    SLICE("250-mx\r\n250-PIPELINING\r\n250 CHUNKING\r\n"),
    SLICE("503 5.5.1 nested\r\n"),
    SLICE("250-mx\r\n250-PIPELINING\r\n250-CHUNKING\r\n250 AUTH LOGIN\r\n"),
    SLICE("250-mx\r\n250 AUTH PLAIN\r\n"),
    SLICE("334 VXNlcm5hbWU6\r\n"),
    SLICE("235 2.7.0 in\r\n"),
    SLICE("535 5.7.8 not secret\r\n"),
    SLICE("250 ok\r\n250 ok\r\n250 ok\r\n250 ok\r\n"),
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
        hand_over(w, UINT64_MAX);
        feed(w, canned[op]);
    } else if (op == 8) {
        size_t len = argument < in->len ? argument : in->len;
        feed(w, slice_to(*in, len));
        *in = slice_from(*in, len);
    } else if (op == 9) {
        hand_over(w, UINT64_MAX);
    } else if (op == 10) {
        start(w, argument);
    } else if (op == 11) {
        send_body(w);
    } else if (op == 12 && w->wants_tls) {
        w->wants_tls = false;
        smtp_client_tls_done(c, argument % 2 == 0, SLICE("no\r\n"), w->now);
    } else if (op == 13) {
        w->now += argument * 10 * USEC_PER_SEC;
        smtp_client_timeout(c, w->now);
    } else if (op == 14 && argument % 4 == 0 && last_body(w) != NULL) {
        smtp_client_body_failed(c, argument % 8 == 0, SLICE("lost"), w->now);
    } else if (op == 14 && argument % 4 == 1 && c->state == SMTP_CLIENT_STATE_IDLE) {
        smtp_client_quit(c, w->now);
    } else if (op == 15 && argument % 2 == 0) {
        smtp_client_eof(c, w->now);
    } else if (op == 15) {
        smtp_client_io_error(c, argument % 3 == 0 ? ETIMEDOUT : ECONNRESET, w->now);
    } else if (op == 16) {
        hand_over(w, argument);
    } else if (op == 17) {
        hand_over(w, UINT64_MAX);
        feed(w, canned[argument % (sizeof(canned) / sizeof(canned[0]))]);
    } else if (op == 18) {
        feed(w, canned[argument % (sizeof(canned) / sizeof(canned[0]))]);
    }
    pull(w);
}

static void configure(struct world *w, uint8_t first, uint8_t second)
{
    smtp_client_config_defaults(&w->config);
    w->config.tls = (enum smtp_client_tls)(first % 3);
    w->config.use_pipelining = (first & 4) == 0;
    w->config.skip_quit_response = (first & 8) == 0;
    w->config.bounce_5xx_handshake = (first & 16) != 0;
    w->config.skip_5xx_greeting = (first & 32) == 0;
    w->config.unacked_max = (first & 64) == 0 ? 4096 : 60;
    w->config.always_send_ehlo = (first & 128) == 0;
    static const uint16_t depths[] = {1, 2, 5, 16};
    w->config.pipeline_depth = depths[second % 4];
    w->config.chunk_wait = (second & 8) != 0 ? 1000 : 256 * 1024;
    w->config.use_chunking = (second & 16) == 0;
    if ((second & 32) != 0) {
        w->config.auth_user = SLICE("user");
        w->config.auth_password = SLICE("secret");
        w->config.auth_requires_tls = (second & 64) != 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    struct world *w = calloc(1, sizeof(*w));
    require(w != NULL);
    configure(w, data[0], data[1]);
    for (uint32_t i = 0; i < RECIPIENTS; i++) {
        w->recipients[i] = SLICE("recipient@example.com");
    }
    struct smtp_client_peer peer = {
        .host = SLICE("mx\r\n\xff"), .address = SLICE("::1"), .nexthop = SLICE("b"), .port = 25};
    smtp_client_init(&w->client, &w->config, &peer, 0);
    if ((data[1] & 4) != 0) {
        w->client.pace.depth = 16; /* as if messages had been carried already */
    }
    struct slice in = slice_make((const char *)data + 2, size - 2);
    while (in.len > 0) {
        uint8_t op = (uint8_t)in.data[0] % 19;
        in = slice_from(in, 1);
        act(w, op, &in);
    }
    /* Whatever happened, the end of the connection settles everything. */
    smtp_client_eof(&w->client, w->now);
    pull(w);
    require(w->is_closed && w->in_flight == 0);
    smtp_client_fini(&w->client);
    buf_fini(&w->line);
    free(w);
    return 0;
}
