/* One destination of several at a site is throttled, and the others are not: a limit of its own, at the
 * hosts that they share. Called with the lock held by what reports acceptances and refusals; must not
 * know what becomes of the destination.
 *
 * From the refusal that began the pace on, messages are counted by whom they are for. Only one destination
 * refused may be chance, when most of the mail is for it: if a receiver refuses whatever comes next, all
 * of n refusals are for a destination with the part q of the mail with probability q^n. Below one in a
 * hundred, and after three refusals, it is taken to be no chance.
 *
 * A backlog for the one may be all that goes, as it was there first, and then nothing is ever known of
 * the others. So once an hour three refusals are enough for a trial. If it was wrong, the others are
 * refused too and have a pace again: two lanes share what the receiver takes, which costs some refusals
 * more and no mail; and then only proof counts. */
#include "base/hash.h"
#include "engine/limit/limits_private.h"

#include <math.h>

#define REFUSED_LEAST 3
#define CHANCE        0.01
#define TRIAL_SPAN    (3600 * USEC_PER_SEC)

static uint64_t name_of(struct slice destination)
{
    return destination.len == 0 ? 0 : hash_checksum(destination.data, destination.len) | 1;
}

void limits_alone_accepted(struct limits_learned *learned, const struct limit_accepted *a)
{
    struct limits_alone *alone = &learned->alone;
    if (alone->name == 0 || alone->is_over || a->sent_at < alone->since) {
        return;
    }
    if (name_of(a->destination) == alone->name) {
        alone->own += a->messages;
    } else {
        alone->others += a->messages;
    }
}

static bool is_no_chance(const struct limits_alone *alone)
{
    double own = alone->own + alone->refused, all = own + alone->others;
    return pow(own / all, alone->refused) < CHANCE;
}

static bool is_trial(const struct limits_alone *alone, usec_t now)
{
    return alone->tried_at == 0 || now - alone->tried_at >= TRIAL_SPAN;
}

bool limits_alone_refused(struct limits_learned *learned, const struct limit_refusal *r,
                          bool is_new, usec_t now)
{
    struct limits_alone *alone = &learned->alone;
    uint64_t name = name_of(r->destination);
    if (is_new) {
        *alone = (struct limits_alone){.name = name, .since = now, .tried_at = alone->tried_at};
    }
    alone->is_over = alone->is_over || name == 0 || name != alone->name;
    alone->refused++;
    if (!r->may_stand_apart || alone->is_over || alone->refused < REFUSED_LEAST ||
        !(is_trial(alone, now) || is_no_chance(alone))) {
        return false;
    }
    *alone = (struct limits_alone){.tried_at = now};
    for (unsigned unit = PACE_MESSAGES; unit <= PACE_RECIPIENTS; unit++) {
        if (learned->paces[unit] != NULL && learned->paces[unit]->phase != PACE_FREE) {
            pace_forget(learned->paces[unit]);
            limits_fact_end(learned, LIMITS_FACT_PACE + unit);
        }
    }
    return true;
}
