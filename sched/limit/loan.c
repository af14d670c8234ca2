/* Turns of those who borrow from one limit. Called by the limits that lend; must not know what of. */
#include "sched/limit/loan.h"

#include <assert.h>
#include <stdbool.h>

/* The first one that waits, in the circle that begins behind the last one served. */
static unsigned whose_turn(const struct loan_turns *t)
{
    unsigned first = (t->last + 1U) % LOAN_BORROWERS_MAX;
    uint64_t turned = t->waiting >> first;
    if (first > 0) {
        turned |= t->waiting << (LOAN_BORROWERS_MAX - first);
    }
    return (first + (unsigned)__builtin_ctzll(turned)) % LOAN_BORROWERS_MAX;
}

usec_t loan_turn(struct loan_turns *t, unsigned borrower, usec_t due, usec_t now)
{
    assert(borrower < LOAN_BORROWERS_MAX);
    uint64_t bit = UINT64_C(1) << borrower;
    t->waiting |= bit;
    if (due > now) {
        return due;
    }
    bool is_turn = whose_turn(t) == borrower;
    if (!is_turn && now - due < LOAN_SPAN) {
        return due + LOAN_SPAN;
    }
    /* Whoever was passed over did not come for its turn, and has to ask again. */
    t->waiting = is_turn ? t->waiting & ~bit : 0;
    t->last = (uint8_t)borrower;
    return 0;
}

void loan_leave(struct loan_turns *t, unsigned borrower)
{
    assert(borrower < LOAN_BORROWERS_MAX);
    t->waiting &= ~(UINT64_C(1) << borrower);
}
