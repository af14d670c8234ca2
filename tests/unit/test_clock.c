#include "base/clock.h"
#include "tests/unit/unit.h"

static void monotonic_time_does_not_go_back(void **state)
{
    usec_t last = clock_mono();
    assert_true(last >= 0);
    for (int i = 0; i < 1000; i++) {
        usec_t now = clock_mono();
        assert_true(now >= last);
        last = now;
    }
}

static void wall_time_is_microseconds_since_1970(void **state)
{
    const usec_t year_2020 = 1577836800 * USEC_PER_SEC;
    assert_true(clock_wall() > year_2020);
    assert_true(clock_wall() < 10 * year_2020);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(monotonic_time_does_not_go_back),
        cmocka_unit_test(wall_time_is_microseconds_since_1970),
    };
    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
