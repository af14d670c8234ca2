/* A meter lends to a scheduler itself, beside all lanes: a tenant's rates and its quota. Called by the
 * scheduler threads; must not know whose messages they are.
 *
 * Borrowers take turns as loans of sched/limit/rate.h do, one turn for each scheduler. A meter lends
 * either so or within the loans of lanes (limit_ask.also): their turns know nothing of each other. */
#include "engine/limit/limits_private.h"

#include <assert.h>
#include <math.h>

#define QUOTA_RECHECK (300 * USEC_PER_SEC) /* the wall clock may be set */

/* One question to a meter. */
struct asking {
    struct limits_meter *meter;
    struct limit_grant *ret;
    unsigned borrower;
    usec_t now, wall;
    uint32_t least[PACE_RECIPIENTS + 1]; /* lent by all so far */
    struct loan rates[PACE_RECIPIENTS + 1];
    struct quota_loan quota;
};

static bool deny(struct asking *q, usec_t due, enum limit_cause why)
{
    q->ret->due = q->ret->turn = due > q->now ? due : q->now + USEC_PER_MSEC;
    q->ret->why = why;
    return false;
}

static bool lend_quota(struct asking *q)
{
    const struct limits_moment at = {q->now, q->wall};
    enum limit_cause why;
    usec_t due = limits_quota_lend(q->meter, q->least[PACE_MESSAGES], &at, &q->quota, &why);
    if (due > 0) {
        usec_t wait = due == USEC_NEVER ? USEC_NEVER - q->now : due - q->wall;
        (void)deny(q, q->now + (wait < QUOTA_RECHECK ? wait : QUOTA_RECHECK), why);
        q->ret->turn = q->now + wait;
        return false;
    }
    q->least[PACE_MESSAGES] = q->quota.left;
    return true;
}

static bool lend_rate(struct asking *q, enum pace_unit unit)
{
    struct rate *r = &q->meter->rates[unit];
    if (r->rule.count == 0) {
        return true;
    }
    usec_t due = limits_part_due(q->meter, unit, q->now);
    if (due > 0) {
        return deny(q, due, LIMIT_BY_SHARE);
    }
    due = rate_lend(r, q->borrower, q->least[unit], q->now, &q->rates[unit]);
    limits_part_lent(q->meter, unit, q->rates[unit].left, due > 0, q->now);
    if (due > 0) {
        return deny(q, limits_part_look_again(q->meter, unit, due, q->now), LIMIT_BY_RATE);
    }
    q->least[unit] = q->rates[unit].left;
    return true;
}

/* What was lent beyond `messages` and `recipients` goes back. */
static void trim(struct asking *q, uint32_t messages, uint32_t recipients)
{
    const uint32_t keep[] = {[PACE_MESSAGES] = messages, [PACE_RECIPIENTS] = recipients};
    for (unsigned i = 0; i <= PACE_RECIPIENTS; i++) {
        uint32_t left = q->rates[i].left;
        if (left > keep[i]) {
            rate_give_back(&q->meter->rates[i], left - keep[i]);
        }
    }
    if (q->quota.left > messages) {
        limits_quota_return(q->meter, q->quota.left - messages, q->quota.window);
    }
}

static double per_second(const struct limits_meter *m)
{
    double least = HUGE_VAL;
    for (unsigned i = 0; i <= PACE_RECIPIENTS; i++) {
        const struct rate_rule *rule = &m->rates[i].rule;
        double rate =
            rule->count == 0 ? HUGE_VAL : (double)rule->count * USEC_PER_SEC / (double)rule->span;
        least = rate < least ? rate : least;
    }
    return least;
}

static usec_t later_of(usec_t a, usec_t b)
{
    return a > b ? a : b;
}

static void grant(struct asking *q, struct limits_meter_loan *loan)
{
    bool has_bound = q->meter->rates[PACE_RECIPIENTS].rule.count > 0;
    uint32_t messages = q->least[PACE_MESSAGES], recipients = q->least[PACE_RECIPIENTS];
    trim(q, messages, recipients);
    *loan = (struct limits_meter_loan){.left = {messages, has_bound ? recipients : 0, 0},
                                       .edition = q->meter->edition,
                                       .window = q->quota.window};
    q->ret->messages = messages;
    q->ret->recipients = has_bound ? recipients : LIMIT_UNBOUNDED;
    q->ret->connects = LIMIT_UNBOUNDED;
    q->ret->from =
        later_of(q->now, later_of(q->rates[PACE_MESSAGES].from, q->rates[PACE_RECIPIENTS].from));
    q->ret->until = q->ret->from + LOAN_SPAN;
}

void limits_meter_lend(struct limits_borrower *b, struct limits_meter *m,
                       const struct limits_meter_ask *ask, struct limits_meter_loan *loan,
                       struct limit_grant *ret)
{
    struct limits *l = b->limits;
    struct asking q = {
        .meter = m,
        .ret = ret,
        .borrower = b->config.number,
        .now = ask->now,
        .wall = ask->wall,
        .least = {[PACE_MESSAGES] = ask->messages, [PACE_RECIPIENTS] = RATE_AMOUNT_MAX}};
    assert(ask->messages > 0);
    if (ask->messages > RATE_AMOUNT_MAX) {
        q.least[PACE_MESSAGES] = RATE_AMOUNT_MAX;
    }
    *ret = (struct limit_grant){.whose = m->owner};
    *loan = (struct limits_meter_loan){.left = {0, 0, 0}};
    limits_enter(l);
    l->wall = ask->wall;
    l->changes++;
    if (ask->owed > 0) {
        uint32_t owed = ask->owed < RATE_AMOUNT_MAX ? ask->owed : RATE_AMOUNT_MAX;
        if (!limits_part_owe(m, PACE_RECIPIENTS, owed)) {
            rate_take(&m->rates[PACE_RECIPIENTS], owed, ask->now);
        }
    }
    if (lend_quota(&q) && lend_rate(&q, PACE_MESSAGES) && lend_rate(&q, PACE_RECIPIENTS)) {
        grant(&q, loan);
    } else {
        trim(&q, 0, 0);
    }
    ret->per_second = per_second(m);
    limits_leave_lock(l);
}

void limits_meter_repay(struct limits_borrower *b, struct limits_meter *m,
                        struct limits_meter_loan *loan, const struct limit_units *left)
{
    struct limits *l = b->limits;
    uint32_t messages = left->messages < loan->left.messages ? left->messages : loan->left.messages;
    uint32_t recipients =
        left->recipients < loan->left.recipients ? left->recipients : loan->left.recipients;
    limits_enter(l);
    if (m->edition == loan->edition) { /* else other rules: at most a loan's worth is not used */
        limits_part_back(m, &(struct limit_units){messages, recipients, 0});
        limits_quota_return(m, messages, loan->window);
    }
    limits_leave_lock(l);
    *loan = (struct limits_meter_loan){.left = {0, 0, 0}};
}

void limits_meter_give_back(struct limits *l, struct limits_meter *m,
                            const struct limit_units *unsent, usec_t sent_wall)
{
    limits_enter(l);
    limits_part_back(m, &(struct limit_units){unsent->messages, unsent->recipients, 0});
    limits_quota_back(m, unsent->messages, sent_wall);
    limits_leave_lock(l);
}

bool limits_meter_view(struct limits *l, const struct limit_meter_key *key, usec_t wall,
                       struct limits_meter_view *ret)
{
    limits_enter(l);
    struct limits_meter *m = limits_meter_find(l, key);
    if (m != NULL) {
        *ret = (struct limits_meter_view){
            .messages = *limits_meter_rule(m, PACE_MESSAGES),
            .recipients = *limits_meter_rule(m, PACE_RECIPIENTS),
            .quota = m->quota.rule,
            .rate_due =
                later_of(rate_due(&m->rates[PACE_MESSAGES]), rate_due(&m->rates[PACE_RECIPIENTS])),
            .quota_left = limits_quota_left(m, wall),
            .quota_due = limits_quota_due(m, wall),
        };
    }
    limits_leave_lock(l);
    return m != NULL;
}
