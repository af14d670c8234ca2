#include "net/base64.h"
#include "net/smtp_server.h"
#include "tests/unit/smtp_shell.h"
#include "tests/unit/unit.h"

#include <string.h>

static bool replied(struct smtp_shell *shell, const char *expect)
{
    struct slice replies = buf_slice(&shell->replies);
    bool is_same =
        replies.len >= strlen(expect) && memcmp(replies.data, expect, strlen(expect)) == 0;
    if (!is_same) {
        print_error("got " SLICE_FMT, SLICE_ARG(replies));
    }
    buf_clear(&shell->replies);
    return is_same;
}

static void start(struct smtp_shell *shell)
{
    smtp_shell_init(shell);
    shell->config.error_limit = 1000;
    shell->config.junk_limit = 1000;
    smtp_shell_start(shell, false);
    smtp_server_tls_started(&shell->server, "TLSv1.3", "X", shell->now);
    (void)smtp_shell_feed(shell, SLICE("EHLO c\r\n"));
    buf_clear(&shell->replies);
}

/* "AUTH PLAIN " and the base64 of message. */
static void send_plain(struct smtp_shell *shell, struct slice message)
{
    char line[4096] = "AUTH PLAIN ";
    size_t len = 11;
    len += base64_encode(message, line + len);
    line[len++] = '\r';
    line[len++] = '\n';
    (void)smtp_shell_feed(shell, slice_make(line, len));
}

static void test_success(void **state)
{
    (void)state;
    struct smtp_shell shell;
    start(&shell);
    (void)smtp_shell_feed(&shell, SLICE("MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nAUTH PLAIN\r\n"));
    assert_true(replied(&shell, "250 2.1.0 Ok\r\n554 5.7.1 Relay access denied\r\n503 5.5.1"));
    (void)smtp_shell_feed(&shell, SLICE("RSET\r\n"));
    buf_clear(&shell.replies);
    send_plain(&shell, SLICE("\0user\0secret"));
    assert_true(replied(&shell, "235 2.7.0"));
    assert_true(shell.server.is_authenticated);
    assert_true(slice_eq(shell.server.auth_username, SLICE("user")));
    assert_int_equal(shell.server.auth_password.len, 0);
    assert_null(memmem(&shell.server, sizeof(shell.server), "secret", 6));
    (void)smtp_shell_feed(&shell, SLICE("MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nRSET\r\n"));
    assert_true(replied(&shell, "250 2.1.0 Ok\r\n250 2.1.5 Ok\r\n250 2.0.0"));
    (void)smtp_shell_feed(&shell, SLICE("AUTH LOGIN\r\n"));
    assert_true(replied(&shell, "503 5.5.1 Error: already"));
    (void)smtp_shell_feed(&shell, SLICE("STARTTLS\r\n"));
    assert_true(replied(&shell, "503 5.5.1"));
    (void)smtp_shell_feed(&shell, SLICE("EHLO c\r\n"));
    assert_null(memmem(shell.replies.data, shell.replies.len, "AUTH", 4));
    smtp_shell_fini(&shell);
}

static void test_exchanges(void **state)
{
    (void)state;
    struct smtp_shell shell;
    start(&shell);
    (void)smtp_shell_feed(&shell, SLICE("auth plain\r\n"));
    assert_true(replied(&shell, "334 \r\n"));
    (void)smtp_shell_feed(&shell, SLICE("AHVzZXIAc2VjcmV0\r\n"));
    assert_true(replied(&shell, "235 2.7.0"));
    smtp_shell_fini(&shell);
    start(&shell);
    (void)smtp_shell_feed(&shell, SLICE("AUTH LOGIN\r\n"));
    assert_true(replied(&shell, "334 VXNlcm5hbWU6\r\n"));
    (void)smtp_shell_feed(&shell, SLICE("dXNlcg==\r\n"));
    assert_true(replied(&shell, "334 UGFzc3dvcmQ6\r\n"));
    (void)smtp_shell_feed(&shell, SLICE("c2VjcmV0\r\n"));
    assert_true(replied(&shell, "235 2.7.0"));
    smtp_shell_fini(&shell);
    start(&shell);
    (void)smtp_shell_feed(&shell, SLICE("AUTH LOGIN dXNlcg==\r\n"));
    assert_true(replied(&shell, "334 UGFzc3dvcmQ6\r\n"));
    (void)smtp_shell_feed(&shell, SLICE("*\r\n"));
    assert_true(replied(&shell, "501 5.7.0"));
    (void)smtp_shell_feed(&shell, SLICE("AUTH PLAIN\r\n*\r\n"));
    assert_true(shell.is_closed); /* pipelined behind AUTH */
    smtp_shell_fini(&shell);
}

static void test_refusals(void **state)
{
    (void)state;
    struct smtp_shell shell;
    start(&shell);
    static const struct {
        struct slice message;
        const char *reply;
    } cases[] = {
        {SLICE(""), "501 5.5.2"},
        {SLICE("user"), "501 5.5.2"},
        {SLICE("\0user"), "501 5.5.2"},
        {SLICE("user\0secret"), "501 5.5.2"},
        {SLICE("\0user\0secret\0"), "501 5.5.2"},
        {SLICE("\0user\0secret\0more"), "501 5.5.2"},
        {SLICE("\0\0secret"), "535 5.7.8"},
        {SLICE("\0user\0"), "535 5.7.8"},
        {SLICE("\0user\0wrong"), "535 5.7.8"},
        {SLICE("\0nobody\0secret"), "535 5.7.8"},
        {SLICE("admin\0user\0secret"), "535 5.7.8"},
        {SLICE("\0broken\0x"), "454 4.7.0"},
        {SLICE("\0user\0x"), "535 5.7.8"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        send_plain(&shell, cases[i].message);
        if (i == 0) {
            /* "AUTH PLAIN " without anything asks for the response. */
            assert_true(replied(&shell, "334 "));
            (void)smtp_shell_feed(&shell, SLICE("\r\n"));
        }
        assert_true(replied(&shell, cases[i].reply));
    }
    send_plain(&shell, SLICE("user\0user\0secret"));
    assert_true(replied(&shell, "235 2.7.0"));
    smtp_shell_fini(&shell);
}

static void test_encodings(void **state)
{
    (void)state;
    struct smtp_shell shell;
    start(&shell);
    static const struct slice lines[] = {
        SLICE("AUTH PLAIN AHVzZXIAc2VjcmV=\r\n"),
        SLICE("AUTH PLAIN AHVzZXIAc2VjcmV0=\r\n"),
        SLICE("AUTH PLAIN AHVzZXIAc2VjcmV\r\n"),
        SLICE("AUTH PLAIN !!!!\r\n"),
        SLICE("AUTH PLAIN AHVz ZXIA\r\n"),
        SLICE("AUTH PLAIN =\r\n"),
        SLICE("AUTH LOGIN ====\r\n"),
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        (void)smtp_shell_feed(&shell, lines[i]);
        assert_true(replied(&shell, "501 5.5.2"));
    }
    (void)smtp_shell_feed(&shell, SLICE("AUTH CRAM-MD5\r\n"));
    assert_true(replied(&shell, "504 5.5.4"));
    (void)smtp_shell_feed(&shell, SLICE("AUTH\r\n"));
    assert_true(replied(&shell, "501 5.5.4"));
    assert_int_equal(shell.log.len, 0);
    smtp_shell_fini(&shell);
}

/* Credentials of 255 bytes pass; longer ones fail like wrong ones; lines have their own limit. */
static void test_lengths(void **state)
{
    (void)state;
    struct smtp_shell shell;
    char message[1200];
    start(&shell);
    for (size_t len = 254; len <= 257; len++) {
        memset(message, 'u', sizeof(message));
        message[0] = '\0';
        message[1 + len] = '\0';
        size_t had = shell.log.len;
        send_plain(&shell, slice_make(message, 2 + 2 * len));
        assert_true(replied(&shell, "535 5.7.8"));
        assert_int_equal(shell.log.len > had, len <= 255);
    }
    send_plain(&shell, slice_make(message, sizeof(message)));
    assert_true(replied(&shell, "535 5.7.8"));
    (void)smtp_shell_feed(&shell, SLICE("AUTH LOGIN\r\n"));
    buf_clear(&shell.replies);
    struct buf line = {0};
    for (int i = 0; i < 65000 / 4; i++) {
        buf_append_str(&line, "YWFh");
    }
    buf_append_str(&line, "\r\nNOOP\r\n");
    (void)smtp_shell_feed(&shell, buf_slice(&line));
    assert_true(replied(&shell, "500 5.5.6 Error: line too long\r\n250 2.0.0"));
    buf_fini(&line);
    smtp_shell_fini(&shell);
}

static void test_not_in_clear(void **state)
{
    (void)state;
    struct smtp_shell shell;
    smtp_shell_init(&shell);
    smtp_shell_start(&shell, false);
    (void)smtp_shell_feed(&shell, SLICE("EHLO c\r\n"));
    assert_null(memmem(shell.replies.data, shell.replies.len, "AUTH", 4));
    buf_clear(&shell.replies);
    (void)smtp_shell_feed(&shell, SLICE("AUTH PLAIN AHVzZXIAc2VjcmV0\r\n"));
    assert_true(replied(&shell, "538 5.7.11"));
    smtp_shell_fini(&shell);
    smtp_shell_init(&shell);
    shell.config.auth_needs_tls = false;
    smtp_shell_start(&shell, false);
    (void)smtp_shell_feed(&shell, SLICE("EHLO c\r\n"));
    assert_non_null(memmem(shell.replies.data, shell.replies.len, "AUTH PLAIN LOGIN", 16));
    buf_clear(&shell.replies);
    (void)smtp_shell_feed(&shell, SLICE("AUTH PLAIN AHVzZXIAc2VjcmV0\r\n"));
    assert_true(replied(&shell, "235 2.7.0"));
    smtp_shell_fini(&shell);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_success),  cmocka_unit_test(test_exchanges),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_encodings),
        cmocka_unit_test(test_lengths),  cmocka_unit_test(test_not_in_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
