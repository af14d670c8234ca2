#include "base/buf.h"
#include "base/error.h"
#include "net/smtp_wire.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

/* body in chunks, each an exact heap copy, with room for max runs a call; wire gets all of it and
 * the terminator. */
static int serialize(struct slice body, size_t chunk, int max, struct buf *wire)
{
    struct smtp_wire w;
    smtp_wire_init(&w);
    while (body.len > 0) {
        size_t len = body.len < chunk ? body.len : chunk;
        char *copy = malloc(len);
        assert_non_null(copy);
        memcpy(copy, body.data, len);
        struct slice in = slice_make(copy, len);
        while (in.len > 0) {
            struct slice runs[8];
            int count = smtp_wire_runs(&w, &in, runs, max);
            if (count < 0) {
                free(copy);
                return count;
            }
            assert_in_range(count, 1, max);
            for (int i = 0; i < count; i++) {
                assert_true(runs[i].len > 0);
                buf_append_slice(wire, runs[i]);
            }
        }
        free(copy);
        body = slice_from(body, len);
    }
    struct slice end;
    int error = smtp_wire_end(&w, &end);
    if (error == 0) {
        buf_append_slice(wire, end);
        buf_append_str(wire, ".\r\n");
    }
    return error;
}

/* What a strict receiver makes of it. */
static void decode(struct slice wire, struct buf *body)
{
    while (!slice_eq(wire, SLICE(".\r\n"))) {
        assert_true(wire.len > 3);
        wire = slice_from(wire, wire.data[0] == '.' ? 1 : 0);
        size_t lf = slice_find(wire, '\n');
        assert_true(lf < wire.len);
        buf_append(body, wire.data, lf + 1);
        wire = slice_from(wire, lf + 1);
    }
}

static void check_wire(struct slice wire)
{
    struct smtp_wire_check check;
    smtp_wire_check_init(&check);
    assert_true(smtp_wire_check_bytes(&check, wire));
    assert_int_equal(check.state, SMTP_WIRE_ENDED);
    /* once and last */
    assert_false(smtp_wire_check_bytes(&check, SLICE(".\r\n")));
}

static void test_known(void **state)
{
    (void)state;
    const struct {
        const char *body, *wire;
    } cases[] = {
        {"", ".\r\n"},
        {"a", "a\r\n.\r\n"},
        {"a\r\n", "a\r\n.\r\n"},
        {".", "..\r\n.\r\n"},
        {".\r\n", "..\r\n.\r\n"},
        {"..\r\n.", "...\r\n..\r\n.\r\n"},
        {"\r\n.\r\n.\r\n\r\n", "\r\n..\r\n..\r\n\r\n.\r\n"},
        {"a.b\r\n.c.\r\n", "a.b\r\n..c.\r\n.\r\n"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t chunk = 1; chunk < 12; chunk++) {
            struct buf wire = {.limit = 0};
            assert_int_equal(serialize(slice_of(cases[i].body), chunk, 1 + (int)chunk % 3, &wire),
                             0);
            assert_true(slice_eq(buf_slice(&wire), slice_of(cases[i].wire)));
            check_wire(buf_slice(&wire));
            buf_fini(&wire);
        }
    }
}

static uint32_t random_next(uint32_t *seed)
{
    *seed = *seed * 1664525U + 1013904223U;
    return *seed >> 8;
}

/* Random bodies made of the pieces that matter; well-formed ones come back byte for byte. */
static void test_random(void **state)
{
    (void)state;
    const struct slice pieces[] = {SLICE("\r\n"),  SLICE("."),        SLICE("\r\n."),
                                   SLICE("x"),     SLICE(".."),       SLICE("\xff"),
                                   SLICE("text "), SLICE("\r\n.\r\n")};
    uint32_t seed = 1;
    for (unsigned round = 0; round < 20000; round++) {
        struct buf body = {.limit = 0};
        struct buf wire = {.limit = 0};
        struct buf back = {.limit = 0};
        unsigned count = random_next(&seed) % 12;
        for (unsigned i = 0; i < count; i++) {
            buf_append_slice(&body, pieces[random_next(&seed) % 8]);
        }
        size_t chunk = 1 + random_next(&seed) % 9;
        int max = 1 + (int)(random_next(&seed) % 8);
        assert_int_equal(serialize(buf_slice(&body), chunk, max, &wire), 0);
        check_wire(buf_slice(&wire));
        decode(buf_slice(&wire), &back);
        if (body.len > 0 && body.data[body.len - 1] != '\n') {
            buf_append_str(&body, "\r\n");
        }
        assert_true(slice_eq(buf_slice(&body), buf_slice(&back)));
        buf_fini(&body);
        buf_fini(&wire);
        buf_fini(&back);
    }
}

/* SMTP smuggling, as sender: no line end but CRLF, no NUL, wherever the body is cut. */
static void test_malformed(void **state)
{
    (void)state;
    const struct slice bad[] = {
        SLICE("a\nb"),         SLICE("a\rb"),     SLICE("\n"),          SLICE("a\r"),
        SLICE("a\r\r\n"),      SLICE("a\0b"),     SLICE("\n.\n"),       SLICE("a\r\n.\rb"),
        SLICE("a\r\n\n.\r\n"), SLICE("a\r.\r\n"), SLICE("\r\n\0.\r\n"), SLICE("a\n.\r\nMAIL"),
        SLICE("x\r\n.\n"),     SLICE("\r\r\n"),
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        for (size_t chunk = 1; chunk <= bad[i].len; chunk++) {
            struct buf wire = {.limit = 0};
            assert_int_equal(serialize(bad[i], chunk, 8, &wire), ERR_SYNTAX);
            /* what went out before broke no rule and ended no message */
            struct smtp_wire_check check;
            smtp_wire_check_init(&check);
            assert_true(smtp_wire_check_bytes(&check, buf_slice(&wire)));
            assert_int_not_equal(check.state, SMTP_WIRE_ENDED);
            buf_fini(&wire);
        }
    }
}

static void test_malformed_is_final(void **state)
{
    (void)state;
    struct smtp_wire w;
    struct slice runs[2];
    struct slice in = SLICE("a\nb");
    smtp_wire_init(&w);
    assert_int_equal(smtp_wire_runs(&w, &in, runs, 2), ERR_SYNTAX);
    in = SLICE("good\r\n");
    assert_int_equal(smtp_wire_runs(&w, &in, runs, 2), ERR_SYNTAX);
    assert_int_equal(smtp_wire_end(&w, &in), ERR_SYNTAX);
}

/* The automaton sees what the serializer never makes. */
static void test_check(void **state)
{
    (void)state;
    const struct slice bad[] = {SLICE(".a\r\n"), SLICE("a\n"),           SLICE("a\rb"),
                                SLICE("a\0"),    SLICE("\n.\n"),         SLICE(".\n"),
                                SLICE(".\ra"),   SLICE(".\r\na"),        SLICE("\r\n.\r\n.\r\n"),
                                SLICE("\r\r\n"), SLICE("a\r\n.\r\nMAIL")};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct smtp_wire_check check;
        smtp_wire_check_init(&check);
        assert_false(smtp_wire_check_bytes(&check, bad[i]));
    }
    struct smtp_wire_check check;
    smtp_wire_check_init(&check);
    assert_true(smtp_wire_check_bytes(&check, SLICE("abc\r\n..defgh\r\nx")));
    assert_int_equal(check.longest_line, 7);
    assert_int_equal(check.line_size, 1);
}

/* The runs are views: nothing is copied, and a long body without dots is one run. */
static void test_views(void **state)
{
    (void)state;
    struct smtp_wire w;
    smtp_wire_init(&w);
    struct slice body = SLICE("one\r\ntwo\r\n.three\r\nfour\r\n");
    struct slice in = body;
    struct slice runs[4];
    assert_int_equal(smtp_wire_runs(&w, &in, runs, 4), 2);
    assert_ptr_equal(runs[0].data, body.data);
    assert_int_equal(runs[0].len, 11);
    assert_ptr_equal(runs[1].data, body.data + 10);
    assert_int_equal(runs[1].len, body.len - 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known),     cmocka_unit_test(test_random),
        cmocka_unit_test(test_malformed), cmocka_unit_test(test_malformed_is_final),
        cmocka_unit_test(test_check),     cmocka_unit_test(test_views),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
