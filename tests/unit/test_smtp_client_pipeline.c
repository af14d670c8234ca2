/* Two transactions in flight by DATA, as transcripts; the ring; the bound on what is unanswered. */
#include "tests/unit/smtp_script.h"
#include "tests/unit/smtp_warm.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

#define RUN(script, ...) smtp_script_run(script, (const char *const[]){__VA_ARGS__, NULL})

#define PIPELINED "<220 mx\r\n", ">EHLO me\r\n", "<250-mx\r\n250 PIPELINING\r\n", "!READY"
#define ENVELOPE  "MAIL FROM:<s@a>\r\nRCPT TO:<r0@b>\r\nDATA\r\n"
#define ONE       "=start 1", ">" ENVELOPE
#define GO        "<250 ok\r\n250 ok\r\n354 go\r\n"
#define TWO       ONE, GO, "!0 WANT_BODY", "=start 1", "=full", "=body x\r\n", ">.\r\n" ENVELOPE
#define OK        "<250 2.6.0 queued\r\n"
/* transaction n: its body goes out to the end; it is accepted and the connection stays */
#define SENT(n) GO, "!" #n " WANT_BODY", "=body x\r\n", ">.\r\n"
#define KEPT(n) OK, "!" #n " REST ok 2.6.0 250 DOT", "!" #n " DONE reuse", "!READY"
#define GONE    "!1 RETURNED soft 4.4.2 0 MAIL site", "!CLOSED"
/* the second is started while the first one's body is due */
#define BEHIND_BODY ONE, GO, "!0 WANT_BODY", "=start 1"
#define BOTH_LOST   "!0 REST soft 4.4.2 0 DOT site amb", "!0 DONE lost", GONE

static void script_init(struct smtp_script *s, uint16_t depth)
{
    smtp_script_init(s);
    s->is_numbered = true;
    s->depth = depth;
    s->is_warm = depth > 1;
}

static void test_dot_and_envelope(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s, 16);
    RUN(&s, PIPELINED, TWO, KEPT(0), "=start 1", GO, "!1 WANT_BODY", "=body x\r\n",
        ">.\r\n" ENVELOPE, KEPT(1), SENT(2), KEPT(2), "=quit", "!CLOSED flush", ">QUIT\r\n");
    /* all replies of both in one segment */
    RUN(&s, PIPELINED, TWO, "<250 2.6.0 ok\r\n250 ok\r\n550 5.1.1 no\r\n503 none\r\n",
        "!0 REST ok 2.6.0 250 DOT", "!0 DONE reuse", "!READY", "!1 RECIPIENT 0 hard 5.1.1 550 RCPT",
        ">RSET\r\n", "=start 1", ">" ENVELOPE, "<250 reset\r\n", "!1 DONE reuse", "!READY", SENT(2),
        KEPT(2));
    /* a refused dot ends its transaction all the same */
    RUN(&s, PIPELINED, TWO, "<554 5.6.0 no\r\n", "!0 REST hard 5.6.0 554 DOT", "!0 DONE reuse",
        "!READY", SENT(1), KEPT(1));
    /* a lone dot */
    RUN(&s, PIPELINED, ONE, "<250 ok\r\n550 5.1.1 no\r\n", "!0 RECIPIENT 0 hard 5.1.1 550 RCPT",
        "=start 1", "<354 go\r\n", ">.\r\n" ENVELOPE, "<250 what\r\n", "!0 DONE reuse", "!READY",
        SENT(1), KEPT(1));
}

/* What may be in flight, by what the server offers, the configuration and the pace. */
static void test_depth(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s, 1);
    RUN(&s, PIPELINED, ONE, GO, "!0 WANT_BODY", "=full", "=body x\r\n", ">.\r\n", "=full", KEPT(0));
    script_init(&s, 16);
    s.config.pipeline_depth = 1;
    RUN(&s, PIPELINED, ONE, "=full", "=eof", "!0 REST soft 4.4.2 0 MAIL site", "!0 DONE lost",
        "!CLOSED");
    script_init(&s, 16);
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250 mx\r\n", "!READY", "=start 1",
        ">MAIL FROM:<s@a>\r\n", "=full", "=eof", "!0 REST soft 4.4.2 0 MAIL site", "!0 DONE lost",
        "!CLOSED");
    /* MAILMAX counts those in flight, and QUIT comes behind the last */
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250-mx\r\n250-PIPELINING\r\n250 LIMITS MAILMAX=2\r\n",
        "!READY", TWO, OK, "!0 REST ok 2.6.0 250 DOT", "!0 DONE close", "=full", SENT(1), OK,
        "!1 REST ok 2.6.0 250 DOT", "!1 DONE close", "!CLOSED flush", ">QUIT\r\n");
}

static void test_lost(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s, 2);
    RUN(&s, PIPELINED, TWO, "=eof", BOTH_LOST);
    RUN(&s, PIPELINED, TWO, "=reset", BOTH_LOST);
    RUN(&s, PIPELINED, TWO, "=timeout", BOTH_LOST);
    RUN(&s, PIPELINED, TWO, "<huh\r\n", "!0 REST soft 4.5.0 0 DOT site amb proto", "!0 DONE lost",
        GONE);
    RUN(&s, PIPELINED, TWO, "<421 down\r\n", "!0 REST soft 4.0.0 421 DOT", "=eof", "!0 DONE close",
        GONE);
    RUN(&s, PIPELINED, TWO, "<421 down\r\n", "!0 REST soft 4.0.0 421 DOT", "<250 ok\r\n",
        "!0 DONE close doubtful", GONE);
    /* the first is answered: nothing of the second can have been taken */
    RUN(&s, PIPELINED, TWO, KEPT(0), "=eof", GONE);
    RUN(&s, PIPELINED, TWO, KEPT(0), "<421 enough\r\n", "!1 RETURNED soft 4.0.0 421 MAIL",
        "!CLOSED");
    RUN(&s, PIPELINED, TWO, KEPT(0), "<250 ok\r\n", "=eof", "!1 REST soft 4.4.2 0 RCPT site",
        "!1 DONE lost", "!CLOSED");
    RUN(&s, PIPELINED, TWO, KEPT(0), SENT(1), "=eof", "!1 REST soft 4.4.2 0 DOT site amb",
        "!1 DONE lost", "!CLOSED");
    /* nothing of the second is written, and the first not wholly */
    RUN(&s, PIPELINED, BEHIND_BODY, "=partbody x", "=reset", "!0 STOP_BODY",
        "!0 REST soft 4.4.2 0 BODY site", "!0 DONE lost", GONE);
    RUN(&s, PIPELINED, BEHIND_BODY, "=body x\r\n", "=take 2", "=eof",
        "!0 REST soft 4.4.2 0 BODY site", "!0 DONE lost", GONE);
    RUN(&s, PIPELINED, BEHIND_BODY, "=body x\r\n", "=take 3", "=eof", BOTH_LOST);
    RUN(&s, PIPELINED, ONE, "=start 1", "=eof", "!0 REST soft 4.4.2 0 MAIL site", "!0 DONE lost",
        GONE);
    RUN(&s, PIPELINED, BEHIND_BODY, "=partbody x", "<552 5.3.4 big\r\n", "!0 STOP_BODY",
        "!0 REST hard 5.3.4 552 BODY", "!0 DONE close", GONE);
    RUN(&s, PIPELINED, BEHIND_BODY, "=bodyfail", "!0 STOP_BODY", "!0 REST soft 4.3.0 0 LOCAL site",
        "!0 DONE lost", GONE);
}

/* The connection goes away behind the first; the second was started, but never begun. */
static void test_not_begun(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s, 2);
    RUN(&s, PIPELINED, ONE, "=start 1", "<421 down\r\n", "!0 REST soft 4.0.0 421 MAIL",
        "<503 a\r\n503 b\r\n", "!0 DONE close", "!1 RETURNED soft 4.4.2 0 MAIL site",
        "!CLOSED flush", ">QUIT\r\n");
    RUN(&s, PIPELINED, ONE, "=start 1", "<250 ok\n550 no\r\n", "!0 RECIPIENT 0 hard 5.0.0 550 RCPT",
        "<503 b\r\n", "!0 DONE close", "!1 RETURNED soft 4.4.2 0 MAIL site", "!CLOSED flush",
        ">QUIT\r\n");
    s.config.skip_quit_response = false;
    RUN(&s, PIPELINED, ONE, "=start 1", "<421 down\r\n", "!0 REST soft 4.0.0 421 MAIL",
        "<503 a\r\n503 b\r\n", "!0 DONE close", "!1 RETURNED soft 4.4.2 0 MAIL site", ">QUIT\r\n",
        "<221 bye\r\n", "!CLOSED");
}

/* Replies too many, also where the next transaction's commands are out already. */
static void test_replies_too_many(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s, 2);
    s.is_whole_only = true;
    /* counted as the second's, until one does not fit */
    RUN(&s, PIPELINED, TWO, "<250 2.6.0 ok\r\n250 more\r\n250 ok\r\n250 ok\r\n354 go\r\n",
        "!0 REST ok 2.6.0 250 DOT", "!0 DONE reuse", "!READY",
        "!1 REST soft 4.5.0 250 DATA site proto", "!1 DONE lost", "!CLOSED");
    RUN(&s, PIPELINED, BEHIND_BODY, "=body x\r\n", "=take 3", "<250 2.6.0 ok\r\n250 more\r\n",
        "!0 REST ok 2.6.0 250 DOT", "!0 DONE close", "!1 RETURNED soft 4.4.2 0 MAIL site",
        "!CLOSED");
    RUN(&s, PIPELINED, ONE, "=start 1", "<250 ok\r\n550 no\r\n503 no\r\n250 more\r\n",
        "!0 RECIPIENT 0 hard 5.0.0 550 RCPT", "!0 DONE close", "!1 RETURNED soft 4.4.2 0 MAIL site",
        "!CLOSED");
}

/* --- without transcripts ---------------------------------------------------------------------- */

struct bed {
    struct smtp_script script;
    struct smtp_client client;
    struct slice recipient;
    unsigned count[SMTP_CLIENT_EVENT_COUNT];
    uint32_t next_done; /* ends come in the order of starts */
};

static struct bed *new_bed(void)
{
    struct bed *b = calloc(1, sizeof(*b));
    assert_non_null(b);
    smtp_script_init(&b->script);
    return b;
}

/* Its dialogue has begun. */
static void free_bed(struct bed *b)
{
    smtp_client_fini(&b->client);
    free(b);
}

static void pull(struct bed *b)
{
    struct smtp_client_event event;
    while (smtp_client_next_event(&b->client, &event)) {
        b->count[event.kind]++;
        if (event.kind == SMTP_CLIENT_WANT_BODY) {
            smtp_client_body_sent(&b->client, b->client.now);
        } else if (event.kind == SMTP_CLIENT_DONE || event.kind == SMTP_CLIENT_RETURNED) {
            assert_int_equal(event.transaction, b->next_done++);
        }
    }
}

static void say_at(struct bed *b, const char *text, usec_t now)
{
    struct slice in = slice_of(text);
    while (in.len > 0) {
        smtp_client_input(&b->client, &in, now);
        pull(b);
    }
}

static void flush(struct bed *b)
{
    smtp_client_consume(&b->client, b->client.out.len);
}

static void begin(struct bed *b, const char *features, uint16_t depth)
{
    memset(b->count, 0, sizeof(b->count));
    b->next_done = 0;
    b->recipient = SLICE("r@b");
    smtp_client_init(&b->client, &b->script.config, &b->script.peer, 0);
    say_at(b, "220 mx\r\n", 0);
    flush(b);
    say_at(b, features, 0);
    b->client.pace.depth = depth;
    smtp_warm(&b->client, SMTP_WARM_WORDS);
    assert_int_equal(b->count[SMTP_CLIENT_READY], 1);
}

static void start_at(struct bed *b, usec_t now)
{
    struct smtp_transaction t = {
        .sender = SLICE("s@a"), .recipients = &b->recipient, .recipient_count = 1};
    assert_int_equal(smtp_client_start(&b->client, &t, now), 0);
    pull(b);
}

#define CHUNKING "250-mx\r\n250-PIPELINING\r\n250 CHUNKING\r\n"

/* A thousand in flight, each answered, while others are started behind; then idle and small. */
static void test_deepest(void **state)
{
    (void)state;
    struct bed *b = new_bed();
    b->script.config.pipeline_depth = 1000;
    b->script.config.unacked_max = 1 << 20;
    begin(b, CHUNKING, 1000);
    unsigned started = 0;
    unsigned answered = 0;
    while (answered < 3000) {
        while (started < 3000 && smtp_client_can_start(&b->client)) {
            start_at(b, 0);
            started++;
        }
        assert_int_equal(smtp_client_in_flight(&b->client), started - answered);
        flush(b);
        for (unsigned i = 0; i < 7 && answered < started; i++) {
            bool has_reset = answered > 0;
            say_at(b,
                   has_reset ? "250 reset\r\n250 ok\r\n250 ok\r\n250 2.6.0 d\r\n"
                             : "250 ok\r\n250 ok\r\n250 2.6.0 d\r\n",
                   0);
            answered++;
        }
    }
    assert_int_equal(b->count[SMTP_CLIENT_DONE], 3000);
    assert_int_equal(b->count[SMTP_CLIENT_REST], 3000);
    assert_int_equal(b->client.state, SMTP_CLIENT_STATE_IDLE);
    assert_int_equal(b->client.flight.capacity, 0);
    assert_true(b->client.out.capacity <= 512);
    assert_true(b->client.deadline == USEC_NEVER);
    free_bed(b);
}

/* All that is in flight together keeps below the bound, and everything gets through. */
static void test_unacked(void **state)
{
    (void)state;
    struct bed *b = new_bed();
    b->script.config.unacked_max = 300;
    begin(b, CHUNKING, 16);
    for (unsigned i = 0; i < 16; i++) {
        start_at(b, 0);
    }
    assert_false(smtp_client_can_start(&b->client));
    unsigned replies = 0;
    while (smtp_client_in_flight(&b->client) > 0) {
        assert_in_range(b->client.unacked_bytes, 0, 300);
        assert_true(b->client.out.len <= 300 + 16 * sizeof("BDAT 0 LAST\r\n"));
        flush(b);
        static const char *const cycle[] = {"250 ok\r\n", "250 ok\r\n", "250 2.6.0 d\r\n",
                                            "250 reset\r\n"};
        say_at(b, cycle[replies % 4], 0);
        replies++;
    }
    assert_int_equal(replies, 16 * 4 - 1);
    assert_int_equal(b->count[SMTP_CLIENT_DONE], 16);
    assert_int_equal(b->client.unacked_bytes, 0);
    free_bed(b);
}

/* A reply's time counts from its command's leaving or the reply before it. */
static void test_deadlines(void **state)
{
    (void)state;
    const usec_t sec = USEC_PER_SEC;
    struct bed *b = new_bed();
    begin(b, CHUNKING, 16);
    struct smtp_client *c = &b->client;
    start_at(b, 100 * sec);
    assert_true(smtp_client_deadline(c) == 400 * sec); /* MAIL, not written yet */
    start_at(b, 150 * sec);
    flush(b); /* both leave */
    assert_true(smtp_client_deadline(c) == 450 * sec);
    say_at(b, "250 ok\r\n", 200 * sec);
    assert_true(smtp_client_deadline(c) == 500 * sec); /* RCPT */
    say_at(b, "250 ok\r\n", 210 * sec);
    assert_true(smtp_client_deadline(c) == 810 * sec); /* end of data */
    say_at(b, "250 2.6.0 d\r\n", 700 * sec);
    assert_true(smtp_client_deadline(c) == 720 * sec); /* RSET */
    say_at(b, "250 reset\r\n", 701 * sec);
    assert_true(smtp_client_deadline(c) == 1001 * sec);
    smtp_client_timeout(c, 1000 * sec);
    assert_false(smtp_client_has_event(c));
    smtp_client_timeout(c, 1001 * sec);
    assert_true(smtp_client_deadline(c) == USEC_NEVER);
    pull(b);
    assert_int_equal(b->count[SMTP_CLIENT_CLOSED], 1);
    free_bed(b);
}

/* A body that does not move has its own time, whatever the replies to those before it do. */
static void test_body_deadline(void **state)
{
    (void)state;
    const usec_t sec = USEC_PER_SEC;
    struct bed *b = new_bed();
    begin(b, CHUNKING, 16);
    struct smtp_client *c = &b->client;
    start_at(b, 100 * sec);
    flush(b);
    struct smtp_transaction t = {.sender = SLICE("s@a"),
                                 .recipients = &b->recipient,
                                 .recipient_count = 1,
                                 .size_bytes = 5000};
    struct smtp_client_event event;
    assert_int_equal(smtp_client_start(c, &t, 110 * sec), 0);
    assert_true(smtp_client_next_event(c, &event));
    assert_int_equal(event.kind, SMTP_CLIENT_WANT_BODY);
    flush(b);
    assert_true(smtp_client_deadline(c) == 290 * sec); /* 180 s for the body to move */
    say_at(b, "250 ok\r\n", 200 * sec);
    assert_true(smtp_client_deadline(c) == 290 * sec);
    smtp_client_body_progress(c, 4000, 250 * sec);
    assert_true(smtp_client_deadline(c) == 298 * sec); /* 500 bytes a second */
    smtp_client_body_sent(c, 251 * sec);
    assert_true(smtp_client_deadline(c) == 298 * sec); /* queued, not written */
    smtp_client_body_progress(c, 1000, 260 * sec);
    assert_true(smtp_client_deadline(c) == 500 * sec); /* RCPT of the first again */
    free_bed(b);
}

/* The pace is measured by the dialogue itself. */
static void test_pace(void **state)
{
    (void)state;
    const usec_t msec = USEC_PER_MSEC;
    struct bed *b = new_bed();
    begin(b, CHUNKING, 1);
    struct smtp_client *c = &b->client;
    c->pace.round_trip = USEC_NEVER; /* EHLO took no time here */
    usec_t now = 1000 * msec;
    for (uint16_t depth = 1; depth < 16; depth *= 2) { /* 100 ms away, and instant */
        assert_int_equal(smtp_client_depth(c), depth);
        start_at(b, now);
        flush(b);
        now += 100 * msec;
        say_at(b, "250 ok\r\n250 ok\r\n250 2.6.0 d\r\n", now);
    }
    assert_int_equal(smtp_client_depth(c), 16);
    assert_true(c->pace.round_trip == 100 * msec);
    for (unsigned i = 0; i < 20; i++) { /* now it needs two seconds for each */
        start_at(b, now);
        flush(b);
        say_at(b, "250 ok\r\n250 ok\r\n", now + 100 * msec);
        now += 2100 * msec;
        say_at(b, "250 2.6.0 d\r\n", now);
    }
    assert_int_equal(smtp_client_depth(c), 1);
    free_bed(b);
}

#define PLAIN_PIPELINING "250-mx\r\n250 PIPELINING\r\n"

/* Where two go by DATA a third is wanted at hand, and never begun by that; elsewhere as many as can be
 * used. */
static void test_at_hand(void **state)
{
    (void)state;
    struct bed *b = new_bed();
    begin(b, PLAIN_PIPELINING, 16);
    assert_int_equal(smtp_client_depth(&b->client), 2);
    assert_int_equal(smtp_client_at_hand(&b->client), 3);
    b->client.pace.interval = 300;
    b->client.pace.has_interval = true; /* the server is fast */
    assert_int_equal(smtp_client_at_hand(&b->client), 4);
    assert_int_equal(smtp_client_depth(&b->client), 2);
    start_at(b, 0);
    start_at(b, 0);
    assert_false(smtp_client_can_start(&b->client));
    free_bed(b);
    b = new_bed();
    begin(b, PLAIN_PIPELINING, 1); /* the server is slow */
    assert_int_equal(smtp_client_at_hand(&b->client), 1);
    free_bed(b);
    b = new_bed();
    begin(b, CHUNKING, 2);
    assert_int_equal(smtp_client_depth(&b->client), 2);
    assert_int_equal(smtp_client_at_hand(&b->client), 2);
    free_bed(b);
}

/* A fast server's silence is counted from its last reply, or from the message that it has. */
static void test_stall(void **state)
{
    (void)state;
    const usec_t msec = USEC_PER_MSEC;
    struct bed *b = new_bed();
    begin(b, PLAIN_PIPELINING, 16);
    struct smtp_client *c = &b->client;
    c->pace.round_trip = 10;
    c->pace.interval = 300;
    c->pace.has_interval = true;
    assert_true(smtp_client_stalls_at(c) == USEC_NEVER); /* it has nothing */
    start_at(b, 1000 * msec);
    flush(b);
    assert_true(smtp_client_stalls_at(c) == 1020 * msec);
    say_at(b, "250 ok\r\n", 1005 * msec);
    assert_true(smtp_client_stalls_at(c) == 1025 * msec);
    assert_true(smtp_client_can_start(c));
    smtp_client_stall(c);
    assert_false(smtp_client_can_start(c));
    assert_int_equal(smtp_client_at_hand(c), 1);
    c->pace.interval = 2 * msec; /* nobody knows better of a slow one */
    assert_true(smtp_client_stalls_at(c) == USEC_NEVER);
    free_bed(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dot_and_envelope),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_not_begun),
        cmocka_unit_test(test_replies_too_many),
        cmocka_unit_test(test_deepest),
        cmocka_unit_test(test_unacked),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_body_deadline),
        cmocka_unit_test(test_pace),
        cmocka_unit_test(test_at_hand),
        cmocka_unit_test(test_stall),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
