/* AUTH at a smart host, as transcripts: both mechanisms, every refusal, and no password in any
 * text. */
#include "base/buf.h"
#include "tests/unit/smtp_script.h"
#include "tests/unit/unit.h"

#define RUN(script, ...) smtp_script_run(script, (const char *const[]){__VA_ARGS__, NULL})

#define EHLO     "<220 mx\r\n", ">EHLO me\r\n"
#define OFFERS   EHLO, "<250-mx\r\n250 AUTH GSSAPI LOGIN PLAIN\r\n"
#define LOGIN    EHLO, "<250-mx\r\n250 AUTH LOGIN\r\n", ">AUTH LOGIN\r\n"
#define PLAIN    ">AUTH PLAIN AHVzZXIAdGhlIHNlY3JldA==\r\n"
#define USER     ">dXNlcg==\r\n"
#define PASSWORD ">dGhlIHNlY3JldA==\r\n"

static void script_init(struct smtp_script *s)
{
    smtp_script_init(s);
    s->config.auth_user = SLICE("user");
    s->config.auth_password = SLICE("the secret");
    s->config.auth_requires_tls = false;
}

static void test_mechanisms(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s);
    RUN(&s, OFFERS, PLAIN, "<235 2.7.0 in\r\n", "!READY", "=start 1", ">MAIL FROM:<s@a>\r\n",
        "=eof", "!REST soft 4.4.2 0 MAIL site", "!DONE lost", "!CLOSED");
    RUN(&s, LOGIN, "<334 VXNlcm5hbWU6\r\n", USER, "<334 UGFzc3dvcmQ6\r\n", PASSWORD, "<235 in\r\n",
        "!READY");
    RUN(&s, LOGIN, "<334 \r\n", USER, "<334\r\n", PASSWORD, "<235 in\r\n", "!READY");
    s.config.auth_user = SLICE("");
    RUN(&s, OFFERS, "!READY");
}

/* In TLS, and only there. */
static void test_tls(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s);
    s.config.auth_requires_tls = true;
    s.config.tls = SMTP_CLIENT_TLS_MAY;
    RUN(&s, EHLO, "<250-mx\r\n250 STARTTLS\r\n", ">STARTTLS\r\n", "<220 go\r\n", "!WANT_TLS",
        "=tls", ">EHLO me\r\n", "<250-mx\r\n250 AUTH PLAIN\r\n", PLAIN, "<235 in\r\n", "!READY");
    RUN(&s, OFFERS, "!FAILED soft 4.7.0 0 AUTH site", "!CLOSED flush", ">QUIT\r\n");
    RUN(&s, EHLO, "<250-mx\r\n250-STARTTLS\r\n250 AUTH PLAIN\r\n", ">STARTTLS\r\n", "<454 no\r\n",
        "!FAILED soft 4.7.0 0 AUTH site", "!CLOSED flush", ">QUIT\r\n");
}

static void test_not_offered(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s);
    RUN(&s, EHLO, "<250-mx\r\n250 AUTH GSSAPI\r\n", "!FAILED soft 4.7.0 0 AUTH site",
        "!CLOSED flush", ">QUIT\r\n");
    RUN(&s, EHLO, "<502 no\r\n", ">HELO me\r\n", "<250 mx\r\n", "!FAILED soft 4.7.0 0 AUTH site",
        "!CLOSED flush", ">QUIT\r\n");
}

static void test_refused(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s);
    s.config.bounce_5xx_handshake = true; /* not this */
    RUN(&s, OFFERS, PLAIN, "<535 5.7.8 bad\r\n", "!FAILED soft 4.7.8 535 AUTH site",
        "!CLOSED flush", ">QUIT\r\n");
    RUN(&s, OFFERS, PLAIN, "<535 bad\r\n", "!FAILED soft 4.7.8 535 AUTH site", "!CLOSED flush",
        ">QUIT\r\n");
    RUN(&s, OFFERS, PLAIN, "<454 4.7.0 later\r\n", "!FAILED soft 4.7.0 454 AUTH site",
        "!CLOSED flush", ">QUIT\r\n");
    RUN(&s, LOGIN, "<334 VXNlcm5hbWU6\r\n", USER, "<535 who\r\n",
        "!FAILED soft 4.7.8 535 AUTH site", "!CLOSED flush", ">QUIT\r\n");
    RUN(&s, OFFERS, PLAIN, "<421 bye\r\n", "!FAILED soft 4.7.8 421 AUTH site", "!CLOSED flush",
        ">QUIT\r\n");
}

static void test_faults(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s);
    RUN(&s, LOGIN, "<334 not base64!\r\n", "!FAILED soft 4.7.0 0 AUTH site proto", "!CLOSED");
    RUN(&s, LOGIN, "<235 in already\r\n", "!FAILED soft 4.5.0 235 AUTH site proto", "!CLOSED");
    RUN(&s, LOGIN, "<354 go\r\n", "!FAILED soft 4.7.0 0 AUTH site proto", "!CLOSED");
    RUN(&s, OFFERS, PLAIN, "<334 \r\n", "!FAILED soft 4.7.0 0 AUTH site proto", "!CLOSED");
    RUN(&s, OFFERS, PLAIN, "=eof", "!FAILED soft 4.4.2 0 AUTH site", "!CLOSED");
    RUN(&s, OFFERS, PLAIN, "=timeout", "!FAILED soft 4.4.2 0 AUTH site", "!CLOSED");
    RUN(&s, OFFERS, PLAIN, "<huh\r\n", "!FAILED soft 4.5.0 0 AUTH site proto", "!CLOSED");
    RUN(&s, OFFERS, PLAIN, "<235-a\r\n535 b\r\n", "!FAILED soft 4.5.0 0 AUTH site proto",
        "!CLOSED");
    RUN(&s, OFFERS, "<235 early\r\n", "!FAILED soft 4.5.0 0 AUTH site proto", "!CLOSED");
    s.is_whole_only = true;
    RUN(&s, OFFERS, PLAIN, "<235 in\r\n250 more\r\n", "!FAILED soft 4.5.0 0 AUTH site proto",
        "!CLOSED");
}

static void say(struct smtp_client *c, const char *text)
{
    smtp_client_consume(c, c->out.len);
    struct slice in = slice_of(text);
    smtp_client_input(c, &in, 0);
}

/* A response that is too long for a command line waits for its challenge. */
static void test_long_password(void **state)
{
    (void)state;
    struct smtp_script s;
    script_init(&s);
    char password[400];
    memset(password, 'x', sizeof(password));
    s.config.auth_password = slice_make(password, 368); /* 2 + 4 + 368 bytes: 500 encoded */
    struct smtp_client c;
    smtp_client_init(&c, &s.config, &s.peer, 0);
    say(&c, "220 mx\r\n");
    say(&c, "250-mx\r\n250 AUTH PLAIN\r\n");
    assert_true(slice_eq(buf_slice(&c.out), SLICE("AUTH PLAIN\r\n")));
    say(&c, "334 \r\n");
    assert_int_equal(c.out.len, 502);
    say(&c, "235 in\r\n");
    assert_int_equal(c.state, SMTP_CLIENT_STATE_IDLE);
    smtp_client_fini(&c);
    s.config.auth_password = slice_make(password, 366);
    smtp_client_init(&c, &s.config, &s.peer, 0);
    say(&c, "220 mx\r\n");
    say(&c, "250-mx\r\n250 AUTH PLAIN\r\n");
    assert_int_equal(c.out.len, 509);
    smtp_client_fini(&c);
}

/* A server that repeats what it got must not bring the password into a log or a bounce. */
static void test_texts(void **state)
{
    (void)state;
    static const struct {
        const char *reply, *text;
    } cases[] = {
        {"535 5.7.8 bad credentials\r\n",
         "SASL authentication failed; server mx[192.0.2.1] said: 535 5.7.8 bad credentials"},
        {"535 user: the secret\r\n",
         "SASL authentication failed; server mx[192.0.2.1] said: (reply not shown)"},
        {"535-got AUTH PLAIN\r\n535 AHVzZXIAdGhlIHNlY3JldA==\r\n",
         "SASL authentication failed; server mx[192.0.2.1] said: (reply not shown)"},
        {"535 dGhlIHNlY3JldA==\r\n",
         "SASL authentication failed; server mx[192.0.2.1] said: (reply not shown)"},
        {"334 the secret\r\n",
         "SASL authentication failed; server mx[192.0.2.1] sent a malformed challenge"},
        {"235-in\r\n", "lost connection with mx[192.0.2.1] while performing SASL authentication"},
    };
    struct smtp_script s;
    script_init(&s);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct smtp_client c;
        smtp_client_init(&c, &s.config, &s.peer, 0);
        say(&c, "220 mx\r\n");
        say(&c, "250-mx\r\n250 AUTH PLAIN\r\n");
        say(&c, cases[i].reply);
        if (!smtp_client_has_event(&c)) {
            smtp_client_eof(&c, 0);
        }
        struct smtp_client_event event;
        assert_true(smtp_client_next_event(&c, &event));
        assert_int_equal(event.kind, SMTP_CLIENT_FAILED);
        assert_true(slice_eq(event.verdict->text, slice_of(cases[i].text)));
        smtp_client_fini(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mechanisms),  cmocka_unit_test(test_tls),
        cmocka_unit_test(test_not_offered), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_faults),      cmocka_unit_test(test_long_password),
        cmocka_unit_test(test_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
