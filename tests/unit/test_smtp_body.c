#include "net/smtp_body.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

struct decoded {
    struct buf content;
    struct smtp_body body;
    size_t consumed;
    bool has_ended;
};

/* Decode text in pieces of `piece` bytes with an output buffer of `room` bytes. */
static void decode(struct slice text, struct smtp_body_limits limits, bool has_dots, size_t piece,
                   size_t room, struct decoded *ret)
{
    struct buf out;
    *ret = (struct decoded){0};
    buf_init(&out, room);
    smtp_body_init(&ret->body, &limits, has_dots);
    while (ret->consumed < text.len && !ret->has_ended) {
        size_t left = text.len - ret->consumed;
        struct slice in = {text.data + ret->consumed, left < piece ? left : piece};
        size_t had = in.len;
        enum smtp_body_result result = smtp_body_decode(&ret->body, &in, &out);
        ret->consumed += had - in.len;
        assert_true(result != SMTP_BODY_MORE || in.len == 0);
        ret->has_ended = result == SMTP_BODY_END;
        buf_append_slice(&ret->content, buf_slice(&out));
        buf_clear(&out);
    }
    if (!has_dots) {
        assert_int_equal(smtp_body_finish(&ret->body, &out), SMTP_BODY_END);
        buf_append_slice(&ret->content, buf_slice(&out));
        ret->has_ended = true;
    }
    buf_fini(&out);
}

/* What is learnt without a copy is the same, up to the end of a last line that has none. */
static void look(struct slice text, struct smtp_body_limits limits, const struct decoded *same)
{
    struct smtp_body body;
    smtp_body_init(&body, &limits, false);
    smtp_body_look(&body, text);
    if (text.len >= 2 && memcmp(text.data + text.len - 2, "\r\n", 2) == 0) {
        assert_int_equal(body.fault, same->body.fault);
        assert_memory_equal(&body.facts, &same->body.facts, sizeof(body.facts));
    }
}

/* Content that was accepted may go out as it is but for the dots that the facts tell of. */
static void assert_lines(struct slice content, const struct smtp_body_facts *facts)
{
    bool has_leading_dot = false;
    char last = '\n';
    for (size_t i = 0; i < content.len; i++) {
        char c = content.data[i];
        assert_true(c != '\0' && (c == '\n') == (i > 0 && last == '\r'));
        has_leading_dot = has_leading_dot || (last == '\n' && c == '.');
        last = c;
    }
    assert_int_equal(last, '\n');
    assert_int_equal(facts->has_leading_dot, has_leading_dot);
}

/* All ways to cut the input and to bound the output must agree with the first. */
static void decode_all_ways(struct slice text, struct smtp_body_limits limits, bool has_dots,
                            struct decoded *ret)
{
    decode(text, limits, has_dots, SIZE_MAX, 4096, ret);
    if (!has_dots) {
        look(text, limits, ret);
    }
    if (ret->has_ended && ret->body.fault == SMTP_BODY_OK) {
        assert_lines(buf_slice(&ret->content), &ret->body.facts);
    }
    for (size_t piece = 1; piece <= 9; piece++) {
        for (size_t room = 2; room <= 5; room++) {
            struct decoded other;
            decode(text, limits, has_dots, piece, room, &other);
            assert_int_equal(other.consumed, ret->consumed);
            assert_int_equal(other.has_ended, ret->has_ended);
            assert_int_equal(other.body.fault, ret->body.fault);
            assert_memory_equal(&other.body.facts, &ret->body.facts, sizeof(ret->body.facts));
            if (ret->body.fault == SMTP_BODY_OK) {
                assert_true(slice_eq(buf_slice(&other.content), buf_slice(&ret->content)));
            }
            buf_fini(&other.content);
        }
    }
}

static void assert_data(struct slice text, struct slice expected)
{
    struct decoded d;
    decode_all_ways(text, (struct smtp_body_limits){0}, true, &d);
    assert_int_equal(d.body.fault, SMTP_BODY_OK);
    assert_true(d.has_ended);
    assert_int_equal(d.consumed, text.len);
    assert_true(slice_eq(buf_slice(&d.content), expected));
    buf_fini(&d.content);
}

static void test_unstuffing(void **state)
{
    (void)state;
    assert_data(SLICE(".\r\n"), SLICE(""));
    assert_data(SLICE("\r\n.\r\n"), SLICE("\r\n"));
    assert_data(SLICE("a\r\n.\r\n"), SLICE("a\r\n"));
    assert_data(SLICE("..\r\n.\r\n"), SLICE(".\r\n"));
    assert_data(SLICE("...\r\n.\r\n"), SLICE("..\r\n"));
    assert_data(SLICE(".a\r\na.\r\n.\r\n"), SLICE("a\r\na.\r\n"));
    assert_data(SLICE(". \r\n.\r\n"), SLICE(" \r\n"));
    assert_data(SLICE("a\r\n..\r\n..b\r\n\r\n\r\n.\r\n"), SLICE("a\r\n.\r\n.b\r\n\r\n\r\n"));
}

/* Every end-of-data candidate known from SMTP smuggling, in the middle of content. */
static const struct slice candidates[] = {
    SLICE("\n.\n"),       SLICE("\n.\r"),         SLICE("\r.\n"),       SLICE("\r.\r"),
    SLICE("\n.\r\n"),     SLICE("\r.\r\n"),       SLICE("\r\n.\n"),     SLICE("\r\n.\r"),
    SLICE("\r\n.\r\r\n"), SLICE("\r\r\n.\r\r\n"), SLICE("\r\n\0.\r\n"), SLICE("\r\n.\0\r\n"),
    SLICE("\r\r\n.\r\n"), SLICE("\r\n.\r\0\n"),
};

static void test_only_the_exact_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++) {
        struct buf text = {0};
        struct decoded d;
        bool ends_exactly = slice_eq(candidates[i], SLICE("\r\r\n.\r\n"));
        buf_append_str(&text, "Subject: x\r\n\r\nbody");
        buf_append_slice(&text, candidates[i]);
        size_t end = text.len;
        buf_append_str(&text, "MAIL FROM:<a@b>\r\n.\r\n");
        decode_all_ways(buf_slice(&text), (struct smtp_body_limits){0}, true, &d);
        assert_true(d.has_ended);
        /* CR CR LF . CR LF does contain the five bytes, behind a bare CR. */
        assert_int_equal(d.consumed, ends_exactly ? end : text.len);
        assert_int_not_equal(d.body.fault, SMTP_BODY_OK);
        buf_fini(&d.content);
        buf_clear(&text);
        buf_append_str(&text, "a\r\n.");
        buf_append_slice(&text, candidates[i]);
        decode_all_ways(buf_slice(&text), (struct smtp_body_limits){0}, false, &d);
        assert_int_not_equal(d.body.fault, SMTP_BODY_OK);
        assert_int_equal(d.consumed, text.len);
        buf_fini(&d.content);
        buf_fini(&text);
    }
}

static void test_harmless_candidates(void **state)
{
    (void)state;
    assert_data(SLICE("a\r\n..\r\nMAIL\r\n.\r\n"), SLICE("a\r\n.\r\nMAIL\r\n"));
    assert_data(SLICE("a\r\n. \r\nMAIL\r\n.\r\n"), SLICE("a\r\n \r\nMAIL\r\n"));
    assert_data(SLICE("a\r\n.\v\r\nMAIL\r\n.\r\n"), SLICE("a\r\n\v\r\nMAIL\r\n"));
    assert_data(SLICE("a\r\n.\f\r\nMAIL\r\n.\r\n"), SLICE("a\r\n\f\r\nMAIL\r\n"));
    assert_data(SLICE("a\r\n.\x85\r\nMAIL\r\n.\r\n"), SLICE("a\r\n\x85\r\nMAIL\r\n"));
    assert_data(SLICE("a\r\n.\xe2\x80\xa8\r\n.\r\n"), SLICE("a\r\n\xe2\x80\xa8\r\n"));
}

static void test_fix_bare_lf(void **state)
{
    (void)state;
    struct smtp_body_limits limits = {.fix_bare_lf = true};
    static const struct slice pairs[][2] = {
        {SLICE("a\nb\r\n.\r\n"), SLICE("a\r\nb\r\n")},
        {SLICE("a\n.\nb\r\n.\r\n"), SLICE("a\r\n.\r\nb\r\n")},
        {SLICE("a\n.\r\nb\r\n.\r\n"), SLICE("a\r\n.\r\nb\r\n")},
        {SLICE("a\r\n.\nb\r\n.\r\n"), SLICE("a\r\n\r\nb\r\n")},
        {SLICE("a\n..\nb\r\n.\r\n"), SLICE("a\r\n..\r\nb\r\n")},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct decoded d;
        decode_all_ways(pairs[i][0], limits, true, &d);
        assert_int_equal(d.body.fault, SMTP_BODY_OK);
        assert_int_equal(d.consumed, pairs[i][0].len);
        assert_true(slice_eq(buf_slice(&d.content), pairs[i][1]));
        buf_fini(&d.content);
    }
    struct decoded d;
    decode_all_ways(SLICE("a\rb\r\n.\r\n"), limits, true, &d);
    assert_int_equal(d.body.fault, SMTP_BODY_BARE_CR);
    buf_fini(&d.content);
    decode_all_ways(SLICE("a\nb\n"), limits, false, &d);
    assert_true(slice_eq(buf_slice(&d.content), SLICE("a\r\nb\r\n")));
    buf_fini(&d.content);
}

static void test_chunks(void **state)
{
    (void)state;
    static const struct slice pairs[][2] = {
        {SLICE(""), SLICE("")},
        {SLICE("a"), SLICE("a\r\n")},
        {SLICE("a\r\n"), SLICE("a\r\n")},
        {SLICE(".\r\n..\r\n.a"), SLICE(".\r\n..\r\n.a\r\n")},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct decoded d;
        decode_all_ways(pairs[i][0], (struct smtp_body_limits){0}, false, &d);
        assert_int_equal(d.body.fault, SMTP_BODY_OK);
        assert_true(slice_eq(buf_slice(&d.content), pairs[i][1]));
        buf_fini(&d.content);
    }
    struct decoded d;
    decode_all_ways(SLICE("a\r"), (struct smtp_body_limits){0}, false, &d);
    assert_int_equal(d.body.fault, SMTP_BODY_BARE_CR);
    buf_fini(&d.content);
}

static struct smtp_body_facts facts_of(struct slice text)
{
    struct decoded d;
    decode_all_ways(text, (struct smtp_body_limits){0}, true, &d);
    buf_fini(&d.content);
    return d.body.facts;
}

static void test_header_facts(void **state)
{
    (void)state;
    struct smtp_body_facts f = facts_of(
        SLICE("Received: a\r\n\tb\r\nRECEIVED : c\r\nFrom: x\r\nDate: y\r\nMessage-Id: <z>\r\n"
              "\r\nReceived: not one\r\n..dot \xc3\xbc\r\n.\r\n"));
    assert_int_equal(f.header_fields, 5);
    assert_int_equal(f.received_count, 2);
    assert_true(f.has_from && f.has_date && f.has_message_id && f.has_separator);
    assert_true(f.has_leading_dot && f.has_8bit && !f.has_8bit_header);
    assert_int_equal(f.header_size, 13 + 4 + 14 + 9 + 9 + 17);
    assert_int_equal(f.size, f.header_size + 2 + 19 + 9);
    assert_int_equal(f.longest_line, 17);

    f = facts_of(SLICE("no header\r\n\r\nFrom: x\r\n.\r\n"));
    assert_true(f.header_size == 0 && !f.has_separator && !f.has_from && f.header_fields == 0);
    f = facts_of(SLICE(" folded first\r\nFrom: x\r\n.\r\n"));
    assert_true(f.header_size == 0 && !f.has_from);
    f = facts_of(SLICE(" Folded: first\r\nFrom: x\r\n.\r\n"));
    assert_true(f.header_size == 0 && f.header_fields == 0 && !f.has_from);
    f = facts_of(SLICE("From: x\r\nnot a field\r\nDate: y\r\n.\r\n"));
    assert_true(f.header_size == 9 && f.has_from && !f.has_date && !f.has_separator);
    f = facts_of(SLICE("From: x\r\nDate: \xc3\xbc\r\n.\r\n"));
    assert_true(f.header_size == 19 && f.has_8bit_header && f.has_date && !f.has_separator);
    f = facts_of(SLICE("\r\nFrom: x\r\n.\r\n"));
    assert_true(f.header_size == 0 && f.has_separator && !f.has_from);
    f = facts_of(SLICE(": x\r\n.\r\n"));
    assert_true(f.header_size == 0 && f.header_fields == 0);
    f = facts_of(SLICE("Message-Identifier: x\r\n\r\n.\r\n"));
    assert_true(f.header_fields == 1 && !f.has_message_id);
    f = facts_of(SLICE(".\r\n"));
    assert_true(f.size == 0 && f.header_size == 0 && !f.has_separator);
}

static enum smtp_body_fault fault_of(struct slice text, struct smtp_body_limits limits)
{
    struct decoded d;
    decode_all_ways(text, limits, true, &d);
    assert_true(d.has_ended);
    assert_int_equal(d.consumed, text.len);
    buf_fini(&d.content);
    return d.body.fault;
}

static void test_limits(void **state)
{
    (void)state;
    struct slice text = SLICE("A: b\r\nC: d\r\n\r\nbody text\r\n.\r\n"); /* 25 decoded */
    assert_int_equal(fault_of(text, (struct smtp_body_limits){.size = 25}), SMTP_BODY_OK);
    assert_int_equal(fault_of(text, (struct smtp_body_limits){.size = 24}), SMTP_BODY_TOO_LARGE);
    assert_int_equal(fault_of(text, (struct smtp_body_limits){.line = 9}), SMTP_BODY_OK);
    assert_int_equal(fault_of(text, (struct smtp_body_limits){.line = 8}), SMTP_BODY_LINE_TOO_LONG);
    assert_int_equal(fault_of(text, (struct smtp_body_limits){.header_fields = 2}), SMTP_BODY_OK);
    assert_int_equal(fault_of(text, (struct smtp_body_limits){.header_fields = 1}),
                     SMTP_BODY_HEADER_TOO_LARGE);
    assert_int_equal(fault_of(text, (struct smtp_body_limits){.header_size = 12}), SMTP_BODY_OK);
    assert_int_equal(fault_of(text, (struct smtp_body_limits){.header_size = 9}),
                     SMTP_BODY_HEADER_TOO_LARGE);
}

/* Random content, stuffed as a sender must, comes back byte for byte. */
static void test_round_trip(void **state)
{
    (void)state;
    static const char letters[] = "..\r\nab \t:\x80";
    uint32_t seed = 1;
    for (int round = 0; round < 2000; round++) {
        struct buf plain = {0}, wire = {0};
        for (int i = 0; i < 40; i++) {
            seed = seed * 1664525 + 1013904223;
            char c = letters[(seed >> 16) % (sizeof(letters) - 1)];
            buf_append(&plain, c == '\r' || c == '\n' ? "\r\n" : &c,
                       c == '\r' || c == '\n' ? 2 : 1);
        }
        buf_append_str(&plain, "\r\n");
        for (size_t i = 0; i < plain.len; i++) {
            if (plain.data[i] == '.' && (i == 0 || plain.data[i - 1] == '\n')) {
                buf_append_char(&wire, '.');
            }
            buf_append_char(&wire, plain.data[i]);
        }
        buf_append_str(&wire, ".\r\n");
        assert_data(buf_slice(&wire), buf_slice(&plain));
        buf_fini(&plain);
        buf_fini(&wire);
    }
}

/* Lines of all kinds behind a header, under limits that some of them just reach or break: what is
 * read whole lines at a time is what is read a byte at a time. */
static void test_lines_as_bytes(void **state)
{
    (void)state;
    static const struct slice pieces[] = {
        SLICE("\r\n"),          SLICE("a\r\n"),     SLICE("12345678\r\n"),
        SLICE("123456789\r\n"), SLICE("b\x80\r\n"), SLICE(".\r\n"),
        SLICE("..\r\n"),        SLICE(".c\r\n"),    SLICE("A: b\r\n"),
        SLICE("no line end"),   SLICE("\r"),        SLICE("\n"),
        SLICE("a\0b\r\n"),      SLICE("a\rb\r\n"),  SLICE("0123456789abcdefghijklmnop\r\n"),
        SLICE("a\n\n"),         SLICE("a\0\n"),
    };
    const size_t plain = 5, count = sizeof(pieces) / sizeof(pieces[0]);
    uint32_t seed = 1;
    for (int round = 0; round < STRESS_ROUNDS(4000); round++) {
        struct buf text = {0};
        struct decoded d;
        buf_append_str(&text, "A: b\r\n\r\n");
        for (int i = 0; i < 12; i++) {
            seed = seed * 1664525 + 1013904223;
            bool is_plain = (seed >> 28) != 0;
            buf_append_slice(&text, pieces[(seed >> 16) % (is_plain ? plain : count)]);
        }
        struct smtp_body_limits limits = {.size = round % 3 == 0 ? text.len - seed % 4 : 0,
                                          .line = round % 5 == 0 ? 8 : 0,
                                          .fix_bare_lf = round % 2 == 0};
        decode_all_ways(buf_slice(&text), limits, round % 7 < 4, &d);
        buf_fini(&d.content);
        buf_fini(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unstuffing),
        cmocka_unit_test(test_only_the_exact_end),
        cmocka_unit_test(test_harmless_candidates),
        cmocka_unit_test(test_fix_bare_lf),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_header_facts),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_lines_as_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
