/* Parts of rates that other nodes use too. Called with the lock held by whoever lends or configures,
 * and by the thread that speaks to other nodes; must not know who these are.
 *
 * What a rate is wanted for is seen by what is asked of it: all of it while somebody was refused or
 * got less than he wanted in the last second, else a quarter more than what was lent, until nobody
 * has asked for two seconds. Then the part is kept until its burst is full again: a slow rate that
 * nobody holds would not go on. */
#include "engine/limit/limits_part.h"

#include "base/hash.h"
#include "engine/limit/limits_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WANT_SPAN USEC_PER_SEC
#define IDLE_SPAN (2 * USEC_PER_SEC)
/* Who waits for a part asks again after a quarter of the time that he has waited for it. */
#define AGAIN_LEAST (20 * USEC_PER_MSEC)
#define AGAIN_MOST  (1 * USEC_PER_SEC)
/* Who waits for a rate of which other nodes have a part looks that often whether that is his by now. */
#define LOOK_AGAIN (5 * USEC_PER_SEC)
#define SLOTS_GROW 256U

/* Fixed, as the key is the same at all nodes. */
#define KEY_SEEDS                                                                                  \
    {                                                                                              \
        0x5c9a1f03d2e84b67U, 0x8e21b7c45f90a3d9U                                                   \
    }

void limits_part_begin(struct limits *l, void (*wake)(void *ctx), void *ctx)
{
    limits_enter(l);
    l->parts = (struct limits_parts){.is_on = true, .wake = wake, .ctx = ctx};
    limits_leave_lock(l);
}

void limits_part_until(struct limits *l, usec_t until)
{
    limits_enter(l);
    l->parts.until = until;
    limits_leave_lock(l);
}

void limits_parts_fini(struct limits *l)
{
    free(l->parts.slots);
}

/* --- slots ------------------------------------------------------------------------------------ */

static bool grow_slots(struct limits_parts *p)
{
    uint32_t room = p->room + SLOTS_GROW;
    struct limits_part **slots =
        room > LIMITS_PARTS_MAX ? NULL : realloc(p->slots, room * sizeof(struct limits_part *));
    if (slots == NULL) {
        return false;
    }
    p->slots = slots;
    p->room = room;
    return true;
}

void limits_part_take_slot(struct limits_part *part)
{
    struct limits_parts *p = part->all;
    uint32_t at = p->first_free;
    while (at < p->end && p->slots[at] != NULL) {
        at++;
    }
    p->first_free = at;
    if (at == p->end && p->end == p->room && !grow_slots(p)) {
        return;
    }
    p->end += at == p->end;
    p->slots[at] = part;
    part->slot = at;
    part->has_slot = true;
    p->wake(p->ctx);
}

static void leave_slot(struct limits_part *part)
{
    struct limits_parts *p = part->all;
    if (part->has_slot) {
        p->slots[part->slot] = NULL;
        p->first_free = part->slot < p->first_free ? part->slot : p->first_free;
        part->has_slot = false;
    }
}

uint32_t limits_part_slots(struct limits *l)
{
    limits_enter(l);
    uint32_t end = l->parts.end;
    limits_leave_lock(l);
    return end;
}

static struct limits_part *find_part(const struct limits *l, uint32_t slot)
{
    return slot < l->parts.end ? l->parts.slots[slot] : NULL;
}

/* --- rates ------------------------------------------------------------------------------------ */

static void name_part(const struct limits_part *part, char ret[LIMITS_PART_KEY_MAX + 1])
{
    static const uint64_t seeds[] = KEY_SEEDS;
    const struct limits_meter *m = part->meter;
    bool is_rate = part->unit < LIMITS_UNITS;
    const uint64_t rule[] = {m->owner, part->unit, part->rule.count,
                             is_rate ? rate_burst(&part->rule) : 0, (uint64_t)part->rule.span};
    for (unsigned i = 0; i < 2; i++) {
        uint64_t hash = hash_bytes(m->name, m->name_len, hash_bytes(rule, sizeof(rule), seeds[i]));
        (void)snprintf(ret + i * 16, 17, "%016" PRIx64, hash);
    }
}

/* What is left of the burst, or owed, stays; of a rate that had no part nothing is left. */
static void set_rate(struct limits_part *part, uint32_t share, usec_t now)
{
    struct rate *r = &part->meter->rates[part->unit];
    struct rate_rule rule = rate_part_of(&part->rule, part->parts, share);
    struct loan_turns turns = r->turns;
    int64_t tokens = part->share > 0 ? rate_tokens(r, now) : -part->owed;
    rate_init(r, &rule, now);
    r->turns = turns;
    r->is_part = true;
    rate_pour(r, tokens - 1000 * (int64_t)rate_burst(&rule), now);
    part->owed = 0;
}

static uint32_t parts_of(unsigned unit, const struct rate_rule *rule)
{
    return unit < LIMITS_UNITS ? rate_parts_most(rule) : rule->count;
}

int limits_part_configure(struct limits *l, struct limits_meter *m, unsigned unit,
                          const struct rate_rule *rule)
{
    struct limits_part *part = m->parts[unit];
    if (!l->parts.is_on) {
        return 0;
    }
    if (rule->count == 0) {
        limits_part_free(l, m, unit);
        return 0;
    }
    if (part == NULL) {
        part = calloc(1, sizeof(*part));
        if (part == NULL) {
            return -ENOMEM;
        }
        part->all = &l->parts;
    }
    leave_slot(part);
    *part = (struct limits_part){.all = &l->parts,
                                 .meter = m,
                                 .unit = unit,
                                 .rule = *rule,
                                 .parts = parts_of(unit, rule),
                                 .id = ++l->parts.next_id};
    m->parts[unit] = part;
    return 0;
}

void limits_part_free(struct limits *l, struct limits_meter *m, unsigned unit)
{
    if (m->parts[unit] != NULL) {
        leave_slot(m->parts[unit]);
        free(m->parts[unit]);
        m->parts[unit] = NULL;
    }
}

usec_t limits_part_due(struct limits_meter *m, unsigned unit, usec_t now)
{
    struct limits_part *part = m->parts[unit];
    if (part == NULL) {
        return 0;
    }
    part->asked_at = now;
    if (!part->has_slot) {
        limits_part_take_slot(part);
    }
    if (part->share > 0 && (part->unit == LIMITS_PART_QUOTA || now < part->all->until)) {
        part->waits_since = 0;
        return 0;
    }
    part->short_at = now;
    part->waits_since = part->waits_since == 0 ? now : part->waits_since;
    usec_t again = (now - part->waits_since) / 4;
    again = again > AGAIN_LEAST ? again : AGAIN_LEAST;
    return now + (again < AGAIN_MOST ? again : AGAIN_MOST);
}

usec_t limits_part_look_again(const struct limits_meter *m, enum pace_unit unit, usec_t due,
                              usec_t now)
{
    const struct limits_part *part = m->parts[unit];
    bool may_grow = part != NULL && part->share < part->parts;
    return may_grow && due > now + LOOK_AGAIN ? now + LOOK_AGAIN : due;
}

bool limits_part_is_used(const struct limits_meter *m)
{
    bool is_used = false;
    for (unsigned i = 0; i < LIMITS_PARTS; i++) {
        const struct limits_part *part = m->parts[i];
        is_used = is_used || (part != NULL && (part->share > 0 || part->has_slot));
    }
    return is_used;
}

bool limits_part_owe(struct limits_meter *m, enum pace_unit unit, uint32_t amount)
{
    struct limits_part *part = m->parts[unit];
    bool is_shut = part != NULL && part->share == 0;
    if (is_shut) {
        part->owed += 1000 * (int64_t)amount;
    }
    return is_shut;
}

static void unit_back(struct limits_meter *m, enum pace_unit unit, uint32_t unused)
{
    struct limits_part *part = m->parts[unit];
    if (part == NULL || part->share > 0) {
        rate_give_back(&m->rates[unit], unused);
    } else {
        int64_t back = 1000 * (int64_t)unused;
        part->owed -= back < part->owed ? back : part->owed;
    }
    if (part != NULL) {
        part->lent -= unused < part->lent ? unused : part->lent;
    }
}

void limits_part_back(struct limits_meter *m, const struct limit_units *unused)
{
    unit_back(m, PACE_MESSAGES, unused->messages);
    unit_back(m, PACE_RECIPIENTS, unused->recipients);
    unit_back(m, PACE_CONNECTS, unused->connects);
}

void limits_part_lent(struct limits_meter *m, enum pace_unit unit, uint32_t lent, bool is_short,
                      usec_t now)
{
    struct limits_part *part = m->parts[unit];
    if (part == NULL) {
        return;
    }
    int64_t second = now / WANT_SPAN;
    if (second != part->second) {
        part->lent_before = second == part->second + 1 ? part->lent : 0;
        part->lent = 0;
        part->second = second;
    }
    part->lent += lent;
    part->short_at = is_short ? now : part->short_at;
}

/* --- for who speaks to other nodes ------------------------------------------------------------ */

/* What was wanted at most in this second and the last one: a connection that is closed is often followed
 * by another one. */
static uint32_t connections_wanted(struct limits_part *part, usec_t now)
{
    uint32_t want = limits_seats_held(part->meter, now) + limits_seats_lacking(part->meter, now);
    int64_t second = now / WANT_SPAN;
    if (second != part->second) {
        part->lent_before = second == part->second + 1 ? part->lent : 0;
        part->lent = 0;
        part->second = second;
    }
    part->lent = want > part->lent ? want : part->lent;
    want = part->lent > part->lent_before ? part->lent : part->lent_before;
    return want < part->parts ? want : part->parts;
}

static uint32_t rate_wanted(const struct limits_part *part, usec_t now)
{
    if (part->asked_at == 0 || now - part->asked_at >= IDLE_SPAN) {
        const struct rate *r = &part->meter->rates[part->unit];
        bool is_full =
            part->share == 0 || rate_tokens(r, now) >= 1000 * (int64_t)rate_burst(&r->rule);
        return is_full ? 0 : part->share;
    }
    if (part->short_at != 0 && now - part->short_at < WANT_SPAN) {
        return part->parts;
    }
    uint32_t lent = part->lent > part->lent_before ? part->lent : part->lent_before;
    double whole = (double)part->rule.count * WANT_SPAN / (double)part->rule.span;
    double want = 1 + 1.25 * lent / whole * part->parts;
    return want < part->parts ? (uint32_t)want : part->parts;
}

static uint32_t tokens_of(const struct limits_part *part, usec_t now)
{
    int64_t tokens = part->share > 0 ? rate_tokens(&part->meter->rates[part->unit], now) : 0;
    return tokens > 0 ? (uint32_t)tokens : 0;
}

static void describe(struct limits_part *part, usec_t now, usec_t wall,
                     struct limits_part_view *ret)
{
    *ret = (struct limits_part_view){.id = part->id, .parts = part->parts, .share = part->share};
    name_part(part, ret->key);
    if (part->unit == LIMITS_PART_CONNECTIONS) {
        ret->kind = LIMITS_PART_OF_CONNECTIONS;
        ret->in_use = limits_seats_held(part->meter, now);
        ret->want = connections_wanted(part, now);
    } else if (part->unit == LIMITS_PART_QUOTA) {
        ret->kind = LIMITS_PART_OF_QUOTA;
        limits_chunk_describe(part, now, wall, ret);
    } else {
        ret->kind = LIMITS_PART_OF_RATE;
        ret->burst = rate_burst(&part->rule);
        ret->want = rate_wanted(part, now);
        ret->tokens = tokens_of(part, now);
        ret->token_time = part->rule.span / part->rule.count;
    }
}

bool limits_part_look(struct limits *l, uint32_t slot, usec_t now, struct limits_part_view *ret)
{
    limits_enter(l);
    struct limits_part *part = find_part(l, slot);
    if (part != NULL) {
        describe(part, now, l->wall, ret);
    }
    limits_leave_lock(l);
    return part != NULL;
}

static void set_rate_part(struct limits_part *part, uint32_t share, int64_t tokens, usec_t now)
{
    struct rate *r = &part->meter->rates[part->unit];
    bool is_less = share < part->share;
    if (is_less && tokens != 0) { /* else the smaller burst would cut them off once more */
        rate_pour(r, tokens, now);
    }
    if (share > 0 && share != part->share) {
        set_rate(part, share, now);
    } else if (share == 0 && part->share > 0) {
        int64_t left = rate_tokens(r, now);
        part->owed = left < 0 ? -left : 0;
    }
    part->share = share;
    if (share > 0 && !is_less && tokens != 0) {
        rate_pour(r, tokens, now);
    }
}

bool limits_part_set(struct limits *l, uint32_t slot, uint64_t id, uint32_t share, int64_t tokens,
                     usec_t now)
{
    limits_enter(l);
    struct limits_part *part = find_part(l, slot);
    bool is_there = part != NULL && part->id == id;
    if (is_there && part->unit == LIMITS_PART_CONNECTIONS) {
        part->share = share;
        limits_seats_fit(l, part->meter, now);
    } else if (is_there) {
        set_rate_part(part, share, tokens, now);
    }
    limits_leave_lock(l);
    return is_there;
}

/* Nobody wants it, and nothing of it is in use or left. */
static bool is_free_of(struct limits_part *part, usec_t now, usec_t wall)
{
    struct limits_part_view v;
    describe(part, now, wall, &v);
    bool is_kept = v.kind == LIMITS_PART_OF_QUOTA && (v.share > 0 || !v.is_idle);
    return v.want == 0 && !is_kept;
}

bool limits_part_end(struct limits *l, uint32_t slot, uint64_t id, usec_t now)
{
    limits_enter(l);
    struct limits_part *part = find_part(l, slot);
    bool is_there = part != NULL && part->id == id;
    bool is_free = !is_there || is_free_of(part, now, l->wall);
    if (is_there && is_free) {
        part->share = 0;
        leave_slot(part);
    }
    limits_leave_lock(l);
    return is_free;
}
