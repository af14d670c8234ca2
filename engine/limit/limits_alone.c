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
 * more and no mail; and then only proof counts.
 *
 * Its own lane begins with its part of the pace that was found so far, or it would flood the receiver
 * once more. Until then the others keep that pace, as what waits for the destination still goes by
 * their lane. */
#include "base/hash.h"
#include "engine/limit/limits_private.h"

#include <math.h>
#include <string.h>

#define REFUSED_LEAST 3
#define CHANCE        0.01
#define TRIAL_SPAN    (3600 * USEC_PER_SEC)
#define HEIR_SPAN     (60 * USEC_PER_SEC) /* who has no lane by then begins one without a pace */

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

/* A destination whose lane is still to come: the next one of many takes the oldest one's place. */
static void note_heir(struct limits *l, const struct limits_lane *lane, usec_t now) ON_ROLE(l->lock)
{
    const struct limits_alone *alone = &lane->learned->alone;
    double own = alone->own + alone->refused;
    l->heirs[l->next_heir] = (struct limits_heir){.name = alone->name,
                                                  .lane = lane->id,
                                                  .slot = lane->slot,
                                                  .at = now,
                                                  .part = own / (own + alone->others)};
    l->next_heir = (l->next_heir + 1) % LIMITS_HEIRS;
}

static bool is_heir(const struct limits_heir *heir, const struct limits_lane *lane, uint64_t name,
                    usec_t now)
{
    return heir->name == name && heir->lane == lane->id && now - heir->at < HEIR_SPAN;
}

static bool is_awaited(const struct limits *l, const struct limits_lane *lane, uint64_t name,
                       usec_t now)
{
    for (unsigned i = 0; name != 0 && i < LIMITS_HEIRS; i++) {
        if (is_heir(&l->heirs[i], lane, name, now)) {
            return true;
        }
    }
    return false;
}

static void begin(struct limits_alone *alone, uint64_t name, usec_t now)
{
    *alone = (struct limits_alone){.name = name,
                                   .since = now,
                                   .tried_at = alone->tried_at,
                                   .gone = alone->gone,
                                   .gone_at = alone->gone_at};
}

bool limits_alone_refused(struct limits *l, struct limits_lane *lane, const struct limit_refusal *r,
                          bool is_new, usec_t now)
{
    struct limits_alone *alone = &lane->learned->alone;
    uint64_t name = name_of(r->destination);
    if (is_awaited(l, lane, name, now)) {
        return false;
    }
    if (is_new || alone->name == 0) {
        begin(alone, name, now);
    }
    alone->is_over = alone->is_over || name == 0 || name != alone->name;
    alone->refused++;
    if (!r->may_stand_apart || alone->is_over || alone->refused < REFUSED_LEAST ||
        !(is_trial(alone, now) || is_no_chance(alone))) {
        return false;
    }
    note_heir(l, lane, now);
    alone->tried_at = now;
    alone->name = 0;
    return true;
}

bool limits_alone_is_gone(const struct limits_lane *lane, const struct limit_refusal *r)
{
    const struct limits_alone *alone = &lane->learned->alone;
    return alone->gone != 0 && r->sent_at <= alone->gone_at &&
           name_of(r->destination) == alone->gone;
}

/* --- the lane of its own ---------------------------------------------------------------------- */

static void hand_over(struct limits *l, struct limits_lane *from, struct limits_lane *to,
                      enum pace_unit unit, double part, usec_t now) ON_ROLE(l->lock)
{
    struct pace *old = from->learned->paces[unit];
    if (old == NULL || old->phase == PACE_FREE) {
        return;
    }
    struct pace *own = limits_pace_get(l, to, unit, now);
    unsigned kind = LIMITS_FACT_PACE + unit;
    const struct limits_fact *fact = from->learned->facts[kind];
    if (own != NULL && fact != NULL) {
        pace_inherit(own, old, part, now);
        limits_fact_note(to->learned, kind, slice_of(fact->rule), slice_of(fact->text), now);
        limits_reacted(l, to,
                       &(struct limits_reacted){.kind = LIMIT_REACTED_PACE,
                                                .rule = slice_of(fact->rule),
                                                .text = slice_of(fact->text),
                                                .class = REPLY_THROTTLED,
                                                .unit = unit,
                                                .value = own->rate},
                       now);
    }
    pace_forget(old);
    limits_fact_end(from->learned, kind);
}

/* A site of one destination is "domain:NAME". */
static uint64_t name_of_site(struct slice site)
{
    static const struct slice mark = {"domain:", sizeof("domain:") - 1};
    bool is_own = site.len > mark.len && memcmp(site.data, mark.data, mark.len) == 0;
    return is_own ? name_of(slice_from(site, mark.len)) : 0;
}

/* NULL: it is gone, or has learned nothing. */
static struct limits_lane *lane_of_heir(struct limits *l, const struct limits_heir *heir)
    ON_ROLE(l->lock)
{
    struct limits_lane *lane = l->lanes[heir->slot];
    return lane != NULL && lane->id == heir->lane && lane->learned != NULL ? lane : NULL;
}

void limits_alone_inherit(struct limits *l, struct limits_lane *lane, usec_t now)
{
    uint64_t name = name_of_site(limits_place_site(lane->place));
    for (unsigned i = 0; name != 0 && i < LIMITS_HEIRS; i++) {
        struct limits_heir *heir = &l->heirs[i];
        struct limits_lane *from = heir->name == name ? lane_of_heir(l, heir) : NULL;
        if (from == NULL || !is_heir(heir, from, name, now) ||
            !slice_eq(limits_lane_source(from), limits_lane_source(lane)) ||
            limits_lane_learned(lane) == NULL) {
            continue;
        }
        hand_over(l, from, lane, PACE_MESSAGES, heir->part, now);
        hand_over(l, from, lane, PACE_RECIPIENTS, heir->part, now);
        from->learned->alone = (struct limits_alone){
            .tried_at = from->learned->alone.tried_at, .gone = name, .gone_at = now};
        heir->name = 0;
        limits_lane_changed(l, from, true, now);
    }
}
