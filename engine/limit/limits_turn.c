/* Whose turn it is where many lanes wait for one rate: a source's, a site's or a tenant's. Called with
 * the lock held for each loan of a rate; must not know what is lent.
 *
 * Who is refused gets a time of its own, one loan's worth behind that of the one who was refused
 * before, and comes then. So however many wait, about one asks for each part of the rate, each in
 * its turn. Who comes without a turn while others wait is put behind them, unless some of the rate
 * was left: one that had a turn did not come, or took less. A turn that has come stays until
 * something was lent, because another limit may refuse. */
#include "engine/limit/limits_private.h"

#define SPARE LOAN_SPAN /* what is left for so long is anybody's */

static struct limits_turn *find_turn(struct limits_hold *h, const struct limits_meter *m)
{
    struct limits_turn *turn = &h->turns[m->owner];
    return turn->meter == m && turn->edition == m->edition ? turn : NULL;
}

usec_t limits_turn_of(const struct limits_meter *m, struct limits_hold *h, enum pace_unit unit,
                      usec_t now)
{
    const struct limits_turn *turn = find_turn(h, m);
    bool has_turn = turn == NULL ? m->next_turn <= now : turn->at <= now;
    if (has_turn) {
        return 0;
    }
    usec_t due = rate_due(&m->rates[unit]);
    bool is_spare = due <= now - SPARE;
    return is_spare ? 0 : due;
}

usec_t limits_turn_take(struct limits_meter *m, struct limits_hold *h, enum pace_unit unit,
                        uint32_t wanted, usec_t due)
{
    struct limits_turn *turn = find_turn(h, m);
    if (turn != NULL) {
        turn->at = turn->at > due ? turn->at : due;
        return turn->at;
    }
    const struct rate_rule *rule = &m->rates[unit].rule;
    usec_t most = (usec_t)wanted * rule->span / rule->count, least = rule->span / rule->count;
    usec_t span = most < LOAN_SPAN ? most : LOAN_SPAN;
    usec_t at = m->next_turn > due ? m->next_turn : due;
    h->turns[m->owner] = (struct limits_turn){m, m->edition, at};
    m->next_turn = at + (span > least ? span : least);
    return at;
}

void limits_turns_end(struct limits_hold *h)
{
    for (unsigned i = 0; i < LIMIT_OWNER_COUNT; i++) {
        h->turns[i].meter = NULL;
    }
}
