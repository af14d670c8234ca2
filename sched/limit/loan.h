/* Parts of a shared limit, lent to several schedulers, and whose turn it is. Pure: the caller brings
 * the time. Owned by the limit that lends (rate.h, pace.h), under the lock that guards it; what was
 * lent is the scheduler's that holds it. */
#ifndef SCHED_LIMIT_LOAN_H
#define SCHED_LIMIT_LOAN_H

#include "base/attr.h"
#include "base/clock.h"

#include <stdint.h>

#define LOAN_SPAN          (10 * USEC_PER_MSEC) /* a loan is worth no more, or one unit */
#define LOAN_BORROWERS_MAX 64U

/* What a scheduler holds. */
struct loan {
    uint32_t left; /* each for one unit */
    usec_t from;   /* to be used from then on */
    usec_t until;  /* what is left then goes back to the limit */
};

/* Who waits for a limit; all zero: nobody. */
struct loan_turns {
    uint64_t waiting; /* bit n: borrower n came before its time */
    uint64_t hungry;  /* bit n: borrower n wanted more than it got (pace_lend) */
    uint8_t last;     /* who was served last */
};

/* Is it the turn of this borrower, for something that is due at `due`? Whoever comes before another
 * one whose turn it is gets a time LOAN_SPAN later, and its turn when the other did not come.
 *
 * borrower  0..LOAN_BORROWERS_MAX-1
 * returns   0: yes, and it is served; else when to ask again */
MUST_USE usec_t loan_turn(struct loan_turns *t, unsigned borrower, usec_t due, usec_t now);
/* The borrower that was told to ask again will not. */
void loan_leave(struct loan_turns *t, unsigned borrower);

/* One unit of a loan; the caller has seen that left > 0 and from <= now < until. */
static inline void loan_use(struct loan *l)
{
    l->left--;
}

#endif
