/* The dialogue x fault matrix of reliability-security 3.2 at the level of the core, each cell once
 * whole and once byte by byte, with the feedback that the request would give; and the texts. */
#include "net/smtp_client.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>

enum point {
    BANNER,
    EHLO,
    HELO,
    STARTTLS,
    EHLO_IN_TLS,
    MAIL,
    RCPT, /* the second of two; the first was accepted */
    DATA,
    BODY,
    DOT,
    POINT_COUNT
};

enum fault {
    SILENT,
    RST,
    FIN,
    FIN_IN_REPLY,
    SAYS_4YZ,
    SAYS_5YZ,
    SAYS_421,
    GARBAGE,
    WRONG_CLASS,
    LONG_LINE,
    ENDLESS_LINES,
    MIXED,
    EXTRA,
    UNCLEAN,
    FAULT_COUNT
};

/* What becomes of the recipients that waited. */
enum fate {
    GOES_ON, /* nothing is lost: the dialogue went on */
    NEXT,    /* soft, about the site: next server, else deferred, negative */
    DEF,     /* soft, about the message or recipient: positive */
    BNC,     /* bounced, positive */
    AMB,     /* deferred at once even if there is another server, negative */
    FATE_COUNT
};

/* Deviations from the matrix: its DEF after a protocol error is NEXT here, which is the same for
 * the last server, because the next one may be sane. */
static const enum fate fates[POINT_COUNT][FAULT_COUNT] = {
    /* silent RST FIN partial 4yz 5yz 421 garbage class long endless mixed extra unclean */
    [BANNER] = {NEXT, NEXT, NEXT, NEXT, NEXT, NEXT, NEXT, NEXT, NEXT, NEXT, NEXT, NEXT, NEXT,
                GOES_ON},
    [EHLO] = {NEXT, NEXT, NEXT, NEXT, GOES_ON, GOES_ON, NEXT, NEXT, NEXT, NEXT, NEXT, NEXT, NEXT,
              GOES_ON},
    [HELO] = {NEXT, NEXT, NEXT, NEXT, NEXT, NEXT, NEXT, NEXT, NEXT, NEXT, NEXT, NEXT, NEXT,
              GOES_ON},
    [STARTTLS] = {NEXT, NEXT, NEXT, NEXT, GOES_ON, GOES_ON, NEXT, NEXT, NEXT, NEXT, NEXT, NEXT,
                  NEXT, NEXT},
    [EHLO_IN_TLS] = {NEXT, NEXT, NEXT, NEXT, NEXT, GOES_ON, NEXT, NEXT, NEXT, NEXT, NEXT, NEXT,
                     NEXT, GOES_ON},
    [MAIL] = {NEXT, NEXT, NEXT, NEXT, DEF, BNC, DEF, NEXT, NEXT, NEXT, NEXT, NEXT, NEXT, GOES_ON},
    [RCPT] = {NEXT, NEXT, NEXT, NEXT, DEF, BNC, DEF, NEXT, NEXT, NEXT, NEXT, NEXT, NEXT, GOES_ON},
    [DATA] = {NEXT, NEXT, NEXT, NEXT, DEF, BNC, DEF, NEXT, NEXT, NEXT, NEXT, NEXT, NEXT, GOES_ON},
    [BODY] = {NEXT, NEXT, NEXT, NEXT, DEF, BNC, DEF, NEXT, AMB, NEXT, NEXT, NEXT, AMB, AMB},
    [DOT] = {AMB, AMB, AMB, AMB, DEF, BNC, DEF, AMB, AMB, AMB, AMB, AMB, GOES_ON, GOES_ON},
};

struct session {
    struct smtp_client_config config;
    struct smtp_client client;
    struct outcome outcome;
    struct slice recipients[2];
    uint32_t indexes[2];
    size_t chunk; /* bytes a read */
    usec_t now;
    bool is_ready, wants_body, wants_tls, is_done, can_reuse, is_closed;
    bool has_failed;
};

static void pull(struct session *s)
{
    struct smtp_client_event event;
    while (smtp_client_next_event(&s->client, &event)) {
        assert_false(s->is_closed);
        switch (event.kind) {
        case SMTP_CLIENT_RECIPIENT:
            (void)outcome_decide(&s->outcome, s->indexes[event.index], event.verdict);
            break;
        case SMTP_CLIENT_REST:
            (void)outcome_decide_rest(&s->outcome, event.verdict);
            break;
        case SMTP_CLIENT_FAILED:
            (void)outcome_decide_rest(&s->outcome, event.verdict);
            outcome_session_end(&s->outcome, false);
            s->has_failed = true;
            break;
        case SMTP_CLIENT_DONE:
            s->is_done = true;
            s->can_reuse = event.can_reuse;
            outcome_session_end(&s->outcome, event.is_complete);
            break;
        case SMTP_CLIENT_READY:
            s->is_ready = true;
            break;
        case SMTP_CLIENT_WANT_BODY:
            s->wants_body = true;
            break;
        case SMTP_CLIENT_WANT_TLS:
            s->wants_tls = true;
            break;
        case SMTP_CLIENT_CLOSED:
            s->is_closed = true;
            break;
        case SMTP_CLIENT_STOP_BODY:
            s->wants_body = false;
            break;
        case SMTP_CLIENT_RETURNED:
        case SMTP_CLIENT_NONE:
        case SMTP_CLIENT_EVENT_COUNT:
            fail();
        }
    }
}

static void flush(struct session *s)
{
    smtp_client_consume(&s->client, s->client.out.len);
}

static void say(struct session *s, struct slice text)
{
    while (text.len > 0) {
        size_t len = text.len < s->chunk ? text.len : s->chunk;
        char *copy = malloc(len);
        assert_non_null(copy);
        memcpy(copy, text.data, len);
        struct slice in = slice_make(copy, len);
        while (in.len > 0) {
            smtp_client_input(&s->client, &in, s->now);
            pull(s);
        }
        free(copy);
        text = slice_from(text, len);
    }
}

static void say_ok(struct session *s, const char *text)
{
    flush(s);
    say(s, slice_of(text));
}

static void begin(struct session *s, bool is_final, enum point point, size_t chunk)
{
    *s = (struct session){.chunk = SIZE_MAX, .now = USEC_PER_SEC};
    smtp_client_config_defaults(&s->config);
    s->config.tls =
        point == STARTTLS || point == EHLO_IN_TLS ? SMTP_CLIENT_TLS_MAY : SMTP_CLIENT_TLS_NONE;
    struct smtp_client_peer peer = {
        .host = SLICE("mx.b"), .address = SLICE("192.0.2.1"), .nexthop = SLICE("b"), .port = 25};
    smtp_client_init(&s->client, &s->config, &peer, s->now);
    s->recipients[0] = SLICE("r0@b");
    s->recipients[1] = SLICE("r1@b");
    assert_int_equal(outcome_init(&s->outcome, 2), 0);
    outcome_session_begin(&s->outcome, is_final);
    s->chunk = chunk;
}

static void end(struct session *s)
{
    smtp_client_fini(&s->client);
    outcome_fini(&s->outcome);
}

static void start(struct session *s)
{
    assert_int_equal(outcome_take(&s->outcome, 0, s->indexes), 2);
    struct smtp_transaction t = {
        .sender = SLICE("s@a"), .recipients = s->recipients, .recipient_count = 2};
    assert_int_equal(smtp_client_start(&s->client, &t, s->now), 0);
    pull(s);
}

/* Lead the dialogue to where `point` is awaited and its command is written. */
static void lead(struct session *s, enum point point, bool pipelining)
{
    if (point == BANNER) {
        return;
    }
    say_ok(s, "220 mx.b\r\n");
    if (point == EHLO) {
        flush(s);
        return;
    }
    if (point == HELO) {
        say_ok(s, "502 no\r\n");
        flush(s);
        return;
    }
    if (point == STARTTLS || point == EHLO_IN_TLS) {
        say_ok(s, "250-mx.b\r\n250 STARTTLS\r\n");
        flush(s);
        if (point == EHLO_IN_TLS) {
            say_ok(s, "220 go\r\n");
            assert_true(s->wants_tls);
            smtp_client_tls_done(&s->client, true, SLICE(""), s->now);
            flush(s);
        }
        return;
    }
    say_ok(s, pipelining ? "250-mx.b\r\n250 PIPELINING\r\n" : "250 mx.b\r\n");
    assert_true(s->is_ready);
    s->is_ready = false;
    start(s);
    static const char *const replies[] = {"250 ok\r\n", "250 ok\r\n", "250 ok\r\n", "354 go\r\n"};
    const int counts[POINT_COUNT] = {[MAIL] = 0, [RCPT] = 2, [DATA] = 3, [BODY] = 4, [DOT] = 4};
    for (int i = 0; i < counts[point]; i++) {
        say_ok(s, replies[i]);
    }
    if (point == BODY || point == DOT) {
        assert_true(s->wants_body);
        smtp_client_body_progress(&s->client, 100, s->now);
    }
    if (point == DOT) {
        smtp_client_body_sent(&s->client, s->now);
    }
    flush(s);
}

/* The reply that the point wants. */
static const char *good_code(enum point point)
{
    return point == DATA ? "354" : point == BANNER || point == STARTTLS ? "220" : "250";
}

static void say_format(struct session *s, const char *format, const char *code)
{
    struct buf text = {.limit = 0};
    for (; *format != '\0'; format++) {
        if (*format == '%') {
            buf_append_str(&text, code);
        } else {
            buf_append_char(&text, *format);
        }
    }
    say(s, buf_slice(&text));
    buf_fini(&text);
}

static void say_long(struct session *s, const char *code, bool is_one_line)
{
    struct buf text = {.limit = 0};
    while (text.len < 200000) {
        buf_append_str(&text, text.len == 0 || !is_one_line ? code : "xxxxxxxxxx");
        buf_append_str(&text, is_one_line ? "-" : "-x\r\n");
    }
    say(s, buf_slice(&text));
    buf_fini(&text);
}

static void inject(struct session *s, enum point point, enum fault fault)
{
    const char *code = good_code(point);
    switch (fault) {
    case SILENT:
        s->now = smtp_client_deadline(&s->client);
        smtp_client_timeout(&s->client, s->now);
        break;
    case RST:
        smtp_client_io_error(&s->client, ECONNRESET, s->now);
        break;
    case FIN_IN_REPLY:
        say_format(s, "%-half\r\n%", code);
        smtp_client_eof(&s->client, s->now);
        break;
    case FIN:
        smtp_client_eof(&s->client, s->now);
        break;
    case SAYS_4YZ:
        say(s, SLICE("450 4.2.0 later\r\n"));
        break;
    case SAYS_5YZ:
        say(s, SLICE("550 5.7.1 never\r\n"));
        break;
    case SAYS_421:
        say(s, SLICE("421 4.3.2 bye\r\n"));
        break;
    case GARBAGE:
        say(s, SLICE("\x16\x03\x01 what is this\r\n"));
        break;
    case WRONG_CLASS:
        say(s, point == DATA || point == BODY ? SLICE("250 ok\r\n") : SLICE("354 ok\r\n"));
        break;
    case LONG_LINE:
        say_long(s, code, true);
        break;
    case ENDLESS_LINES:
        say_long(s, code, false);
        break;
    case MIXED:
        say_format(s, "%-ok\r\n450 no\r\n", code);
        break;
    case EXTRA:
        say_format(s, "% ok\r\n% ok\r\n", code);
        break;
    case UNCLEAN:
        say_format(s, "% a\x1b[31m\xff\r\n", code);
        break;
    case FAULT_COUNT:
        break;
    }
    pull(s);
}

static void wrong(enum point point, enum fault fault, bool pipelining, size_t chunk,
                  const struct session *s, const char *what)
{
    fail_msg("point %d fault %d pipelining %d chunk %zu: %s (%s)", (int)point, (int)fault,
             pipelining, chunk, what, s->outcome.recipients[1].text);
}

/* A refused RCPT leaves the first recipient in play: the server takes the message for it. */
static void complete_after_refusal(struct session *s)
{
    for (int i = 0; i < 4 && !s->is_done && !s->is_closed; i++) {
        bool is_reset = slice_eq(buf_slice(&s->client.out), SLICE("RSET\r\n"));
        flush(s);
        if (s->wants_body) {
            smtp_client_body_sent(&s->client, s->now);
            flush(s);
            say(s, SLICE("250 ok\r\n"));
        } else {
            say(s, is_reset ? SLICE("250 ok\r\n") : SLICE("354 go\r\n"));
        }
    }
}

static void check_cell(enum point point, enum fault fault, bool pipelining, size_t chunk,
                       bool is_final)
{
    struct session s;
    begin(&s, is_final, point, SIZE_MAX);
    lead(&s, point, pipelining);
    s.chunk = chunk;
    inject(&s, point, fault);
    enum fate fate = fates[point][fault];
    if (point == DOT && fault == SAYS_421) {
        smtp_client_eof(&s.client, s.now); /* what is awaited behind it */
        pull(&s);
    } else if (point == DOT && fault == EXTRA && chunk == SIZE_MAX) {
        fate = AMB; /* one of the two may be the answer to something else */
    }
    const struct outcome_recipient *r = &s.outcome.recipients[1];
    if (fate == GOES_ON) {
        bool is_delivered = r->kind == OUTCOME_DELIVERED;
        if (s.has_failed || is_delivered != (point == DOT)) {
            wrong(point, fault, pipelining, chunk, &s, "should go on");
        }
        if (point == DOT && fault == EXTRA && !s.is_closed) {
            wrong(point, fault, pipelining, chunk, &s, "must not be reused");
        }
        end(&s);
        return;
    }
    enum outcome_kind kind = fate == BNC ? OUTCOME_BOUNCED : OUTCOME_DEFERRED;
    if (!is_final && (fate == NEXT || fate == DEF)) {
        kind = OUTCOME_UNDECIDED;
    }
    if (r->kind != kind || r->is_ambiguous != (fate == AMB)) {
        wrong(point, fault, pipelining, chunk, &s, "kind");
    }
    if (!s.is_closed && (fault < SAYS_4YZ || fault > SAYS_421 || point == BODY)) {
        wrong(point, fault, pipelining, chunk, &s, "should be closed");
    }
    if ((point == RCPT || point == MAIL || point == DATA) && !s.is_closed) {
        complete_after_refusal(&s);
    }
    if (fault == SAYS_421 && !s.is_closed) {
        wrong(point, fault, pipelining, chunk, &s, "421 must close");
    }
    if (is_final) {
        struct outcome_reason reason;
        enum outcome_feedback wanted =
            fate == NEXT || fate == AMB ? OUTCOME_NEGATIVE : OUTCOME_POSITIVE;
        if (outcome_feedback(&s.outcome, &reason) != wanted) {
            wrong(point, fault, pipelining, chunk, &s, "feedback");
        }
    }
    end(&s);
}

/* An extra reply is only that where nothing else is awaited. */
static bool is_applicable(enum point point, enum fault fault, bool pipelining, size_t chunk)
{
    if (fault == EXTRA && (chunk == 1 || (pipelining && (point == MAIL || point == RCPT)))) {
        return false;
    }
    return point >= MAIL || !pipelining;
}

static void test_matrix(void **state)
{
    (void)state;
    unsigned cells = 0;
    for (enum point point = 0; point < POINT_COUNT; point++) {
        for (enum fault fault = 0; fault < FAULT_COUNT; fault++) {
            for (unsigned variant = 0; variant < 8; variant++) {
                bool pipelining = (variant & 1) != 0;
                size_t chunk = (variant & 2) != 0 ? 1 : SIZE_MAX;
                if (is_applicable(point, fault, pipelining, chunk)) {
                    check_cell(point, fault, pipelining, chunk, (variant & 4) != 0);
                    cells++;
                }
            }
        }
    }
    assert_true(cells > 700);
}

/* --- texts ------------------------------------------------------------------------------------ */

static void check_text(enum point point, enum fault fault, const char *text)
{
    struct session s;
    begin(&s, true, point, SIZE_MAX);
    lead(&s, point, true);
    inject(&s, point, fault);
    assert_string_equal(s.outcome.recipients[1].text, text);
    end(&s);
}

/* scheduler-semantics 10: reason texts and stages */
static void test_texts(void **state)
{
    (void)state;
    check_text(BANNER, SAYS_4YZ, "host mx.b[192.0.2.1] refused to talk to me: 450 4.2.0 later");
    check_text(HELO, SAYS_5YZ, "host mx.b[192.0.2.1] refused to talk to me: 550 5.7.1 never");
    check_text(MAIL, SAYS_4YZ,
               "host mx.b[192.0.2.1] said: 450 4.2.0 later (in reply to MAIL FROM "
               "command)");
    check_text(RCPT, SAYS_5YZ,
               "host mx.b[192.0.2.1] said: 550 5.7.1 never (in reply to RCPT TO "
               "command)");
    check_text(DATA, SAYS_5YZ,
               "host mx.b[192.0.2.1] said: 550 5.7.1 never (in reply to DATA command)");
    check_text(DOT, SAYS_5YZ,
               "host mx.b[192.0.2.1] said: 550 5.7.1 never (in reply to end of DATA command)");
    check_text(BODY, SAYS_5YZ,
               "host mx.b[192.0.2.1] said: 550 5.7.1 never (in reply to end of DATA command)");
    check_text(BANNER, FIN,
               "lost connection with mx.b[192.0.2.1] while receiving the initial "
               "server greeting");
    check_text(EHLO, FIN,
               "lost connection with mx.b[192.0.2.1] while performing the EHLO "
               "handshake");
    check_text(HELO, SILENT,
               "conversation with mx.b[192.0.2.1] timed out while performing the "
               "HELO handshake");
    check_text(MAIL, SILENT, "conversation with mx.b[192.0.2.1] timed out while sending MAIL FROM");
    check_text(RCPT, FIN, "lost connection with mx.b[192.0.2.1] while sending RCPT TO");
    check_text(DATA, RST, "lost connection with mx.b[192.0.2.1] while sending DATA command");
    check_text(BODY, RST, "lost connection with mx.b[192.0.2.1] while sending message body");
    check_text(DOT, RST,
               "lost connection with mx.b[192.0.2.1] while sending end of data -- "
               "message may be sent more than once");
    check_text(DATA, WRONG_CLASS,
               "Protocol error: host mx.b[192.0.2.1] said: 250 ok while sending DATA command");
    check_text(MAIL, GARBAGE,
               "Protocol error: host mx.b[192.0.2.1] sent not an SMTP reply while "
               "sending MAIL FROM");
    check_text(DOT, UNCLEAN, "250 a?[31m?");
}

/* The longest reply and name still leave room for what it answers. */
static void test_long_texts(void **state)
{
    (void)state;
    struct session s;
    begin(&s, true, MAIL, SIZE_MAX);
    char name[2000];
    memset(name, 'n', sizeof(name));
    s.client.peer.host = slice_make(name, sizeof(name));
    lead(&s, MAIL, false);
    struct buf reply = {.limit = 0};
    buf_append_str(&reply, "550 ");
    for (int i = 0; i < 4000; i++) {
        buf_append_char(&reply, 'x');
    }
    buf_append_str(&reply, "\r\n");
    say(&s, buf_slice(&reply));
    struct slice text = slice_of(s.outcome.recipients[0].text);
    assert_in_range(text.len, 900, OUTCOME_TEXT_MAX);
    struct slice tail = SLICE("x (in reply to MAIL FROM command)");
    assert_true(slice_eq(slice_from(text, text.len - tail.len), tail));
    buf_fini(&reply);
    end(&s);
}

/* What an idle connection holds (design: at most 4 KB with its socket and stream). */
static void test_idle_memory(void **state)
{
    (void)state;
    struct session s;
    begin(&s, true, MAIL, 7);
    lead(&s, DOT, true);
    say(&s, SLICE("250 ok\r\n"));
    assert_true(s.can_reuse);
    const struct smtp_client *c = &s.client;
    assert_true(sizeof(*c) + c->out.capacity + c->text.capacity + c->reply.text.capacity +
                    c->reply.partial.capacity + c->flight.capacity <
                3000);
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrix),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_long_texts),
        cmocka_unit_test(test_idle_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
