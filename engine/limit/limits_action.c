/* What the actions of a reply's rule do. Called with the lock held for each refusal that a rule is
 * about; must not know what a class does by itself. */
#include "base/hash.h"
#include "engine/limit/limits_private.h"

#include <stdlib.h>

#define COUNTERS_MAX 32U
#define PARTS        ((uint32_t)(sizeof(((struct limits_counter *)NULL)->parts) / sizeof(uint32_t)))

/* --- after N in PERIOD ------------------------------------------------------------------------ */

static struct limits_counter *take_counter(struct limits_learned *learned, uint64_t hash,
                                           usec_t now)
{
    list_foreach(c, &learned->counters, struct limits_counter, in_lane)
    {
        if (c->hash == hash) {
            list_remove(&c->in_lane);
            list_push_back(&learned->counters, &c->in_lane);
            return c;
        }
    }
    struct limits_counter *c;
    if (learned->counter_count < COUNTERS_MAX) {
        c = malloc(sizeof(*c));
        if (c == NULL) {
            return NULL;
        }
        learned->counter_count++;
    } else { /* the one that was used least lately */
        c = list_first(&learned->counters, struct limits_counter, in_lane);
        list_remove(&c->in_lane);
    }
    *c = (struct limits_counter){.hash = hash, .begin = now};
    list_push_back(&learned->counters, &c->in_lane);
    return c;
}

/* The period is counted in PARTS, so the oldest of a period may be too old by one part of it. */
static uint32_t count_one(struct limits_counter *c, usec_t period, usec_t now)
{
    usec_t part = period / PARTS > 0 ? period / PARTS : 1;
    usec_t passed = (now - c->begin) / part;
    for (usec_t i = 0; i < passed && i < PARTS; i++) {
        c->last = (c->last + 1) % PARTS;
        c->parts[c->last] = 0;
    }
    c->begin += passed * part;
    c->parts[c->last]++;
    uint32_t count = 0;
    for (uint32_t i = 0; i < PARTS; i++) {
        count += c->parts[i];
    }
    return count;
}

static bool is_time(struct limits_lane *lane, const struct limit_refusal *r, uint32_t number,
                    usec_t now)
{
    const struct reply_action *a = &r->actions[number];
    if (a->after <= 1) {
        return true;
    }
    struct limits_learned *learned = limits_lane_learned(lane);
    uint64_t hash = hash_bytes(r->rule.data, r->rule.len, number);
    struct limits_counter *c = learned == NULL ? NULL : take_counter(learned, hash, now);
    return c != NULL && count_one(c, a->period, now) >= a->after;
}

/* --- what is done ----------------------------------------------------------------------------- */

static void tell_reaction(struct limits *l, struct limits_lane *lane, const struct limit_refusal *r,
                          struct limits_reacted what, usec_t now) ON_ROLE(l->lock)
{
    what.rule = r->rule;
    what.text = r->text;
    what.class = r->class;
    limits_reacted(l, lane, &what, now);
}

static void slow(struct limits *l, struct limits_lane *lane, const struct limit_refusal *r,
                 uint32_t factor, usec_t now) ON_ROLE(l->lock)
{
    enum pace_unit unit = PACE_MESSAGES;
    if (r->scope == REPLY_RECIPIENTS) {
        unit = PACE_RECIPIENTS;
    } else if (r->scope == REPLY_CONNECTION_RATE) {
        unit = PACE_CONNECTS;
    }
    struct limits_learned *learned = limits_lane_learned(lane);
    bool is_old = learned == NULL || (factor > 0 && r->sent_at < learned->slowed_at);
    struct pace *p = is_old ? NULL : limits_learn_pace(l, lane, unit, r, now);
    if (p == NULL || factor == 0) {
        return; /* one step of the pace's own, or once a round trip by the factor */
    }
    learned->slowed_at = now;
    pace_set(p, p->rate * factor / 1000, now);
    p->last_refusal = now;
    tell_reaction(
        l, lane, r,
        (struct limits_reacted){.kind = LIMIT_REACTED_PACE, .unit = unit, .value = p->rate}, now);
}

static void pause_lane(struct limits *l, struct limits_lane *lane, const struct limit_refusal *r,
                       usec_t span, usec_t now) ON_ROLE(l->lock)
{
    struct limits_learned *learned = limits_lane_learned(lane);
    if (learned == NULL || r->sent_at < learned->paused_until) {
        return; /* it was sent before the pause */
    }
    learned->paused_until = now + span;
    limits_fact_note(learned, LIMITS_FACT_PAUSED, r->rule, r->text, now);
    tell_reaction(l, lane, r, (struct limits_reacted){.kind = LIMIT_REACTED_PAUSE, .span = span},
                  now);
}

/* false: it is closed, and this was sent before */
static bool close_by_rule(struct limits *l, struct limits_lane *lane, const struct limit_refusal *r,
                          usec_t span, usec_t now) ON_ROLE(l->lock)
{
    struct limits_learned *learned = limits_lane_learned(lane);
    if (learned == NULL || (learned->is_closed && r->sent_at < learned->closed_until)) {
        return false;
    }
    limits_close(l, lane, span, false, now);
    limits_fact_note(learned, LIMITS_FACT_CLOSED, r->rule, r->text, now);
    return true;
}

static void close_site(struct limits *l, struct limits_lane *lane, const struct limit_refusal *r,
                       usec_t span, usec_t now) ON_ROLE(l->lock)
{
    struct limits_place *place = lane->place;
    if (r->sent_at < place->closed_until) {
        return;
    }
    place->closed_until = now + span;
    list_foreach(other, &place->lanes, struct limits_lane, in_place)
    {
        (void)close_by_rule(l, other, r, span, now); /* it may be closed already */
        limits_lane_changed(l, other, false, now);
    }
    tell_reaction(l, lane, r,
                  (struct limits_reacted){.kind = LIMIT_REACTED_CLOSED_SITE, .span = span}, now);
}

static void set_fate(struct limit_verdict *ret, enum limit_fate fate, usec_t span)
{
    ret->fate = fate;
    ret->defer_span = span;
}

/* true: it is one about the lane. */
static bool carry_out(struct limits *l, struct limits_lane *lane, const struct limit_refusal *r,
                      const struct reply_action *a, usec_t now, struct limit_verdict *ret)
    ON_ROLE(l->lock)
{
    switch (a->kind) {
    case REPLY_ACTION_NONE:
        return true;
    case REPLY_SLOW:
        slow(l, lane, r, a->factor, now);
        return true;
    case REPLY_PAUSE:
        pause_lane(l, lane, r, a->span, now);
        return true;
    case REPLY_CLOSE:
        if (close_by_rule(l, lane, r, a->span, now)) {
            tell_reaction(l, lane, r,
                          (struct limits_reacted){.kind = LIMIT_REACTED_CLOSED, .span = a->span},
                          now);
        }
        return true;
    case REPLY_CLOSE_SITE:
        close_site(l, lane, r, a->span, now);
        return true;
    case REPLY_NEXT_HOST:
        set_fate(ret, LIMIT_FATE_NEXT_HOST, 0);
        return false;
    case REPLY_DEFER:
        set_fate(ret, LIMIT_FATE_DEFER, a->span);
        return false;
    case REPLY_BOUNCE:
        set_fate(ret, LIMIT_FATE_BOUNCE, 0);
        return false;
    case REPLY_SUSPEND_TENANT:
        ret->suspend_tenant = a->span;
        tell_reaction(
            l, lane, r,
            (struct limits_reacted){.kind = LIMIT_REACTED_SUSPENDED_TENANT, .span = a->span}, now);
        return false;
    case REPLY_SUSPEND_CAMPAIGN:
        ret->suspend_campaign = a->span;
        tell_reaction(
            l, lane, r,
            (struct limits_reacted){.kind = LIMIT_REACTED_SUSPENDED_CAMPAIGN, .span = a->span},
            now);
        return false;
    case REPLY_ACTION_KIND_COUNT:
    default:
        return false;
    }
}

bool limits_act(struct limits *l, struct limits_hold *h, const struct limit_refusal *r, usec_t now,
                struct limit_verdict *ret)
{
    bool is_done = false;
    for (uint32_t i = 0; i < r->action_count; i++) {
        if (r->actions[i].kind == REPLY_ACTION_NONE) { /* it is the only one */
            *ret = (struct limit_verdict){.fate = LIMIT_FATE_CODE};
        }
        if (is_time(h->lane, r, i, now)) {
            is_done |= carry_out(l, h->lane, r, &r->actions[i], now, ret);
        }
    }
    return is_done;
}
