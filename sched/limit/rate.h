/* A rate that an operator sets: so many messages, recipients or connects in so much time, spread
 * evenly and kept by due times. Pure: the caller brings the time (usec, monotonic, never less than
 * before). What a lane learns by itself is pace.h; windows by the calendar are quota.h.
 *
 * The rule is the virtual schedule (GCRA): each unit moves the schedule on by one interval,
 * span / count, in whole numbers, so that nothing is ever rounded; one may go while the schedule is
 * not further ahead of the clock than the tolerance. Over any time t at most t x count / span +
 * burst go, and a caller that always has something and comes at the due times loses nothing.
 *
 * One owner at a time: a scheduler, or for a rate that several share the lock that guards it, and
 * then each takes what it needs by rate_lend. */
#ifndef SCHED_LIMIT_RATE_H
#define SCHED_LIMIT_RATE_H

#include "base/attr.h"
#include "base/clock.h"
#include "sched/limit/loan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RATE_COUNT_MAX      1000000000U /* in one span */
#define RATE_PER_SECOND_MAX 1000000U
#define RATE_BURST_MAX      1000000U
#define RATE_AMOUNT_MAX     1000000U /* taken or given back by one call */
#define RATE_PARTS_MAX      1000U

/* What was configured; all zero: no limit. */
struct rate_rule {
    uint32_t count; /* 1..RATE_COUNT_MAX; 0: no limit */
    uint32_t burst; /* at once, 1..RATE_BURST_MAX; 0: a tenth of a second's worth, at least 1 */
    usec_t span;    /* a second, a minute, an hour or a day */
};

struct rate {
    struct rate_rule rule;
    /* Where the schedule is: the moment up to which the time is used up. */
    usec_t used_until;
    uint32_t part;           /* of a usec, in 1 / rule.count */
    bool is_part;            /* of a rate that several machines share: nothing is lent ahead */
    struct loan_turns turns; /* of a shared rate */
    /* What the rule says, so that nobody divides for each message: of one unit, whole and parts of a usec, and
     * how far ahead of the clock the schedule may be when the next one goes. */
    usec_t interval, tolerance;
    uint32_t interval_part; /* in 1 / rule.count */
};

/* How many may go at once: the rule's burst, or what stands for 0 in it. rule: count > 0 */
MUST_USE uint32_t rate_burst(const struct rate_rule *rule);

/* A part of a rate, for one of several machines that share it: so much of its rate and of its burst.
 * All parts together permit at most what the whole rate permits; what does not come out even is
 * rounded down.
 *
 * parts  1..rate_parts_most(whole)
 * share  1..parts */
MUST_USE struct rate_rule rate_part_of(const struct rate_rule *whole, uint32_t parts,
                                       uint32_t share);
/* Into how many parts a rate may be divided, so that each holds one of the burst. 1..RATE_PARTS_MAX */
MUST_USE uint32_t rate_parts_most(const struct rate_rule *whole);

/* What may go at once now, in thousandths; below 0: what went is to be paid for first; 0 without a
 * rule. */
MUST_USE int64_t rate_tokens(const struct rate *r, usec_t now);
/* So many thousandths more may go at once, below 0: fewer. */
void rate_pour(struct rate *r, int64_t thousandths, usec_t now);

/* One rate of a set, and how much of it a delivery takes: 1 message, or its recipients. */
struct rate_need {
    struct rate *rate;
    uint32_t amount;
};

/* Full: as much as the burst may go at once. */
void rate_init(struct rate *r, const struct rate_rule *rule, usec_t now);

/* Another rule takes its place (reload). What is left of the burst stays as many units, and what was
 * taken beyond it is paid for in the shorter of both times, so neither a burst nor a stall follows:
 * a day's rate that was just used up and becomes 100/s is due in 10 ms. */
void rate_change(struct rate *r, const struct rate_rule *rule, usec_t now);

/* When the next one may go: at most `now` when it may now. It may whatever its amount is: a message
 * of 50 recipients goes when one of them may, and the next one is due when all 50 are paid for. */
MUST_USE usec_t rate_due(const struct rate *r);

/* It went. May be called before it is due: then the schedule is ahead by so much.
 * amount: 0..RATE_AMOUNT_MAX */
void rate_take(struct rate *r, uint32_t amount, usec_t now);

/* Undoes rate_take of a delivery that came back unused (`again`). */
void rate_give_back(struct rate *r, uint32_t amount);

/* All must permit: the latest due time of the set; 0 of an empty one. */
MUST_USE usec_t rate_set_due(const struct rate_need *set, size_t count);
void rate_set_take(const struct rate_need *set, size_t count, usec_t now);
void rate_set_give_back(const struct rate_need *set, size_t count);

/* Of a rate that several schedulers share. What is lent is taken from the rate at once, so the sum
 * over all schedulers is as exact as the rate itself; what was not used by `until` is given back by
 * rate_repay, once for each loan.
 *
 * Borrowers take turns. Of a rate of more than one unit in LOAN_SPAN each gets a span of its
 * own, one behind the other and up to ten of them ahead. Of a slower one a borrower gets one unit
 * when it is due; whoever comes before another one whose turn it is gets a time LOAN_SPAN
 * later, and the unit when the other did not come until then.
 *
 * borrower  0..LOAN_BORROWERS_MAX-1, one for each scheduler; holds no other loan of this rate
 * want      >= 1
 * ret       what was lent; unchanged when nothing was
 * returns   0: lent; else when to ask again */
MUST_USE usec_t rate_lend(struct rate *r, unsigned borrower, uint32_t want, usec_t now,
                          struct loan *ret);
/* The pair of rate_lend, when `until` has come or the scheduler has nothing more to send. */
void rate_repay(struct rate *r, struct loan *loan);
/* The borrower that was told to ask again will not. */
void rate_leave(struct rate *r, unsigned borrower);

#endif
