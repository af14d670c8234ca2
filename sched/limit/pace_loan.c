/* A pace that several schedulers share, lent in parts. Called under the lock that guards the pace. */
#include "sched/limit/pace.h"

usec_t pace_lend(struct pace *p, unsigned borrower, uint32_t want, usec_t now, struct loan *ret)
{
    usec_t due = pace_due(p, now);
    if (p->phase == PACE_FREE) {
        *ret = (struct loan){want, now, now + LOAN_SPAN};
        return 0;
    }
    usec_t again = loan_turn(&p->turns, borrower, due, now);
    if (again > 0) {
        return again;
    }
    uint32_t most = (uint32_t)(p->rate * LOAN_SPAN / USEC_PER_SEC);
    uint32_t lent = 0;
    /* Each by itself, so that a train is not longer than it is meant to be. */
    do {
        pace_take(p, 1, now);
        lent++;
    } while (lent < want && lent < most && pace_due(p, now) <= now);
    *ret = (struct loan){lent, now, now + LOAN_SPAN};
    return 0;
}

void pace_repay(struct pace *p, struct loan *loan)
{
    if (loan->left > 0) {
        pace_give_back(p, loan->left, loan->from);
    }
    loan->left = 0;
}

void pace_leave(struct pace *p, unsigned borrower)
{
    loan_leave(&p->turns, borrower);
}
