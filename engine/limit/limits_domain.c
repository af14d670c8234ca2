/* The rates and the quota of a domain inside a provider's site: a bound on one destination beside what its
 * lanes have. Called by scheduler threads for each message of such a destination; must not know its site.
 *
 * Lanes lend for all of their destinations at once, so this is counted by the message. The meter has no
 * reference in between: what was used keeps it. */
#include "engine/limit/limits_private.h"

#define QUOTA_RECHECK (300 * USEC_PER_SEC) /* the wall clock may be set */

/* One question. */
struct taking {
    struct limits_meter *meter;
    const struct limit_domain_ask *ask;
    struct limit_domain_answer *ret;
};

static usec_t later_of(usec_t a, usec_t b)
{
    return a > b ? a : b;
}

static void set_wait(const struct taking *q, usec_t until, usec_t turn, enum limit_cause why)
{
    if (turn > q->ask->now && turn > q->ret->turn) {
        q->ret->until = until;
        q->ret->turn = turn;
        q->ret->why = why;
    }
}

/* due: wall */
static void set_quota_wait(const struct taking *q, usec_t due, enum limit_cause why)
{
    usec_t now = q->ask->now, wait = due == USEC_NEVER ? USEC_NEVER - now : due - q->ask->wall;
    set_wait(q, now + (wait < QUOTA_RECHECK ? wait : QUOTA_RECHECK), now + wait, why);
}

static struct rate *rate_of(const struct taking *q, enum pace_unit unit)
{
    struct rate *r = &q->meter->rates[unit];
    return r->rule.count == 0 ? NULL : r;
}

/* Monotonic; the past where nothing is configured. */
static usec_t rates_due(const struct taking *q)
{
    const struct rate *messages = rate_of(q, PACE_MESSAGES), *all = rate_of(q, PACE_RECIPIENTS);
    return later_of(messages == NULL ? 0 : rate_due(messages), all == NULL ? 0 : rate_due(all));
}

/* This node has a part of what all share. */
static bool has_part(const struct taking *q, enum pace_unit unit)
{
    usec_t due = rate_of(q, unit) == NULL ? 0 : limits_part_due(q->meter, unit, q->ask->now);
    set_wait(q, due, due, LIMIT_BY_SHARE);
    return due == 0;
}

/* Whoever waited before goes first: of the one rate, or of the messages where there are two. */
static bool may_go(const struct taking *q, unsigned borrower)
{
    enum pace_unit unit = rate_of(q, PACE_MESSAGES) != NULL ? PACE_MESSAGES : PACE_RECIPIENTS;
    struct rate *r = rate_of(q, unit);
    if (r == NULL) {
        return true;
    }
    if (!has_part(q, PACE_MESSAGES) || !has_part(q, PACE_RECIPIENTS)) {
        return false;
    }
    usec_t due = loan_turn(&r->turns, borrower, rates_due(q), q->ask->now);
    if (due > 0) {
        limits_part_lent(q->meter, unit, 0, true, q->ask->now);
        due = limits_part_look_again(q->meter, unit, due, q->ask->now);
        set_wait(q, due, due, LIMIT_BY_RATE);
    }
    return due == 0;
}

static void take_rate(const struct taking *q, enum pace_unit unit, uint32_t amount)
{
    struct rate *r = rate_of(q, unit);
    if (r != NULL) {
        rate_take(r, amount, q->ask->now);
        limits_part_lent(q->meter, unit, amount, false, q->ask->now);
    }
}

static void take_of_rates(const struct taking *q)
{
    take_rate(q, PACE_MESSAGES, 1);
    take_rate(q, PACE_RECIPIENTS, q->ask->recipients);
    usec_t due = rates_due(q);
    set_wait(q, due, due, LIMIT_BY_RATE);
}

/* Of the quota as well. */
static void take_of_all(const struct taking *q, unsigned borrower)
{
    const struct limits_moment at = {q->ask->now, q->ask->wall};
    struct quota_loan lent; /* it is used at once */
    enum limit_cause why;
    usec_t due = limits_quota_lend(q->meter, 1, &at, &lent, &why);
    q->ret->is_taken = due == 0;
    if (due > 0) {
        set_quota_wait(q, due, why);
        return;
    }
    if (!may_go(q, borrower)) {
        limits_quota_return(q->meter, 1, lent.window);
        q->ret->is_taken = false;
        return;
    }
    take_of_rates(q);
    set_quota_wait(q, quota_due(&q->meter->quota, 1, at.wall), LIMIT_BY_QUOTA);
}

static void take(const struct taking *q, unsigned borrower)
{
    if (q->meter->quota.rule.count > 0) {
        take_of_all(q, borrower);
    } else if (may_go(q, borrower)) {
        take_of_rates(q);
    } else {
        q->ret->is_taken = false;
    }
}

/* NULL: out of memory. Valid while the lock is held. */
static struct limits_meter *meter_of(struct limits *l, const struct limit_domain *domain,
                                     usec_t now) ON_ROLE(l->lock)
{
    const struct limit_meter_key key = {LIMIT_OF_DOMAIN, domain->name};
    struct limits_meter *m = limits_meter_find(l, &key);
    if (m != NULL && m->serial == domain->serial) {
        return m; /* the rules of a domain are the same for all who have these settings */
    }
    const struct limit_rates rates = {
        .messages = domain->messages, .recipients = domain->recipients, .quota = domain->quota};
    const struct limits_meter_rules rules = {key, &rates, domain->serial};
    if (limits_meter_take(l, &rules, now, &m) != 0) {
        return NULL;
    }
    limits_meter_drop(l, m);
    return m;
}

void limits_domain_take(struct limits_borrower *b, const struct limit_domain *domain,
                        const struct limit_domain_ask *ask, struct limit_domain_answer *ret)
{
    struct limits *l = b->limits;
    struct taking q = {.ask = ask, .ret = ret};
    *ret = (struct limit_domain_answer){.is_taken = true};
    limits_enter(l);
    l->wall = ask->wall;
    q.meter = meter_of(l, domain, ask->now);
    if (q.meter != NULL) {
        take(&q, b->config.number);
        l->changes += ret->is_taken;
    }
    limits_leave_lock(l);
}

void limits_domain_give_back(struct limits *l, struct slice name, uint32_t recipients,
                             usec_t sent_wall)
{
    const struct limit_meter_key key = {LIMIT_OF_DOMAIN, name};
    limits_enter(l);
    struct limits_meter *m = limits_meter_find(l, &key);
    if (m != NULL) {
        limits_part_back(m, &(struct limit_units){.messages = 1, .recipients = recipients});
        limits_quota_back(m, 1, sent_wall);
        l->changes++;
    }
    limits_leave_lock(l);
}
