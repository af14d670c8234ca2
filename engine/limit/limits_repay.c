/* What was lent and not used goes back to those who lent it. Called by the owner of a hold; must not
 * decide what is lent. */
#include "engine/limit/limits_private.h"

void limits_drop_loan(struct limits *l, struct limits_hold *h)
{
    struct limits_loan *loan = &h->loan;
    for (uint32_t i = 0; i < loan->meter_count; i++) {
        limits_meter_drop(l, loan->meters[i]);
    }
    *loan = (struct limits_loan){0};
}

static uint32_t take_off(uint32_t *lent, uint32_t amount)
{
    uint32_t part = amount < *lent ? amount : *lent;
    *lent -= part;
    return part;
}

static void repay_meters(struct limits_loan *loan, const struct limit_units *left)
{
    for (uint32_t i = 0; i < loan->meter_count; i++) {
        struct limits_meter *m = loan->meters[i];
        if (m->edition != loan->editions[i]) {
            continue; /* other rules: at most a loan's worth is not used */
        }
        limits_part_back(m, left);
        limits_quota_return(m, left->messages, loan->windows[i]);
    }
}

/* A closed lane lends to one at a time. */
static void end_probe(struct limits *l, struct limits_lane *lane, usec_t now) ON_ROLE(l->lock)
{
    if (lane->learned != NULL && lane->learned->is_closed) {
        limits_probe_ended(l, lane, now);
    }
}

static void repay_paces(struct limits_lane *lane, const bool *is_paced,
                        const struct limit_units *left, usec_t from)
{
    const uint32_t units[LIMITS_UNITS] = {left->messages, left->recipients, left->connects};
    for (unsigned i = 0; i < LIMITS_UNITS; i++) {
        if (units[i] > 0 && is_paced[i] && lane->learned->paces[i] != NULL) {
            pace_give_back(lane->learned->paces[i], units[i], from);
        }
    }
}

void limits_repay(struct limits_hold *h, const struct limit_units *left, usec_t now)
{
    struct limits *l = h->borrower->limits;
    struct limits_loan *loan = &h->loan;
    limits_enter(l);
    const struct limit_units back = {take_off(&loan->lent.messages, left->messages),
                                     take_off(&loan->lent.recipients, left->recipients),
                                     take_off(&loan->lent.connects, left->connects)};
    repay_meters(loan, &back);
    repay_paces(h->lane, loan->is_paced, &back, loan->from);
    for (uint32_t i = 0; i < back.connects; i++) {
        limits_count_connect_ended(h);
    }
    if (back.messages > 0) {
        end_probe(l, h->lane, now);
    }
    if (loan->lent.messages == 0 && loan->lent.connects == 0) {
        limits_drop_loan(l, h);
    }
    limits_leave_lock(l);
}

void limits_unsend(struct limits *l, struct limits_lane *lane, const struct limit_units *unsent,
                   usec_t sent_at, usec_t now)
{
    static const bool all[LIMITS_UNITS] = {true, true, true};
    for (unsigned i = 0; i <= LIMIT_OF_SOURCE; i++) {
        struct limits_meter *m = lane->meters[i];
        if (m == NULL) {
            continue;
        }
        limits_part_back(m, unsent);
        limits_quota_back(m, unsent->messages, l->wall - (now - sent_at));
    }
    if (lane->learned != NULL) {
        repay_paces(lane, all, unsent, sent_at);
    }
    if (unsent->messages > 0) {
        end_probe(l, lane, now);
    }
}

void limits_give_back(struct limits_hold *h, const struct limit_units *unsent, usec_t sent_at,
                      usec_t now, usec_t wall)
{
    struct limits *l = h->borrower->limits;
    limits_enter(l);
    l->wall = wall;
    limits_unsend(l, h->lane, unsent, sent_at, now);
    limits_leave_lock(l);
}
