#include "base/histogram.h"
#include "tests/unit/unit.h"

#include <string.h>

static void small_values_are_exact(void **state)
{
    struct histogram h = {0};
    assert_int_equal(histogram_quantile(&h, 0.5), 0);
    for (uint64_t v = 0; v < 32; v++) {
        histogram_add(&h, v);
    }
    assert_int_equal(h.count, 32);
    assert_int_equal(h.sum, 31 * 32 / 2);
    assert_int_equal(h.max, 31);
    for (unsigned i = 1; i <= 32; i++) {
        assert_int_equal(histogram_quantile(&h, (double)i / 32), i - 1);
    }
    assert_int_equal(histogram_quantile(&h, 0), 0);
}

static void the_error_is_at_most_a_32nd(void **state)
{
    for (uint64_t v = 1; v < (UINT64_C(1) << 42); v += v / 37 + 1) {
        struct histogram h = {0};
        histogram_add(&h, v);
        histogram_add(&h, UINT64_MAX); /* keeps max from hiding the bucket's own bound */
        uint64_t read = histogram_quantile(&h, 0.5);
        assert_true(read >= v);
        assert_true((read - v) * 32 <= v);
    }
}

static void neighbours_of_every_power_of_two(void **state)
{
    struct histogram h = {0};
    uint64_t added = 0;
    for (unsigned bit = 1; bit < 42; bit++) {
        for (uint64_t v = (UINT64_C(1) << bit) - 1; v <= (UINT64_C(1) << bit) + 1; v++) {
            histogram_add(&h, v);
            added++;
        }
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        sum += h.buckets[i];
    }
    assert_int_equal(sum, added);
    assert_int_equal(h.count, added);
    assert_int_equal(histogram_quantile(&h, 1), (UINT64_C(1) << 41) + 1);
}

static void larger_values_share_the_last_bucket(void **state)
{
    struct histogram h = {0};
    histogram_add(&h, UINT64_C(1) << 42);
    histogram_add(&h, UINT64_MAX / 4);
    assert_int_equal(h.buckets[HISTOGRAM_BUCKETS - 1], 2);
    assert_true(histogram_quantile(&h, 0.99) == UINT64_MAX / 4);
}

static void a_merge_is_the_same_as_adding_both(void **state)
{
    struct histogram all = {0};
    struct histogram odd = {0};
    struct histogram even = {0};
    for (uint64_t v = 0; v < 10000; v++) {
        histogram_add(&all, v * v);
        histogram_add(v % 2 != 0 ? &odd : &even, v * v);
    }
    struct histogram other = odd;
    histogram_merge(&other, &even); /* which has the 0 */
    assert_memory_equal(&other, &all, sizeof(all));
    histogram_merge(&even, &odd);
    assert_memory_equal(&even, &all, sizeof(all));
    uint64_t median = histogram_quantile(&all, 0.5);
    assert_in_range(median, 4999 * 4999, 4999 * 4999 / 32 * 33);
    assert_int_equal(histogram_quantile(&all, 1.0), 9999 * 9999);
}

static void buckets_end_where_the_next_begins(void **state)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS - 1; i++) {
        struct histogram h = {0};
        histogram_add(&h, value);
        histogram_add(&h, histogram_bucket_end(i));
        assert_int_equal(h.buckets[i], 2);
        value = histogram_bucket_end(i) + 1;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_values_are_exact),
        cmocka_unit_test(the_error_is_at_most_a_32nd),
        cmocka_unit_test(neighbours_of_every_power_of_two),
        cmocka_unit_test(larger_values_share_the_last_bucket),
        cmocka_unit_test(buckets_end_where_the_next_begins),
        cmocka_unit_test(a_merge_is_the_same_as_adding_both),
    };
    return cmocka_run_group_tests_name("histogram", tests, NULL, NULL);
}
