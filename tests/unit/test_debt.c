/* What may be refused of a pace, and what is beyond it. */
#include "sched/limit/debt.h"
#include "tests/unit/unit.h"

#define SECOND USEC_PER_SEC

static void is_paid_by_time(void **state)
{
    struct debt d = {0};
    usec_t now = 1000 * SECOND;
    (void)state;
    assert_int_equal(debt_span(&d, now), 0);
    assert_false(debt_is_heavy(&d, now));
    debt_refused(&d, 3, now);
    assert_true(debt_is_heavy(&d, now));
    assert_int_equal(debt_span(&d, now), 36 * SECOND);
    now += 13 * SECOND;
    assert_int_equal(debt_span(&d, now), 23 * SECOND);
    assert_false(debt_is_heavy(&d, now));
    now += 100 * SECOND;
    assert_int_equal(debt_span(&d, now), 0);
    debt_refused(&d, 1, now); /* nothing is saved up */
    assert_int_equal(debt_span(&d, now), 12 * SECOND);
}

static void is_paid_by_what_is_accepted(void **state)
{
    struct debt d = {0};
    usec_t now = 1000 * SECOND;
    (void)state;
    debt_refused(&d, 2, now);
    debt_accepted(&d, 100);
    assert_in_range(debt_span(&d, now), 12 * SECOND - 1, 12 * SECOND + 1);
    debt_accepted(&d, 1000000);
    assert_int_equal(debt_span(&d, now), 0);
    debt_refused(&d, 1, now);
    assert_int_equal(debt_span(&d, now), 12 * SECOND);
}

static void is_bounded(void **state)
{
    struct debt d = {0};
    usec_t now = 1000 * SECOND;
    (void)state;
    debt_refused(&d, 1000, now);
    usec_t most = debt_span(&d, now);
    assert_in_range(most, 24 * SECOND, 120 * SECOND);
    debt_refused(&d, 1000, now);
    assert_int_equal(debt_span(&d, now), most);
    assert_int_equal(debt_span(&d, now + most), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_paid_by_time),
        cmocka_unit_test(is_paid_by_what_is_accepted),
        cmocka_unit_test(is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
