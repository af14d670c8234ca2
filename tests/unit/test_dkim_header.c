/* Headers as messages have them: folds, duplicates, lines that are none, and the canonical forms. */
#include "base/error.h"
#include "net/dkim/dkim_header.h"
#include "tests/unit/unit.h"

#include <string.h>

static const char sample[] = "A: X\r\n"
                             "B : Y\t\r\n\tZ  \r\n"
                             "no field\r\n with a fold\r\n"
                             "a:\r\n"
                             "Empty: \t \r\n"
                             "aB:c: d\r\n"
                             "\r\nC: body\r\n";

static void fields_are_found_from_the_bottom(void **state)
{
    struct dkim_header h;
    assert_int_equal(dkim_header_parse(slice_of(sample), &h), 0);
    assert_int_equal(h.count, 5);
    assert_true(h.has_stray);
    assert_int_equal(dkim_header_count(&h, SLICE("A")), 2);
    assert_int_equal(dkim_header_count(&h, SLICE("b")), 1);
    assert_int_equal(dkim_header_count(&h, SLICE("C")), 0);
    assert_int_equal(dkim_header_find_above(&h, SLICE("a"), h.count), 2);
    assert_int_equal(dkim_header_find_above(&h, SLICE("a"), 2), 0);
    assert_true(dkim_header_find_above(&h, SLICE("a"), 0) == DKIM_NO_FIELD);
    assert_true(dkim_header_find_above(&h, SLICE("no field"), h.count) == DKIM_NO_FIELD);
    dkim_header_fini(&h);
}

static void check_form(enum dkim_canon canon, const char *const *wanted)
{
    struct dkim_header h;
    struct buf out;
    buf_init(&out, 0);
    assert_int_equal(dkim_header_parse(slice_of(sample), &h), 0);
    for (size_t i = 0; i < h.count; i++) {
        buf_clear(&out);
        dkim_field_put(&h.fields[i], canon, &out);
        assert_int_equal(out.len, strlen(wanted[i]));
        assert_memory_equal(out.data, wanted[i], out.len);
    }
    buf_fini(&out);
    dkim_header_fini(&h);
}

/* The first two are the example of section 3.4.5. */
static void canonical_fields_are_those_of_the_standard(void **state)
{
    static const char *const simple[] = {"A: X", "B : Y\t\r\n\tZ  ", "a:", "Empty: \t ", "aB:c: d"};
    static const char *const relaxed[] = {"a:X", "b:Y Z", "a:", "empty:", "ab:c: d"};
    check_form(DKIM_SIMPLE, simple);
    check_form(DKIM_RELAXED, relaxed);
}

static void odd_headers_do_no_harm(void **state)
{
    static const struct {
        const char *text;
        size_t count;
    } rows[] = {
        {"", 0},
        {"\r\n", 0},
        {" fold of nothing\r\nA: b\r\n", 1},
        {":no name\r\n", 0},
        {" : \r\n", 0},
        {"A: no end", 1},
        {"A: b\nC: d\r\n", 1},
        {"A: b\r\n c", 1},
        {"A: b\r", 1},
        {"A b: c\r\n", 0},
        {"A\nB: c\r\n", 0},
        {"\xc3\xa4: b\r\n", 0},
        {"\t:x\r\nA:b\r\n\tc\r\n\td\r\n", 1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dkim_header h;
        assert_int_equal(dkim_header_parse(slice_of(rows[i].text), &h), 0);
        assert_int_equal(h.count, rows[i].count);
        dkim_header_fini(&h);
    }
}

static void too_many_fields_are_refused(void **state)
{
    struct buf text;
    struct dkim_header h;
    buf_init(&text, 0);
    for (unsigned i = 0; i < DKIM_FIELDS_MAX; i++) {
        buf_append_str(&text, "A: b\r\n");
    }
    assert_int_equal(dkim_header_parse(buf_slice(&text), &h), 0);
    assert_int_equal(h.count, DKIM_FIELDS_MAX);
    dkim_header_fini(&h);
    buf_append_str(&text, "A: b\r\n");
    assert_int_equal(dkim_header_parse(buf_slice(&text), &h), ERR_LIMIT);
    buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_found_from_the_bottom),
        cmocka_unit_test(canonical_fields_are_those_of_the_standard),
        cmocka_unit_test(odd_headers_do_no_harm),
        cmocka_unit_test(too_many_fields_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
