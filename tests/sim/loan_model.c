#include "tests/sim/loan_model.h"

#include "tests/sim/require.h"

static bool is_of(const struct loan_model *m, const struct loan_of_lane *l)
{
    return l >= m->lanes[0] && l <= &m->lanes[SITES - 1][SOURCES - 1];
}

static bool has_left(const struct loan_of_lane *l)
{
    return l->is_held &&
           (l->messages > 0 || (l->recipients > 0 && l->recipients != SCHED_NO_BOUND) ||
            (l->connects > 0 && l->connects != SCHED_NO_BOUND_OF_CONNECTS));
}

static void end(struct loan_of_lane *l)
{
    if (l->is_held && l->recipients < 0) {
        l->owed += (uint32_t)-l->recipients;
    }
    l->is_held = false;
}

void loan_asked(struct loan_model *m, const struct sched_action *a)
{
    struct loan_of_lane *l = a->lane_user;
    REQUIRE(is_of(m, l) && l->is_limited && !l->is_asked && !has_left(l));
    end(l);
    REQUIRE(a->loan->wanted > 0 && a->loan->recipients_owed == l->owed);
    l->is_asked = true;
}

void loan_lent(struct loan_of_lane *l, const struct sched_grant *g)
{
    l->is_asked = false;
    l->owed = 0;
    l->is_held = g->messages > 0;
    l->messages = g->messages;
    l->connects = g->connects;
    l->recipients = g->recipients;
    l->from = g->from;
    l->until = g->until;
    l->is_ample = g->is_ample;
}

void loan_returned(struct loan_model *m, const struct sched_action *a)
{
    struct loan_of_lane *l = a->lane_user;
    REQUIRE(is_of(m, l));
    bool has_bound = l->recipients != SCHED_NO_BOUND && l->recipients > 0;
    if (has_left(l) || a->kind == SCHED_RETURN) {
        REQUIRE(l->is_held && a->loan->left.messages == l->messages);
        REQUIRE(a->loan->left.recipients == (has_bound ? (uint64_t)l->recipients : 0));
        REQUIRE(a->loan->left.connects ==
                (l->connects == SCHED_NO_BOUND_OF_CONNECTS ? 0 : l->connects));
    }
    end(l);
    if (a->kind == SCHED_LANE_GONE) {
        *l = (struct loan_of_lane){0};
    }
}

void loan_used(struct loan_model *m, const struct sched_action *a, uint32_t recipients,
               bool is_delayed, usec_t now)
{
    struct loan_of_lane *l = a->lane_user;
    if (a->lent_from == 0) {
        REQUIRE(l == NULL || !l->is_limited || is_delayed);
        return;
    }
    bool is_dated = l->is_ample ? a->lent_from >= l->from && a->lent_from <= now &&
                                      (is_delayed || a->lent_from == now)
                                : a->lent_from == l->from;
    REQUIRE(is_of(m, l) && l->is_held && is_dated && l->messages > 0);
    REQUIRE(l->recipients > 0 && (is_delayed || (now >= l->from && now < l->until)));
    l->messages--;
    if (l->recipients != SCHED_NO_BOUND) {
        l->recipients -= recipients;
    }
    if (a->connection_is_new && l->connects != SCHED_NO_BOUND_OF_CONNECTS) {
        REQUIRE(l->connects > 0);
        l->connects--;
    }
}
