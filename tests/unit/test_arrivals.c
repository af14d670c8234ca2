/* When messages are due: at the rate that was asked for, in the way that was asked for. */
#include "base/error.h"
#include "bench/tool/arrivals.h"
#include "tests/unit/unit.h"

#include <math.h>

#define ARRIVALS 100000

static struct arrivals parsed(const char *text, double rate)
{
    struct arrivals a = {.rate = rate, .seed = 5};
    assert_int_equal(arrivals_parse(&a, text), 0);
    return a;
}

static void test_even(void **state)
{
    struct arrivals a = parsed("even", 30000); /* not whole microseconds apart */
    (void)state;
    for (int64_t i = 0; i < ARRIVALS; i++) {
        assert_int_equal(arrivals_next(&a), i * 100 / 3);
    }
}

static void test_bursts_keep_the_rate(void **state)
{
    struct arrivals a = parsed("burst:40", 1000);
    (void)state;
    for (int64_t i = 0; i < ARRIVALS; i++) {
        assert_int_equal(arrivals_next(&a), i / 40 * 40000);
    }
}

/* Gaps are exponential: n of them last n/rate on average with a deviation of sqrt(n)/rate, and the
 * share exp(-x) of them is longer than x/rate. Also at gaps of few microseconds, where whole ones
 * would shift the rate. */
static void test_poisson(void **state)
{
    static const double rates[] = {1, 1000, 300000};
    (void)state;
    for (size_t r = 0; r < 3; r++) {
        struct arrivals a = parsed("poisson", rates[r]);
        usec_t last = arrivals_next(&a);
        int longer = 0;
        assert_int_equal(last, 0);
        for (int i = 0; i < ARRIVALS; i++) {
            usec_t due = arrivals_next(&a);
            assert_true(due >= last);
            longer += (double)(due - last) > 2e6 / rates[r] ? 1 : 0;
            last = due;
        }
        double mean = (double)last * rates[r] / 1e6 / ARRIVALS;
        assert_true(fabs(mean - 1) <= 6 / sqrt(ARRIVALS));
        if (rates[r] <= 1000) { /* else the gaps are rounded too much to count */
            double share = exp(-2);
            assert_true(fabs(longer - ARRIVALS * share) <=
                        6 * sqrt(ARRIVALS * share * (1 - share)));
        }
    }
}

static void test_the_seed_decides(void **state)
{
    struct arrivals a = parsed("poisson", 1000);
    struct arrivals same = a;
    struct arrivals other = a;
    int differing = 0;
    (void)state;
    other.seed = 6;
    for (int i = 0; i < 1000; i++) {
        usec_t due = arrivals_next(&a);
        assert_int_equal(due, arrivals_next(&same));
        differing += due != arrivals_next(&other) ? 1 : 0;
    }
    assert_true(differing > 900);
}

static void test_mistakes(void **state)
{
    struct arrivals a = {0};
    (void)state;
    assert_int_equal(arrivals_parse(&a, ""), ERR_SYNTAX);
    assert_int_equal(arrivals_parse(&a, "Even"), ERR_SYNTAX);
    assert_int_equal(arrivals_parse(&a, "burst"), ERR_SYNTAX);
    assert_int_equal(arrivals_parse(&a, "burst:0"), ERR_SYNTAX);
    assert_int_equal(arrivals_parse(&a, "burst:5x"), ERR_SYNTAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_even),     cmocka_unit_test(test_bursts_keep_the_rate),
        cmocka_unit_test(test_poisson),  cmocka_unit_test(test_the_seed_decides),
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
