#include "base/error.h"
#include "net/smtp_reply.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

/* Read one reply out of text; chunk bytes at a time, each in an exact heap copy. */
static enum smtp_reply_result read_reply(struct smtp_reply *r, struct slice text, size_t chunk)
{
    while (text.len > 0) {
        size_t len = text.len < chunk ? text.len : chunk;
        char *copy = malloc(len);
        assert_non_null(copy);
        memcpy(copy, text.data, len);
        struct slice in = slice_make(copy, len);
        enum smtp_reply_result result = SMTP_REPLY_LINE;
        while (result == SMTP_REPLY_LINE && in.len > 0) {
            result = smtp_reply_feed(r, &in);
        }
        text = slice_from(text, len - in.len);
        free(copy);
        if (result == SMTP_REPLY_DONE || result == SMTP_REPLY_BAD) {
            return result;
        }
    }
    return SMTP_REPLY_MORE;
}

struct good {
    struct slice in;
    uint16_t code;
    const char *status, *text;
    bool is_mixed, has_bare_lf, is_unclean;
};

static const struct good goods[] = {
    {SLICE("250 2.1.5 ok\r\n"), 250, "2.1.5", "250 2.1.5 ok", false, false, false},
    {SLICE("250\r\n"), 250, "2.0.0", "250", false, false, false},
    {SLICE("250 \r\n"), 250, "2.0.0", "250", false, false, false},
    {SLICE("250-\r\n250\r\n"), 250, "2.0.0", "250", false, false, false},
    {SLICE("250 ok\n"), 250, "2.0.0", "250 ok", false, true, false},
    {SLICE("550-5.1.1 a\r\n550 5.7.1 b\r\n"), 550, "5.1.1", "550 5.1.1 a 5.7.1 b", false, false,
     false},
    {SLICE("550-4.1.1 a\r\n550 5.7.1 b\r\n"), 550, "5.7.1", "550 4.1.1 a 5.7.1 b", false, false,
     false},
    {SLICE("450 5.1.1 x\r\n"), 450, "4.0.0", "450 5.1.1 x", false, false, false},
    {SLICE("554 5.7.2\r\n"), 554, "5.7.2", "554 5.7.2", false, false, false},
    {SLICE("554 5.7.2000 x\r\n"), 554, "5.0.0", "554 5.7.2000 x", false, false, false},
    {SLICE("250-a\r\n550 b\r\n"), 550, "5.0.0", "250 a b", true, false, false},
    {SLICE("421-a\r\n450 b\r\n"), 421, "4.0.0", "421 a b", false, false, false},
    {SLICE("250 a\0b\x1b[0m\tc\r\r\n"), 250, "2.0.0", "250 a?b?[0m c?", false, false, true},
    {SLICE("250 \xdf\xbf\r\n"), 250, "2.0.0", "250 \xdf\xbf", false, false, true},
    {SLICE("250 \xc3\xa4\xff\xc2\x85\xed\xa0\x80\r\n"), 250, "2.0.0", "250 \xc3\xa4??????", false,
     false, true},
    {SLICE("599 x\r\n"), 599, "5.0.0", "599 x", false, false, false},
};

static void test_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(goods) / sizeof(goods[0]); i++) {
        const struct good *g = &goods[i];
        for (size_t chunk = 1; chunk <= g->in.len; chunk++) {
            struct smtp_reply r;
            smtp_reply_init(&r);
            assert_false(smtp_reply_is_partial(&r));
            assert_int_equal(read_reply(&r, slice_to(g->in, g->in.len - 1), chunk),
                             SMTP_REPLY_MORE);
            assert_true(smtp_reply_is_partial(&r));
            assert_int_equal(read_reply(&r, slice_from(g->in, g->in.len - 1), 1), SMTP_REPLY_DONE);
            assert_int_equal(r.code, g->code);
            assert_string_equal(r.status.text, g->status);
            assert_true(slice_eq(smtp_reply_text(&r), slice_of(g->text)));
            assert_int_equal(r.is_mixed, g->is_mixed);
            assert_int_equal(r.has_bare_lf, g->has_bare_lf);
            assert_int_equal(r.is_unclean, g->is_unclean);
            smtp_reply_fini(&r);
        }
    }
}

static void test_garbage(void **state)
{
    (void)state;
    const char *const bad[] = {"\r\n",         "25\r\n",     "2500 x\r\n", "abc def\r\n",
                               "150 x\r\n",    "600 x\r\n",  "099 x\r\n",  "250_x\r\n",
                               " 250\r\n",     "2 50 x\r\n", "250\tx\r\n", "250-a\r\nb\r\n",
                               "250-\r\n\r\n", "-250 x\r\n"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        for (size_t chunk = 1; chunk <= strlen(bad[i]); chunk++) {
            struct smtp_reply r;
            smtp_reply_init(&r);
            assert_int_equal(read_reply(&r, slice_of(bad[i]), chunk), SMTP_REPLY_BAD);
            assert_non_null(r.problem);
            struct slice more = SLICE("250 ok\r\n");
            assert_int_equal(smtp_reply_feed(&r, &more), SMTP_REPLY_BAD);
            smtp_reply_fini(&r);
        }
    }
}

/* Replies that follow each other in one read. */
static void test_several(void **state)
{
    (void)state;
    struct smtp_reply r;
    smtp_reply_init(&r);
    struct slice in = SLICE("250-a\r\n250 b\r\n550 c\r\n354");
    assert_int_equal(smtp_reply_feed(&r, &in), SMTP_REPLY_LINE);
    assert_true(slice_eq(r.line, SLICE("a")));
    assert_int_equal(smtp_reply_feed(&r, &in), SMTP_REPLY_DONE);
    assert_true(slice_eq(r.line, SLICE("b")));
    smtp_reply_next(&r);
    assert_int_equal(smtp_reply_feed(&r, &in), SMTP_REPLY_DONE);
    assert_int_equal(r.code, 550);
    smtp_reply_next(&r);
    assert_int_equal(smtp_reply_feed(&r, &in), SMTP_REPLY_MORE);
    assert_int_equal(in.len, 0);
    in = SLICE("\r\n");
    assert_int_equal(smtp_reply_feed(&r, &in), SMTP_REPLY_DONE);
    assert_int_equal(r.code, 354);
    smtp_reply_fini(&r);
}

/* A line of len bytes without its end; the text is as long as allowed and not cut within UTF-8. */
static void check_long_line(size_t len, size_t chunk, enum smtp_reply_result wanted)
{
    struct buf line = {.limit = 0};
    buf_append_str(&line, "250 ");
    while (line.len < len) {
        buf_append_str(&line, line.len + 1 < len ? "\xc3\xa4" : "x");
    }
    buf_append_str(&line, "\r\n");
    struct smtp_reply r;
    smtp_reply_init(&r);
    assert_int_equal(read_reply(&r, buf_slice(&line), chunk), wanted);
    if (wanted == SMTP_REPLY_DONE) {
        assert_false(r.has_bare_lf);
        size_t shown = len < SMTP_REPLY_TEXT_MAX ? len : SMTP_REPLY_TEXT_MAX;
        assert_true(r.text.len == shown || r.text.len + 1 == shown);
        size_t kept = len < SMTP_REPLY_LINE_MAX ? len : SMTP_REPLY_LINE_MAX;
        assert_int_equal(r.line.len, kept - 4);
    }
    assert_true(r.partial.capacity <= 2 * (SMTP_REPLY_LINE_MAX + 1));
    assert_true(r.text.capacity <= 2 * SMTP_REPLY_TEXT_MAX);
    smtp_reply_fini(&r);
    buf_fini(&line);
}

static void test_line_limits(void **state)
{
    (void)state;
    const size_t lengths[] = {510, 512, 998, 1000, 1001, 4094, 4095, 4096, 4097, 4098, 60000};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        check_long_line(lengths[i], 1, SMTP_REPLY_DONE);
        check_long_line(lengths[i], 4097, SMTP_REPLY_DONE);
        check_long_line(lengths[i], SIZE_MAX, SMTP_REPLY_DONE);
    }
    check_long_line(SMTP_REPLY_BYTES_MAX - 2, SIZE_MAX, SMTP_REPLY_DONE);
    check_long_line(SMTP_REPLY_BYTES_MAX - 2, 1000, SMTP_REPLY_DONE);
    check_long_line(SMTP_REPLY_BYTES_MAX - 1, SIZE_MAX, SMTP_REPLY_BAD);
    check_long_line(SMTP_REPLY_BYTES_MAX - 1, 1000, SMTP_REPLY_BAD);
    check_long_line(1000000, 1000, SMTP_REPLY_BAD);
}

static void test_line_count(void **state)
{
    (void)state;
    for (unsigned count = SMTP_REPLY_LINES_MAX - 1; count <= SMTP_REPLY_LINES_MAX; count++) {
        struct smtp_reply r;
        smtp_reply_init(&r);
        for (unsigned i = 0; i < count; i++) {
            struct slice in = SLICE("250-x\r\n");
            assert_int_equal(smtp_reply_feed(&r, &in), SMTP_REPLY_LINE);
        }
        struct slice in = SLICE("250 x\r\n");
        assert_int_equal(smtp_reply_feed(&r, &in),
                         count < SMTP_REPLY_LINES_MAX ? SMTP_REPLY_DONE : SMTP_REPLY_BAD);
        smtp_reply_fini(&r);
    }
}

static void test_parse_status(void **state)
{
    (void)state;
    const char *const good[] = {"2.0.0", "5.1.1 text", "4.999.999", "5.7.25 "};
    const char *const bad[] = {"",       "5",        "5.",      "5.1",    "5.1.",
                               "5.1. x", "3.1.1",    "5.1.x",   "5..1",   "5.1.1x",
                               "51.1.1", "5.1000.1", "5.1.1.1", " 5.1.1", "5,1,1"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct outcome_status status;
        assert_int_equal(smtp_reply_parse_status(slice_of(good[i]), &status), 0);
        assert_memory_equal(status.text, good[i], strlen(status.text));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct outcome_status status;
        /* an exact copy: nothing behind the end may be read */
        size_t len = strlen(bad[i]);
        char *copy = malloc(len > 0 ? len : 1);
        assert_non_null(copy);
        memcpy(copy, bad[i], len);
        assert_int_equal(smtp_reply_parse_status(slice_make(copy, len), &status), ERR_SYNTAX);
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),       cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_several),    cmocka_unit_test(test_line_limits),
        cmocka_unit_test(test_line_count), cmocka_unit_test(test_parse_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
