#include "base/slice.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

static void compares_bytes(void **state)
{
    assert_true(slice_eq(SLICE("abc"), slice_of("abc")));
    assert_false(slice_eq(SLICE("abc"), SLICE("abd")));
    assert_false(slice_eq(SLICE("abc"), SLICE("ab")));
    assert_true(slice_eq(SLICE("a\0b"), slice_make("a\0b", 3)));
    assert_false(slice_eq(SLICE("a\0b"), SLICE("a\0c")));
    assert_true(slice_eq((struct slice){NULL, 0}, SLICE("")));
}

static void ignores_case_of_ascii_only(void **state)
{
    assert_true(slice_ieq(SLICE("Mail FROM:<A@z>"), SLICE("mAIL from:<a@Z>")));
    assert_false(slice_ieq(SLICE("a"), SLICE("b")));
    assert_false(slice_ieq(SLICE("a"), SLICE("aa")));
    /* '@' and '`', '[' and '{' differ by the same bit as letters do. */
    assert_false(slice_ieq(SLICE("@["), SLICE("`{")));
    assert_false(slice_ieq(SLICE("\xc4"), SLICE("\xe4")));
    assert_true(slice_ieq((struct slice){NULL, 0}, SLICE("")));
}

static void trims_blanks_at_both_ends(void **state)
{
    assert_true(slice_eq(slice_trim(SLICE(" \t\r\na b\r\n")), SLICE("a b")));
    assert_int_equal(slice_trim(SLICE(" \r\n")).len, 0);
    assert_int_equal(slice_trim(SLICE("")).len, 0);
    assert_int_equal(slice_trim((struct slice){NULL, 0}).len, 0);
    assert_true(slice_eq(slice_trim(SLICE("\vx\f")), SLICE("\vx\f")));
}

static void finds_and_cuts(void **state)
{
    struct slice s = SLICE("key=value=x");
    size_t at = slice_find(s, '=');
    assert_int_equal(at, 3);
    assert_true(slice_eq(slice_to(s, at), SLICE("key")));
    assert_true(slice_eq(slice_from(s, at + 1), SLICE("value=x")));
    assert_int_equal(slice_find(s, '!'), s.len);
    assert_int_equal(slice_find((struct slice){NULL, 0}, '='), 0);
    assert_int_equal(slice_from((struct slice){NULL, 0}, 0).len, 0);
    assert_int_equal(slice_from(s, s.len).len, 0);
}

static void test_lower(void **state)
{
    char text[] = "AbZ@[`{\xc3\x84 9z";
    (void)state;
    slice_lower(slice_of(text), text);
    assert_string_equal(text, "abz@[`{\xc3\x84 9z");
}

static void is_copied_as_a_string(void **state)
{
    static const char bytes[] = {'a', 'b', 'c'};
    (void)state;
    char *copy = slice_dup(slice_make(bytes, sizeof(bytes)));
    assert_string_equal(copy, "abc");
    free(copy);
    copy = slice_dup((struct slice){NULL, 0});
    assert_string_equal(copy, "");
    free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lower),
        cmocka_unit_test(compares_bytes),
        cmocka_unit_test(ignores_case_of_ascii_only),
        cmocka_unit_test(trims_blanks_at_both_ends),
        cmocka_unit_test(finds_and_cuts),
        cmocka_unit_test(is_copied_as_a_string),
    };
    return cmocka_run_group_tests_name("slice", tests, NULL, NULL);
}
