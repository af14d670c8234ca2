/* Retry times against the worked vectors TM. */
#include "engine/writer/retry.h"
#include "tests/unit/unit.h"

#define SEC USEC_PER_SEC

/* The next scan, which come every 300 s, that sees the message as due. */
static usec_t scan_after(usec_t due)
{
    usec_t scan = due / (300 * SEC) * (300 * SEC);
    return scan < due ? scan + 300 * SEC : scan;
}

static void check_attempts(usec_t duration, const int *seconds, int count)
{
    usec_t at = 0;
    for (int i = 0; i < count; i++) {
        assert_int_equal(at, seconds[i] * SEC);
        usec_t now = at + duration;
        at = scan_after(now + retry_delay(now, 0, 300 * SEC, 4000 * SEC));
    }
}

static void attempts_come_when_the_vectors_say(void **state)
{
    const int immediate[] = {0, 300, 600, 1200, 2400, 4800, 9000, 13200, 17400, 21600};
    const int slow[] = {0, 600, 1500, 3300, 6900, 11100, 15300};
    check_attempts(0, immediate, 10);
    check_attempts(30 * SEC, slow, 7);
}

static void the_minimum_wins(void **state)
{
    for (usec_t now = 0; now < 2000 * SEC; now += 100 * SEC) {
        assert_int_equal(retry_delay(now, 0, 600 * SEC, 300 * SEC), 600 * SEC);
    }
    /* A clock that was set back. */
    assert_int_equal(retry_delay(0, 5000 * SEC, 300 * SEC, 4000 * SEC), 300 * SEC);
    assert_int_equal(retry_delay(0, 5000 * SEC, 0, 0), 0);
}

static void warnings_are_due_once_set(void **state)
{
    assert_false(retry_is_warning_due(1000 * SEC, 0));
    assert_false(retry_is_warning_due(1000 * SEC, 1001 * SEC + 1));
    assert_true(retry_is_warning_due(1000 * SEC, 1001 * SEC));
    assert_true(retry_is_warning_due(1000 * SEC, 500 * SEC));
}

static void what_waits_for_a_wrong_future_is_due(void **state)
{
    const usec_t longest = 4000 * SEC;
    assert_false(retry_is_due(1000 * SEC, 900 * SEC, 1001 * SEC, longest, 0));
    assert_true(retry_is_due(1001 * SEC, 900 * SEC, 1001 * SEC, longest, 0));
    assert_true(retry_is_due(899 * SEC, 900 * SEC, 1001 * SEC, longest, 0));
    assert_false(retry_is_due(900 * SEC, 900 * SEC, 4900 * SEC, longest, 0));
    /* stored by an older program */
    assert_false(retry_is_due(900 * SEC, 0, 4900 * SEC, longest, 0));
    assert_true(retry_is_due(900 * SEC, 0, 4901 * SEC, longest, 0));
}

static void a_lower_maximum_counts_from_the_deferral(void **state)
{
    const usec_t longest = 1000 * SEC;
    /* deferred at 900 for 4000 seconds: due at 1900, not at once */
    assert_false(retry_is_due(950 * SEC, 900 * SEC, 4900 * SEC, longest, 0));
    assert_false(retry_is_due(1899 * SEC, 900 * SEC, 4900 * SEC, longest, 0));
    assert_true(retry_is_due(1900 * SEC, 900 * SEC, 4900 * SEC, longest, 0));
    /* what has waited longer comes in turn */
    assert_false(retry_is_due(2900 * SEC, 900 * SEC, 4900 * SEC, longest, 3000 * SEC));
    assert_true(retry_is_due(3000 * SEC, 900 * SEC, 4900 * SEC, longest, 3000 * SEC));
    unsigned tenths[10] = {0};
    for (uint64_t id = 1; id <= 10000; id++) {
        usec_t turn = retry_turn(2900 * SEC, longest, id << 20) - 2900 * SEC;
        assert_in_range(turn, 0, longest - 1);
        tenths[turn / (longest / 10)]++;
    }
    for (int i = 0; i < 10; i++) {
        assert_in_range(tenths[i], 900, 1100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attempts_come_when_the_vectors_say),
        cmocka_unit_test(the_minimum_wins),
        cmocka_unit_test(what_waits_for_a_wrong_future_is_due),
        cmocka_unit_test(a_lower_maximum_counts_from_the_deferral),
        cmocka_unit_test(warnings_are_due_once_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
