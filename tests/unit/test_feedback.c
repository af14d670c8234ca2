/* The vectors FB and FB-P, and the README's pseudocode beside the code. */
#include "base/error.h"
#include "sched/feedback.h"
#include "tests/unit/unit.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct trace {
    struct feedback_rule rule;
    struct feedback f;
    int window;
    int busy; /* 0: as many as the window */
};

static struct trace start(int initial, int limit, const char *positive, const char *negative,
                          int cohorts)
{
    struct trace t = {.rule = {.rule = SCHED_RULE_POSTFIX3,
                               .initial = initial,
                               .limit = limit,
                               .cohort_limit = cohorts},
                      .window = initial};
    assert_int_equal(sched_feedback_parse(positive, SCHED_RULE_README, &t.rule.positive), 0);
    assert_int_equal(sched_feedback_parse(negative, SCHED_RULE_README, &t.rule.negative), 0);
    return t;
}

static int step(struct trace *t, char event)
{
    if (event == 'S') {
        t->window =
            feedback_positive(&t->f, &t->rule, t->window, t->busy > 0 ? t->busy : t->window);
    } else {
        t->window = feedback_negative(&t->f, &t->rule, t->window);
    }
    return t->window;
}

/* windows: one number an event, 0 = dead */
static void expect(struct trace *t, const char *events, const char *windows)
{
    char *position = NULL;
    char *copy = strdup(windows);
    char *number = strtok_r(copy, " ", &position);
    for (const char *e = events; *e != '\0'; e++) {
        assert_non_null(number);
        assert_int_equal(step(t, *e), atoi(number));
        number = strtok_r(NULL, " ", &position);
    }
    assert_null(number);
    free(copy);
}

static void parse_accepts(void **state)
{
    static const struct {
        const char *text;
        enum sched_feedback_kind kind;
        double base;
    } cases[] = {
        {"1", SCHED_FEEDBACK_CONSTANT, 1},           {"0", SCHED_FEEDBACK_CONSTANT, 0},
        {"0.5", SCHED_FEEDBACK_CONSTANT, .5},        {".25", SCHED_FEEDBACK_CONSTANT, .25},
        {"1e-1", SCHED_FEEDBACK_CONSTANT, .1},       {"1/4", SCHED_FEEDBACK_CONSTANT, .25},
        {"1 / 4", SCHED_FEEDBACK_CONSTANT, .25},     {"1/ 4", SCHED_FEEDBACK_CONSTANT, .25},
        {"+1/4", SCHED_FEEDBACK_CONSTANT, .25},      {"2/4", SCHED_FEEDBACK_CONSTANT, .5},
        {"1/2e1", SCHED_FEEDBACK_CONSTANT, .05},     {"-0", SCHED_FEEDBACK_CONSTANT, 0},
        {"1/concurrency", SCHED_FEEDBACK_LINEAR, 1}, {"1 / concurrency", SCHED_FEEDBACK_LINEAR, 1},
        {"1/CONCURRENCY", SCHED_FEEDBACK_LINEAR, 1}, {"0.5/concurrency", SCHED_FEEDBACK_LINEAR, .5},
        {"0/concurrency", SCHED_FEEDBACK_LINEAR, 0}, {"0.5x", SCHED_FEEDBACK_CONSTANT, .5},
        {"0.5 junk", SCHED_FEEDBACK_CONSTANT, .5},   {"1,5", SCHED_FEEDBACK_CONSTANT, 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int rule = SCHED_RULE_README; rule <= SCHED_RULE_POSTFIX3; rule++) {
            struct sched_feedback f = {SCHED_FEEDBACK_SQRT, 7};
            assert_int_equal(
                sched_feedback_parse(cases[i].text, (enum sched_feedback_rule)rule, &f), 0);
            assert_int_equal(f.kind, cases[i].kind);
            assert_true(fabs(f.base - cases[i].base) < 1e-12);
        }
    }
}

static void parse_refuses(void **state)
{
    static const char *const cases[] = {
        "",
        "concurrency",
        "4/2",
        "2",
        "-1",
        "1/0",
        "1/0.5",
        "1/-4",
        "-1/-4",
        "1/4x",
        "1/4 x",
        "1//4",
        "1/",
        "1/4/5",
        "25%",
        "3/concurrency",
        "1.0000001",
        "nan",
        "inf",
        "1/inf",
        "0/0",
        "abc",
        "1/0000000000000000000000000000004",
        "nan/4",
        "1/concurrencyx",
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sched_feedback f = {SCHED_FEEDBACK_SQRT, 7};
        assert_int_equal(sched_feedback_parse(cases[i], SCHED_RULE_README, &f), ERR_SYNTAX);
        assert_int_equal(f.kind, SCHED_FEEDBACK_SQRT);
        assert_true(f.base == 7);
    }
    struct sched_feedback f;
    assert_int_equal(sched_feedback_parse("1/sqrt_concurrency", SCHED_RULE_POSTFIX3, &f),
                     ERR_SYNTAX);
    assert_int_equal(sched_feedback_parse("1/Sqrt_Concurrency", SCHED_RULE_README, &f), 0);
    assert_int_equal(f.kind, SCHED_FEEDBACK_SQRT);
}

/* FB-1 to FB-3 */
static void growth_is_bounded(void **state)
{
    struct trace t = start(5, 20, "1", "1", 1);
    expect(&t, "SSSSSSSSSSSSSSSSSS", "6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 20 20 20");
    assert_true(t.f.success == 0);
    t = start(5, 20, "1", "1", 1);
    t.busy = 1;
    expect(&t, "SSSSS", "6 6 6 6 6");
    t = start(5, 0, "1", "1", 1);
    t.busy = 3;
    expect(&t, "SSSSSS", "6 7 8 8 8 8");
}

/* The numbers of the reports at which the window moved; steps that took more than one are
 * negative. */
static void expect_steps(struct trace *t, char event, int reports, const char *numbers)
{
    char got[512] = "";
    for (int i = 1; i <= reports; i++) {
        int before = t->window;
        int after = step(t, event);
        if (after != before) {
            size_t len = strlen(got);
            (void)snprintf(got + len, sizeof(got) - len, "%s%d%s", len > 0 ? " " : "", i,
                           abs(after - before) > 1 ? "(2)" : "");
        }
    }
    assert_string_equal(got, numbers);
}

/* FB-4, FB-5 */
static void fractions_of_growth(void **state)
{
    struct trace t = start(5, 20, "1/concurrency", "1", 1);
    expect_steps(&t, 'S', 60, "5 11 18 26 35 45 56");
    assert_int_equal(t.window, 12);
    assert_true(fabs(t.f.success - 0.333333) < 1e-6);
    static const struct {
        const char *feedback;
        int reports;
        const char *numbers;
    } cases[] = {
        {"1/4", 20, "4 8 12 16 20"},         {"1/3", 12, "3 6 9 12"},
        {"0.4", 15, "2 5 7 10 12 15"},       {"0.3", 20, "3 7 10 13 17 20"},
        {"0.15", 27, "7 13 20 27"},          {"2/3", 12, "1 3 5 6 8 9 11 12"},
        {"0.7", 13, "1 3 4 6 7 9 10 11 13"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        t = start(5, 0, cases[i].feedback, "1", 1);
        expect_steps(&t, 'S', cases[i].reports, cases[i].numbers);
    }
}

/* FB-6, FB-7, FB-8, FB-9 */
static void shrinking(void **state)
{
    struct trace t = start(5, 20, "1", "1", 1);
    expect(&t, "F", "3");
    assert_true(t.f.failure == 1.0 && fabs(t.f.fail_cohorts - 0.2) < 1e-9);
    expect(&t, "F", "2");
    assert_true(fabs(t.f.fail_cohorts - 0.533333) < 1e-6);
    expect(&t, "F", "0");
    assert_true(fabs(t.f.fail_cohorts - 1.033333) < 1e-6);
    t = start(5, 20, "1", "1", 0);
    expect(&t, "FFFFF", "3 2 1 1 1");
    static const struct {
        const char *feedback;
        int reports;
        const char *numbers;
    } cases[] = {
        {"1", 4, "1(2) 2 3 4"},
        {"0.75", 11, "1(2) 3 4 5 7 8 9 11"},
        {"0.7", 13, "1(2) 3 4 6 7 9 10 11 13"},
        {"2/3", 12, "1 2 3 5 6 8 9 11 12"},
        {"1/2", 8, "1 2 4 6 8"},
        {"1/3", 12, "1 3 6 9 12"},
        {"0.3", 17, "1 3 7 10 13 17"},
        {"1/4", 16, "1 4 8 12 16"},
        {"1/8", 16, "1 8 16"},
        {"0.1", 20, "1 10 20"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        t = start(30, 0, "1", cases[i].feedback, 0);
        expect_steps(&t, 'F', cases[i].reports, cases[i].numbers);
    }
    t = start(10, 0, "1", "1/concurrency", 0);
    for (int i = 0, expected = 9, left = 8; i < 40; i++) {
        assert_int_equal(step(&t, 'F'), expected);
        left--;
        if (left == 0) {
            expected--;
            left = expected;
        }
    }
}

static int failures_until_dead(int initial, const char *negative, int cohorts)
{
    struct trace t = start(initial, 0, "1", negative, cohorts);
    int failures = 1;
    while (step(&t, 'F') != 0) {
        failures++;
        assert_true(failures < 1000);
    }
    return failures;
}

/* FB-10, FB-11, FB-14 */
static void death(void **state)
{
    static const struct {
        const char *negative;
        int cohorts, initial, failures;
    } cases[] = {
        {"1", 1, 1, 1},
        {"1", 1, 2, 2},
        {"1", 1, 3, 2},
        {"1", 1, 5, 3},
        {"1", 1, 10, 7},
        {"1", 1, 20, 13},
        {"1", 1, 50, 32},
        {"0.5", 1, 3, 3},
        {"0.5", 1, 5, 4},
        {"0.5", 1, 10, 8},
        {"0.5", 1, 20, 16},
        {"1/4", 1, 5, 5},
        {"1/4", 1, 10, 9},
        {"1/4", 1, 20, 18},
        {"1/concurrency", 1, 5, 5},
        {"1/concurrency", 1, 10, 10},
        {"1/concurrency", 1, 20, 20},
        {"1/concurrency", 1, 50, 50},
        {"1", 2, 5, 4},
        {"1", 3, 5, 5},
        {"1", 10, 5, 12},
        {"1", 2, 20, 17},
        {"1", 10, 20, 26},
        {"0", 1, 5, 5},
        {"0", 1, 10, 11},
        {"0", 1, 20, 20},
        {"0", 1, 50, 50},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(failures_until_dead(cases[i].initial, cases[i].negative, cases[i].cohorts),
                         cases[i].failures);
    }
    struct trace t = start(10, 0, "1", "1", 1);
    expect(&t, "FFFFFFF", "8 7 6 5 4 3 0");
    t = start(5, 0, "1", "0.5", 1);
    expect(&t, "FFFF", "4 3 3 0");
    t = start(10, 0, "1", "0.5", 1);
    expect(&t, "FFFFFFFF", "9 8 8 7 7 6 6 0");
    t = start(10, 0, "1", "1/4", 1);
    expect(&t, "FFFFFFFFF", "9 9 9 8 8 8 8 7 0");
    t = start(5, 0, "1", "1", 2);
    expect(&t, "FFFF", "3 2 1 0");
}

/* FB-12, FB-13, FB-15, FB-16, FB-17 */
static void mixtures(void **state)
{
    struct trace t = start(5, 20, "1", "1", 1);
    expect(&t, "FSF", "3 4 2");
    assert_true(fabs(t.f.fail_cohorts - 0.25) < 1e-9);
    t = start(5, 20, "1", "1", 1);
    expect(&t, "FFSFF", "3 2 3 1 0");
    t = start(5, 20, "1/concurrency", "1/concurrency", 10);
    expect(&t, "FSSSSSF", "4 4 4 4 5 5 4");
    t = start(5, 20, "1/concurrency", "1/concurrency", 10);
    expect(&t, "SFSFSFSFSF", "5 4 4 4 4 4 4 3 3 3");
    t = start(5, 20, "1", "1", 1);
    expect(&t, "SFSFSFSFSF", "6 4 5 3 4 2 3 1 2 1");
    t = start(5, 6, "1", "1", 1);
    expect(&t, "SSSFSS", "6 6 6 4 5 6");
    t = start(3, 3, "1", "1", 1);
    expect(&t, "SSS", "3 3 3");
    t = start(1, 1, "1", "1", 1);
    expect(&t, "SSF", "1 1 0");
}

/* The seed's pseudocode, line by line. */
struct pseudocode {
    int concurrency;
    double success, failure, fail_cohorts;
};

static double pseudo_feedback(const struct sched_feedback *f, int n)
{
    switch (f->kind) {
    case SCHED_FEEDBACK_CONSTANT:
        return f->base;
    case SCHED_FEEDBACK_LINEAR:
        return f->base / n;
    case SCHED_FEEDBACK_SQRT:
    default:
        return f->base / sqrt(n);
    }
}

static void pseudo_success(struct pseudocode *p, const struct feedback_rule *r, int busy)
{
    p->fail_cohorts = 0;
    if (p->concurrency < busy + r->initial) {
        p->success += pseudo_feedback(&r->positive, p->concurrency);
        while (p->success >= 1) {
            p->concurrency += 1;
            p->failure = 0;
            p->success -= 1;
        }
        if (r->limit > 0 && p->concurrency > r->limit) {
            p->concurrency = r->limit;
        }
    }
}

static void pseudo_failure(struct pseudocode *p, const struct feedback_rule *r)
{
    if (p->concurrency > 0) {
        p->fail_cohorts += 1.0 / p->concurrency;
        if (r->cohort_limit > 0 && p->fail_cohorts > r->cohort_limit) {
            p->concurrency = 0;
        }
    }
    if (p->concurrency > 0) {
        p->failure -= pseudo_feedback(&r->negative, p->concurrency);
        while (p->failure < 0) {
            p->concurrency -= 1;
            p->failure += 1;
            p->success = 0;
        }
        if (p->concurrency < 1) {
            p->concurrency = 1;
        }
    }
}

static void follows_the_readme(void **state)
{
    static const char *const amounts[] = {
        "1", "0.5", "1/3", "0.1", "1/concurrency", "0.5/concurrency", "1/sqrt_concurrency"};
    unsigned random = 1;
    for (int round = 0; round < 2000; round++) {
        random = random * 1103515245 + 12345;
        int initial = 1 + (int)(random >> 16) % 20;
        struct trace t = start(initial, (random >> 8) % 3 == 0 ? 0 : initial + (round % 9),
                               amounts[(random >> 20) % 7], amounts[(random >> 24) % 7],
                               (int)((random >> 28) % 4));
        t.rule.rule = SCHED_RULE_README;
        struct pseudocode p = {.concurrency = initial};
        for (int i = 0; i < 60 && t.window > 0; i++) {
            random = random * 1103515245 + 12345;
            t.busy = 1 + (int)((random >> 10) % (unsigned)t.window);
            char event = (random >> 16) % 5 < 3 ? 'S' : 'F';
            (void)step(&t, event);
            if (event == 'S') {
                pseudo_success(&p, &t.rule, t.busy);
            } else {
                pseudo_failure(&p, &t.rule);
            }
            assert_int_equal(t.window, p.concurrency);
            assert_true(t.f.success == p.success && t.f.failure == p.failure);
            assert_true(t.f.fail_cohorts == p.fail_cohorts);
        }
    }
}

/* Where the two rules part: FB-6 ends 3 2 dead under postfix3. */
static void readme_traces(void **state)
{
    struct trace t = start(5, 20, "1", "1", 1);
    t.rule.rule = SCHED_RULE_README;
    expect(&t, "FFFF", "4 3 2 0");
    t = start(20, 20, "1", "1/sqrt_concurrency", 1);
    t.rule.rule = SCHED_RULE_README;
    expect(&t, "FFFFF", "19 19 19 19 18");
    /* At the limit feedback still accumulates: half of it is there when the window comes down. */
    t = start(5, 5, "1/2", "1", 0);
    t.rule.rule = SCHED_RULE_README;
    expect(&t, "S", "5");
    assert_true(t.f.success == 0.5);
    /* Exactly 1/f failures a step from the second on: 1, k+1, 2k+1. */
    t = start(30, 0, "1", "1/4", 0);
    t.rule.rule = SCHED_RULE_README;
    expect_steps(&t, 'F', 13, "1 5 9 13");
}

/* At the limit Postfix 3 learns nothing from a success, so that nothing is saved up for the day on
 * which another config raises it. */
static void nothing_is_learned_at_the_limit(void **state)
{
    struct trace t = start(3, 3, "0.4", "1", 0);
    expect(&t, "S", "3");
    assert_true(t.f.success == 0);
    t.rule.limit = 6;
    expect(&t, "SS", "3 4");
}

/* An initial concurrency may be as large as an int: neither the sum with what is busy nor the step
 * may pass that. */
static void the_largest_window_stays(void **state)
{
    (void)state;
    for (int rule = 0; rule < 2; rule++) {
        struct trace t = start(INT_MAX, 0, "1", "1", 1);
        t.rule.rule = rule == 0 ? SCHED_RULE_README : SCHED_RULE_POSTFIX3;
        t.busy = 1;
        assert_int_equal(step(&t, 'S'), INT_MAX);
        t.busy = INT_MAX;
        assert_int_equal(step(&t, 'S'), INT_MAX);
        t.window = INT_MAX - 1;
        t.busy = 1;
        assert_int_equal(step(&t, 'S'), INT_MAX);
        assert_int_equal(step(&t, 'S'), INT_MAX);
        t.rule.initial = 1;
        t.window = INT_MAX - 1;
        assert_int_equal(step(&t, 'S'), INT_MAX - 1); /* far beyond what is busy */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse_accepts),
        cmocka_unit_test(parse_refuses),
        cmocka_unit_test(growth_is_bounded),
        cmocka_unit_test(fractions_of_growth),
        cmocka_unit_test(shrinking),
        cmocka_unit_test(death),
        cmocka_unit_test(mixtures),
        cmocka_unit_test(follows_the_readme),
        cmocka_unit_test(readme_traces),
        cmocka_unit_test(nothing_is_learned_at_the_limit),
        cmocka_unit_test(the_largest_window_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
