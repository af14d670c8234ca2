#include "base/buf.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

static void appends_grow_it(void **state)
{
    struct buf b;
    buf_init(&b, 0);
    buf_append_str(&b, "ab");
    buf_append_char(&b, 'c');
    buf_append_slice(&b, SLICE("d\0e"));
    buf_append(&b, NULL, 0);
    buf_printf(&b, "-%d", 42);
    assert_true(slice_eq(buf_slice(&b), SLICE("abcd\0e-42")));
    for (int i = 0; i < 10000; i++) {
        buf_append_char(&b, 'x');
    }
    assert_int_equal(b.len, 10009);
    assert_true(b.capacity >= b.len);
    assert_false(b.failed);
    buf_fini(&b);
}

static void numbers_are_decimal(void **state)
{
    struct buf b;
    buf_init(&b, 0);
    buf_append_decimal(&b, 0);
    buf_append_char(&b, ' ');
    buf_append_decimal(&b, 1000000009);
    buf_append_char(&b, ' ');
    buf_append_decimal(&b, UINT64_MAX);
    assert_true(slice_eq(buf_slice(&b), SLICE("0 1000000009 18446744073709551615")));
    buf_fini(&b);
}

static void a_limit_is_exact_and_sticky(void **state)
{
    struct buf b;
    buf_init(&b, 100);
    for (int i = 0; i < 100; i++) {
        buf_append_char(&b, 'x');
    }
    assert_false(b.failed);
    assert_int_equal(b.len, 100);
    buf_append_char(&b, 'y');
    assert_true(b.failed);
    assert_int_equal(b.len, 100);
    buf_clear(&b);
    assert_false(b.failed);
    buf_append_str(&b, "again");
    assert_true(slice_eq(buf_slice(&b), SLICE("again")));
    assert_null(buf_reserve(&b, 96));
    assert_true(b.failed);
    buf_append_str(&b, "z");
    buf_printf(&b, "z");
    assert_int_equal(b.len, 5);
    buf_fini(&b);
}

static void printf_meets_limit_and_growth_at_every_length(void **state)
{
    for (int limit = 1; limit <= 200; limit++) {
        for (int len = limit - 1; len <= limit + 1; len++) {
            struct buf b;
            buf_init(&b, (size_t)limit);
            buf_printf(&b, "%*s", len, "");
            assert_int_equal(b.failed, len > limit);
            assert_int_equal(b.len, len > limit ? 0 : len);
            buf_fini(&b);
        }
    }
    struct buf b;
    buf_init(&b, 0);
    for (int i = 0; i < 300; i++) {
        buf_printf(&b, "%d,", i % 10);
    }
    assert_int_equal(b.len, 600);
    assert_int_equal(b.data[599], ',');
    buf_fini(&b);
}

static void an_absurd_size_fails(void **state)
{
    struct buf b;
    buf_init(&b, 0);
    buf_append_char(&b, 'x');
    assert_null(buf_reserve(&b, SIZE_MAX));
    assert_true(b.failed);
    assert_int_equal(b.len, 1);
    buf_fini(&b);
}

static void consumes_from_the_front(void **state)
{
    struct buf b;
    buf_init(&b, 0);
    buf_consume(&b, 0);
    buf_append_str(&b, "hello world");
    buf_consume(&b, 6);
    assert_true(slice_eq(buf_slice(&b), SLICE("world")));
    buf_consume(&b, 5);
    assert_int_equal(b.len, 0);
    buf_fini(&b);
}

static void reserve_then_fill(void **state)
{
    struct buf b;
    buf_init(&b, 0);
    char *to = buf_reserve(&b, 1000);
    assert_non_null(to);
    for (int i = 0; i < 1000; i++) {
        to[i] = 'r';
    }
    b.len += 1000;
    assert_int_equal(buf_slice(&b).len, 1000);
    assert_non_null(buf_reserve(&b, 0));
    buf_fini(&b);
}

static void detach_gives_the_bytes_away(void **state)
{
    struct buf b;
    buf_init(&b, 10);
    size_t len = 99;
    assert_null(buf_detach(&b, &len));
    assert_int_equal(len, 0);
    buf_append_str(&b, "mine");
    char *bytes = buf_detach(&b, &len);
    assert_int_equal(len, 4);
    assert_memory_equal(bytes, "mine", 4);
    free(bytes);
    assert_int_equal(b.len, 0);
    buf_append_str(&b, "0123456789a"); /* the limit is kept */
    assert_true(b.failed);
    assert_null(buf_detach(&b, &len));
    assert_int_equal(len, 0);
    buf_fini(&b);
    struct buf zeroed = {0};
    buf_fini(&zeroed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_grow_it),
        cmocka_unit_test(numbers_are_decimal),
        cmocka_unit_test(a_limit_is_exact_and_sticky),
        cmocka_unit_test(printf_meets_limit_and_growth_at_every_length),
        cmocka_unit_test(an_absurd_size_fails),
        cmocka_unit_test(consumes_from_the_front),
        cmocka_unit_test(reserve_then_fill),
        cmocka_unit_test(detach_gives_the_bytes_away),
    };
    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
