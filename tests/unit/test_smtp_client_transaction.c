/* Transactions as transcripts: lockstep and pipelined, refused in every place, lost in every place.
 */
#include "base/error.h"
#include "tests/unit/smtp_script.h"
#include "tests/unit/unit.h"

#include <stdio.h>

#define RUN(script, ...) smtp_script_run(script, (const char *const[]){__VA_ARGS__, NULL})

#define LOCKSTEP "<220 mx\r\n", ">EHLO me\r\n", "<250 mx\r\n", "!READY"
#define PIPELINED                                                                                  \
    "<220 mx\r\n", ">EHLO me\r\n",                                                                 \
        "<250-mx\r\n250-PIPELINING\r\n250-SIZE 5000\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n", "!READY"
#define ONE  ">MAIL FROM:<s@a> SIZE=100\r\nRCPT TO:<r0@b>\r\nDATA\r\n"
#define TWO  ">MAIL FROM:<s@a> SIZE=100\r\nRCPT TO:<r0@b>\r\nRCPT TO:<r1@b>\r\nDATA\r\n"
#define GOOD "<250 ok\r\n250 ok\r\n354 go\r\n", "!WANT_BODY", "=body .x\r\n", ">.\r\n"

static void test_delivered(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    RUN(&s, PIPELINED, "=start 1", ONE, GOOD, "<250 2.6.0 queued as 1\r\n",
        "!REST ok 2.6.0 250 DOT", "!DONE reuse", "!READY", "=start 1 8bit utf8",
        ">MAIL FROM:<s@a> SIZE=100 BODY=8BITMIME SMTPUTF8\r\nRCPT TO:<r0@b>\r\nDATA\r\n", GOOD,
        "<250-2.0.0 a\r\n251 b\r\n", "!REST ok 2.0.0 251 DOT", "!DONE reuse", "!READY", "=quit",
        "!CLOSED flush", ">QUIT\r\n");
    RUN(&s, LOCKSTEP, "=start 2 8bit", ">MAIL FROM:<s@a>\r\n", "<250 ok\r\n", ">RCPT TO:<r0@b>\r\n",
        "<250 ok\r\n", ">RCPT TO:<r1@b>\r\n", "<251 ok\r\n", ">DATA\r\n", "<354 go\r\n",
        "!WANT_BODY", "=body line\r\n..\r\nend", ">.\r\n", "<250 ok\r\n", "!REST ok 2.0.0 250 DOT",
        "!DONE reuse", "!READY");
    s.config.use_pipelining = false;
    RUN(&s, PIPELINED, "=start 1", ">MAIL FROM:<s@a> SIZE=100\r\n", "=timeout",
        "!REST soft 4.4.2 0 MAIL site", "!DONE lost", "!CLOSED");
}

/* RFC 8689 section 4.2.1: nothing of such mail is said to a server that does not promise as much. */
static void test_requiretls(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250-mx\r\n250 REQUIRETLS\r\n", "!READY",
        "=start 1 requiretls proved", ">MAIL FROM:<s@a> REQUIRETLS\r\n", "<250 ok\r\n",
        ">RCPT TO:<r0@b>\r\n", "<250 ok\r\n", ">DATA\r\n", "<354 go\r\n", "!WANT_BODY",
        "=body x\r\n", ">.\r\n", "<250 ok\r\n", "!REST ok 2.0.0 250 DOT", "!DONE reuse", "!READY",
        "=start 1", ">MAIL FROM:<s@a>\r\n");
    RUN(&s, LOCKSTEP, "=start 1 requiretls proved", "!REST hard 5.7.30 0 MAIL unlessfinal",
        "!DONE reuse", "!READY", "=start 1", ">MAIL FROM:<s@a>\r\n");
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250-mx\r\n250 REQUIRETLS\r\n", "!READY",
        "=start 1 requiretls", "!REST hard 5.7.10 0 MAIL unlessfinal", "!DONE reuse", "!READY",
        "=start 1 requiretls broken", "!REST soft 4.7.10 0 MAIL", "!DONE reuse", "!READY");
}

static void test_partial_rejection(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    RUN(&s, PIPELINED, "=start 2", TWO, "<250 ok\r\n550 5.1.1 no such user\r\n",
        "!RECIPIENT 0 hard 5.1.1 550 RCPT", "<250 ok\r\n354 go\r\n", "!WANT_BODY", "=body x\r\n",
        ">.\r\n", "<250 ok\r\n", "!REST ok 2.0.0 250 DOT", "!DONE reuse", "!READY");
    /* the class of the enhanced code must be the reply's */
    RUN(&s, PIPELINED, "=start 2", TWO, "<250 ok\r\n250 ok\r\n452 5.5.3 too many\r\n",
        "!RECIPIENT 1 soft 4.0.0 452 RCPT", "<354 go\r\n", "!WANT_BODY", "=body x\r\n", ">.\r\n",
        "<250 ok\r\n", "!REST ok 2.0.0 250 DOT", "!DONE reuse", "!READY");
    RUN(&s, LOCKSTEP, "=start 2", ">MAIL FROM:<s@a>\r\n", "<250 ok\r\n", ">RCPT TO:<r0@b>\r\n",
        "<450 4.2.0 grey\r\n", "!RECIPIENT 0 soft 4.2.0 450 RCPT", ">RCPT TO:<r1@b>\r\n",
        "<250 ok\r\n", ">DATA\r\n", "<354 go\r\n", "!WANT_BODY", "=body x\r\n", ">.\r\n",
        "<451 4.3.0 later\r\n", "!REST soft 4.3.0 451 DOT", "!DONE reuse", "!READY");
}

static void test_all_rejected(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    RUN(&s, PIPELINED, "=start 1", ONE, "<250 ok\r\n550 5.1.1 no\r\n",
        "!RECIPIENT 0 hard 5.1.1 550 RCPT", "<503 no recipients\r\n", ">RSET\r\n", "<250 ok\r\n",
        "!DONE reuse", "!READY");
    /* DATA said 354 all the same: a lone dot, whose reply counts for nobody */
    RUN(&s, PIPELINED, "=start 1", ONE, "<250 ok\r\n550 5.1.1 no\r\n",
        "!RECIPIENT 0 hard 5.1.1 550 RCPT", "<354 go\r\n", ">.\r\n", "<250 queued\r\n",
        "!DONE reuse", "!READY");
    RUN(&s, PIPELINED, "=start 1", ONE, "<250 ok\r\n550 5.1.1 no\r\n",
        "!RECIPIENT 0 hard 5.1.1 550 RCPT", "<354 go\r\n", ">.\r\n", "=eof", "!DONE close",
        "!CLOSED");
    RUN(&s, LOCKSTEP, "=start 1", ">MAIL FROM:<s@a>\r\n", "<250 ok\r\n", ">RCPT TO:<r0@b>\r\n",
        "<550 no\r\n", "!RECIPIENT 0 hard 5.0.0 550 RCPT", ">RSET\r\n", "<250 ok\r\n",
        "!DONE reuse", "!READY");
    RUN(&s, LOCKSTEP, "=start 1", ">MAIL FROM:<s@a>\r\n", "<250 ok\r\n", ">RCPT TO:<r0@b>\r\n",
        "<550 no\r\n", "!RECIPIENT 0 hard 5.0.0 550 RCPT", ">RSET\r\n", "=timeout", "!DONE close",
        "!CLOSED");
    RUN(&s, LOCKSTEP, "=start 1", ">MAIL FROM:<s@a>\r\n", "<250 ok\r\n", ">RCPT TO:<r0@b>\r\n",
        "<550 no\r\n", "!RECIPIENT 0 hard 5.0.0 550 RCPT", ">RSET\r\n", "<502 what\r\n",
        "!DONE close", "!CLOSED flush", ">QUIT\r\n");
}

static void test_mail_rejected(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    RUN(&s, PIPELINED, "=start 2", TWO, "<550 5.7.1 you\r\n", "!REST hard 5.7.1 550 MAIL",
        "<503 a\r\n503 b\r\n503 c\r\n", ">RSET\r\n", "<250 ok\r\n", "!DONE reuse", "!READY");
    RUN(&s, LOCKSTEP, "=start 2", ">MAIL FROM:<s@a>\r\n", "<450 later\r\n",
        "!REST soft 4.0.0 450 MAIL", ">RSET\r\n", "<250 ok\r\n", "!DONE reuse", "!READY");
    /* 421 decides all; the end of file after it is harmless */
    RUN(&s, PIPELINED, "=start 2", TWO, "<421 4.7.0 slow\r\n", "!REST soft 4.7.0 421 MAIL", "=eof",
        "!DONE close", "!CLOSED");
    RUN(&s, PIPELINED, "=start 2", TWO, "<250 ok\r\n421 4.7.0 slow\r\n",
        "!RECIPIENT 0 soft 4.7.0 421 RCPT", "=eof", "!REST soft 4.4.2 0 RCPT site", "!DONE lost",
        "!CLOSED");
    /* no RSET on a connection that goes away */
    RUN(&s, LOCKSTEP, "=start 1", ">MAIL FROM:<s@a>\r\n", "<421 bye\r\n",
        "!REST soft 4.0.0 421 MAIL", "!DONE close", "!CLOSED flush", ">QUIT\r\n");
}

static void test_data_rejected(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    RUN(&s, PIPELINED, "=start 2", TWO, "<250 ok\r\n250 ok\r\n250 ok\r\n554 5.6.0 no\r\n",
        "!REST hard 5.6.0 554 DATA", ">RSET\r\n", "<250 ok\r\n", "!DONE reuse", "!READY");
    RUN(&s, PIPELINED, "=start 1", ONE, "<250 ok\r\n250 ok\r\n250 ok\r\n",
        "!REST soft 4.5.0 250 DATA site proto", "!DONE lost", "!CLOSED");
    RUN(&s, PIPELINED, "=start 1", ONE, "<354 ok\r\n", "!REST soft 4.5.0 354 MAIL site proto",
        "!DONE lost", "!CLOSED");
}

static void test_unsent(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    RUN(&s, PIPELINED, "=start 2 size=5001", "!REST hard 5.3.4 0 MAIL", "!DONE reuse", "!READY",
        "=start 1 size=5000", ">MAIL FROM:<s@a> SIZE=5000\r\nRCPT TO:<r0@b>\r\nDATA\r\n", "=eof",
        "!REST soft 4.4.2 0 MAIL site", "!DONE lost", "!CLOSED");
    RUN(&s, LOCKSTEP, "=start 2 utf8", "!REST hard 5.6.7 0 MAIL unlessfinal", "!DONE reuse",
        "!READY");
}

static void test_lost(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    RUN(&s, PIPELINED, "=start 1", ONE, "<250 ok\r\n250 ok\r\n354 go\r\n", "!WANT_BODY",
        "=partbody x", "=reset", "!STOP_BODY", "!REST soft 4.4.2 0 BODY site", "!DONE lost",
        "!CLOSED");
    RUN(&s, PIPELINED, "=start 1", ONE, GOOD, "=eof", "!REST soft 4.4.2 0 DOT site amb",
        "!DONE lost", "!CLOSED");
    RUN(&s, PIPELINED, "=start 1", ONE, GOOD, "<250-part\r\n250", "=timeout",
        "!REST soft 4.4.2 0 DOT site amb", "!DONE lost", "!CLOSED");
    /* the terminator is not written yet: nobody can have taken the message */
    RUN(&s, PIPELINED, "=start 1", ONE, "<250 ok\r\n250 ok\r\n354 go\r\n", "!WANT_BODY", "=body x",
        "=eof", "!REST soft 4.4.2 0 BODY site", "!DONE lost", "!CLOSED");
    RUN(&s, PIPELINED, "=start 1", ONE, "<250 ok\r\n250 ok\r\n354 go\r\n", "!WANT_BODY",
        "=bodyfail", "!STOP_BODY", "!REST soft 4.3.0 0 LOCAL site", "!DONE lost", "!CLOSED");
    RUN(&s, PIPELINED, "=start 1", ONE, "<250 ok\r\n250 ok\r\n354 go\r\n", "!WANT_BODY", "=bodybad",
        "!STOP_BODY", "!REST hard 5.6.0 0 LOCAL", "!DONE close", "!CLOSED");
}

static void test_early_reply(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    RUN(&s, PIPELINED, "=start 1", ONE, "<250 ok\r\n250 ok\r\n354 go\r\n", "!WANT_BODY",
        "=partbody x", "<552 5.3.4 big\r\n", "!STOP_BODY", "!REST hard 5.3.4 552 BODY",
        "!DONE close", "!CLOSED");
    RUN(&s, PIPELINED, "=start 1", ONE, "<250 ok\r\n250 ok\r\n354 go\r\n", "!WANT_BODY",
        "=partbody x", "<421 bye\r\n", "!STOP_BODY", "!REST soft 4.0.0 421 BODY", "!DONE close",
        "!CLOSED");
    RUN(&s, PIPELINED, "=start 1", ONE, "<250 ok\r\n250 ok\r\n354 go\r\n", "!WANT_BODY",
        "=partbody x", "<250 fine\r\n", "!STOP_BODY", "!REST soft 4.5.0 250 BODY site amb proto",
        "!DONE lost", "!CLOSED");
    RUN(&s, PIPELINED, "=start 1", ONE, "<250 ok\r\n250 ok\r\n354 go\r\n", "!WANT_BODY", "=body x",
        "<250 fine\r\n", "!REST soft 4.5.0 250 BODY site amb proto", "!DONE lost", "!CLOSED");
}

/* A message must never be marked delivered by a reply that belongs to another one. */
static void test_replies_too_many(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    s.is_whole_only = true;
    RUN(&s, PIPELINED, "=start 1", ONE, GOOD, "<250 2.6.0 ok\r\n250 more\r\n",
        "!REST ok 2.6.0 250 DOT", "!DONE close", "!CLOSED flush", ">QUIT\r\n");
    /* which of the two is the answer to the message? */
    RUN(&s, PIPELINED, "=start 1", ONE, GOOD, "<250 ok\r\n554 no\r\n",
        "!REST soft 4.5.0 250 DOT site amb proto", "!DONE lost", "!CLOSED");
    RUN(&s, PIPELINED, "=start 1", ONE, GOOD, "<250 ok\r\n", "!REST ok 2.0.0 250 DOT",
        "!DONE reuse", "!READY", "<421 bye\r\n", "!CLOSED");
    /* Behind 354 may stand a refusal of the message; nothing of it was written that could have been
     * taken. */
    RUN(&s, PIPELINED, "=start 1", ONE, "<250 ok\r\n250 ok\r\n354 go\r\n250 x\r\n", "!WANT_BODY",
        "!STOP_BODY", "!REST soft 4.5.0 250 BODY site proto", "!DONE lost", "!CLOSED");
    RUN(&s, PIPELINED, "=start 1", ONE, "<250 ok\r\n250 ok\r\n354 go\r\n554 no\r\n", "!WANT_BODY",
        "!STOP_BODY", "!REST hard 5.0.0 554 BODY", "!DONE close", "!CLOSED");
    RUN(&s, LOCKSTEP, "=start 1", ">MAIL FROM:<s@a>\r\n", "<250 ok\r\n250 ok\r\n",
        "!REST soft 4.5.0 0 MAIL site proto", "!DONE lost", "!CLOSED");
    RUN(&s, LOCKSTEP, "=start 2", ">MAIL FROM:<s@a>\r\n", "<250 ok\r\n", ">RCPT TO:<r0@b>\r\n",
        "<550 no\r\n250 ok\r\n", "!RECIPIENT 0 hard 5.0.0 550 RCPT",
        "!REST soft 4.5.0 0 DATA site proto", "!DONE lost", "!CLOSED");
    RUN(&s, LOCKSTEP, "=start 2", ">MAIL FROM:<s@a>\r\n", "<550 no\r\n250 ok\r\n",
        "!REST hard 5.0.0 550 MAIL", "!DONE close", "!CLOSED");
    /* the same, but the second reply comes in another read, before RCPT was written */
    RUN(&s, LOCKSTEP, "=start 1", ">MAIL FROM:<s@a>\r\n", "<250 ok\r\n", "<250 ok\r\n",
        "!REST soft 4.5.0 0 RCPT site proto", "!DONE lost", "!CLOSED");
    /* an answer before MAIL was written */
    RUN(&s, PIPELINED, "=start 1", "<250 ok\r\n", "!REST soft 4.5.0 0 MAIL site proto",
        "!DONE lost", "!CLOSED");
}

#define REUSED                                                                                     \
    PIPELINED, "=start 1", ONE, GOOD, "<250 ok\r\n", "!REST ok 2.0.0 250 DOT", "!DONE reuse",      \
        "!READY"

static void test_reuse(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    RUN(&s, REUSED, "=eof", "!CLOSED");
    RUN(&s, REUSED, "=start 1", ONE, "=eof", "!RETURNED soft 4.4.2 0 MAIL site", "!CLOSED");
    RUN(&s, REUSED, "=start 1", ONE, "=reset", "!RETURNED soft 4.4.2 0 MAIL site", "!CLOSED");
    RUN(&s, REUSED, "=start 1", ONE, "=timeout", "!RETURNED soft 4.4.2 0 MAIL site", "!CLOSED");
    RUN(&s, REUSED, "=start 1", ONE, "<421 4.4.2 idle\r\n", "!RETURNED soft 4.4.2 421 MAIL",
        "!CLOSED");
    RUN(&s, REUSED, "=start 1", "<421 4.4.2 idle\r\n", "!RETURNED soft 4.5.0 0 MAIL site proto",
        "!CLOSED");
    RUN(&s, REUSED, "=start 1", ONE, "<huh\r\n", "!RETURNED soft 4.5.0 0 MAIL site proto",
        "!CLOSED");
    /* once something was accepted it is a loss like any other */
    RUN(&s, REUSED, "=start 1", ONE, "<250 ok\r\n", "=eof", "!REST soft 4.4.2 0 RCPT site",
        "!DONE lost", "!CLOSED");
    RUN(&s, REUSED, "=start 1", ONE, "<550 no\r\n", "!REST hard 5.0.0 550 MAIL", "=eof",
        "!DONE close", "!CLOSED");
    /* the connection has carried its fill, but not when it is the first message that is too much */
    RUN(&s, REUSED, "=start 1", ONE, "<452 4.5.3 many\r\n", "!RETURNED soft 4.5.3 452 MAIL",
        "!CLOSED");
    RUN(&s, PIPELINED, "=start 1", ONE, "<452 4.5.3 many\r\n", "!REST soft 4.5.3 452 MAIL", "=eof",
        "!DONE close", "!CLOSED");
}

static void test_no_reuse(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    RUN(&s, PIPELINED, "=start 1", ONE, GOOD, "<250 ok\n", "!REST ok 2.0.0 250 DOT", "!DONE close",
        "!CLOSED flush", ">QUIT\r\n");
    /* such a server is good for one */
    RUN(&s, "<220 mx\n", ">EHLO me\r\n", "<250 mx\r\n", "!READY", "=start 1",
        ">MAIL FROM:<s@a>\r\n", "<250 ok\r\n", ">RCPT TO:<r0@b>\r\n", "<250 ok\r\n", ">DATA\r\n",
        "<354 go\r\n", "!WANT_BODY", "=body x", ">.\r\n", "<250 ok\r\n", "!REST ok 2.0.0 250 DOT",
        "!DONE close", "!CLOSED flush", ">QUIT\r\n");
    RUN(&s, "<220 mx\n", ">EHLO me\r\n", "<250 mx\r\n", "!READY", "=start 1 utf8",
        "!REST hard 5.6.7 0 MAIL unlessfinal", "!DONE close", "!CLOSED flush", ">QUIT\r\n");
    RUN(&s, PIPELINED, "=start 1", ONE, GOOD, "<421 4.3.2 down\r\n", "!REST soft 4.3.2 421 DOT",
        "=eof", "!DONE close", "!CLOSED");
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250-mx\r\n250 LIMITS MAILMAX=1\r\n", "!READY",
        "=start 1", ">MAIL FROM:<s@a>\r\n", "<250 ok\r\n", ">RCPT TO:<r0@b>\r\n", "<250 ok\r\n",
        ">DATA\r\n", "<354 go\r\n", "!WANT_BODY", "=body x", ">.\r\n", "<250 ok\r\n",
        "!REST ok 2.0.0 250 DOT", "!DONE close", "!CLOSED flush", ">QUIT\r\n");
}

/* With many recipients no more than unacked_max bytes wait for their replies, and all arrive. */
static void test_groups(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    s.config.unacked_max = 100;
    struct smtp_client c;
    smtp_client_init(&c, &s.config, &s.peer, 0);
    struct slice in = SLICE("220 mx\r\n");
    smtp_client_input(&c, &in, 0);
    smtp_client_consume(&c, c.out.len);
    in = SLICE("250-mx\r\n250 PIPELINING\r\n");
    smtp_client_input(&c, &in, 0);
    struct smtp_client_event event;
    assert_true(smtp_client_next_event(&c, &event));
    struct slice recipients[300];
    for (unsigned i = 0; i < 300; i++) {
        recipients[i] = SLICE("somebody@example.com");
    }
    struct smtp_transaction t = {
        .sender = SLICE("s@a"), .recipients = recipients, .recipient_count = 300};
    assert_int_equal(smtp_client_start(&c, &t, 0), 0);
    unsigned replies = 0;
    while (!smtp_client_has_event(&c)) {
        assert_in_range(c.out.len, 0, 100 + sizeof("DATA\r\n") - 1);
        smtp_client_consume(&c, c.out.len);
        in = replies == 301 ? SLICE("354 go\r\n") : SLICE("250 ok\r\n");
        smtp_client_input(&c, &in, 0);
        replies++;
    }
    assert_int_equal(replies, 302);
    assert_true(smtp_client_next_event(&c, &event));
    assert_int_equal(event.kind, SMTP_CLIENT_WANT_BODY);
    smtp_client_fini(&c);
}

static void test_bad_addresses(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    struct smtp_client c;
    smtp_client_init(&c, &s.config, &s.peer, 0);
    struct slice in = SLICE("220 mx\r\n");
    smtp_client_input(&c, &in, 0);
    smtp_client_consume(&c, c.out.len);
    in = SLICE("250 mx\r\n");
    smtp_client_input(&c, &in, 0);
    struct smtp_client_event event;
    assert_true(smtp_client_next_event(&c, &event));
    struct slice recipients[2] = {SLICE("a@b"), SLICE("a\r\nRSET@b")};
    struct smtp_transaction t = {.recipients = recipients, .recipient_count = 2};
    assert_int_equal(smtp_client_start(&c, &t, 0), ERR_SYNTAX);
    recipients[1] = SLICE("");
    assert_int_equal(smtp_client_start(&c, &t, 0), ERR_SYNTAX);
    char longest[SMTP_CLIENT_ADDRESS_MAX + 1];
    memset(longest, 'a', sizeof(longest));
    recipients[1] = slice_make(longest, sizeof(longest));
    assert_int_equal(smtp_client_start(&c, &t, 0), ERR_LIMIT);
    assert_int_equal(c.out.len, 0);
    recipients[1] = slice_make(longest, sizeof(longest) - 1);
    assert_int_equal(smtp_client_start(&c, &t, 0), 0);
    assert_true(slice_eq(buf_slice(&c.out), SLICE("MAIL FROM:<>\r\n")));
    smtp_client_fini(&c);
}

/* Each stage has its own deadline, for the whole reply; a slow but steady body is not cut off. */
static void test_deadlines(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    struct smtp_client c;
    const usec_t sec = USEC_PER_SEC;
    smtp_client_init(&c, &s.config, &s.peer, 0);
    assert_true(smtp_client_deadline(&c) == 300 * sec);
    struct slice in = SLICE("220 ");
    smtp_client_input(&c, &in, 299 * sec); /* a dripped reply does not move it */
    assert_true(smtp_client_deadline(&c) == 300 * sec);
    in = SLICE("mx\r\n");
    smtp_client_input(&c, &in, 299 * sec);
    assert_true(smtp_client_deadline(&c) == 599 * sec);
    smtp_client_consume(&c, c.out.len);
    in = SLICE("250 mx\r\n");
    smtp_client_input(&c, &in, 300 * sec);
    assert_true(smtp_client_deadline(&c) == USEC_NEVER);
    struct smtp_client_event event;
    assert_true(smtp_client_next_event(&c, &event));
    struct slice recipient = SLICE("r@b");
    struct smtp_transaction t = {.recipients = &recipient, .recipient_count = 1};
    assert_int_equal(smtp_client_start(&c, &t, 1000 * sec), 0);
    const char *const replies[] = {"250 ok\r\n", "250 ok\r\n", "354 go\r\n"};
    const usec_t deadlines[] = {1300 * sec, 1301 * sec, 1122 * sec};
    for (unsigned i = 0; i < 3; i++) {
        assert_true(smtp_client_deadline(&c) == deadlines[i]);
        smtp_client_consume(&c, c.out.len);
        in = slice_of(replies[i]);
        smtp_client_input(&c, &in, (1001 + (usec_t)i) * sec);
    }
    assert_true(smtp_client_deadline(&c) == 1183 * sec);
    assert_true(smtp_client_next_event(&c, &event));
    smtp_client_body_progress(&c, 5000, 1053 * sec);
    assert_true(smtp_client_deadline(&c) == 1193 * sec); /* 180 s and 10 s for 5,000 bytes */
    smtp_client_body_progress(&c, 5000000, 1054 * sec);
    assert_true(smtp_client_deadline(&c) == 1234 * sec);
    smtp_client_body_sent(&c, 1055 * sec);
    assert_true(smtp_client_deadline(&c) == 1655 * sec);
    smtp_client_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delivered),
        cmocka_unit_test(test_requiretls),
        cmocka_unit_test(test_partial_rejection),
        cmocka_unit_test(test_all_rejected),
        cmocka_unit_test(test_mail_rejected),
        cmocka_unit_test(test_data_rejected),
        cmocka_unit_test(test_unsent),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_early_reply),
        cmocka_unit_test(test_replies_too_many),
        cmocka_unit_test(test_reuse),
        cmocka_unit_test(test_no_reuse),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_bad_addresses),
        cmocka_unit_test(test_deadlines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
