#include "engine/cli/csv_field.h"
#include "tests/unit/unit.h"

static void fields_of_a_record(void **state)
{
    (void)state;
    static const struct {
        const char *record, *fields[4]; /* up to NULL */
        bool is_cut;                    /* its quotes do not match behind these */
    } rows[] = {
        {"a,b", {"a", "b"}, false},
        {"", {""}, false},
        {",", {"", ""}, false},
        {"\"a,b\",c", {"a,b", "c"}, false},
        {"\"say \"\"a\"\"\"", {"say \"a\""}, false},
        {"\"\"", {""}, false},
        {"\"two\nlines\",", {"two\nlines", ""}, false},
        {"a\"b,c", {"a\"b", "c"}, false},
        {"a,\"b", {"a"}, true},
        {"\"a\"b,c", {NULL}, true},
        {"\"a\"\"", {NULL}, true},
    };
    struct buf field;
    buf_init(&field, 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slice rest = slice_of(rows[i].record);
        for (size_t j = 0; rows[i].fields[j] != NULL; j++) {
            assert_true(csv_field_next(&rest, &field));
            assert_true(slice_eq(buf_slice(&field), slice_of(rows[i].fields[j])));
        }
        assert_false(csv_field_next(&rest, &field));
        assert_int_equal(rest.data != NULL, rows[i].is_cut);
    }
    buf_fini(&field);
}

static void a_record_over_lines(void **state)
{
    (void)state;
    assert_false(csv_field_is_open(SLICE("a,\"b\"\"c\",d")));
    assert_true(csv_field_is_open(SLICE("a,\"b\"\"c")));
    assert_true(csv_field_is_open(SLICE("\"\"\"")));
    assert_false(csv_field_is_open(SLICE("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_a_record),
        cmocka_unit_test(a_record_over_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
