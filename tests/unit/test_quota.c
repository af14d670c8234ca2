/* Quotas by the calendar, with a wall clock that the tests set. */
#include "base/error.h"
#include "sched/limit/quota.h"
#include "tests/unit/unit.h"

#include <string.h>

#define HOUR     (3600 * USEC_PER_SEC)
#define DAY      (24 * HOUR)
#define MIDNIGHT (20788 * DAY) /* 2026-12-01 */

static struct quota make(uint32_t count, usec_t span)
{
    struct quota q;
    struct rate_rule rule = {count, 0, span};
    quota_init(&q, &rule, NULL);
    return q;
}

static unsigned take_all(struct quota *q, usec_t wall)
{
    unsigned taken = 0;
    while (taken < 100000 && quota_due(q, 1, wall) <= wall) {
        (void)quota_take(q, 1, wall);
        taken++;
    }
    return taken;
}

static void windows_are_of_the_calendar(void **state)
{
    struct quota day = make(5000, DAY), hour = make(200, HOUR);
    (void)state;
    assert_int_equal(take_all(&day, MIDNIGHT - 1), 5000);
    assert_true(quota_due(&day, 1, MIDNIGHT - 1) == MIDNIGHT);
    assert_int_equal(take_all(&day, MIDNIGHT - 1), 0);
    assert_int_equal(take_all(&day, MIDNIGHT), 5000);
    assert_int_equal(take_all(&day, MIDNIGHT + DAY - 1), 0);
    assert_int_equal(take_all(&day, MIDNIGHT + DAY), 5000);
    assert_int_equal(take_all(&hour, MIDNIGHT + HOUR / 2), 200);
    assert_true(quota_due(&hour, 1, MIDNIGHT + HOUR / 2) == MIDNIGHT + HOUR);
    assert_int_equal(take_all(&hour, MIDNIGHT + HOUR), 200);
}

static void none_is_none(void **state)
{
    struct quota q = make(0, 0);
    (void)state;
    assert_int_equal(take_all(&q, MIDNIGHT), 100000);
    assert_true(quota_left(&q, MIDNIGHT) == UINT64_MAX);
}

static void survives_a_restart(void **state)
{
    struct quota q = make(5000, DAY);
    (void)state;
    for (int i = 0; i < 1200; i++) {
        (void)quota_take(&q, 1, MIDNIGHT + HOUR);
    }
    struct quota_state kept = quota_export(&q);
    struct quota again = make(5000, DAY);
    quota_import(&again, &kept);
    assert_int_equal(take_all(&again, MIDNIGHT + 2 * HOUR), 3800);
    /* not of another span, and not over midnight */
    struct quota hour = make(100, HOUR);
    quota_import(&hour, &kept);
    assert_int_equal(take_all(&hour, MIDNIGHT + 2 * HOUR), 100);
    again = make(5000, DAY);
    quota_import(&again, &kept);
    assert_int_equal(take_all(&again, MIDNIGHT + DAY), 5000);
}

static void clock_set_back_gives_no_second_quota(void **state)
{
    struct quota q = make(100, DAY);
    (void)state;
    assert_int_equal(take_all(&q, MIDNIGHT - HOUR), 100);
    assert_int_equal(take_all(&q, MIDNIGHT - 5 * HOUR), 0);
    /* over midnight and back: what was used of the new day stays used, before and after */
    assert_int_equal(take_all(&q, MIDNIGHT + 1), 100);
    assert_int_equal(take_all(&q, MIDNIGHT - 1), 0);
    assert_int_equal(take_all(&q, MIDNIGHT + HOUR), 0);
    assert_int_equal(take_all(&q, MIDNIGHT + DAY), 100);
    /* a year ahead and back: not for a year, but to the end of the next window */
    assert_int_equal(take_all(&q, MIDNIGHT + 365 * DAY), 100);
    assert_int_equal(take_all(&q, MIDNIGHT + DAY + HOUR), 0);
    assert_int_equal(take_all(&q, MIDNIGHT + 2 * DAY), 0);
    assert_int_equal(take_all(&q, MIDNIGHT + 3 * DAY), 100);
}

static void gives_back(void **state)
{
    struct quota q = make(10, HOUR);
    (void)state;
    int64_t window = quota_take(&q, 10, MIDNIGHT);
    assert_true(quota_left(&q, MIDNIGHT) == 0);
    quota_give_back(&q, 4, window);
    assert_true(quota_left(&q, MIDNIGHT) == 4);
    /* what comes back after the window adds nothing to the next one */
    assert_int_equal(take_all(&q, MIDNIGHT + HOUR), 10);
    quota_give_back(&q, 4, window);
    assert_true(quota_left(&q, MIDNIGHT + HOUR) == 0);
}

static void amounts(void **state)
{
    struct quota q = make(100, HOUR);
    (void)state;
    (void)quota_take(&q, 60, MIDNIGHT);
    assert_true(quota_due(&q, 40, MIDNIGHT) <= MIDNIGHT);
    assert_true(quota_due(&q, 41, MIDNIGHT) == MIDNIGHT + HOUR);
    /* more than a whole quota goes as the first of a window and fills it */
    assert_true(quota_due(&q, 500, MIDNIGHT + HOUR) <= MIDNIGHT + HOUR);
    (void)quota_take(&q, 500, MIDNIGHT + HOUR);
    assert_true(quota_due(&q, 1, MIDNIGHT + HOUR) == MIDNIGHT + 2 * HOUR);
    assert_true(quota_left(&q, MIDNIGHT + HOUR) == 0);
}

static void grows_by_the_day(void **state)
{
    static const struct quota_warmup warmup = {
        .steps = {50, 100, 500}, .count = 3, .since = MIDNIGHT / DAY};
    static const struct quota_warmup ends = {.steps = {50, 0}, .count = 2, .since = MIDNIGHT / DAY};
    const struct rate_rule none = {0};
    struct quota q;
    (void)state;
    quota_init(&q, &none, &warmup);
    assert_true(quota_due(&q, 1, MIDNIGHT - 3 * DAY) == MIDNIGHT);
    assert_int_equal(take_all(&q, MIDNIGHT - 1), 0);
    assert_int_equal(take_all(&q, MIDNIGHT), 50);
    assert_int_equal(take_all(&q, MIDNIGHT + DAY - 1), 0);
    assert_int_equal(take_all(&q, MIDNIGHT + DAY), 100);
    assert_int_equal(take_all(&q, MIDNIGHT + 2 * DAY), 500);
    assert_int_equal(take_all(&q, MIDNIGHT + 30 * DAY), 500);
    quota_init(&q, &none, &ends);
    assert_int_equal(take_all(&q, MIDNIGHT), 50);
    assert_int_equal(take_all(&q, MIDNIGHT + DAY), 100000);
    assert_true(quota_left(&q, MIDNIGHT + DAY) == UINT64_MAX);
}

static void changes(void **state)
{
    struct quota q = make(100, DAY);
    const struct rate_rule more = {150, 0, DAY}, less = {80, 0, DAY}, hourly = {20, 0, HOUR};
    (void)state;
    assert_int_equal(take_all(&q, MIDNIGHT), 100);
    quota_change(&q, &more, NULL);
    assert_int_equal(take_all(&q, MIDNIGHT + 1), 50);
    quota_change(&q, &less, NULL);
    assert_int_equal(take_all(&q, MIDNIGHT + 2), 0);
    assert_int_equal(take_all(&q, MIDNIGHT + DAY), 80);
    quota_change(&q, &hourly, NULL);
    assert_int_equal(take_all(&q, MIDNIGHT + DAY + 1), 20);
}

static void lends_exactly(void **state)
{
    struct quota q = make(5000, DAY);
    struct quota_loan loans[3];
    unsigned sum = 0;
    (void)state;
    for (unsigned i = 0; i < 3000 && quota_due(&q, 1, MIDNIGHT) <= MIDNIGHT; i++) {
        struct quota_loan *l = &loans[i % 3];
        assert_int_equal(quota_lend(&q, 1000, MIDNIGHT, l), 0);
        assert_in_range(l->left, 1, 5000 / 64);
        assert_true(l->until == MIDNIGHT + DAY);
        unsigned use = l->left > 2 ? l->left - 1 : l->left;
        sum += use;
        l->left -= use;
        quota_repay(&q, l);
    }
    assert_int_equal(sum, 5000);
    assert_true(quota_lend(&q, 1, MIDNIGHT, &loans[0]) == MIDNIGHT + DAY);
}

static void dates(void **state)
{
    static const char *const wrong[] = {"",           "2026-12-1",  "01.12.2026", "2026-13-01",
                                        "2026-02-29", "2026-00-10", "1969-12-31", "2026-12-01x"};
    char why[QUOTA_WHY_BYTES];
    int64_t day;
    (void)state;
    assert_int_equal(quota_parse_date(SLICE("2026-12-01"), &day, why), 0);
    assert_int_equal(day, MIDNIGHT / DAY);
    assert_int_equal(quota_parse_date(SLICE("1970-01-01"), &day, why), 0);
    assert_int_equal(day, 0);
    assert_int_equal(quota_parse_date(SLICE("2024-02-29"), &day, why), 0);
    assert_int_equal(day, 19782);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(quota_parse_date(slice_of(wrong[i]), &day, why), ERR_SYNTAX);
        assert_non_null(strstr(why, "such as 2026-12-01"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_are_of_the_calendar),
        cmocka_unit_test(none_is_none),
        cmocka_unit_test(survives_a_restart),
        cmocka_unit_test(clock_set_back_gives_no_second_quota),
        cmocka_unit_test(gives_back),
        cmocka_unit_test(amounts),
        cmocka_unit_test(grows_by_the_day),
        cmocka_unit_test(changes),
        cmocka_unit_test(lends_exactly),
        cmocka_unit_test(dates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
