/* Every sequence of commands and failures up to a length, against a model of a dozen lines: the
 * transaction must be in the same state whatever failed before. And the limits of commands. */
#include "net/smtp_server.h"
#include "tests/unit/smtp_shell.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

/* The model: all that a session may remember. */
struct model {
    bool has_hello;
    int transaction; /* 0 none, 1 MAIL, 2 RCPT, 3 BDAT */
    int messages;
    int aborted;
};

enum action {
    EHLO,
    EHLO_BAD,
    MAIL,
    MAIL_BAD,
    MAIL_REFUSED, /* by the shell */
    RCPT,
    RCPT_BAD,
    DATA,
    DATA_BAD,     /* content with a bare LF */
    DATA_REFUSED, /* by the shell, at the end */
    BDAT,
    BDAT_BAD,
    BDAT_LAST,
    RSET,
    ACTION_COUNT
};

static void model_drop(struct model *m)
{
    m->aborted += m->transaction > 0;
    m->transaction = 0;
}

static int model_content(struct model *m, int needed_reply, int done_reply)
{
    if (m->transaction < 2) {
        return m->transaction == 1 ? 554 : needed_reply;
    }
    if (done_reply == 550) {
        model_drop(m);
    } else if (done_reply == 250) {
        m->messages++;
    }
    m->transaction = 0;
    return done_reply;
}

/* Whether an action comes out of order: 503, and nothing else. */
static bool model_refuses(const struct model *m, enum action action)
{
    bool is_mail = action == MAIL || action == MAIL_BAD || action == MAIL_REFUSED;
    if (is_mail && (!m->has_hello || m->transaction > 0)) {
        return true;
    }
    bool is_rcpt = action == RCPT || action == RCPT_BAD;
    if (is_rcpt && (m->transaction == 0 || m->transaction == 3)) {
        return true;
    }
    bool is_data = action == DATA || action == DATA_BAD || action == DATA_REFUSED;
    return is_data && m->transaction == 3;
}

/* The reply code of an action, and what it changes. */
static int model_run(struct model *m, enum action action)
{
    if (model_refuses(m, action)) {
        return 503;
    }
    switch (action) {
    case EHLO:
        model_drop(m);
        m->has_hello = true;
        return 250;
    case EHLO_BAD:
    case MAIL_BAD:
    case RCPT_BAD:
        return 501;
    case MAIL:
        m->transaction = 1;
        return 250;
    case MAIL_REFUSED:
        return 452;
    case RCPT:
        m->transaction = 2;
        return 250;
    case DATA:
        return model_content(m, 503, 250);
    case DATA_BAD:
        return model_content(m, 503, 550);
    case DATA_REFUSED:
        return model_content(m, 503, 451);
    case BDAT:
        if (m->transaction < 2) {
            return m->transaction == 1 ? 554 : 503;
        }
        m->transaction = 3;
        return 250;
    case BDAT_BAD:
        return model_content(m, 503, 550);
    case BDAT_LAST:
        return model_content(m, 503, 250);
    case RSET:
        model_drop(m);
        return 250;
    case ACTION_COUNT:
        break;
    }
    return 0;
}

static const char *const texts[ACTION_COUNT] = {
    [EHLO] = "EHLO c\r\n",
    [EHLO_BAD] = "EHLO\r\n",
    [MAIL] = "MAIL FROM:<a@x>\r\n",
    [MAIL_BAD] = "MAIL FROM:<a@x> SIZE=z\r\n",
    [MAIL_REFUSED] = "MAIL FROM:<a@x>\r\n",
    [RCPT] = "RCPT TO:<b@y>\r\n",
    [RCPT_BAD] = "RCPT TO:<b@\r\n",
    [DATA] = "DATA\r\n",
    [DATA_BAD] = "DATA\r\n",
    [DATA_REFUSED] = "DATA\r\n",
    [BDAT] = "BDAT 3\r\na\r\n",
    [BDAT_BAD] = "BDAT 2\r\na\n",
    [BDAT_LAST] = "BDAT 6 LAST\r\nQUIT\r\n",
    [RSET] = "RSET\r\n",
};

static int last_code(const struct smtp_shell *shell)
{
    /* The last line of a reply carries its code like the others. */
    size_t at = shell->replies.len;
    while (at > 0 && (at == shell->replies.len || shell->replies.data[at - 1] != '\n')) {
        at--;
    }
    int code = 0;
    for (size_t i = at; i < at + 3 && i < shell->replies.len; i++) {
        code = code * 10 + (shell->replies.data[i] - '0');
    }
    return code;
}

static int shell_run(struct smtp_shell *shell, enum action action)
{
    buf_clear(&shell->replies);
    shell->refuses_mail = action == MAIL_REFUSED;
    shell->refuses_message = action == DATA_REFUSED;
    (void)smtp_shell_feed(shell, slice_of(texts[action]));
    if (shell->server.state == SMTP_SERVER_DATA) {
        buf_clear(&shell->replies);
        (void)smtp_shell_feed(shell,
                              action == DATA_BAD ? SLICE("a\nb\r\n.\r\n") : SLICE("a\r\n.\r\n"));
    }
    return last_code(shell);
}

static int count(const struct buf *log, const char *word)
{
    int found = 0;
    size_t len = strlen(word);
    for (size_t at = 0; at + len <= log->len; at++) {
        found += memcmp(log->data + at, word, len) == 0;
    }
    return found;
}

static void check_sequence(const enum action *actions, int len)
{
    struct smtp_shell shell;
    struct model model = {0};
    int accepted = 0;
    smtp_shell_init(&shell);
    smtp_shell_start(&shell, true);
    for (int i = 0; i < len; i++) {
        int expected = model_run(&model, actions[i]);
        int got = shell_run(&shell, actions[i]);
        if (got != expected || shell.is_closed) {
            fail_msg("action %d (%d) of %d %d %d %d: got %d, expected %d", i, actions[i],
                     actions[0], actions[1], actions[2], actions[3], got, expected);
        }
        accepted += actions[i] != DATA_REFUSED && got == 250 &&
                    (actions[i] == DATA || actions[i] == BDAT_LAST);
        assert_int_equal(shell.is_staged, model.transaction > 0);
    }
    assert_int_equal(accepted, model.messages);
    assert_int_equal(count(&shell.log, "aborted\n"), model.aborted);
    /* A session that goes on is closed by QUIT like any other. */
    (void)smtp_shell_feed(&shell, SLICE("QUIT\r\n"));
    assert_true(shell.is_closed);
    smtp_shell_fini(&shell);
}

#ifdef SLUICE_SANITIZED
#define SEQUENCE_LEN 4
#else
#define SEQUENCE_LEN 5
#endif

static void test_every_sequence(void **state)
{
    (void)state;
    enum action actions[SEQUENCE_LEN] = {EHLO};
    long total = 1;
    for (int i = 0; i < SEQUENCE_LEN; i++) {
        total *= ACTION_COUNT;
    }
    for (long n = 0; n < total; n++) {
        long rest = n;
        for (int i = 0; i < SEQUENCE_LEN; i++) {
            actions[i] = (enum action)(rest % ACTION_COUNT);
            rest /= ACTION_COUNT;
        }
        check_sequence(actions, SEQUENCE_LEN);
    }
}

/* Long random walks: no state that only shows after many transactions. */
static void test_random_walks(void **state)
{
    (void)state;
    uint32_t seed = 7;
    for (int walk = 0; walk < 300; walk++) {
        enum action actions[19];
        for (int i = 0; i < 19; i++) {
            seed = seed * 1664525 + 1013904223;
            actions[i] = (enum action)((seed >> 16) % ACTION_COUNT);
        }
        check_sequence(actions, 19);
    }
}

static void start(struct smtp_shell *shell)
{
    smtp_shell_start(shell, true);
    (void)smtp_shell_feed(shell, SLICE("EHLO c\r\n"));
    buf_clear(&shell->replies);
}

static void test_command_line_limit(void **state)
{
    (void)state;
    struct smtp_shell shell;
    char line[3000];
    smtp_shell_init(&shell);
    start(&shell);
    memset(line, 'x', sizeof(line));
    memcpy(line, "NOOP ", 5);
    memcpy(line + 2046, "\r\n", 2);
    (void)smtp_shell_feed(&shell, slice_make(line, 2048));
    assert_int_equal(last_code(&shell), 250);
    memcpy(line + 2046, "x\r\n", 3);
    (void)smtp_shell_feed(&shell, slice_make(line, 2049));
    assert_int_equal(last_code(&shell), 500);
    (void)smtp_shell_feed(&shell, SLICE("NOOP\r\n"));
    assert_int_equal(last_code(&shell), 250);
    size_t sent = 0;
    while (!shell.is_closed && sent < 1000000) {
        (void)smtp_shell_feed(&shell, SLICE("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"));
        sent += 40;
        assert_true(shell.server.line.capacity <= 2048);
    }
    assert_in_range(sent, 65536, 65536 + 40);
    assert_int_equal(last_code(&shell), 421);
    smtp_shell_fini(&shell);
}

/* A command of so many bytes, its end among them, is refused; one more ends the connection. */
static void test_discard_limit(void **state)
{
    enum { MOST = 65536 };
    static char line[MOST + 1];
    (void)state;
    for (size_t len = MOST; len <= MOST + 1; len++) {
        struct smtp_shell shell;
        smtp_shell_init(&shell);
        start(&shell);
        memset(line, 'x', len);
        memcpy(line + len - 2, "\r\n", 2);
        (void)smtp_shell_feed(&shell, slice_make(line, len));
        assert_int_equal(last_code(&shell), len == MOST ? 500 : 421);
        assert_int_equal(shell.is_closed, len > MOST);
        smtp_shell_fini(&shell);
    }
}

static void test_recipient_limit(void **state)
{
    (void)state;
    struct smtp_shell shell;
    smtp_shell_init(&shell);
    shell.config.recipient_limit = 10;
    shell.config.recipient_batch = 3;
    start(&shell);
    (void)smtp_shell_feed(&shell, SLICE("MAIL FROM:<a@x>\r\n"));
    for (int i = 1; i <= 21; i++) {
        (void)smtp_shell_feed(&shell, SLICE("RCPT TO:<b@y>\r\n"));
        assert_int_equal(last_code(&shell), i <= 10 ? 250 : i <= 20 ? 452 : 421);
        assert_int_equal(shell.is_closed, i == 21);
    }
    smtp_shell_fini(&shell);
    /* Without going that far the message is taken for those accepted. */
    smtp_shell_init(&shell);
    shell.config.recipient_limit = 10;
    start(&shell);
    (void)smtp_shell_feed(&shell, SLICE("MAIL FROM:<a@x>\r\n"));
    for (int i = 1; i <= 20; i++) {
        (void)smtp_shell_feed(&shell, SLICE("RCPT TO:<b@y>\r\n"));
    }
    (void)smtp_shell_feed(&shell, SLICE("BDAT 2 LAST\r\nhi"));
    assert_int_equal(shell.message_count, 1);
    assert_int_equal(count(&shell.log, "recipient b@y"), 10);
    smtp_shell_fini(&shell);
}

/* An envelope without limit needs the memory of a batch. */
static void test_endless_envelope(void **state)
{
    (void)state;
    struct smtp_shell shell;
    smtp_shell_init(&shell);
    shell.config.recipient_limit = 0;
    start(&shell);
    (void)smtp_shell_feed(&shell, SLICE("MAIL FROM:<a@x>\r\n"));
    for (int i = 0; i < 50000; i++) {
        (void)smtp_shell_feed(&shell, SLICE("RCPT TO:<somebody@example.test>\r\n"));
        buf_clear(&shell.replies);
        assert_true(shell.server.recipients.capacity <= 65536);
    }
    (void)smtp_shell_feed(&shell, SLICE("BDAT 2 LAST\r\nhi"));
    assert_int_equal(shell.message_count, 1);
    assert_int_equal(shell.recipients_seen, 50000);
    smtp_shell_fini(&shell);
}

static void test_junk_limit(void **state)
{
    (void)state;
    struct smtp_shell shell;
    smtp_shell_init(&shell);
    start(&shell);
    int sent = 1; /* EHLO */
    while (!shell.is_closed && sent < 1000) {
        (void)smtp_shell_feed(&shell, SLICE("NOOP\r\n"));
        sent++;
    }
    assert_int_equal(sent, 100 + 20 + 1);
    smtp_shell_fini(&shell);
    /* A client that delivers may reset as often as it likes. */
    smtp_shell_init(&shell);
    start(&shell);
    for (int i = 0; i < 500; i++) {
        (void)smtp_shell_feed(&shell, SLICE("RSET\r\nMAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\n"
                                            "BDAT 2 LAST\r\nhi"));
    }
    assert_int_equal(shell.message_count, 500);
    smtp_shell_fini(&shell);
}

/* Replies to a peer that does not read them stay bounded. */
static void test_replies_are_bounded(void **state)
{
    (void)state;
    struct smtp_shell shell;
    struct buf text = {0};
    smtp_shell_init(&shell);
    shell.config.junk_limit = UINT32_MAX;
    smtp_shell_start(&shell, true);
    for (int i = 0; i < 100000; i++) {
        buf_append_str(&text, "NOOP\r\n");
    }
    struct slice in = buf_slice(&text);
    enum smtp_server_event event = smtp_server_step(&shell.server, &in, &shell.body, shell.now);
    assert_int_equal(event, SMTP_SERVER_FLUSH);
    assert_true(shell.server.out.len < 16384);
    size_t left = in.len;
    event = smtp_server_step(&shell.server, &in, &shell.body, shell.now);
    assert_int_equal(event, SMTP_SERVER_FLUSH);
    assert_int_equal(in.len, left);
    buf_fini(&text);
    smtp_shell_fini(&shell);
}

static bool is_example(const void *routes, struct slice domain)
{
    (void)routes;
    return slice_eq(domain, SLICE("example.com"));
}

static void test_recipient_without_route(void **state)
{
    (void)state;
    struct smtp_shell shell;
    smtp_shell_init(&shell);
    shell.config.has_route = is_example;
    smtp_shell_start(&shell, true);
    (void)smtp_shell_feed(&shell, SLICE("EHLO c\r\n"));
    (void)smtp_shell_feed(&shell, SLICE("MAIL FROM:<a@x>\r\n"));
    buf_clear(&shell.replies);
    (void)smtp_shell_feed(&shell, SLICE("RCPT TO:<b@y>\r\nDATA\r\n"));
    (void)smtp_shell_feed(&shell, SLICE("RCPT TO:<b@EXAMPLE.com>\r\n"));
    assert_true(slice_eq(buf_slice(&shell.replies), SLICE("550 5.1.2 Error: no route to domain\r\n"
                                                          "554 5.5.1 Error: no valid recipients\r\n"
                                                          "250 2.1.5 Ok\r\n")));
    smtp_shell_fini(&shell);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_sequence),
        cmocka_unit_test(test_random_walks),
        cmocka_unit_test(test_discard_limit),
        cmocka_unit_test(test_command_line_limit),
        cmocka_unit_test(test_recipient_limit),
        cmocka_unit_test(test_endless_envelope),
        cmocka_unit_test(test_junk_limit),
        cmocka_unit_test(test_replies_are_bounded),
        cmocka_unit_test(test_recipient_without_route),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
