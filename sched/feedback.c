/* The arithmetic of a destination's window, under both rules. Called by sched/destination.c. The
 * order of the floating-point operations is part of the contract: ten failures at window 10 add up
 * to 0.9999999999999999 cohorts, and must. */
#include "sched/feedback.h"

#include "base/error.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#define DENOMINATOR_MAX 30 /* bytes; Postfix reads no longer word */

static double amount(const struct sched_feedback *f, int window)
{
    switch (f->kind) {
    case SCHED_FEEDBACK_LINEAR:
        return f->base / window;
    case SCHED_FEEDBACK_SQRT:
        return f->base / sqrt(window);
    case SCHED_FEEDBACK_CONSTANT:
    default:
        return f->base;
    }
}

/* Postfix 3 steps half a feedback early, so that rounding never delays a step by a whole report;
 * the README's pseudocode compares exactly. */
static double slack(const struct feedback_rule *r, double feedback)
{
    return r->rule == SCHED_RULE_POSTFIX3 ? feedback / 2 : 0;
}

int feedback_positive(struct feedback *f, const struct feedback_rule *r, int window, int busy)
{
    assert(window > 0);
    f->fail_cohorts = 0;
    /* Beyond this the effect of negative feedback would be delayed. By subtraction: the sum of two
     * large numbers would not fit. */
    if (window - r->initial >= busy || window == INT_MAX) {
        return window;
    }
    if (r->rule == SCHED_RULE_POSTFIX3 && r->limit != 0 && r->limit <= window) {
        return window;
    }
    double g = amount(&r->positive, window);
    f->success += g;
    while (f->success + slack(r, g) >= 1) {
        window += window < INT_MAX;
        f->failure = 0;
        f->success -= 1;
    }
    if (r->limit > 0 && window > r->limit) {
        window = r->limit;
    }
    return window;
}

static bool is_dead(const struct feedback *f, const struct feedback_rule *r)
{
    if (r->cohort_limit == 0) {
        return false;
    }
    if (r->rule == SCHED_RULE_POSTFIX3) {
        return f->fail_cohorts >= r->cohort_limit;
    }
    return f->fail_cohorts > r->cohort_limit;
}

int feedback_negative(struct feedback *f, const struct feedback_rule *r, int window)
{
    assert(window > 0);
    f->fail_cohorts += 1.0 / window;
    return is_dead(f, r) ? 0 : feedback_slower(f, r, window);
}

int feedback_slower(struct feedback *f, const struct feedback_rule *r, int window)
{
    assert(window > 0);
    double feedback = amount(&r->negative, window);
    f->failure -= feedback;
    while (f->failure - slack(r, feedback) < 0) {
        window--;
        f->success = 0;
        f->failure += 1;
    }
    return window < 1 ? 1 : window;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool equals_ignoring_case(const char *text, const char *word)
{
    for (; *word != '\0'; text++, word++) {
        int c = *text >= 'A' && *text <= 'Z' ? *text - 'A' + 'a' : *text;
        if (c != *word) {
            return false;
        }
    }
    return *text == '\0';
}

/* NUMBER "/" NUMBER; the whole denominator must be a number. Comparisons are written so that NaN
 * fails them. */
static bool parse_ratio(double numerator, const char *text, double *ret)
{
    char *end;
    double denominator = strtod(text, &end);
    if (end == text || *end != '\0') {
        return false;
    }
    if (!(numerator >= 0 && numerator <= INT_MAX) ||
        !(denominator >= 1.0 / INT_MAX && denominator <= INT_MAX)) {
        return false;
    }
    *ret = numerator / denominator;
    return true;
}

static bool parse_denominator(const char *word, enum sched_feedback_rule rule,
                              struct sched_feedback *f)
{
    if (equals_ignoring_case(word, "concurrency")) {
        f->kind = SCHED_FEEDBACK_LINEAR;
        return true;
    }
    if (rule == SCHED_RULE_README && equals_ignoring_case(word, "sqrt_concurrency")) {
        f->kind = SCHED_FEEDBACK_SQRT;
        return true;
    }
    return parse_ratio(f->base, word, &f->base);
}

int sched_feedback_parse(const char *text, enum sched_feedback_rule rule,
                         struct sched_feedback *ret)
{
    char *end;
    struct sched_feedback f = {SCHED_FEEDBACK_CONSTANT, strtod(text, &end)};
    if (end == text) {
        return ERR_SYNTAX;
    }
    const char *p = end;
    while (is_space(*p)) {
        p++;
    }
    /* Whatever else follows a lone number is ignored, as Postfix does. */
    if (*p == '/') {
        p++;
        while (is_space(*p)) {
            p++;
        }
        /* The denominator is one word, and nothing may follow it. */
        size_t len = 0;
        while (p[len] != '\0' && !is_space(p[len])) {
            len++;
        }
        if (len == 0 || len > DENOMINATOR_MAX || p[len] != '\0' ||
            !parse_denominator(p, rule, &f)) {
            return ERR_SYNTAX;
        }
    }
    if (!(f.base >= 0 && f.base <= 1)) {
        return ERR_SYNTAX;
    }
    *ret = f;
    return 0;
}

void feedback_rule_of(const struct sched_config *c, struct feedback_rule *ret)
{
    *ret = (struct feedback_rule){
        .rule = c->concurrency_feedback_rule,
        .positive = c->destination_concurrency_positive_feedback,
        .negative = c->destination_concurrency_negative_feedback,
        .initial = c->initial_destination_concurrency,
        .limit = c->destination_rate_delay > 0 ? 1 : c->destination_concurrency_limit,
        .cohort_limit = c->destination_concurrency_failed_cohort_limit,
    };
    if (ret->limit != 0 && ret->limit < ret->initial) {
        ret->initial = ret->limit;
    }
}
