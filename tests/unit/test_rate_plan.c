/* Rates that change in the course of a run: their text, what a bucket lets through, and the mean that
 * the report draws. In simulated time. */
#include "base/error.h"
#include "bench/sink/rate_plan.h"
#include "tests/unit/unit.h"

#include <string.h>

static struct rate_plan read_plan(const char *const *texts, enum rate_burst burst)
{
    struct rate_plan p = {0};
    char why[VALUE_WHY_BYTES] = "";
    for (; *texts != NULL; texts++) {
        assert_int_equal(rate_plan_add(&p, *texts, burst, why), 0);
        assert_string_equal(why, "");
    }
    return p;
}

static void test_text(void **state)
{
    static const struct {
        const char *text;
        enum rate_burst usual;
        struct rate_step expected;
    } cases[] = {
        {"200/s", RATE_BURST_TENTH, {0, {200, USEC_PER_SEC, 20}}},
        {"2/s", RATE_BURST_TENTH, {0, {2, USEC_PER_SEC, 1}}},
        {"6000/m", RATE_BURST_TENTH, {0, {6000, 60 * USEC_PER_SEC, 10}}},
        {"6000/m", RATE_BURST_SPAN, {0, {6000, 60 * USEC_PER_SEC, 6000}}},
        {"3600/h, burst 7", RATE_BURST_TENTH, {0, {3600, 3600 * USEC_PER_SEC, 7}}},
        {"5/d from 60", RATE_BURST_SPAN, {60 * USEC_PER_SEC, {5, 86400 * USEC_PER_SEC, 5}}},
        {"9/s, burst 3 from 1", RATE_BURST_TENTH, {USEC_PER_SEC, {9, USEC_PER_SEC, 3}}},
        {"none from 30", RATE_BURST_TENTH, {30 * USEC_PER_SEC, {0, 0, 0}}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const texts[] = {cases[i].text, NULL};
        struct rate_plan p = read_plan(texts, cases[i].usual);
        assert_int_equal(p.count, 1);
        assert_int_equal(p.steps[0].from, cases[i].expected.from);
        assert_int_equal(p.steps[0].rate.count, cases[i].expected.rate.count);
        assert_int_equal(p.steps[0].rate.span, cases[i].expected.rate.span);
        assert_int_equal(p.steps[0].rate.burst, cases[i].expected.rate.burst);
    }
}

static void test_mistakes(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"100", "is not a rate; write a number of messages and /s"},
        {"100/w", "is not a rate"},
        {"100/sec", "is not a rate"},
        {"100/s burst 3", "is not a rate"},
        {"100/s, burst 0", "is not a rate"},
        {"100/s, burst", "is not a rate"},
        {"100/s from", "is not a rate"},
        {"100/s from 5 s", "is not a rate"},
        {"100/s from 86401", "is not a rate"},
        {"nonesuch", "is not a rate"},
        {"0/s", "0/s is out of range; write 1 to 10000000 messages"},
        {"99999999999999999999/d", "is out of range"},
        {"200/s from 10", "200/s from 10 begins no later than the one before; write its"},
    };
    const char *const first[] = {"100/s from 10", NULL};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rate_plan p = read_plan(first, RATE_BURST_SPAN);
        char why[VALUE_WHY_BYTES] = "";
        assert_int_equal(rate_plan_add(&p, cases[i].text, RATE_BURST_SPAN, why), ERR_SYNTAX);
        if (strstr(why, cases[i].why) == NULL) {
            print_error("%s: %s\n", cases[i].text, why);
        }
        assert_non_null(strstr(why, cases[i].why));
        assert_int_equal(p.count, 1);
    }
}

static uint64_t accepted(const struct rate_plan *p, struct rate_bucket *b, usec_t begin,
                         usec_t from, usec_t to, usec_t step)
{
    uint64_t count = 0;
    for (usec_t now = from; now < to; now += step) {
        count += rate_plan_take(b, p, begin, begin + now) ? 1 : 0;
    }
    return count;
}

/* A client that tries far more often gets each rate to the token, from the moment it holds. */
static void test_steps_are_exact(void **state)
{
    const char *const texts[] = {"200/s", "100/s from 20", "none from 40", "400/s from 45", NULL};
    const struct rate_plan p = read_plan(texts, RATE_BURST_TENTH);
    const usec_t begin = 77 * USEC_PER_SEC;
    const usec_t second = USEC_PER_SEC;
    struct rate_bucket b = {0};
    (void)state;
    assert_in_range(accepted(&p, &b, begin, 0, 20 * second, 499), 20 + 3998, 20 + 4000);
    assert_in_range(accepted(&p, &b, begin, 20 * second, 40 * second, 499), 1998, 2001);
    assert_int_equal(accepted(&p, &b, begin, 40 * second, 45 * second, 1000), 5000);
    assert_in_range(accepted(&p, &b, begin, 45 * second, 60 * second, 499), 40 + 5998, 40 + 6000);
}

/* One that comes late finds the rate that holds then, and a full bucket. */
static void test_a_late_client(void **state)
{
    const char *const texts[] = {"none", "10/s from 20", "50/s from 30", NULL};
    const struct rate_plan p = read_plan(texts, RATE_BURST_TENTH);
    struct rate_bucket b = {0};
    struct rate_bucket early = {0};
    (void)state;
    assert_int_equal(accepted(&p, &early, 0, 0, USEC_PER_SEC, 1000), 1000);
    assert_int_equal(accepted(&p, &b, 0, 100 * USEC_PER_SEC, 100 * USEC_PER_SEC + 10, 1), 5);
    assert_in_range(accepted(&p, &b, 0, 101 * USEC_PER_SEC, 102 * USEC_PER_SEC, 500), 54, 55);
}

static void test_no_plan(void **state)
{
    const struct rate_plan p = {0};
    struct rate_bucket b = {0};
    (void)state;
    assert_int_equal(accepted(&p, &b, 0, 0, 1000, 1), 1000);
    assert_true(rate_plan_mean(&p, 0, 1) < 0);
}

static void test_mean(void **state)
{
    const char *const texts[] = {"200/s", "6000/m from 20", "none from 40", "400/s from 45", NULL};
    const char *const late[] = {"10/s from 5", NULL};
    const struct rate_plan p = read_plan(texts, RATE_BURST_TENTH);
    const struct rate_plan after = read_plan(late, RATE_BURST_TENTH);
    const usec_t second = USEC_PER_SEC;
    (void)state;
    assert_true(rate_plan_mean(&p, 0, second) == 200);
    assert_true(rate_plan_mean(&p, 19 * second, 21 * second) == 150);
    assert_true(rate_plan_mean(&p, 20 * second, 40 * second) == 100);
    assert_true(rate_plan_mean(&p, 39 * second, 41 * second) < 0);
    assert_true(rate_plan_mean(&p, 44 * second, 46 * second) < 0);
    assert_true(rate_plan_mean(&p, 45 * second, 99 * second) == 400);
    assert_true(rate_plan_mean(&after, 4 * second, 6 * second) < 0);
    assert_true(rate_plan_mean(&after, 5 * second, 6 * second) == 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_steps_are_exact),
        cmocka_unit_test(test_a_late_client),
        cmocka_unit_test(test_no_plan),
        cmocka_unit_test(test_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
