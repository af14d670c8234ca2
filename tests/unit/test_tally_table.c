/* Rows by name: made when there is room, found again, and "other" beyond the bound. */
#include "engine/tally/tally_table.h"
#include "tests/unit/unit.h"

#include <stdio.h>

static struct tally_table *table;

static int set_up(void **state)
{
    table = tally_table_new(1);
    return table == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    tally_table_free(table);
    return 0;
}

static void add(uint32_t row, enum tally_value v, uint64_t n)
{
    tally_add(&tally_table_row(table, row)->values[v], n);
}

static uint64_t value(uint32_t row, enum tally_value v)
{
    return tally_row_value(tally_table_row(table, row), v);
}

static void a_name_has_one_row(void **state)
{
    uint32_t a = tally_table_find(table, SLICE("alpha"));
    uint32_t b = tally_table_find(table, SLICE("beta"));
    assert_int_not_equal(a, b);
    assert_int_equal(tally_table_find(table, SLICE("alpha")), a);
    assert_int_equal(tally_table_find(table, SLICE("alpha")), a);
    assert_int_equal(tally_table_find(table, SLICE("beta")), b);
    assert_int_not_equal(tally_table_find(table, SLICE("alph")), a);
    assert_int_equal(tally_table_rows(table), 5);
    assert_true(slice_eq(tally_row_name(tally_table_row(table, b)), SLICE("beta")));
}

static void nobody_and_others_have_fixed_rows(void **state)
{
    char longest[TALLY_NAME_MAX + 1];
    memset(longest, 'x', sizeof(longest));
    assert_int_equal(tally_table_find(table, SLICE("")), TALLY_ROW_NONE);
    assert_int_equal(tally_table_find(table, SLICE("other")), TALLY_ROW_OTHER);
    assert_int_equal(tally_table_find(table, slice_make(longest, sizeof(longest))),
                     TALLY_ROW_OTHER);
    assert_int_equal(tally_table_rows(table), 2);
    assert_int_equal(tally_table_find(table, slice_make(longest, TALLY_NAME_MAX)), 2);
}

static void what_has_no_room_is_other(void **state)
{
    char name[16];
    for (int i = 0; i < TALLY_ROWS_MAX; i++) {
        int len = snprintf(name, sizeof(name), "t%d", i);
        uint32_t row = tally_table_find(table, slice_make(name, (size_t)len));
        assert_int_equal(row, i + 2);
        add(row, TALLY_RECEIVED, (uint64_t)i);
    }
    assert_int_equal(tally_table_find(table, SLICE("late")), TALLY_ROW_OTHER);
    assert_int_equal(tally_table_find(table, SLICE("t999")), 1001);
    assert_int_equal(tally_table_find(table, SLICE("later")), TALLY_ROW_OTHER);
    assert_int_equal(tally_table_rows(table), TALLY_ROWS_MAX + 2);
    assert_int_equal(value(1001, TALLY_RECEIVED), 999);
}

static void values_are_apart(void **state)
{
    uint32_t row = tally_table_find(table, SLICE("a"));
    add(row, TALLY_BYTES, 1000);
    add(row, TALLY_BYTES, 24);
    add(row, TALLY_FAILED, 1);
    assert_int_equal(value(row, TALLY_BYTES), 1024);
    assert_int_equal(value(row, TALLY_FAILED), 1);
    assert_int_equal(value(row, TALLY_DELIVERED), 0);
    assert_int_equal(value(TALLY_ROW_OTHER, TALLY_BYTES), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_name_has_one_row, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nobody_and_others_have_fixed_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_has_no_room_is_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(values_are_apart, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
