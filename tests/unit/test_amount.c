/* Amounts: shares of a list, quantiles of a lognormal, and what is wrong with a text. */
#include "base/error.h"
#include "bench/tool/amount.h"
#include "bench/tool/draw.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DRAWS 200000
#define LIMIT 1000000

/* As in test_choice: six standard deviations. */
static void check_share(uint64_t hits, double share)
{
    double bound = 6 * sqrt(DRAWS * share * (1 - share)) + 1;
    assert_true(fabs((double)hits - DRAWS * share) <= bound);
}

static struct amount parsed(const char *text)
{
    struct amount a;
    const char *why;
    assert_int_equal(amount_parse(&a, text, LIMIT, &why), 0);
    return a;
}

static uint64_t draw(const struct amount *a, uint64_t i)
{
    return amount_draw(a, draw_bits(3, DRAW_SIZE, i));
}

static void test_constant(void **state)
{
    struct amount a = parsed("4096");
    (void)state;
    assert_true(amount_is_constant(&a));
    assert_int_equal(draw(&a, 1), 4096);
    amount_fini(&a);
}

static void test_list(void **state)
{
    struct amount a = parsed("4096:9,102400:0.5,50:0.5");
    uint64_t small = 0;
    uint64_t large = 0;
    (void)state;
    assert_int_equal(a.least, 50);
    assert_int_equal(a.most, 102400);
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint64_t value = draw(&a, i);
        assert_true(value == 50 || value == 4096 || value == 102400);
        assert_int_equal(value, draw(&a, i)); /* the same each time it is asked for */
        small += value == 50 ? 1 : 0;
        large += value == 102400 ? 1 : 0;
    }
    check_share(small, 0.05);
    check_share(large, 0.05);
    amount_fini(&a);
}

/* Below median * exp(sigma * z) lies the share Phi(z). */
static void test_lognormal(void **state)
{
    static const double normal[][2] = {
        {-2, 0.022750}, {-1, 0.158655}, {0, 0.5}, {1, 0.841345}, {2, 0.977250}};
    struct amount a = parsed("lognormal:20000:0.7:1000000");
    uint64_t below[5] = {0};
    (void)state;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double value = (double)draw(&a, i);
        assert_true(value >= 1 && value <= LIMIT);
        for (size_t q = 0; q < 5; q++) {
            below[q] += value < 20000 * exp(0.7 * normal[q][0]) ? 1 : 0;
        }
    }
    for (size_t q = 0; q < 5; q++) {
        check_share(below[q], normal[q][1]);
    }
    amount_fini(&a);
}

static void test_lognormal_has_ends(void **state)
{
    struct amount a = parsed("lognormal:100:10:1000");
    uint64_t least = 0;
    uint64_t most = 0;
    (void)state;
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint64_t value = draw(&a, i);
        assert_true(value >= 1 && value <= 1000);
        least += value == 1 ? 1 : 0;
        most += value == 1000 ? 1 : 0;
    }
    check_share(most, 0.408965);  /* 1 - Phi(ln(999.5 / 100) / 10) */
    check_share(least, 0.337253); /* Phi(ln(1.5 / 100) / 10), rounded to 1 or below it */
    amount_fini(&a);
    a = parsed("lognormal:100:0:1000");
    assert_int_equal(draw(&a, 5), 100);
    amount_fini(&a);
}

static void test_mistakes_are_named(void **state)
{
    static const struct {
        const char *text, *why;
    } mistakes[] = {
        {"", "whole number from 1"},
        {"0", "whole number from 1"},
        {"-5", "whole number from 1"},
        {"1000001", "up to the limit"},
        {"4k", "whole number from 1"},
        {"4096:", "share is a number"},
        {"4096:-1", "share is a number"},
        {"4096:0.9,", "VALUE:SHARE"},
        {",4096:0.9", "VALUE:SHARE"},
        {"4096,5", "VALUE:SHARE"},
        {"0:1,5:1", "whole number from 1"},
        {"1.5:1", "whole number from 1"},
        {"4096:0,5:0", "above 0"},
        {"4096:nan", "share is a number"},
        {"lognormal:", "lognormal:MEDIAN:SIGMA:MAX"},
        {"lognormal:5:1", "lognormal:MEDIAN:SIGMA:MAX"},
        {"lognormal:5:1:10:3", "lognormal:MEDIAN:SIGMA:MAX"},
        {"lognormal:50:1:10", "MEDIAN is"},
        {"lognormal:0.5:1:10", "MEDIAN is"},
        {"lognormal:5:11:10", "SIGMA"},
        {"lognormal:5:x:10", "SIGMA"},
        {"lognormal:5:1:1000001", "MAX is"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        struct amount a = amount_constant(7);
        const char *why = NULL;
        assert_int_equal(amount_parse(&a, mistakes[i].text, LIMIT, &why), ERR_SYNTAX);
        assert_non_null(strstr(why, mistakes[i].why));
        assert_int_equal(a.most, 7); /* written on success only */
    }
}

static void test_weights(void **state)
{
    double *weights = NULL;
    uint32_t count = 0;
    const char *why = NULL;
    (void)state;
    assert_int_equal(amount_parse_weights("5,0,1.5", &weights, &count, &why), 0);
    assert_int_equal(count, 3);
    assert_true(weights[0] == 5 && weights[1] == 0 && weights[2] == 1.5);
    free(weights);
    for (const char *const *text = (const char *const[]){"", "5,", ",5", "5;1", "-1", NULL};
         *text != NULL; text++) {
        assert_int_equal(amount_parse_weights(*text, &weights, &count, &why), ERR_SYNTAX);
        assert_non_null(strstr(why, "numbers >= 0"));
    }
    assert_int_equal(amount_parse_weights("0,0", &weights, &count, &why), ERR_SYNTAX);
    assert_non_null(strstr(why, "above 0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant),           cmocka_unit_test(test_list),
        cmocka_unit_test(test_lognormal),          cmocka_unit_test(test_lognormal_has_ends),
        cmocka_unit_test(test_mistakes_are_named), cmocka_unit_test(test_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
