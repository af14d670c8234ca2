/* Rates as operators write them. */
#include "base/error.h"
#include "sched/limit/rate_text.h"
#include "tests/unit/unit.h"

#include <string.h>

#define MINUTE (60 * USEC_PER_SEC)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

static void reads(void **state)
{
    static const struct {
        const char *text;
        struct rate_rule rule;
        const char *printed;
    } cases[] = {
        {"100/s", {100, 0, USEC_PER_SEC}, "100/s"},
        {"5000/h", {5000, 0, HOUR}, "5000/h"},
        {"1,000/hr", {1000, 0, HOUR}, "1000/h"},
        {"50/d", {50, 0, DAY}, "50/d"},
        {"600/min, burst 10", {600, 10, MINUTE}, "600/min, burst 10"},
        {"600/min,burst 1,000", {600, 1000, MINUTE}, "600/min, burst 1000"},
        {" 7 / Seconds ", {7, 0, USEC_PER_SEC}, "7/s"},
        {"7 per sec", {7, 0, USEC_PER_SEC}, "7/s"},
        {"7/secs", {7, 0, USEC_PER_SEC}, "7/s"},
        {"7/m", {7, 0, MINUTE}, "7/min"},
        {"7/mins", {7, 0, MINUTE}, "7/min"},
        {"7/minutes", {7, 0, MINUTE}, "7/min"},
        {"7/HRS", {7, 0, HOUR}, "7/h"},
        {"7 PER HOURS", {7, 0, HOUR}, "7/h"},
        {"7/days", {7, 0, DAY}, "7/d"},
        {"1000000/s", {1000000, 0, USEC_PER_SEC}, "1000000/s"},
        {"1,000,000,000/d", {1000000000, 0, DAY}, "1000000000/d"},
        {"None", {0, 0, 0}, "none"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rate_rule rule, again;
        char why[RATE_WHY_BYTES], printed[RATE_TEXT_BYTES];
        assert_int_equal(rate_parse(slice_of(cases[i].text), &rule, why), 0);
        assert_memory_equal(&rule, &cases[i].rule, sizeof(rule));
        rate_print(&rule, printed);
        assert_string_equal(printed, cases[i].printed);
        assert_int_equal(rate_parse(slice_of(printed), &again, why), 0);
        assert_memory_equal(&rule, &again, sizeof(rule));
    }
}

/* Each error says what would be right. */
static void refuses(void **state)
{
    static const struct {
        const char *text, *wrong, *right;
    } cases[] = {
        {"", "does not begin with a number", "100/s"},
        {"-1/s", "does not begin with a number", "100/s"},
        {"fast", "does not begin with a number", "100/s"},
        {"100", "has no unit", "100/s"},
        {"100/", "has no unit", "100/s"},
        {"100/s/h", "has two units", "write one, such as 100/s"},
        {"100/s 50/h", "has two rates", "the smallest of all options holds"},
        {"100/s, 50/h", "has two rates", "the smallest of all options holds"},
        {"100/fortnight", "has an unknown unit", "/s, /min, /h or /d"},
        {"100/ss", "has an unknown unit", "/s, /min, /h or /d"},
        {"100/15m", "has a number as its unit", "/min"},
        {"100s", "has no / between", "100/s"},
        {"0.5/s", "is no whole number", "30/min"},
        {"0/s", "would let nothing through", "\"none\" for no limit"},
        {"1000001/s", "is too much", "1000000/s"},
        {"1000000001/d", "is too much", "1000000000"},
        {"99999999999999999999999999/d", "is too much", "1000000000"},
        {"1,00/h", "comma in the wrong place", "1,000/h"},
        {"1000,000/h", "comma in the wrong place", "1,000/h"},
        {"100/s burst 5", "has more behind its unit", "600/min, burst 10"},
        {"100/s, bursts 5", "has more behind its unit", "600/min, burst 10"},
        {"100/s, burst", "burst without a number", "600/min, burst 10"},
        {"100/s, burst 0", "burst out of range", "1 to 1000000"},
        {"100/s, burst 1000001", "burst out of range", "1 to 1000000"},
        {"100/s, burst 5 6", "has more behind its burst", "600/min, burst 10"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rate_rule rule = {1, 2, 3};
        char why[RATE_WHY_BYTES] = "";
        assert_int_equal(rate_parse(slice_of(cases[i].text), &rule, why), ERR_SYNTAX);
        if (strstr(why, cases[i].wrong) == NULL || strstr(why, cases[i].right) == NULL) {
            fail_msg("\"%s\": %s", cases[i].text, why);
        }
        assert_int_equal(rule.count, 1);
    }
}

static void reads_quotas(void **state)
{
    struct rate_rule rule;
    char why[RATE_WHY_BYTES];
    (void)state;
    assert_int_equal(rate_parse_quota(SLICE("5,000/d"), &rule, why), 0);
    assert_int_equal(rule.count, 5000);
    assert_true(rule.span == DAY);
    assert_int_equal(rate_parse_quota(SLICE("200/hr"), &rule, why), 0);
    assert_int_equal(rate_parse_quota(SLICE("none"), &rule, why), 0);
    assert_int_equal(rule.count, 0);
    assert_int_equal(rate_parse_quota(SLICE("10/min"), &rule, why), ERR_SYNTAX);
    assert_non_null(strstr(why, "5000/d"));
    assert_int_equal(rate_parse_quota(SLICE("10/d, burst 3"), &rule, why), ERR_SYNTAX);
    assert_non_null(strstr(why, "a quota does not know"));
}

/* An error repeats the beginning of a long text and never more than fits. */
static void errors_fit(void **state)
{
    char text[4000], why[RATE_WHY_BYTES];
    struct rate_rule rule;
    (void)state;
    memset(text, '9', sizeof(text));
    assert_int_equal(rate_parse(slice_make(text, sizeof(text)), &rule, why), ERR_SYNTAX);
    assert_true(strlen(why) < RATE_WHY_BYTES);
    memset(text, 'x', sizeof(text));
    assert_int_equal(rate_parse(slice_make(text, sizeof(text)), &rule, why), ERR_SYNTAX);
    assert_non_null(strstr(why, "xxx\" does not"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads),
        cmocka_unit_test(refuses),
        cmocka_unit_test(reads_quotas),
        cmocka_unit_test(errors_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
