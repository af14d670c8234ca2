#include "engine/date.h"
#include "tests/unit/unit.h"

#include <string.h>
#include <time.h>

/* Against the C library, through leap days and centuries. */
static void dates_are_those_of_the_calendar(void **state)
{
    for (int64_t day = 0; day < (int64_t)400 * 366; day += day < 1500 ? 1 : 27) {
        time_t seconds = (time_t)(day * 86400 + day * 7919 % 86400);
        struct tm tm;
        char expected[DATE_BYTES], got[DATE_BYTES];
        assert_non_null(gmtime_r(&seconds, &tm));
        assert_true(strftime(expected, sizeof(expected), "%a, %d %b %Y %H:%M:%S +0000", &tm) > 0);
        date_format((usec_t)seconds * USEC_PER_SEC + 999999, got);
        assert_string_equal(got, expected);
    }
}

static void odd_moments_have_a_date(void **state)
{
    char got[DATE_BYTES];
    date_format(-1, got);
    assert_string_equal(got, "Thu, 01 Jan 1970 00:00:00 +0000");
    date_format(INT64_MAX, got); /* year 294247 */
    assert_int_equal(strlen(got), strlen("Thu, 01 Jan 1970 00:00:00 +0000"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dates_are_those_of_the_calendar),
        cmocka_unit_test(odd_moments_have_a_date),
    };
    return cmocka_run_group_tests_name("date", tests, NULL, NULL);
}
