/* The virtual schedule of a configured rate. Called for each message that a rate concerns, by its
 * one owner (rate.h); must not know whose rate it is. */
#include "sched/limit/rate.h"

#include <assert.h>
#include <math.h>

/* A caller that comes late by up to this, or by an eighth of an interval, loses nothing. */
#define LATENESS_MAX  (100 * USEC_PER_MSEC)
#define LATENESS_PART 8
#define BURST_SPAN    (USEC_PER_SEC / 10)
/* How far ahead loans of a fast rate are given: ten of them one behind the other. */
#define AHEAD_MAX (10 * LOAN_SPAN)

uint32_t rate_burst(const struct rate_rule *rule)
{
    if (rule->burst > 0) {
        return rule->burst;
    }
    uint32_t worth = (uint32_t)(rule->count * BURST_SPAN / rule->span);
    return worth > 1 ? worth : 1;
}

static usec_t tolerance_of(const struct rate_rule *rule)
{
    usec_t of_burst = (usec_t)(rate_burst(rule) - 1) * rule->span / rule->count;
    usec_t of_lateness = rule->span / rule->count / LATENESS_PART;
    of_lateness = of_lateness < LATENESS_MAX ? of_lateness : LATENESS_MAX;
    return of_burst > of_lateness ? of_burst : of_lateness;
}

/* Time that nobody used is gone. */
static void pass_time(struct rate *r, usec_t now)
{
    if (r->used_until < now) {
        r->used_until = now;
        r->part = 0;
    }
}

/* Of one unit of a part: RATE_AMOUNT_MAX of them are still a time that a usec_t holds. */
#define PART_INTERVAL_MAX (INT64_MAX / 4 / RATE_AMOUNT_MAX)

uint32_t rate_parts_most(const struct rate_rule *whole)
{
    int64_t most = PART_INTERVAL_MAX / (whole->span / whole->count + 1);
    int64_t burst = rate_burst(whole);
    most = most < burst ? most : burst;
    most = most < RATE_PARTS_MAX ? most : RATE_PARTS_MAX;
    return most > 1 ? (uint32_t)most : 1;
}

struct rate_rule rate_part_of(const struct rate_rule *whole, uint32_t parts, uint32_t share)
{
    assert(share > 0 && share <= parts);
    uint64_t burst = (uint64_t)rate_burst(whole) * share / parts;
    return (struct rate_rule){.count = whole->count,
                              .burst = burst > 1 ? (uint32_t)burst : 1,
                              .span = (whole->span * parts + share - 1) / share};
}

int64_t rate_tokens(const struct rate *r, usec_t now)
{
    if (r->rule.count == 0) {
        return 0;
    }
    double ahead = r->used_until > now ? (double)(r->used_until - now) : 0;
    double used = ahead * r->rule.count / (double)r->rule.span;
    return (int64_t)floor((rate_burst(&r->rule) - used) * 1000);
}

void rate_pour(struct rate *r, int64_t thousandths, usec_t now)
{
    if (r->rule.count > 0) {
        pass_time(r, now);
        r->used_until -=
            (usec_t)((double)thousandths * (double)r->rule.span / r->rule.count / 1000);
    }
}

void rate_init(struct rate *r, const struct rate_rule *rule, usec_t now)
{
    assert(rule->count <= RATE_COUNT_MAX && rule->burst <= RATE_BURST_MAX);
    assert(rule->count == 0 || rule->span > 0);
    *r = (struct rate){.rule = *rule, .used_until = now};
    if (rule->count > 0) {
        r->interval = rule->span / rule->count;
        r->interval_part = (uint32_t)(rule->span % rule->count);
        r->tolerance = tolerance_of(rule);
    }
}

/* The schedule moves on by so many intervals. */
static void advance(struct rate *r, uint32_t amount)
{
    uint64_t parts = r->part + amount * (uint64_t)r->interval_part;
    r->used_until += amount * r->interval + (usec_t)(parts / r->rule.count);
    r->part = (uint32_t)(parts % r->rule.count);
}

usec_t rate_due(const struct rate *r)
{
    if (r->rule.count == 0) {
        return 0;
    }
    return r->used_until + (r->part > 0) - r->tolerance;
}

void rate_take(struct rate *r, uint32_t amount, usec_t now)
{
    assert(amount <= RATE_AMOUNT_MAX);
    if (r->rule.count == 0) {
        return;
    }
    pass_time(r, now);
    advance(r, amount);
}

void rate_give_back(struct rate *r, uint32_t amount)
{
    assert(amount <= RATE_AMOUNT_MAX);
    if (r->rule.count == 0) {
        return;
    }
    uint64_t rest = amount * (uint64_t)r->interval_part;
    r->used_until -= amount * r->interval + (usec_t)(rest / r->rule.count);
    uint32_t part = (uint32_t)(rest % r->rule.count);
    if (part > r->part) {
        r->used_until--;
        r->part += r->rule.count - part;
    } else {
        r->part -= part;
    }
}

void rate_change(struct rate *r, const struct rate_rule *rule, usec_t now)
{
    struct rate old = *r;
    rate_init(r, rule, now);
    r->turns = old.turns;
    r->is_part = old.is_part;
    if (rule->count == 0 || old.rule.count == 0 || old.used_until <= now) {
        return;
    }
    /* What the burst still held stays; what was taken beyond it is paid in the shorter time. */
    double old_interval = (double)old.rule.span / old.rule.count;
    double interval = (double)rule->span / rule->count;
    double burst = rate_burst(rule);
    double held = rate_burst(&old.rule) - (double)(old.used_until - now) / old_interval;
    if (held >= 0) {
        held = held < burst ? held : burst;
        r->used_until += (usec_t)((burst - held) * interval);
    } else {
        double shorter = interval < old_interval ? interval : old_interval;
        r->used_until += (usec_t)(burst * interval - held * shorter);
    }
}

usec_t rate_set_due(const struct rate_need *set, size_t count)
{
    usec_t latest = 0;
    for (size_t i = 0; i < count; i++) {
        usec_t due = rate_due(set[i].rate);
        latest = due > latest ? due : latest;
    }
    return latest;
}

void rate_set_take(const struct rate_need *set, size_t count, usec_t now)
{
    for (size_t i = 0; i < count; i++) {
        rate_take(set[i].rate, set[i].amount, now);
    }
}

void rate_set_give_back(const struct rate_need *set, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        rate_give_back(set[i].rate, set[i].amount);
    }
}

/* Units worth LOAN_SPAN; 0 where the next one is further away than that. */
static uint32_t worth_of_loan(const struct rate_rule *rule)
{
    return (uint32_t)((int64_t)rule->count * LOAN_SPAN / rule->span);
}

/* A slow rate: one unit, when it is due, to the one whose turn it is. */
static usec_t lend_one(struct rate *r, unsigned borrower, usec_t now, struct loan *ret)
{
    usec_t again = loan_turn(&r->turns, borrower, rate_due(r), now);
    if (again > 0) {
        return again;
    }
    rate_take(r, 1, now);
    *ret = (struct loan){1, now, now + LOAN_SPAN};
    return 0;
}

usec_t rate_lend(struct rate *r, unsigned borrower, uint32_t want, usec_t now, struct loan *ret)
{
    assert(borrower < LOAN_BORROWERS_MAX && want > 0);
    if (r->rule.count == 0) {
        *ret = (struct loan){want, now, now + LOAN_SPAN};
        return 0;
    }
    uint32_t most = worth_of_loan(&r->rule);
    if (most <= 1) {
        return lend_one(r, borrower, now, ret);
    }
    usec_t due = rate_due(r);
    usec_t ahead = r->is_part ? 0 : AHEAD_MAX;
    if (due > now + ahead) {
        return due - ahead;
    }
    uint32_t lent = want < most ? want : most;
    rate_take(r, lent, now);
    due = due > now ? due : now;
    *ret = (struct loan){lent, due, due + LOAN_SPAN};
    return 0;
}

void rate_repay(struct rate *r, struct loan *loan)
{
    rate_give_back(r, loan->left);
    loan->left = 0;
}

void rate_leave(struct rate *r, unsigned borrower)
{
    loan_leave(&r->turns, borrower);
}
