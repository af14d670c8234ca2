/* Greeting, EHLO, HELO and STARTTLS as transcripts. */
#include "tests/unit/smtp_script.h"
#include "tests/unit/unit.h"

#define RUN(script, ...) smtp_script_run(script, (const char *const[]){__VA_ARGS__, NULL})

static void test_plain_session(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    RUN(&s, "<220 mx ESMTP\r\n", ">EHLO me\r\n", "<250-mx\r\n250-SIZE 1000\r\n250 8BITMIME\r\n",
        "!READY", "=quit", "!CLOSED flush", ">QUIT\r\n");
    /* no text at all, lower case, no CR, twenty lines */
    RUN(&s, "<220\r\n", ">EHLO me\r\n", "<250-\r\n250-pipelining\r\n250\r\n", "!READY", "=start 1",
        ">MAIL FROM:<s@a>\r\nRCPT TO:<r0@b>\r\nDATA\r\n", "=eof", "!REST soft 4.4.2 0 MAIL site",
        "!DONE lost", "!CLOSED");
    RUN(&s, "<220-a\r\n220-b\r\n220-c\r\n220 d\r\n", ">EHLO me\r\n", "<250 mx\n", "!READY");
    s.config.skip_quit_response = false;
    RUN(&s, "<220 mx ESMTP\r\n", ">EHLO me\r\n", "<250 mx\r\n", "!READY", "=quit", ">QUIT\r\n",
        "<221 bye\r\n", "!CLOSED");
    RUN(&s, "<220 mx ESMTP\r\n", ">EHLO me\r\n", "<250 mx\r\n", "!READY", "=quit", ">QUIT\r\n",
        "=timeout", "!CLOSED");
}

static void test_greeting(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    RUN(&s, "<421 4.3.2 busy\r\n", "!FAILED soft 4.3.2 421 GREETING site", "!CLOSED flush",
        ">QUIT\r\n");
    RUN(&s, "<450 no\r\n", "!FAILED soft 4.0.0 450 GREETING site", "!CLOSED flush", ">QUIT\r\n");
    RUN(&s, "<554 5.7.1 no\r\n", "!FAILED soft 4.7.1 554 GREETING site", "!CLOSED flush",
        ">QUIT\r\n");
    RUN(&s, "<354 what\r\n", "!FAILED soft 4.5.0 354 GREETING site proto", "!CLOSED");
    s.config.skip_5xx_greeting = false;
    RUN(&s, "<554 5.7.1 no\r\n", "!FAILED hard 5.7.1 554 GREETING site", "!CLOSED flush",
        ">QUIT\r\n");
}

static void test_helo_fallback(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<502 what\r\n", ">HELO me\r\n", "<250 mx\r\n", "!READY",
        "=start 1", ">MAIL FROM:<s@a>\r\n", "<250 ok\r\n", ">RCPT TO:<r0@b>\r\n", "<250 ok\r\n",
        ">DATA\r\n", "<354 go\r\n", "!WANT_BODY", "=body x\r\n", ">.\r\n", "<250 queued\r\n",
        "!REST ok 2.0.0 250 DOT", "!DONE reuse", "!READY");
    /* what a refused EHLO named does not count */
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<502-PIPELINING\r\n502 SIZE 1\r\n", ">HELO me\r\n",
        "<250 mx\r\n", "!READY", "=start 1", ">MAIL FROM:<s@a>\r\n", "=eof",
        "!REST soft 4.4.2 0 MAIL site", "!DONE lost", "!CLOSED");
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<421 bye\r\n", "!FAILED soft 4.0.0 421 EHLO site",
        "!CLOSED flush", ">QUIT\r\n");
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<450 no\r\n", ">HELO me\r\n", "<550 5.7.0 no\r\n",
        "!FAILED soft 4.7.0 550 HELO site", "!CLOSED flush", ">QUIT\r\n");
    s.config.bounce_5xx_handshake = true;
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<450 no\r\n", ">HELO me\r\n", "<550 5.7.0 no\r\n",
        "!FAILED hard 5.7.0 550 HELO site", "!CLOSED flush", ">QUIT\r\n");
    s.config.always_send_ehlo = false;
    RUN(&s, "<220 mx ready\r\n", ">HELO me\r\n", "<250 mx\r\n", "!READY");
    RUN(&s, "<220 mx eSMTP ready\r\n", ">EHLO me\r\n", "<250 mx\r\n", "!READY");
}

static void test_starttls_may(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    s.config.tls = SMTP_CLIENT_TLS_MAY;
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250-mx\r\n250-STARTTLS\r\n250 PIPELINING\r\n",
        ">STARTTLS\r\n", "<220 go\r\n", "!WANT_TLS", "=tls", ">EHLO me\r\n",
        "<250-mx\r\n250 STARTTLS\r\n", "!READY", "=start 1", ">MAIL FROM:<s@a>\r\n", "=eof",
        "!REST soft 4.4.2 0 MAIL site", "!DONE lost", "!CLOSED");
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250-mx\r\n250 STARTTLS\r\n", ">STARTTLS\r\n",
        "<454 not now\r\n", "!READY");
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250-mx\r\n250 STARTTLS\r\n", ">STARTTLS\r\n",
        "<502 what\r\n", "!READY");
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250-mx\r\n250 STARTTLS\r\n", ">STARTTLS\r\n",
        "<421 bye\r\n", "!FAILED soft 4.0.0 421 STARTTLS site", "!CLOSED flush", ">QUIT\r\n");
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250 mx\r\n", "!READY");
    /* the handshake fails: no throttle, another attempt may go in plaintext */
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250-mx\r\n250 STARTTLS\r\n", ">STARTTLS\r\n",
        "<220 go\r\n", "!WANT_TLS", "=tlsfail", "!FAILED soft 4.7.5 0 TLS", "!CLOSED");
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250-mx\r\n250 STARTTLS\r\n", ">STARTTLS\r\n",
        "<220 go\r\n", "!WANT_TLS", "=timeout", "!FAILED soft 4.4.2 0 TLS site", "!CLOSED");
}

static void test_starttls_encrypt(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    s.config.tls = SMTP_CLIENT_TLS_ENCRYPT;
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250 mx\r\n", "!FAILED soft 4.7.4 0 STARTTLS site",
        "!CLOSED flush", ">QUIT\r\n");
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<502 what\r\n", ">HELO me\r\n", "<250 mx\r\n",
        "!FAILED soft 4.7.4 0 STARTTLS site", "!CLOSED flush", ">QUIT\r\n");
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250-mx\r\n250 STARTTLS\r\n", ">STARTTLS\r\n",
        "<554 5.7.3 no\r\n", "!FAILED soft 4.7.3 554 STARTTLS site", "!CLOSED flush", ">QUIT\r\n");
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250-mx\r\n250 STARTTLS\r\n", ">STARTTLS\r\n",
        "<220 go\r\n", "!WANT_TLS", "=tlsfail", "!FAILED soft 4.7.5 0 TLS site", "!CLOSED");
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250-mx\r\n250 STARTTLS\r\n", ">STARTTLS\r\n",
        "<220 go\r\n", "!WANT_TLS", "=tls", ">EHLO me\r\n", "<450 no\r\n",
        "!FAILED soft 4.0.0 450 EHLO site", "!CLOSED flush", ">QUIT\r\n");
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250-mx\r\n250 STARTTLS\r\n", ">STARTTLS\r\n",
        "<220 go\r\n", "!WANT_TLS", "=tls", ">EHLO me\r\n", "<550 no\r\n", ">HELO me\r\n",
        "<250 mx\r\n", "!READY");
    s.config.bounce_5xx_handshake = true;
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250-mx\r\n250 STARTTLS\r\n", ">STARTTLS\r\n",
        "<554 5.7.3 no\r\n", "!FAILED hard 5.7.3 554 STARTTLS site", "!CLOSED flush", ">QUIT\r\n");
}

/* CVE-2011-0411 family: bytes behind the STARTTLS reply must never cross into the session. */
static void test_starttls_injection(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    s.config.tls = SMTP_CLIENT_TLS_MAY;
    s.is_whole_only = true;
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250-mx\r\n250 STARTTLS\r\n", ">STARTTLS\r\n",
        "<220 go\r\n250-mx\r\n250 SIZE 1\r\n", "!FAILED soft 4.5.0 0 STARTTLS site proto",
        "!CLOSED");
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250-mx\r\n250 STARTTLS\r\n", ">STARTTLS\r\n",
        "<220 go\r\n2", "!FAILED soft 4.5.0 0 STARTTLS site proto", "!CLOSED");
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250-mx\r\n250 STARTTLS\r\n", ">STARTTLS\r\n",
        "<220 \x1bgo\r\n", "!FAILED soft 4.5.0 0 STARTTLS site proto", "!CLOSED");
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250-mx\r\n250 STARTTLS\r\n", ">STARTTLS\r\n",
        "<220 go\r\n", "!WANT_TLS", "<250 x\r\n", "!FAILED soft 4.5.0 0 TLS site proto", "!CLOSED");
}

static void test_early_commands_are_not_answered(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    s.is_whole_only = true;
    /* the second reply came before EHLO was written */
    RUN(&s, "<220 mx\r\n", "<250 mx\r\n", "!FAILED soft 4.5.0 0 EHLO site proto", "!CLOSED");
    RUN(&s, "<220 mx\r\n250 mx\r\n", "!FAILED soft 4.5.0 0 GREETING site proto", "!CLOSED");
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250 mx\r\n250 ok\r\n",
        "!FAILED soft 4.5.0 0 EHLO site proto", "!CLOSED");
}

static void test_loop(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250-ME hi\r\n250 SIZE\r\n",
        "!FAILED soft 4.4.6 0 EHLO site", "!CLOSED flush", ">QUIT\r\n");
    s.peer.is_best_mx = true;
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250 me\r\n", "!FAILED hard 5.4.6 0 EHLO site",
        "!CLOSED flush", ">QUIT\r\n");
    s.peer.port = 2525;
    RUN(&s, "<220 mx\r\n", ">EHLO me\r\n", "<250 me\r\n", "!READY");
}

/* What EHLO lines teach; text that is not clean teaches nothing. */
static void test_features(void **state)
{
    (void)state;
    struct smtp_script s;
    smtp_script_init(&s);
    struct smtp_client c;
    smtp_client_init(&c, &s.config, &s.peer, 0);
    struct slice in = SLICE("220 mx\r\n");
    smtp_client_input(&c, &in, 0);
    smtp_client_consume(&c, c.out.len);
    in = SLICE("250-PIPELINING\r\n250-Size  999999999999999999999999999999\r\n250-8bitmime\r\n"
               "250-SMTPUTF8 x\r\n250-STARTTLS\0\r\n250-AUTH login PLAIN\r\n250-CHUNKINGS\r\n"
               "250-LIMITS RCPTMAX=20 x MAILMAX=5 RCPTDOMAINMAX=1\r\n250-DSN\x1b\r\n"
               "250 ENHANCEDSTATUSCODES\r\n");
    smtp_client_input(&c, &in, 0);
    struct smtp_client_features *f = &c.features;
    assert_true(f->has_esmtp && f->has_size && f->has_8bitmime && f->has_smtputf8);
    assert_true(f->has_enhanced_status && f->has_auth_login && f->has_auth_plain);
    assert_false(f->has_pipelining); /* the first line is the server's name */
    assert_false(f->has_starttls || f->has_chunking || f->has_dsn);
    assert_true(f->size_max == UINT64_MAX);
    assert_int_equal(f->rcpt_max, 20);
    assert_int_equal(f->mail_max, 5);
    smtp_client_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_session),
        cmocka_unit_test(test_greeting),
        cmocka_unit_test(test_helo_fallback),
        cmocka_unit_test(test_starttls_may),
        cmocka_unit_test(test_starttls_encrypt),
        cmocka_unit_test(test_starttls_injection),
        cmocka_unit_test(test_early_commands_are_not_answered),
        cmocka_unit_test(test_loop),
        cmocka_unit_test(test_features),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
