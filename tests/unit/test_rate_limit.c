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
    const struct rate rate = {100, USEC_PER_SEC};
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
        {{7, USEC_PER_SEC}, 333, 1000 * USEC_PER_SEC, 7 + 7000},
        {{6000, 60 * USEC_PER_SEC}, 1009, 600 * USEC_PER_SEC, 6000 + 60000},
        {{3, 86400 * USEC_PER_SEC}, USEC_PER_SEC, 864000 * USEC_PER_SEC, 3 + 30},
        {{RATE_COUNT_MAX, 86400 * USEC_PER_SEC}, USEC_PER_SEC, 1000 * USEC_PER_SEC, 1001},
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
    const struct rate none = {0, 0};
    struct rate_limit l = {0};
    (void)state;
    assert_int_equal(take_all(&l, &none, 0, 1000), 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_burst_then_rate),
        cmocka_unit_test(test_nothing_is_rounded),
        cmocka_unit_test(test_no_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
