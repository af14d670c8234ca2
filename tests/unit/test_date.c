#include "base/date.h"
#include "tests/unit/unit.h"

#include <stdio.h>
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

static usec_t parsed(const char *text)
{
    usec_t ret = -1;
    return date_parse(slice_of(text), &ret) ? ret : -1;
}

static void times_of_rfc_3339_are_read(void **state)
{
    assert_int_equal(parsed("1970-01-01T00:00:00Z"), 0);
    assert_int_equal(parsed("2026-11-21T09:08:42Z"), 1795252122LL * USEC_PER_SEC);
    assert_int_equal(parsed("2026-11-21t09:08:42.5z"), 1795252122LL * USEC_PER_SEC + 500000);
    assert_int_equal(parsed("2026-11-21 10:38:42.1234567+01:30"),
                     1795252122LL * USEC_PER_SEC + 123456);
    assert_int_equal(parsed("2026-11-21T02:08:42-07:00"), 1795252122LL * USEC_PER_SEC);
    assert_int_equal(parsed("2016-12-31T23:59:60Z"), parsed("2017-01-01T00:00:00Z"));
}

static void days_come_back_as_they_were_split(void **state)
{
    for (int64_t day = 0; day < (int64_t)400 * 366; day += day < 1500 ? 1 : 27) {
        char text[64];
        struct date d;
        usec_t wall = (day * 86400 + day * 7919 % 86400) * USEC_PER_SEC;
        date_split(wall, &d);
        (void)snprintf(text, sizeof(text), "%04u-%02u-%02uT%02u:%02u:%02uZ", d.year, d.month, d.day,
                       d.hour, d.minute, d.second);
        assert_int_equal(parsed(text), wall);
    }
}

static void other_texts_are_no_times(void **state)
{
    static const char *const wrong[] = {
        "",
        "2026-11-21",
        "2026-11-21T09:08:42",
        "2026-11-21T09:08Z",
        "2026-11-21T09:08:42Z ",
        "2026-11-21T09:08:42.Z",
        "2026-11-21T09:08:42+0100",
        "2026-11-21T09:08:42+24:00",
        "2026-02-29T00:00:00Z",
        "2100-02-29T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-01-00T00:00:00Z",
        "2026-11-21T24:00:00Z",
        "2026-11-21T09:60:00Z",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00+01:00",
        "+026-11-21T09:08:42Z",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(parsed(wrong[i]), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dates_are_those_of_the_calendar),
        cmocka_unit_test(odd_moments_have_a_date),
        cmocka_unit_test(times_of_rfc_3339_are_read),
        cmocka_unit_test(days_come_back_as_they_were_split),
        cmocka_unit_test(other_texts_are_no_times),
    };
    return cmocka_run_group_tests_name("date", tests, NULL, NULL);
}
