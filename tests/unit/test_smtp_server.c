/* Transcripts of whole sessions. Each is run as written, then with every turn cut in two at every
 * byte, then byte by byte: replies and events must not depend on the cuts. */
#include "net/smtp_server.h"
#include "tests/unit/smtp_shell.h"
#include "tests/unit/unit.h"

#include <string.h>

struct turn {
    struct slice send;
    const char *expect; /* starts of the reply lines, separated by '|' */
};

struct transcript {
    const char *name;
    const struct turn *turns;
    size_t turn_count;
    const char *log;  /* the events */
    bool is_stranger; /* not in relay_from */
    void (*configure)(struct smtp_shell *shell);
};

#define S(text) SLICE(text)
#define HELLO                                                                                      \
    "250-mx.test|250-PIPELINING|250-SIZE 50000000|250-STARTTLS|250-SMTPUTF8|"                      \
    "250-CHUNKING|250-8BITMIME|250 ENHANCEDSTATUSCODES"
#define TURNS(name) name, sizeof(name) / sizeof((name)[0])

static const struct turn simple[] = {
    {S(""), "220 mx.test ESMTP sluice"},
    {S("EHLO client.test\r\n"), HELLO},
    {S("MAIL FROM:<a@x.test>\r\n"), "250 2.1.0"},
    {S("RCPT TO:<b@Y.test>\r\n"), "250 2.1.5"},
    {S("DATA\r\n"), "354 "},
    {S("Subject: x\r\n\r\n..dot\r\n.\r\n"), "250 2.0.0 Ok: queued"},
    {S("QUIT\r\n"), "221 2.0.0"},
};

static const struct turn pipelined[] = {
    {S(""), "220"},
    {S("EHLO c\r\n"), HELLO},
    {S("MAIL FROM:<a@x.test> SIZE=10 BODY=8BITMIME\r\nRCPT TO:<b@y.test>\r\nRCPT TO:<bad\r\n"
       "RCPT TO:<c@y.test>\r\nDATA\r\n"),
     "250 2.1.0|250 2.1.5|501 5.1.3|250 2.1.5|354"},
    {S("one\r\n.\r\nMAIL FROM:<>\r\nRCPT TO:<d@z.test>\r\nDATA\r\n"),
     "250 2.0.0|250 2.1.0|250 2.1.5|354"},
    {S(".\r\nRSET\r\nNOOP\r\nQUIT\r\n"), "250 2.0.0|250 2.0.0|250 2.0.0|221"},
};

static const struct turn chunks[] = {
    {S(""), "220"},
    {S("EHLO c\r\n"), HELLO},
    {S("MAIL FROM:<a@x.test>\r\nRCPT TO:<b@y.test>\r\nBDAT 3\r\nab\rBDAT 6\r\n\nMAIL\nBDAT 2 "
       "LAST\r\n"
       "zz"),
     "250 2.1.0|250 2.1.5|250 2.0.0|550 5.6.11|503 5.5.1"},
    {S("MAIL FROM:<a@x.test>\r\nRCPT TO:<b@y.test>\r\nBDAT 3\r\nab\rBDAT 6\r\n\n.\r\nQUBDAT 2 "
       "LAST\r\n"
       "ITMAIL FROM:<c@x.test>\r\nRCPT TO:<d@y.test>\r\nBDAT 0 LAST\r\nQUIT\r\n"),
     "250 2.1.0|250 2.1.5|250 2.0.0|250 2.0.0|250 2.0.0 Ok: q|250 2.1.0|250 2.1.5|"
     "250 2.0.0 Ok: q|221"},
};

static const struct turn refused_chunks[] = {
    {S(""), "220"},
    {S("EHLO c\r\n"), HELLO},
    {S("BDAT 6 LAST\r\nQUIT\r\nNOOP\r\n"), "503 5.5.1|250 2.0.0"},
    {S("MAIL FROM:<a@x.test>\r\nBDAT 6\r\nQUIT\r\nRCPT TO:<b@y.test>\r\n"),
     "250 2.1.0|554 5.5.1|250 2.1.5"},
    {S("BDAT 3\r\na\r\nRCPT TO:<c@y.test>\r\nMAIL FROM:<a@x>\r\n"),
     "250 2.0.0|503 5.5.1|503 5.5.1"},
    {S("DATA\r\n"), "503 5.5.1 Error: DATA"},
    {S("BDAT 3 LAST\r\nb\r\n"), "250 2.0.0 Ok: q"},
    {S("BDAT x\r\n"), "501 5.5.4"},
};

static const struct turn relay[] = {
    {S(""), "220"},
    {S("EHLO c\r\n"), HELLO},
    {S("MAIL FROM:<a@x.test>\r\n"), "250 2.1.0"},
    {S("RCPT TO:<user%dom@mx.test>\r\n"), "554 5.7.1"},
    {S("RCPT TO:<\"user@dom\"@mx.test>\r\n"), "554 5.7.1"},
    {S("RCPT TO:<@mx.test:user@dom.test>\r\n"), "554 5.7.1"},
    {S("RCPT TO:<dom!user@mx.test>\r\n"), "554 5.7.1"},
    {S("RCPT TO:<user@[192.0.2.1]>\r\n"), "554 5.7.1"},
    {S("RCPT TO:<user@DOM.test.>\r\n"), "554 5.7.1"},
    {S("RCPT TO:<Postmaster>\r\n"), "554 5.7.1"},
    {S("DATA\r\n"), "554 5.5.1"},
    {S("RSET\r\nMAIL FROM:<>\r\nRCPT TO:<user@dom.test>\r\n"), "250|250|554 5.7.1"},
    {S("BDAT 2 LAST\r\nhiQUIT\r\n"), "554 5.5.1|221"},
};

static const struct turn orders[] = {
    {S(""), "220"},
    {S("MAIL FROM:<a@x.test>\r\n"), "503 5.5.1"},
    {S("RCPT TO:<a@x.test>\r\n"), "503 5.5.1"},
    {S("DATA\r\n"), "503 5.5.1"},
    {S("STARTTLS\r\n"), "503 5.5.1"},
    {S("AUTH PLAIN\r\n"), "503 5.5.1"},
    {S("HELO\r\n"), "501 5.5.4"},
    {S("ehlo  \xc3\xbc\r\n"), "501 5.5.4"},
    {S("helo client.test  \r\n"), "250 mx.test"},
    {S("AUTH PLAIN\r\n"), "503 5.5.1 Error: send EHLO"},
    {S("EXPN list\r\n"), "502 5.5.1"},
    {S("VRFY\r\n"), "501 5.5.4"},
    {S("VRFY a@x.test\r\n"), "252 2.0.0"},
    {S("VRFY \xc3\xbc\r\n"), "501 5.5.4"},
    {S("HELP\r\n"), "214 2.0.0"},
    {S("FROBNICATE\r\n"), "500 5.5.1"},
    {S("\r\n"), "500 5.5.2"},
    {S(" NOOP\r\n"), "500 5.5.2"},
    {S("NOOP\n"), "500 5.5.2"},
    {S("NO\0OP\r\n"), "500 5.5.2"},
    {S("RSET x\r\n"), "501 5.5.4"},
    {S("MAIL FROM:<a@x> RET=HDRS\r\n"), "555 5.5.4"},
    {S("MAIL FROM:<a@x> SIZE=50000001\r\n"), "552 5.3.4"},
    {S("MAIL FROM:<a@good.test\0.evil.test>\r\n"), "500 5.5.2"},
    {S("NOOP x\r\n"), "250 2.0.0"}, /* 20 errors so far: at the limit */
    {S("FOO\r\nNOOP\r\n"), "500 5.5.1|421 4.7.0 Error: too many errors"},
};

static const struct turn starttls[] = {
    {S(""), "220"},
    {S("EHLO c\r\nSTARTTLS now\r\n"), "554 5.5.0"},
};

static void plain_config(struct smtp_shell *shell)
{
    shell->config.offers_starttls = false;
    shell->config.offers_auth = false;
    shell->config.offers_chunking = false;
    shell->config.offers_smtputf8 = false;
    shell->config.message_size_limit = 0;
}

static const struct turn plain_offers[] = {
    {S(""), "220"},
    {S("EHLO c\r\n"), "250-mx.test|250-PIPELINING|250-SIZE|250-8BITMIME|250 ENHANCED"},
    {S("STARTTLS\r\n"), "502 5.5.1"},
    {S("AUTH PLAIN\r\n"), "502 5.5.1"},
    {S("BDAT 6\r\nNOOP\r\nMAIL FROM:<a@x> SMTPUTF8\r\n"), "502 5.5.1|555 5.5.4"},
    {S("QUIT now\r\n"), "221"},
};

static void utf8_config(struct smtp_shell *shell)
{
    shell->config.recipient_batch = 2;
}

static const struct turn utf8[] = {
    {S(""), "220"},
    {S("EHLO c\r\n"), HELLO},
    {S("MAIL FROM:<\xc3\xbc@x.test>\r\n"), "553 5.6.7"},
    {S("MAIL FROM:<\xc3\xbc@x.test> SMTPUTF8\r\n"), "250"},
    {S("RCPT TO:<\xff@x.test>\r\n"), "501 5.1.3"},
    {S("RCPT TO:<\xc3\xb6@x.test>\r\nRCPT TO:<b@x.test>\r\nRCPT TO:<c@x.test>\r\n"), "250|250|250"},
    {S("RSET\r\nMAIL FROM:<a@x.test>\r\nRCPT TO:<\xc3\xb6@x.test>\r\n"), "250|250|553 5.6.7"},
};

static const struct turn http[] = {
    {S(""), "220"},
    {S("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "421 4.7.0"},
};
static const struct turn tls_hello[] = {
    {S(""), "220"},
    {S("\x16\x03\x01\x02\x00\x01"), "421 4.7.0"},
};
static const struct turn stray_message[] = {
    {S(""), "220"},
    {S("EHLO c\r\n"), HELLO},
    {S("Subject: x\r\n\r\n"), "421 4.7.0"},
};
static const struct turn bad_bdat[] = {
    {S(""), "220"},
    {S("EHLO c\r\n"), HELLO},
    {S("MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nBDAT\t6\r\nQUIT\r\n"), "250|250|501 5.5.4"},
};

static const struct transcript transcripts[] = {
    {"simple", TURNS(simple),
     "envelope <a@x.test>\nrecipient b@y.test\nmessage 20 bytes\nSubject: x\r\n\r\n.dot\r\nend\n",
     false, NULL},
    {"pipelined", TURNS(pipelined),
     "envelope <a@x.test>\nrecipient b@y.test\nrecipient c@y.test\nmessage 5 bytes\none\r\nend\n"
     "envelope <>\nrecipient d@z.test\nmessage 0 bytes\nend\n",
     false, NULL},
    {"chunks", TURNS(chunks),
     "envelope <a@x.test>\nrecipient b@y.test\naborted\n"
     "envelope <a@x.test>\nrecipient b@y.test\nmessage 13 bytes\nab\r\n.\r\nQUIT\r\nend\n"
     "envelope <c@x.test>\nrecipient d@y.test\nmessage 0 bytes\nend\n",
     false, NULL},
    {"refused chunks", TURNS(refused_chunks),
     "envelope <a@x.test>\nrecipient b@y.test\nmessage 6 bytes\na\r\nb\r\nend\n", false, NULL},
    {"relay", TURNS(relay), "envelope <a@x.test>\naborted\nenvelope <>\naborted\n", true, NULL},
    {"orders", TURNS(orders), "", false, NULL},
    {"plain offers", TURNS(plain_offers), "", false, plain_config},
    {"utf8", TURNS(utf8),
     "envelope <\xc3\xbc@x.test>\nrecipient \xc3\xb6@x.test\nrecipient b@x.test\naborted\n"
     "envelope <a@x.test>\n",
     false, utf8_config},
    {"http", TURNS(http), "", false, NULL},
    {"tls hello", TURNS(tls_hello), "", false, NULL},
    {"stray message", TURNS(stray_message), "", false, NULL},
    {"bad bdat", TURNS(bad_bdat), "envelope <a@x>\naborted\n", false, NULL},
};

/* Whether the reply lines begin as expected, one for one. */
static bool replies_match(struct slice replies, const char *expect)
{
    struct slice wanted = slice_of(expect);
    while (wanted.len > 0) {
        size_t len = slice_find(wanted, '|');
        size_t end = slice_find(replies, '\n');
        if (end == replies.len || end < len || memcmp(replies.data, wanted.data, len) != 0) {
            return false;
        }
        replies = slice_from(replies, end + 1);
        wanted = slice_from(wanted, len + (len < wanted.len));
    }
    return replies.len == 0;
}

/* cut: SIZE_MAX none; else each turn is cut there; is_drip: byte by byte. */
static void run(const struct transcript *t, size_t cut, bool is_drip)
{
    struct smtp_shell shell;
    smtp_shell_init(&shell);
    if (t->configure != NULL) {
        t->configure(&shell);
    }
    smtp_shell_start(&shell, !t->is_stranger);
    for (size_t i = 0; i < t->turn_count; i++) {
        struct slice send = t->turns[i].send;
        if (is_drip) {
            for (size_t at = 0; at < send.len; at++) {
                (void)smtp_shell_feed(&shell, slice_make(send.data + at, 1));
            }
        } else {
            size_t first = cut < send.len ? cut : send.len;
            (void)smtp_shell_feed(&shell, slice_to(send, first));
            (void)smtp_shell_feed(&shell, slice_from(send, first));
        }
        if (!replies_match(buf_slice(&shell.replies), t->turns[i].expect)) {
            fail_msg("%s, turn %zu, cut %zu: got\n" SLICE_FMT, t->name, i, cut,
                     SLICE_ARG(buf_slice(&shell.replies)));
        }
        buf_clear(&shell.replies);
    }
    if (!slice_eq(buf_slice(&shell.log), slice_of(t->log))) {
        fail_msg("%s, cut %zu: events\n" SLICE_FMT, t->name, cut, SLICE_ARG(buf_slice(&shell.log)));
    }
    smtp_shell_fini(&shell);
}

static void test_transcripts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(transcripts) / sizeof(transcripts[0]); i++) {
        const struct transcript *t = &transcripts[i];
        run(t, SIZE_MAX, false);
        run(t, 0, true);
        for (size_t turn = 0; turn < t->turn_count; turn++) {
            for (size_t cut = 1; cut < t->turns[turn].send.len; cut++) {
                run(t, cut, false);
            }
        }
    }
}

static const struct transcript sync_error = {"early talk", TURNS(starttls), "", false, NULL};

static void test_early_talk(void **state)
{
    (void)state;
    run(&sync_error, SIZE_MAX, false);
    struct smtp_shell shell;
    smtp_shell_init(&shell);
    smtp_shell_start(&shell, true);
    (void)smtp_shell_feed(&shell, SLICE("EHLO c\r\n"));
    (void)smtp_shell_feed(&shell, SLICE("MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nDATA\r\nhi\r\n.\r\n"));
    assert_true(shell.is_closed);
    assert_int_equal(shell.message_count, 0);
    smtp_shell_fini(&shell);

    smtp_shell_init(&shell);
    shell.config.refuses_early_talk = false;
    smtp_shell_start(&shell, true);
    (void)smtp_shell_feed(&shell, SLICE("EHLO c\r\nMAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nDATA\r\n"
                                        "hi\r\n.\r\n"));
    assert_int_equal(shell.message_count, 1);
    smtp_shell_fini(&shell);
}

/* Nothing said in clear survives into TLS, and the session begins anew. */
static void test_starttls(void **state)
{
    (void)state;
    struct smtp_shell shell;
    smtp_shell_init(&shell);
    smtp_shell_start(&shell, true);
    (void)smtp_shell_feed(&shell, SLICE("EHLO c\r\n"));
    (void)smtp_shell_feed(&shell, SLICE("MAIL FROM:<a@x>\r\nSTARTTLS\r\nRSET\r\n"));
    buf_clear(&shell.replies);
    assert_int_equal(smtp_shell_feed(&shell, SLICE("STARTTLS\r\nMAIL FROM:<evil@x>\r\n")),
                     SMTP_SERVER_STARTTLS);
    assert_int_equal(smtp_shell_feed(&shell, SLICE("EHLO evil\r\nMAIL")), SMTP_SERVER_WAIT);
    assert_true(replies_match(buf_slice(&shell.replies), "220 2.0.0"));
    buf_clear(&shell.replies);
    smtp_server_tls_started(&shell.server, "TLSv1.3", "TLS_AES_256_GCM_SHA384", shell.now);
    (void)smtp_shell_feed(&shell, SLICE("MAIL FROM:<a@x>\r\n"));
    assert_true(replies_match(buf_slice(&shell.replies), "503 5.5.1"));
    buf_clear(&shell.replies);
    (void)smtp_shell_feed(&shell, SLICE("EHLO c\r\n"));
    assert_true(replies_match(buf_slice(&shell.replies),
                              "250-mx.test|250-PIPELINING|250-SIZE|250-AUTH PLAIN LOGIN|"
                              "250-SMTPUTF8|250-REQUIRETLS|250-CHUNKING|250-8BITMIME|250 ENH"));
    buf_clear(&shell.replies);
    (void)smtp_shell_feed(&shell, SLICE("STARTTLS\r\n"));
    assert_true(replies_match(buf_slice(&shell.replies), "503 5.5.1"));
    smtp_shell_fini(&shell);
}

static void test_timeouts(void **state)
{
    (void)state;
    struct smtp_shell shell;
    smtp_shell_init(&shell);
    smtp_shell_start(&shell, true);
    usec_t limit = shell.config.command_timeout;
    assert_int_equal(smtp_server_deadline(&shell.server), shell.now + limit);
    /* One byte now and then does not help: the command as a whole has the time. */
    for (int i = 0; i < 299; i++) {
        shell.now += USEC_PER_SEC;
        assert_int_equal(smtp_shell_feed(&shell, SLICE("x")), SMTP_SERVER_INPUT);
    }
    shell.now += USEC_PER_SEC;
    buf_clear(&shell.replies);
    assert_int_equal(smtp_shell_feed(&shell, SLICE("")), SMTP_SERVER_CLOSE);
    assert_true(replies_match(buf_slice(&shell.replies), "421 4.4.2"));
    smtp_shell_fini(&shell);
}

static void test_content_rate(void **state)
{
    (void)state;
    struct smtp_shell shell;
    char line[1000];
    memset(line, 'x', sizeof(line));
    smtp_shell_init(&shell);
    smtp_shell_start(&shell, true);
    (void)smtp_shell_feed(&shell, SLICE("EHLO c\r\n"));
    (void)smtp_shell_feed(&shell, SLICE("MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nDATA\r\n"));
    /* 500 bytes a second are enough for ever, but not beyond the transaction's time. */
    int seconds = 0;
    while (!shell.is_closed && seconds < 10000) {
        shell.now += 2 * USEC_PER_SEC;
        seconds += 2;
        (void)smtp_shell_feed(&shell, slice_make(line, sizeof(line)));
    }
    assert_int_equal(seconds, 3600);
    assert_true(slice_eq(slice_from(buf_slice(&shell.log), shell.log.len - 8), SLICE("aborted\n")));
    smtp_shell_fini(&shell);

    smtp_shell_init(&shell);
    smtp_shell_start(&shell, true);
    (void)smtp_shell_feed(&shell, SLICE("EHLO c\r\n"));
    (void)smtp_shell_feed(&shell, SLICE("MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nDATA\r\n"));
    for (seconds = 0; !shell.is_closed && seconds < 10000; seconds += 9) {
        shell.now += 9 * USEC_PER_SEC;
        (void)smtp_shell_feed(&shell, SLICE("x"));
    }
    assert_in_range(seconds, 300, 310);
    smtp_shell_fini(&shell);
}

/* A shell that takes one event a call learns that there is another. */
static void test_timeout_in_a_transaction(void **state)
{
    (void)state;
    struct smtp_shell shell;
    struct slice none = SLICE("");
    smtp_shell_init(&shell);
    smtp_shell_start(&shell, true);
    (void)smtp_shell_feed(&shell, SLICE("EHLO c\r\n"));
    (void)smtp_shell_feed(&shell, SLICE("MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\n"));
    shell.now = smtp_server_deadline(&shell.server);
    assert_int_equal(smtp_server_step(&shell.server, &none, &shell.body, shell.now),
                     SMTP_SERVER_ABORTED);
    assert_true(smtp_server_deadline(&shell.server) <= shell.now);
    assert_int_equal(smtp_server_step(&shell.server, &none, &shell.body, shell.now),
                     SMTP_SERVER_CLOSE);
    assert_true(smtp_server_deadline(&shell.server) == USEC_NEVER);
    smtp_shell_fini(&shell);
}

/* The time that the shell takes is not the peer's. */
static void test_pauses(void **state)
{
    (void)state;
    struct smtp_shell shell;
    smtp_shell_init(&shell);
    shell.is_silent = true;
    smtp_shell_start(&shell, true);
    (void)smtp_shell_feed(&shell, SLICE("EHLO c\r\n"));
    assert_int_equal(smtp_shell_feed(&shell, SLICE("MAIL FROM:<a@x>\r\n")), SMTP_SERVER_WAIT);
    assert_true(smtp_server_deadline(&shell.server) == USEC_NEVER);
    shell.now += 10000 * USEC_PER_SEC;
    assert_int_equal(smtp_shell_feed(&shell, SLICE("")), SMTP_SERVER_WAIT);
    shell.is_staged = true;
    smtp_server_answer(&shell.server, 250, "2.1.0", "Ok", shell.now);
    assert_int_equal(smtp_shell_feed(&shell, SLICE("")), SMTP_SERVER_INPUT);
    assert_int_equal(smtp_server_deadline(&shell.server), shell.now + 300 * USEC_PER_SEC);
    (void)smtp_shell_feed(&shell, SLICE("RCPT TO:<b@y>\r\nDATA\r\n"));

    char text[1100];
    memset(text, 'x', sizeof(text));
    struct slice in = slice_make(text, sizeof(text));
    assert_int_equal(smtp_server_step(&shell.server, &in, &shell.body, shell.now),
                     SMTP_SERVER_BODY);
    assert_true(smtp_server_deadline(&shell.server) == USEC_NEVER);
    shell.now += 10000 * USEC_PER_SEC;
    buf_clear(&shell.body);
    assert_int_equal(smtp_server_step(&shell.server, &in, &shell.body, shell.now),
                     SMTP_SERVER_INPUT);
    shell.now += 299 * USEC_PER_SEC;
    smtp_server_resume(&shell.server, shell.now);
    assert_int_equal(smtp_server_deadline(&shell.server), shell.now + 300 * USEC_PER_SEC);
    shell.is_staged = false;
    smtp_shell_fini(&shell);
}

static void test_refuse_and_stop(void **state)
{
    (void)state;
    struct smtp_shell shell;
    smtp_shell_init(&shell);
    smtp_shell_start(&shell, true);
    buf_clear(&shell.replies);
    smtp_server_refuse(&shell.server, 421, "4.7.0", "Too many\r\nconnections");
    assert_int_equal(smtp_shell_feed(&shell, SLICE("EHLO c\r\n")), SMTP_SERVER_CLOSE);
    assert_true(replies_match(buf_slice(&shell.replies), "421 4.7.0 Too many??connections"));
    smtp_shell_fini(&shell);

    smtp_shell_init(&shell);
    smtp_shell_start(&shell, true);
    (void)smtp_shell_feed(&shell, SLICE("EHLO c\r\n"));
    (void)smtp_shell_feed(&shell, SLICE("MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nDATA\r\n"));
    assert_true(smtp_server_deadline(&shell.server) > shell.now);
    smtp_server_stop(&shell.server);
    assert_true(smtp_server_deadline(&shell.server) > shell.now); /* content is finished first */
    assert_int_equal(smtp_shell_feed(&shell, SLICE("hi\r\n")), SMTP_SERVER_INPUT);
    buf_clear(&shell.replies);
    assert_int_equal(smtp_shell_feed(&shell, SLICE(".\r\nMAIL FROM:<c@x>\r\n")), SMTP_SERVER_CLOSE);
    assert_true(replies_match(buf_slice(&shell.replies), "250 2.0.0 Ok|421 4.3.2"));
    assert_int_equal(shell.message_count, 1);
    assert_true(smtp_server_deadline(&shell.server) == USEC_NEVER);
    smtp_shell_fini(&shell);

    smtp_shell_init(&shell);
    smtp_shell_start(&shell, true);
    assert_true(smtp_server_deadline(&shell.server) > shell.now);
    smtp_server_stop(&shell.server);
    assert_true(smtp_server_deadline(&shell.server) <= shell.now);
    smtp_shell_fini(&shell);
}

static void test_shell_refuses(void **state)
{
    (void)state;
    struct smtp_shell shell;
    smtp_shell_init(&shell);
    smtp_shell_start(&shell, true);
    (void)smtp_shell_feed(&shell, SLICE("EHLO c\r\n"));
    buf_clear(&shell.replies);
    shell.refuses_mail = true;
    (void)smtp_shell_feed(&shell, SLICE("MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\n"));
    assert_true(replies_match(buf_slice(&shell.replies), "452 4.3.1|503 5.5.1"));
    buf_clear(&shell.replies);
    shell.refuses_mail = false;
    shell.refuses_message = true;
    (void)smtp_shell_feed(&shell, SLICE("MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nDATA\r\n"));
    (void)smtp_shell_feed(&shell, SLICE("hi\r\n.\r\nDATA\r\n"));
    assert_true(replies_match(buf_slice(&shell.replies), "250|250|354|451 4.3.0|503 5.5.1"));
    buf_clear(&shell.replies);
    shell.fails_content = true;
    (void)smtp_shell_feed(&shell, SLICE("MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nDATA\r\n"));
    (void)smtp_shell_feed(&shell, SLICE("hi\r\n.\r\nDATA\r\n"));
    assert_true(replies_match(buf_slice(&shell.replies), "250|250|354|452 4.3.1|503 5.5.1"));
    buf_clear(&shell.replies);
    (void)smtp_shell_feed(&shell, SLICE("MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nBDAT 2\r\nhi"
                                        "BDAT 2 LAST\r\nho"));
    assert_true(replies_match(buf_slice(&shell.replies), "250|250|452 4.3.1|503 5.5.1"));
    smtp_shell_fini(&shell);
}

/* A command that comes in two pieces is put together, which takes memory. */
static void test_no_memory_for_a_line(void **state)
{
    (void)state;
    struct smtp_shell shell;
    smtp_shell_init(&shell);
    smtp_shell_start(&shell, true);
    buf_clear(&shell.replies);
    shell.server.line.limit = 1; /* for the buffer this is like no memory */
    assert_int_equal(smtp_shell_feed(&shell, SLICE("EH")), SMTP_SERVER_CLOSE);
    assert_true(replies_match(buf_slice(&shell.replies), "421 4.3.1"));
    assert_true(smtp_server_deadline(&shell.server) == USEC_NEVER);
    smtp_shell_fini(&shell);
}

static void test_received_header(void **state)
{
    (void)state;
    struct smtp_shell shell;
    struct buf out = {0};
    smtp_shell_init(&shell);
    smtp_shell_start(&shell, true);
    (void)smtp_shell_feed(&shell, SLICE("EHLO <c>;(x\r\n"));
    smtp_server_received_header(&shell.server, SLICE("ABC"), SLICE("DATE"), &out);
    assert_true(slice_eq(buf_slice(&out),
                         SLICE("Received: from ?c???x\r\n\t([192.0.2.1])\r\n\tby mx.test (sluice)"
                               "\r\n\twith ESMTP id ABC;\r\n\tDATE\r\n")));
    buf_clear(&out);
    smtp_server_tls_started(&shell.server, "TLSv1.3", "TLS_AES_128_GCM_SHA256", shell.now);
    (void)smtp_shell_feed(&shell, SLICE("EHLO c.test\r\n"));
    (void)smtp_shell_feed(&shell, SLICE("AUTH PLAIN AHVzZXIAc2VjcmV0\r\n"));
    (void)smtp_shell_feed(&shell, SLICE("MAIL FROM:<a@x> SMTPUTF8\r\n"));
    smtp_server_received_header(&shell.server, SLICE("ABC"), SLICE("DATE"), &out);
    assert_true(slice_eq(buf_slice(&out),
                         SLICE("Received: from c.test\r\n\t([192.0.2.1])\r\n\t(using TLSv1.3 with "
                               "cipher TLS_AES_128_GCM_SHA256)\r\n\tby mx.test (sluice)\r\n\twith "
                               "UTF8SMTPSA id ABC;\r\n\tDATE\r\n")));
    struct smtp_server_config hiding = *shell.server.config;
    hiding.hides_client = true;
    shell.server.config = &hiding;
    buf_clear(&out);
    smtp_server_received_header(&shell.server, SLICE("ABC"), SLICE("DATE"), &out);
    assert_true(slice_eq(buf_slice(&out),
                         SLICE("Received: (using TLSv1.3 with cipher TLS_AES_128_GCM_SHA256)\r\n\t"
                               "by mx.test (sluice)\r\n\twith UTF8SMTPSA id ABC;\r\n\tDATE\r\n")));
    buf_fini(&out);
    smtp_shell_fini(&shell);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transcripts),
        cmocka_unit_test(test_early_talk),
        cmocka_unit_test(test_starttls),
        cmocka_unit_test(test_timeouts),
        cmocka_unit_test(test_content_rate),
        cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_timeout_in_a_transaction),
        cmocka_unit_test(test_refuse_and_stop),
        cmocka_unit_test(test_shell_refuses),
        cmocka_unit_test(test_no_memory_for_a_line),
        cmocka_unit_test(test_received_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
