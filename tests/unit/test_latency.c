/* Latencies of one among many destinations: the same answers as the whole histogram. */
#include "base/histogram.h"
#include "bench/tool/latency.h"
#include "tests/chance.h"
#include "tests/unit/unit.h"

static void check_equal(const struct latency *l, const struct histogram *h)
{
    static const double shares[] = {0, 0.01, 0.5, 0.9, 0.99, 0.999, 1};
    assert_int_equal(l->count, h->count);
    assert_int_equal(l->max, h->max);
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
        assert_int_equal(latency_quantile(l, shares[i]), histogram_quantile(h, shares[i]));
    }
}

static void test_as_the_histogram(void **state)
{
    struct latency all = {0};
    struct latency parts[2] = {{0}, {0}};
    struct histogram h = {0};
    uint64_t x = 88172645463325252ULL;
    (void)state;
    check_equal(&all, &h);
    for (int i = 0; i < 20000; i++) {
        (void)chance_next(&x);
        usec_t value = (usec_t)(x >> (20 + x % 43)); /* of all sizes, beyond the scale too */
        latency_add(&all, value);
        latency_add(&parts[i & 1], value);
        histogram_add(&h, (uint64_t)value);
    }
    check_equal(&all, &h);
    latency_merge(&parts[0], &parts[1]);
    check_equal(&parts[0], &h);
    latency_fini(&all);
    latency_fini(&parts[0]);
    latency_fini(&parts[1]);
}

static void test_only_rows_that_are_needed(void **state)
{
    struct latency l = {0};
    struct latency lower = {0};
    (void)state;
    latency_add(&l, 1000);
    latency_add(&l, 1010);
    assert_int_equal(l.row_count, 1);
    latency_add(&l, 5000);
    assert_int_equal(l.row_count, 4); /* 512..., 1024..., 2048..., 4096... */
    latency_add(&lower, 0);
    latency_merge(&lower, &l);
    assert_int_equal(lower.count, 4);
    assert_int_equal(lower.first_row, 0);
    assert_int_equal(latency_quantile(&lower, 0), 0);
    assert_int_equal(lower.max, 5000);
    latency_clear(&l);
    latency_merge(&lower, &l); /* nothing */
    assert_int_equal(lower.count, 4);
    assert_int_equal(latency_quantile(&l, 0.5), 0);
    latency_add(&l, 2000);
    assert_int_equal(latency_quantile(&l, 0.99), 2000);
    latency_fini(&l);
    latency_fini(&lower);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_the_histogram),
        cmocka_unit_test(test_only_rows_that_are_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
