/* Rates in simulated time. */
#include "bench/sink/rate_limit.h"
#include "tests/unit/unit.h"

static int take_all(struct rate_limit *l, const struct rate *rate, usec_t now, int tries)
{
    int taken = 0;
    for (int i = 0; i < tries; i++) {
        taken += rate_limit_take(l, rate, now) ? 1 : 0;
    }
    return taken;
}

static void test_burst_then_rate(void **state)
{
    const struct rate rate = {100, USEC_PER_SEC, 100};
    struct rate_limit l = {0};
    const usec_t start = 5 * USEC_PER_SEC;
    (void)state;
    assert_int_equal(take_all(&l, &rate, start, 1000), 100);
    assert_int_equal(take_all(&l, &rate, start + 9999, 10), 0);
    assert_int_equal(take_all(&l, &rate, start + 10000, 10), 1);
    assert_int_equal(take_all(&l, &rate, start + 10000, 10), 0);
    assert_int_equal(take_all(&l, &rate, start, 10), 0); /* time does not go backwards */
    assert_int_equal(take_all(&l, &rate, start + 510000, 1000), 50);
    assert_int_equal(take_all(&l, &rate, start + 100 * USEC_PER_SEC, 1000), 100);
}

/* Asked every so often for a long time: exactly the rate, however odd the numbers are. */
static void test_nothing_is_rounded(void **state)
{
    static const struct {
        struct rate rate;
        usec_t step, end;
        int expected;
    } cases[] = {
        {{7, USEC_PER_SEC, 7}, 333, 1000 * USEC_PER_SEC, 7 + 7000},
        {{6000, 60 * USEC_PER_SEC, 6000}, 1009, 600 * USEC_PER_SEC, 6000 + 60000},
        {{3, 86400 * USEC_PER_SEC, 3}, USEC_PER_SEC, 864000 * USEC_PER_SEC, 3 + 30},
        {{RATE_COUNT_MAX, 86400 * USEC_PER_SEC, RATE_COUNT_MAX},
         USEC_PER_SEC,
         1000 * USEC_PER_SEC,
         1001},
        {{200, USEC_PER_SEC, 20}, 100, 60 * USEC_PER_SEC, 20 + 12000},
        {{2, USEC_PER_SEC, 1}, 1000, 600 * USEC_PER_SEC, 1 + 1200},
        {{2000, USEC_PER_SEC, 200}, 7, 10 * USEC_PER_SEC, 200 + 20000},
        {{100, 3600 * USEC_PER_SEC, RATE_COUNT_MAX}, USEC_PER_SEC, 1000 * USEC_PER_SEC, 1001},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rate_limit l = {0};
        int taken = 0;
        for (usec_t now = 0; now <= cases[i].end; now += cases[i].step) {
            taken += rate_limit_take(&l, &cases[i].rate, now) ? 1 : 0;
        }
        assert_in_range(taken, cases[i].expected - 1, cases[i].expected);
    }
}

static void test_no_limit(void **state)
{
    const struct rate none = {0, 0, 0};
    struct rate_limit l = {0};
    (void)state;
    assert_int_equal(take_all(&l, &none, 0, 1000), 1000);
}

/* What the bucket holds moves over from rate to rate, in tokens, as far as there is room. */
static void test_another_rate(void **state)
{
    const struct rate slow = {10, USEC_PER_SEC, 10};
    const struct rate fast = {600, 60 * USEC_PER_SEC, 100};
    const struct rate tight = {100, USEC_PER_SEC, 3};
    const struct rate none = {0, 0, 0};
    struct rate_limit l = {0};
    (void)state;
    rate_limit_change(&l, &slow, &fast, 0); /* nobody came yet: it is full */
    assert_int_equal(take_all(&l, &fast, 0, 1000), 100);
    assert_int_equal(take_all(&l, &fast, USEC_PER_SEC, 4), 4); /* 6 are left */
    rate_limit_change(&l, &fast, &slow, USEC_PER_SEC);
    assert_int_equal(take_all(&l, &slow, USEC_PER_SEC, 1000), 6);
    rate_limit_change(&l, &slow, &tight, 2 * USEC_PER_SEC); /* 10 came, 3 have room */
    assert_int_equal(take_all(&l, &tight, 2 * USEC_PER_SEC, 1000), 3);
    rate_limit_change(&l, &tight, &none, 3 * USEC_PER_SEC);
    assert_int_equal(take_all(&l, &none, 3 * USEC_PER_SEC, 1000), 1000);
    rate_limit_change(&l, &none, &slow, 4 * USEC_PER_SEC);
    assert_int_equal(take_all(&l, &slow, 4 * USEC_PER_SEC, 1000), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_burst_then_rate),
        cmocka_unit_test(test_nothing_is_rounded),
        cmocka_unit_test(test_no_limit),
        cmocka_unit_test(test_another_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
