/* A pace that several schedulers share, lent in parts. Called under the lock that guards the pace. */
#include "sched/limit/pace.h"

/* A thread that has mail left and comes late was kept from coming: the pace binds all the same. */
#define LATE_MOST (100 * USEC_PER_MSEC)

static void excuse_lateness(struct pace *p, unsigned borrower, usec_t due, usec_t now)
{
    bool is_hungry = (p->turns.hungry >> borrower & 1) != 0;
    bool is_even = p->phase != PACE_PAUSED && p->phase != PACE_PROBING;
    if (is_hungry && is_even && p->used_until < now && now - due <= LATE_MOST) {
        p->used_until = now; /* as a take would have it; what was not used is gone */
    }
}

static void note_hunger(struct pace *p, unsigned borrower, bool is_hungry)
{
    uint64_t bit = UINT64_C(1) << borrower;
    p->turns.hungry = is_hungry ? p->turns.hungry | bit : p->turns.hungry & ~bit;
}

usec_t pace_lend(struct pace *p, unsigned borrower, uint32_t want, usec_t now, struct loan *ret)
{
    usec_t due = pace_due(p, now);
    if (p->phase == PACE_FREE) {
        *ret = (struct loan){want, now, now + LOAN_SPAN};
        return 0;
    }
    usec_t again = loan_turn(&p->turns, borrower, due, now);
    excuse_lateness(p, borrower, due, now);
    note_hunger(p, borrower, true);
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
    note_hunger(p, borrower, lent < want);
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
    note_hunger(p, borrower, false);
    loan_leave(&p->turns, borrower);
}
