/* Weighted choices: shares as the weights say, within what chance allows. */
#include "bench/tool/choice.h"
#include "bench/tool/draw.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>

#define DRAWS 200000

/* Six standard deviations of a binomial count: with a fixed seed never, otherwise once in 5 * 10^8.
 */
static void check_share(uint64_t hits, double share)
{
    double mean = DRAWS * share;
    double bound = 6 * sqrt(DRAWS * share * (1 - share)) + 1;
    assert_true(fabs((double)hits - mean) <= bound);
}

static void count_draws(const struct choice *c, uint64_t seed, uint64_t *hits)
{
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint32_t pick = choice_pick(c, draw_bits(seed, DRAW_DOMAIN, i));
        assert_true(pick < c->count);
        hits[pick]++;
    }
}

static void test_shares_follow_the_weights(void **state)
{
    static const double weights[] = {5, 1, 0, 1, 0.5, 2.5};
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct choice c;
        uint64_t hits[6] = {0};
        assert_int_equal(choice_init(&c, weights, 6), 0);
        count_draws(&c, seed, hits);
        for (size_t i = 0; i < 6; i++) {
            check_share(hits[i], weights[i] / 10);
        }
        assert_int_equal(hits[2], 0); /* no weight: never */
        choice_fini(&c);
    }
}

static void test_zipf(void **state)
{
    static const double exponents[] = {0, 0.8, 1, 2};
    enum { COUNT = 1000 };
    (void)state;
    for (size_t e = 0; e < 4; e++) {
        struct choice c;
        double sum = 0;
        uint64_t *hits = calloc(COUNT, sizeof(*hits));
        assert_non_null(hits);
        assert_int_equal(choice_init_zipf(&c, COUNT, exponents[e]), 0);
        count_draws(&c, 7, hits);
        for (int k = 1; k <= COUNT; k++) {
            sum += pow(k, -exponents[e]);
        }
        for (int k = 1; k <= COUNT; k++) {
            check_share(hits[k - 1], pow(k, -exponents[e]) / sum);
        }
        free(hits);
        choice_fini(&c);
    }
}

/* The table itself, without chance: own and other shares of all columns add up to the weights. */
static void test_table_is_exact(void **state)
{
    enum { COUNT = 100000 };
    struct choice c;
    double *mass = calloc(COUNT, sizeof(*mass));
    double sum = 0;
    (void)state;
    assert_non_null(mass);
    assert_int_equal(choice_init_zipf(&c, COUNT, 1.1), 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        double own = c.columns[i].own * 0x1p-32;
        mass[i] += own;
        mass[c.columns[i].other] += 1 - own;
        sum += pow(i + 1, -1.1);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        double wanted = pow(i + 1, -1.1) / sum * COUNT;
        /* A column loses less than 2^-32 to rounding, and the first collects from very many. */
        assert_true(fabs(mass[i] - wanted) <= COUNT * 0x1p-32 + 1e-6 * wanted);
    }
    free(mass);
    choice_fini(&c);
}

static void test_one_of_one(void **state)
{
    struct choice c;
    (void)state;
    assert_int_equal(choice_init_zipf(&c, 1, 1), 0);
    assert_int_equal(choice_pick(&c, 0), 0);
    assert_int_equal(choice_pick(&c, UINT64_MAX), 0);
    choice_fini(&c);
    choice_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_follow_the_weights),
        cmocka_unit_test(test_zipf),
        cmocka_unit_test(test_table_is_exact),
        cmocka_unit_test(test_one_of_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
