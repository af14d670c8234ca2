/* Smuggling: every end-of-data candidate, followed by commands that must stay content, in all
 * the ways a session can carry them; and the limits of content. */
#include "net/smtp_server.h"
#include "tests/unit/smtp_shell.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

struct candidate {
    struct slice bytes;
    bool is_harmless; /* allowed in content, where it ends nothing */
};

static const struct candidate candidates[] = {
    {SLICE("\n.\n"), false},
    {SLICE("\n.\r"), false},
    {SLICE("\r.\n"), false},
    {SLICE("\r.\r"), false},
    {SLICE("\n.\r\n"), false},
    {SLICE("\r.\r\n"), false},
    {SLICE("\r\n.\n"), false},
    {SLICE("\r\n.\r"), false},
    {SLICE("\r\n.\r\r\n"), false},
    {SLICE("\r\r\n..\r\n"), false},
    {SLICE("\r\n\0.\r\n"), false},
    {SLICE("\r\n.\0\r\n"), false},
    {SLICE("\r\n..\r\n"), true},
    {SLICE("\r\n. \r\n"), true},
    {SLICE("\r\n.\t\r\n"), true},
    {SLICE("\r\n.\v\r\n"), true},
    {SLICE("\r\n.\f\r\n"), true},
    {SLICE("\r\n.\x85\r\n"), true},
    {SLICE("\r\n.\xe2\x80\xa8\r\n"), true},
    {SLICE("\r\n.\xc2\x85\r\n"), true},
};

static const struct slice smuggled[] = {
    SLICE("MAIL FROM:<evil@x>\r\nRCPT TO:<victim@y>\r\nDATA\r\nSubject: evil\r\n"),
    SLICE("MAIL FROM:<evil@x>\r\nRCPT TO:<victim@y>\r\nBDAT 4 LAST\r\nevil\r\n"),
};

enum carrier { BY_DATA, BY_BDAT, BY_TWO_BDATS, CARRIER_COUNT };

static bool starts_with(const struct buf *b, const char *text)
{
    return b->len >= strlen(text) && memcmp(b->data, text, strlen(text)) == 0;
}

static void feed_cut(struct smtp_shell *shell, struct slice bytes, size_t piece)
{
    while (bytes.len > 0) {
        size_t len = bytes.len < piece ? bytes.len : piece;
        (void)smtp_shell_feed(shell, slice_to(bytes, len));
        bytes = slice_from(bytes, len);
    }
}

static void feed_by_bdat(struct smtp_shell *shell, struct slice text, bool in_two, size_t piece)
{
    size_t first = in_two ? text.len / 2 : 0;
    struct buf wire = {0};
    if (in_two) {
        buf_printf(&wire, "BDAT %zu\r\n", first);
        buf_append_slice(&wire, slice_to(text, first));
    }
    buf_printf(&wire, "BDAT %zu LAST\r\n", text.len - first);
    buf_append_slice(&wire, slice_from(text, first));
    feed_cut(shell, buf_slice(&wire), piece);
    buf_fini(&wire);
}

/* One message that holds the candidate and the smuggled commands, then QUIT. */
static void attack(const struct candidate *c, struct slice commands, enum carrier carrier,
                   size_t piece, bool fixes_lf)
{
    struct smtp_shell shell;
    struct buf text = {0};

    smtp_shell_init(&shell);
    shell.config.fix_bare_lf = fixes_lf;
    smtp_shell_start(&shell, true);
    feed_cut(&shell, SLICE("EHLO c\r\n"), piece);
    feed_cut(&shell, SLICE("MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\n"), piece);
    buf_append_str(&text, "Subject: x\r\n\r\nbody");
    buf_append_slice(&text, c->bytes);
    buf_append_slice(&text, commands);
    if (carrier == BY_DATA) {
        feed_cut(&shell, SLICE("DATA\r\n"), piece);
        buf_clear(&shell.replies);
        buf_append_str(&text, "\r\n.\r\n");
        feed_cut(&shell, buf_slice(&text), piece);
    } else {
        buf_clear(&shell.replies);
        feed_by_bdat(&shell, buf_slice(&text), carrier == BY_TWO_BDATS, piece);
    }
    feed_cut(&shell, SLICE("QUIT\r\n"), piece);

    assert_true(shell.is_closed);
    assert_null(memmem(shell.log.data, shell.log.len, "envelope <evil", 14));
    assert_null(memmem(shell.log.data, shell.log.len, "recipient victim", 16));
    if (c->is_harmless) {
        assert_int_equal(shell.message_count, 1);
    } else if (!fixes_lf) {
        assert_int_equal(shell.message_count, 0);
        assert_non_null(memmem(shell.replies.data, shell.replies.len, "550 5.6.11", 10));
    }
    assert_non_null(memmem(shell.replies.data, shell.replies.len, "221 2.0.0", 9));
    buf_fini(&text);
    smtp_shell_fini(&shell);
}

static void test_smuggling_matrix(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++) {
        for (size_t j = 0; j < 2; j++) {
            for (int carrier = 0; carrier < CARRIER_COUNT; carrier++) {
                for (size_t piece = 1; piece <= 7; piece++) {
                    attack(&candidates[i], smuggled[j], (enum carrier)carrier, piece, false);
                    attack(&candidates[i], smuggled[j], (enum carrier)carrier, piece, true);
                }
                attack(&candidates[i], smuggled[j], (enum carrier)carrier, 100000, false);
                attack(&candidates[i], smuggled[j], (enum carrier)carrier, 100000, true);
            }
        }
    }
}

static void open_data(struct smtp_shell *shell, const char *data_command)
{
    (void)smtp_shell_feed(shell, SLICE("EHLO c\r\n"));
    (void)smtp_shell_feed(shell, SLICE("MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\n"));
    (void)smtp_shell_feed(shell, slice_of(data_command));
    buf_clear(&shell->replies);
}

/* Content of `size` bytes and its end; the reply must begin as expected. */
static void send_size(struct smtp_shell *shell, size_t size, const char *expect)
{
    char block[998];
    memset(block, 'x', sizeof(block));
    while (size > 2) {
        size_t len = size - 2 < sizeof(block) ? size - 2 : sizeof(block);
        (void)smtp_shell_feed(shell, slice_make(block, len));
        (void)smtp_shell_feed(shell, SLICE("\r\n"));
        size -= len + 2;
    }
    (void)smtp_shell_feed(shell, SLICE(".\r\n"));
    assert_true(starts_with(&shell->replies, expect));
    buf_clear(&shell->replies);
}

static void test_size_limit(void **state)
{
    (void)state;
    struct smtp_shell shell;
    smtp_shell_init(&shell);
    shell.config.message_size_limit = 100000;
    smtp_shell_start(&shell, true);
    open_data(&shell, "DATA\r\n");
    send_size(&shell, 100000, "250 2.0.0");
    open_data(&shell, "DATA\r\n");
    send_size(&shell, 100003, "552 5.3.4");
    open_data(&shell, "DATA\r\n");
    send_size(&shell, 1000000, "552 5.3.4");
    assert_false(shell.is_closed);
    open_data(&shell, "BDAT 100000 LAST\r\n");
    char *big = calloc(1, 200000);
    assert_non_null(big);
    memset(big, 'x', 200000);
    big[99998] = '\r';
    big[99999] = '\n';
    (void)smtp_shell_feed(&shell, slice_make(big, 100000));
    assert_true(starts_with(&shell.replies, "250 2.0.0"));
    open_data(&shell, "BDAT 60000\r\n");
    (void)smtp_shell_feed(&shell, slice_make(big, 60000));
    assert_true(starts_with(&shell.replies, "250 2.0.0"));
    buf_clear(&shell.replies);
    (void)smtp_shell_feed(&shell, SLICE("BDAT 60000\r\n"));
    (void)smtp_shell_feed(&shell, slice_make(big, 60000));
    assert_true(starts_with(&shell.replies, "552 5.3.4"));
    buf_clear(&shell.replies);
    (void)smtp_shell_feed(&shell, SLICE("BDAT 2 LAST\r\nhi"));
    assert_true(starts_with(&shell.replies, "503 5.5.1"));
    free(big);
    smtp_shell_fini(&shell);
}

/* Beyond all measure the session ends, without reading what was announced. */
static void test_absurd_sizes(void **state)
{
    (void)state;
    static const char *const commands[] = {
        "BDAT 18446744073709551615 LAST\r\n", "BDAT 9223372036854775808\r\n",
        "BDAT 99999999999999999999999 LAST\r\n", "BDAT 1000000000\r\n"};
    struct smtp_shell shell;
    for (size_t i = 0; i < 4; i++) {
        smtp_shell_init(&shell);
        smtp_shell_start(&shell, true);
        (void)smtp_shell_feed(&shell, SLICE("EHLO c\r\n"));
        (void)smtp_shell_feed(&shell, SLICE("MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\n"));
        buf_clear(&shell.replies);
        (void)smtp_shell_feed(&shell, slice_of(commands[i]));
        assert_true(starts_with(&shell.replies, "552 5.3.4"));
        assert_true(shell.is_closed);
        smtp_shell_fini(&shell);
    }
    static char block[65536];
    memset(block, 'x', sizeof(block));
    smtp_shell_init(&shell);
    shell.config.message_size_limit = 100000;
    smtp_shell_start(&shell, true);
    open_data(&shell, "DATA\r\n");
    size_t sent = 0;
    while (!shell.is_closed && sent < 10000000) {
        (void)smtp_shell_feed(&shell, slice_make(block, sizeof(block)));
        sent += sizeof(block);
    }
    assert_true(sent < 1700000);
    assert_true(starts_with(&shell.replies, "552 5.3.4"));
    smtp_shell_fini(&shell);
}

static void test_hop_limit(void **state)
{
    (void)state;
    struct smtp_shell shell;
    smtp_shell_init(&shell);
    smtp_shell_start(&shell, true);
    for (int hops = 50; hops <= 51; hops++) {
        open_data(&shell, "DATA\r\n");
        for (int i = 0; i < hops; i++) {
            (void)smtp_shell_feed(&shell, SLICE("Received: x\r\n"));
        }
        (void)smtp_shell_feed(&shell, SLICE("\r\nReceived: x\r\n.\r\n"));
        assert_true(starts_with(&shell.replies, hops == 50 ? "250 2.0.0" : "554 5.4.6"));
    }
    smtp_shell_fini(&shell);
}

static void test_line_and_header_limits(void **state)
{
    (void)state;
    struct smtp_shell shell;
    smtp_shell_init(&shell);
    shell.config.text_line_limit = 10;
    shell.config.header_fields_limit = 2;
    smtp_shell_start(&shell, true);
    open_data(&shell, "DATA\r\n");
    (void)smtp_shell_feed(&shell, SLICE("A: b\r\nC: d\r\n\r\n0123456789\r\n.\r\n"));
    assert_true(starts_with(&shell.replies, "250 2.0.0"));
    open_data(&shell, "DATA\r\n");
    (void)smtp_shell_feed(&shell, SLICE("01234567890\r\n.\r\n"));
    assert_true(starts_with(&shell.replies, "554 5.6.0"));
    open_data(&shell, "DATA\r\n");
    (void)smtp_shell_feed(&shell, SLICE("A: b\r\nC: d\r\nE: f\r\n.\r\n"));
    assert_true(starts_with(&shell.replies, "554 5.6.0"));
    smtp_shell_fini(&shell);
}

/* Many tiny chunks cost no memory; empty ones count as junk. */
static void test_tiny_chunks(void **state)
{
    (void)state;
    struct smtp_shell shell;
    smtp_shell_init(&shell);
    smtp_shell_start(&shell, true);
    open_data(&shell, "NOOP\r\n");
    for (int i = 0; i < 10000; i++) {
        (void)smtp_shell_feed(&shell, SLICE("BDAT 1\r\nx"));
    }
    (void)smtp_shell_feed(&shell, SLICE("BDAT 0 LAST\r\n"));
    assert_int_equal(shell.message_count, 1);
    open_data(&shell, "NOOP\r\n");
    int chunks = 0;
    while (!shell.is_closed && chunks < 1000) {
        (void)smtp_shell_feed(&shell, SLICE("BDAT 0\r\n"));
        chunks++;
    }
    assert_in_range(chunks, 100, 125);
    smtp_shell_fini(&shell);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smuggling_matrix),       cmocka_unit_test(test_size_limit),
        cmocka_unit_test(test_absurd_sizes),           cmocka_unit_test(test_hop_limit),
        cmocka_unit_test(test_line_and_header_limits), cmocka_unit_test(test_tiny_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
