/* All limits of a lane lend at once. Called by the owner of a hold when an entry wants a lane that is
 * limited; must not know what receivers say.
 *
 * The limits are asked one behind the other, each for what those before it lent: quotas, rates, the
 * ceiling, and paces last, as a pace watches whether it is what binds. When one has nothing, all
 * others get back what they lent; else they get back what is more than the least. What a rate lends
 * for a moment ahead the paces lend for that moment. */
#include "engine/limit/limits_private.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define PROBE_SPAN   (600 * USEC_PER_SEC) /* a probe without a verdict by then is lost */
#define CONNECT_SPAN (600 * USEC_PER_SEC)
#define AMPLE_SPAN                                                                                 \
    (50 * LOAN_SPAN) /* while nobody lacks what was lent; it is worth LOAN_SPAN all the same */
#define QUOTA_RECHECK (300 * USEC_PER_SEC) /* the wall clock may be set */
#define RECHECK       (60 * USEC_PER_SEC)

/* One question, on its way through the limits. */
struct lending {
    struct limits *limits;
    struct limits_hold *hold;
    struct limits_lane *lane;
    const struct limit_ask *ask;
    usec_t now, wall;
    struct limit_grant *ret;
    unsigned borrower;
    uint32_t meter_count;
    struct limits_meter *meters[LIMITS_LOAN_METERS];
    usec_t when;                                         /* the loan begins */
    uint32_t least[LIMITS_UNITS];                        /* lent by all so far */
    struct loan rates[LIMITS_UNITS][LIMITS_LOAN_METERS]; /* left 0: not lent */
    struct quota_loan quotas[LIMITS_LOAN_METERS];
    struct loan paces[LIMITS_UNITS];
    bool is_bound[LIMITS_UNITS];     /* some limit counts that unit */
    bool is_forgotten[LIMITS_UNITS]; /* the pace of that unit ended when it was asked */
};

static bool refuse(struct lending *g, usec_t due, enum limit_cause why, enum limit_owner whose)
{
    g->ret->due = g->ret->turn = due > g->now ? due : g->now + USEC_PER_MSEC;
    g->ret->why = why;
    g->ret->whose = whose;
    return false;
}

static void note_binding(struct lending *g, uint32_t lent, uint32_t wanted, enum limit_cause why,
                         enum limit_owner whose)
{
    if (lent < wanted) {
        g->ret->why = why;
        g->ret->whose = whose;
    }
}

static uint32_t at_most(uint32_t wanted)
{
    return wanted < RATE_AMOUNT_MAX ? wanted : RATE_AMOUNT_MAX;
}

/* --- the lane itself -------------------------------------------------------------------------- */

static bool lane_permits(struct lending *g)
{
    struct limits_learned *learned = g->lane->learned;
    if (learned == NULL) {
        return true;
    }
    if (learned->is_closed && g->now < learned->closed_until) {
        return refuse(g, learned->closed_until, LIMIT_BY_CLOSURE, LIMIT_OF_LANE);
    }
    if (learned->is_closed) {
        /* Who asks again has heard what became of its own. */
        if (learned->probed_at > 0 && learned->prober != g->hold &&
            g->now - learned->probed_at < PROBE_SPAN) {
            return refuse(g, learned->probed_at + PROBE_SPAN, LIMIT_BY_CLOSURE, LIMIT_OF_LANE);
        }
        g->least[PACE_MESSAGES] = 1;
    }
    if (learned->paused_until > g->now) {
        return refuse(g, learned->paused_until, LIMIT_BY_PAUSE, LIMIT_OF_LANE);
    }
    if (learned->paused_until > 0) {
        learned->paused_until = 0;
        limits_fact_end(learned, LIMITS_FACT_PAUSED);
    }
    return true;
}

/* A limit of connections that all nodes share, of the lane or its site; NULL: there is none. */
static struct limits_meter *seats_at(const struct lending *g, unsigned owner)
{
    struct limits_meter *m = g->lane->meters[owner];
    return m != NULL && m->seats.limit > 0 ? m : NULL;
}

/* Without a part of it nothing goes, not by connections that are there either: they are to end. */
static bool seats_permit(struct lending *g) ON_ROLE(g->limits->lock)
{
    for (unsigned i = 0; i < LIMITS_SEATS; i++) {
        struct limits_meter *m = seats_at(g, i);
        usec_t due = m == NULL ? 0 : limits_part_due(m, LIMITS_PART_CONNECTIONS, g->now);
        if (due > 0) {
            (void)limits_seats_refuse(g->limits, m, g->hold, at_most(g->ask->connects), g->now);
            return refuse(g, due, LIMIT_BY_CONNECTIONS, m->owner);
        }
    }
    return true;
}

static bool lend_seats(struct lending *g) ON_ROLE(g->limits->lock)
{
    for (unsigned i = 0; i < LIMITS_SEATS; i++) {
        struct limits_meter *m = seats_at(g, i);
        if (m == NULL) {
            continue;
        }
        uint32_t wanted = g->least[PACE_CONNECTS];
        uint32_t room = limits_seats_room(m, g->hold, wanted, g->now);
        if (room == 0) {
            usec_t due = limits_seats_refuse(g->limits, m, g->hold, wanted, g->now);
            return refuse(g, due, LIMIT_BY_CONNECTIONS, m->owner);
        }
        g->is_bound[PACE_CONNECTS] = true;
        note_binding(g, room, wanted, LIMIT_BY_CONNECTIONS, m->owner);
        g->least[PACE_CONNECTS] = room;
    }
    return true;
}

/* --- quotas and rates ------------------------------------------------------------------------- */

static bool lend_quotas(struct lending *g)
{
    for (uint32_t i = 0; i < g->meter_count; i++) {
        struct limits_meter *m = g->meters[i];
        uint32_t wanted = g->least[PACE_MESSAGES];
        const struct limits_moment at = {g->now, g->wall};
        enum limit_cause why;
        usec_t due = limits_quota_lend(m, wanted, &at, &g->quotas[i], &why);
        if (due > 0) {
            usec_t wait = due == USEC_NEVER ? USEC_NEVER - g->now : due - g->wall;
            (void)refuse(g, g->now + (wait < QUOTA_RECHECK ? wait : QUOTA_RECHECK), why, m->owner);
            g->ret->turn = g->now + wait;
            return false;
        }
        g->least[PACE_MESSAGES] = g->quotas[i].left;
        note_binding(g, g->quotas[i].left, wanted, LIMIT_BY_QUOTA, m->owner);
    }
    return true;
}

static bool lend_rates(struct lending *g, enum pace_unit unit)
{
    for (uint32_t i = 0; i < g->meter_count; i++) {
        struct limits_meter *m = g->meters[i];
        struct rate *r = &m->rates[unit];
        uint32_t wanted = g->least[unit];
        if (r->rule.count == 0) {
            continue;
        }
        usec_t due = limits_part_due(m, unit, g->now);
        if (due > 0) {
            return refuse(g, due, LIMIT_BY_SHARE, m->owner);
        }
        due = limits_turn_of(m, g->hold, unit, g->now);
        if (due == 0) {
            due = rate_lend(r, g->borrower, wanted, g->now, &g->rates[unit][i]);
        }
        limits_part_lent(m, unit, g->rates[unit][i].left, due > 0, g->now);
        if (due > 0) {
            rate_leave(r, g->borrower); /* turns are those of holds */
            due = limits_turn_take(m, g->hold, unit, wanted, due);
            return refuse(g, limits_part_look_again(m, unit, due, g->now), LIMIT_BY_RATE, m->owner);
        }
        struct loan *lent = &g->rates[unit][i];
        g->is_bound[unit] = true;
        g->least[unit] = lent->left;
        g->when = lent->from > g->when ? lent->from : g->when;
        note_binding(g, lent->left, wanted, LIMIT_BY_RATE, m->owner);
    }
    return true;
}

/* --- what was learned ------------------------------------------------------------------------- */

static struct pace *pace_of(const struct lending *g, enum pace_unit unit)
{
    const struct limits_learned *learned = g->lane->learned;
    struct pace *p = learned == NULL ? NULL : learned->paces[unit];
    return p == NULL || p->phase == PACE_FREE ? NULL : p;
}

static bool lend_pace(struct lending *g, enum pace_unit unit)
{
    struct pace *p = pace_of(g, unit);
    if (p == NULL) {
        return true;
    }
    uint32_t wanted = g->least[unit];
    usec_t due = pace_lend(p, g->borrower, wanted, g->when, &g->paces[unit]);
    if (due > 0) {
        return refuse(g, due, LIMIT_BY_PACE, LIMIT_OF_LANE);
    }
    if (p->phase == PACE_FREE) { /* it was forgotten just now */
        g->paces[unit].left = 0;
        g->is_forgotten[unit] = true;
        return true;
    }
    g->is_bound[unit] = true;
    g->least[unit] = g->paces[unit].left;
    note_binding(g, g->paces[unit].left, wanted, LIMIT_BY_PACE, LIMIT_OF_LANE);
    return true;
}

static void forget_connects(struct limits_hold *h, usec_t now)
{
    if (h->connecting > 0 && now - h->connect_lent_at > CONNECT_SPAN) {
        limits_seats_count(h->lane, -(int)h->connecting, 0);
        h->lane->connecting -= h->connecting;
        h->connecting = 0;
    }
}

static bool lend_ceiling(struct lending *g)
{
    struct limits_lane *lane = g->lane;
    forget_connects(g->hold, g->now);
    if (lane->learned == NULL || lane->learned->connections.limit == 0) {
        return true;
    }
    struct ceiling *c = &lane->learned->connections;
    uint32_t held = ceiling_count_held(&lane->connections, g->now) + lane->connecting;
    uint32_t room = 0;
    while (room < g->least[PACE_CONNECTS] && ceiling_permits(c, held + room, g->now)) {
        room++;
    }
    g->is_bound[PACE_CONNECTS] = true;
    if (room > 0) {
        note_binding(g, room, g->least[PACE_CONNECTS], LIMIT_BY_CEILING, LIMIT_OF_LANE);
        g->least[PACE_CONNECTS] = room;
        return true;
    }
    g->hold->waits_to_connect = true;
    usec_t due = ceiling_due(c) < g->now + RECHECK ? ceiling_due(c) : g->now + RECHECK;
    if (lane->connections.closing > 0) {
        due = lane->connections.closed_at + CEILING_CLOSE_SPAN;
    }
    return refuse(g, due, LIMIT_BY_CEILING, LIMIT_OF_LANE);
}

/* --- back ------------------------------------------------------------------------------------- */

/* All lenders of a unit get back what is more than `keep`. */
static void trim(struct lending *g, enum pace_unit unit, uint32_t keep)
{
    for (uint32_t i = 0; i < g->meter_count; i++) {
        struct loan *lent = &g->rates[unit][i];
        if (lent->left > keep) {
            rate_give_back(&g->meters[i]->rates[unit], lent->left - keep);
            lent->left = keep;
        }
        struct quota_loan *quota = &g->quotas[i];
        if (unit == PACE_MESSAGES && quota->left > keep) {
            limits_quota_return(g->meters[i], quota->left - keep, quota->window);
            quota->left = keep;
        }
    }
    struct loan *lent = &g->paces[unit];
    if (lent->left > keep) {
        pace_give_back(g->lane->learned->paces[unit], lent->left - keep, lent->from);
        lent->left = keep;
    }
}

static bool bounds_connects(const struct lending *g)
{
    const struct limits_learned *learned = g->lane->learned;
    bool is_bound =
        pace_of(g, PACE_CONNECTS) != NULL || (learned != NULL && learned->connections.limit > 0);
    for (uint32_t i = 0; i < g->meter_count; i++) {
        is_bound = is_bound || g->meters[i]->rates[PACE_CONNECTS].rule.count > 0 ||
                   g->meters[i]->seats.limit > 0;
    }
    return is_bound;
}

/* Connects are lent beside the rest: entries may go by the connections that are there. */
static bool lend_connects(struct lending *g) ON_ROLE(g->limits->lock)
{
    struct limit_grant before = *g->ret;
    usec_t when = g->when;
    g->least[PACE_CONNECTS] = at_most(g->ask->connects);
    if (g->ask->connects == 0) { /* a connection may end before the loan does: no other one then */
        g->is_bound[PACE_CONNECTS] = bounds_connects(g);
        return true;
    }
    if (lend_seats(g) && lend_rates(g, PACE_CONNECTS) && lend_ceiling(g) &&
        lend_pace(g, PACE_CONNECTS)) {
        return true;
    }
    trim(g, PACE_CONNECTS, 0);
    g->least[PACE_CONNECTS] = 0;
    g->is_bound[PACE_CONNECTS] = true;
    if (!g->ask->has_connection) {
        return false;
    }
    g->when = when;
    *g->ret = before;
    return true;
}

static void pay_owed(struct lending *g)
{
    uint32_t owed = at_most(g->ask->owed);
    for (uint32_t i = 0; owed > 0 && i < g->meter_count; i++) {
        if (!limits_part_owe(g->meters[i], PACE_RECIPIENTS, owed)) {
            rate_take(&g->meters[i]->rates[PACE_RECIPIENTS], owed, g->now);
        }
    }
    if (owed > 0 && pace_of(g, PACE_RECIPIENTS) != NULL) {
        pace_take(pace_of(g, PACE_RECIPIENTS), owed, g->now);
    }
}

/* --- the answer ------------------------------------------------------------------------------- */

static double least_rate(double most, const struct rate_rule *rule, double each)
{
    if (rule->count == 0) {
        return most;
    }
    double rate = (double)rule->count * USEC_PER_SEC / (double)rule->span / each;
    return rate < most ? rate : most;
}

/* Messages a second, as far as is known. */
static double per_second(const struct lending *g)
{
    double least = HUGE_VAL, each = 1;
    if (g->ask->recipients > g->ask->messages) {
        each = (double)g->ask->recipients / g->ask->messages;
    }
    for (uint32_t i = 0; i < g->meter_count; i++) {
        least = least_rate(least, &g->meters[i]->rates[PACE_MESSAGES].rule, 1);
        least = least_rate(least, &g->meters[i]->rates[PACE_RECIPIENTS].rule, each);
    }
    if (pace_of(g, PACE_MESSAGES) != NULL && pace_of(g, PACE_MESSAGES)->rate < least) {
        least = pace_of(g, PACE_MESSAGES)->rate;
    }
    if (pace_of(g, PACE_RECIPIENTS) != NULL && pace_of(g, PACE_RECIPIENTS)->rate / each < least) {
        least = pace_of(g, PACE_RECIPIENTS)->rate / each;
    }
    return least;
}

static void keep_loan(struct lending *g)
{
    struct limits_loan *loan = &g->hold->loan;
    const uint32_t *least = g->least;
    *loan = (struct limits_loan){.lent = {least[PACE_MESSAGES],
                                          g->is_bound[PACE_RECIPIENTS] ? least[PACE_RECIPIENTS] : 0,
                                          g->is_bound[PACE_CONNECTS] ? least[PACE_CONNECTS] : 0},
                                 .from = g->when,
                                 .meter_count = g->meter_count};
    for (uint32_t i = 0; i < g->meter_count; i++) {
        loan->meters[i] = g->meters[i];
        g->meters[i]->references++;
        loan->editions[i] = g->meters[i]->edition;
        loan->windows[i] = g->quotas[i].window;
    }
    for (unsigned i = 0; i < LIMITS_UNITS; i++) {
        loan->is_paced[i] = g->paces[i].left > 0;
    }
    limits_seats_count(g->lane, (int)loan->lent.connects, 0);
    g->lane->connecting += loan->lent.connects;
    g->hold->connecting += loan->lent.connects;
    g->hold->connect_lent_at = g->now;
    if (g->lane->learned != NULL && g->lane->learned->is_closed) {
        g->lane->learned->probed_at = g->now;
        g->lane->learned->prober = g->hold;
    }
}

/* Rates alone hold the lane, and none of them is used up. */
static bool is_ample(const struct lending *g)
{
    const struct limits_learned *learned = g->lane->learned;
    if (learned != NULL && (learned->is_closed || learned->connections.limit > 0)) {
        return false;
    }
    for (unsigned unit = 0; unit < LIMITS_UNITS; unit++) {
        if (pace_of(g, unit) != NULL) {
            return false;
        }
    }
    for (uint32_t i = 0; i < g->meter_count; i++) {
        for (unsigned unit = 0; unit < LIMITS_UNITS; unit++) {
            if (rate_due(&g->meters[i]->rates[unit]) > g->now) {
                return false;
            }
        }
        if (quota_left(&g->meters[i]->quota, g->wall) != UINT64_MAX ||
            g->meters[i]->seats.limit > 0) {
            return false;
        }
    }
    return g->ret->why == LIMIT_NO_CAUSE && g->when <= g->now;
}

static void grant(struct lending *g)
{
    struct limit_grant *ret = g->ret;
    for (unsigned i = 0; i < LIMITS_UNITS; i++) {
        trim(g, i, g->least[i]);
    }
    keep_loan(g);
    limits_turns_end(g->hold);
    ret->messages = g->least[PACE_MESSAGES];
    ret->recipients = g->is_bound[PACE_RECIPIENTS] ? g->least[PACE_RECIPIENTS] : LIMIT_UNBOUNDED;
    ret->connects = g->is_bound[PACE_CONNECTS] ? g->least[PACE_CONNECTS] : LIMIT_UNBOUNDED;
    ret->from = g->when;
    ret->is_ample = is_ample(g);
    ret->until = g->when + (ret->is_ample ? AMPLE_SPAN : LOAN_SPAN);
}

static void list_meters(struct lending *g)
{
    for (unsigned i = 0; i <= LIMIT_OF_SOURCE; i++) {
        if (g->lane->meters[i] != NULL) {
            g->meters[g->meter_count++] = g->lane->meters[i];
        }
    }
    for (unsigned i = 0; i < LIMIT_ALSO_MAX; i++) {
        if (g->ask->also[i] != NULL && limits_meter_is_limited(g->ask->also[i])) {
            g->meters[g->meter_count++] = g->ask->also[i];
        }
    }
}

/* What an operator closed needs no probe. */
static void end_order(struct limits *l, struct limits_lane *lane, usec_t now) ON_ROLE(l->lock)
{
    const struct limits_learned *learned = lane->learned;
    if (learned != NULL && learned->is_closed && learned->is_ordered &&
        now >= learned->closed_until) {
        limits_open(l, lane, LIMIT_DONE_BY_TIME, now);
    }
}

static void tell_forgotten(struct limits *l, const struct lending *g) ON_ROLE(l->lock)
{
    for (unsigned unit = 0; unit < LIMITS_UNITS; unit++) {
        if (g->is_forgotten[unit]) {
            limits_forgot_pace(l, g->lane, (enum pace_unit)unit, g->now);
        }
    }
}

void limits_lend(struct limits_hold *h, const struct limit_ask *ask, usec_t now, usec_t wall,
                 struct limit_grant *ret)
{
    struct limits *l = h->borrower->limits;
    struct lending g = {.limits = l,
                        .hold = h,
                        .lane = h->lane,
                        .ask = ask,
                        .now = now,
                        .wall = wall,
                        .ret = ret,
                        .borrower = h->borrower->config.number,
                        .when = now,
                        .least = {at_most(ask->messages), at_most(ask->recipients)}};
    assert(ask->messages > 0);
    *ret = (struct limit_grant){0};
    limits_enter(l);
    l->wall = wall;
    l->changes++;
    limits_drop_loan(l, h);
    end_order(l, h->lane, now);
    list_meters(&g);
    pay_owed(&g);
    if (ask->recipients == 0 || pace_of(&g, PACE_RECIPIENTS) != NULL) {
        g.least[PACE_RECIPIENTS] = RATE_AMOUNT_MAX; /* a pace watches whether it is what binds */
    }
    bool is_lent = lane_permits(&g) && seats_permit(&g) && lend_quotas(&g) &&
                   lend_rates(&g, PACE_MESSAGES) && lend_rates(&g, PACE_RECIPIENTS) &&
                   lend_connects(&g) && lend_pace(&g, PACE_RECIPIENTS) &&
                   lend_pace(&g, PACE_MESSAGES);
    if (is_lent) {
        grant(&g);
    } else {
        for (unsigned i = 0; i < LIMITS_UNITS; i++) {
            trim(&g, i, 0);
        }
    }
    h->lane->wait = is_lent ? (struct limits_wait){LIMIT_NO_CAUSE, LIMIT_OF_LANE, 0}
                            : (struct limits_wait){ret->why, ret->whose, ret->turn};
    ret->per_second = per_second(&g);
    tell_forgotten(l, &g);
    limits_lane_changed(l, h->lane, false, now);
    limits_leave_lock(l);
}
