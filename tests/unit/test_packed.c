/* Packed lists of addresses, made in memory that grows and in an array. */
#include "base/packed.h"
#include "tests/unit/unit.h"

static void an_array_takes_what_fits(void **state)
{
    char list[8];
    size_t len = 0;
    assert_true(packed_fill(list, sizeof(list), &len, SLICE("ab")));
    assert_true(packed_fill(list, sizeof(list), &len, SLICE("")));
    assert_false(packed_fill(list, sizeof(list), &len, SLICE("c")));
    assert_int_equal(len, 6);
    struct slice rest = slice_make(list, len), item;
    assert_true(packed_next(&rest, &item));
    assert_true(slice_eq(item, SLICE("ab")));
    assert_true(packed_next(&rest, &item));
    assert_int_equal(item.len, 0);
    assert_false(packed_next(&rest, &item));
}

static void a_length_that_lies_ends_the_list(void **state)
{
    struct slice rest = slice_make("\377\377abc", 5), item;
    assert_false(packed_next(&rest, &item));
    assert_int_equal(rest.len, 5);
    rest = slice_make("\0", 1);
    assert_false(packed_next(&rest, &item));
    assert_int_equal(rest.len, 1);
}

static void a_buffer_takes_all_of_an_item_or_nothing(void **state)
{
    static char longest[PACKED_ITEM_MAX];
    struct buf list;
    struct slice rest, item;
    buf_init(&list, 2 + PACKED_ITEM_MAX + 5);
    packed_append(&list, slice_make(longest, sizeof(longest)));
    packed_append(&list, SLICE("abc"));
    assert_false(list.failed);
    rest = buf_slice(&list);
    assert_true(packed_next(&rest, &item));
    assert_int_equal(item.len, PACKED_ITEM_MAX);
    assert_true(slice_eq(packed_read(rest.data), SLICE("abc")));
    packed_append(&list, SLICE(""));
    assert_true(list.failed);
    assert_int_equal(list.len, 2 + PACKED_ITEM_MAX + 5);
    buf_fini(&list);
}

static void the_first_of_a_list_are_a_list(void **state)
{
    const struct slice list = SLICE("\0\1a\0\2bc\0\0");
    uint32_t count;
    assert_int_equal(packed_first(list, 0, &count).len, 0);
    assert_int_equal(count, 0);
    assert_true(slice_eq(packed_first(list, 2, &count), SLICE("\0\1a\0\2bc")));
    assert_int_equal(count, 2);
    assert_true(slice_eq(packed_first(list, 3, &count), list));
    assert_int_equal(count, 3);
    assert_true(slice_eq(packed_first(list, 9, &count), list));
    assert_int_equal(count, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_array_takes_what_fits),
        cmocka_unit_test(a_length_that_lies_ends_the_list),
        cmocka_unit_test(a_buffer_takes_all_of_an_item_or_nothing),
        cmocka_unit_test(the_first_of_a_list_are_a_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
