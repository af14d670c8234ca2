/* What receivers say, and what becomes of the lane and the entry. Called by the owner of a hold for
 * each entry that ended, accepted or not; must not know a code or a text beyond what the reply was
 * taken to mean.
 *
 * Concurrency: limits_accepted takes the lock only where is_watched says that something was learned.
 * Both sides use relaxed order: one that just misses a change made by another thread counts its
 * message as before it, as if it had come a moment earlier. */
#include "engine/limit/limits_private.h"

#include <assert.h>

#define ACCEPTED_LATELY (600 * USEC_PER_SEC) /* then a throttled entry is not charged */
#define COMPANY_SPAN    (600 * USEC_PER_SEC)

static void note_tenant(struct limits_lane *lane, uint64_t tenant)
{
    uint64_t first = atomic_load_explicit(&lane->tenant, memory_order_relaxed);
    if (first == tenant || tenant == 0) {
        return;
    }
    if (first != 0 ||
        !atomic_compare_exchange_strong_explicit(&lane->tenant, &first, tenant,
                                                 memory_order_relaxed, memory_order_relaxed)) {
        atomic_store_explicit(&lane->has_tenants, true, memory_order_relaxed);
    }
}

/* --- accepted --------------------------------------------------------------------------------- */

static bool is_stopped(const struct pace *p)
{
    return p != NULL && (p->phase == PACE_PAUSED || p->phase == PACE_PROBING);
}

/* true: what waits for the pace need not wait until it was told to. */
static bool pace_took(struct pace *p, uint32_t n, usec_t sent_at, usec_t now)
{
    if (p == NULL || p->phase == PACE_FREE || n == 0) {
        return false;
    }
    bool was_stopped = is_stopped(p);
    pace_accepted(p, n, sent_at, now);
    return was_stopped && !is_stopped(p);
}

static void count_in_session(struct limits_learned *learned, uint32_t messages, usec_t now)
{
    struct ceiling *c = &learned->session;
    ceiling_doubt_accepted(&learned->session_doubt, messages, now);
    if (c->limit == 0 || messages < c->limit) {
        return;
    }
    ceiling_proved(c, messages);
    /* Asked as for one more, it notes that it bound, and steps up when it is time. */
    if (ceiling_permits(c, messages, now) && c->limit == 0) {
        limits_fact_end(learned, LIMITS_FACT_SESSION);
    }
}

static void accepted_watched(struct limits *l, struct limits_lane *lane,
                             const struct limit_accepted *a, usec_t now) ON_ROLE(l->lock)
{
    struct limits_learned *learned = lane->learned;
    l->changes++;
    bool is_turn = pace_took(learned->paces[PACE_MESSAGES], a->messages, a->sent_at, now);
    is_turn |= pace_took(learned->paces[PACE_RECIPIENTS], a->recipients, a->sent_at, now);
    limits_alone_accepted(learned, a);
    count_in_session(learned, a->session_messages, now);
    limits_open_destination(l, lane, a, now);
    if (learned->is_closed && a->sent_at >= learned->closed_until) {
        limits_open(l, lane, LIMIT_DONE_BY_ACCEPTANCE, now);
    }
    limits_lane_changed(l, lane, is_turn, now);
}

void limits_accepted(struct limits_hold *h, const struct limit_accepted *a, usec_t now)
{
    struct limits_lane *lane = h->lane;
    atomic_store_explicit(&lane->last_accepted, now, memory_order_relaxed);
    note_tenant(lane, a->tenant);
    limits_count_recent(lane, PACE_MESSAGES, a->messages, now);
    limits_count_recent(lane, PACE_RECIPIENTS, a->recipients, now);
    if (atomic_load_explicit(&lane->is_watched, memory_order_relaxed)) {
        struct limits *l = h->borrower->limits;
        limits_enter(l);
        if (lane->learned != NULL) {
            accepted_watched(l, lane, a, now);
        }
        limits_leave_lock(l);
    }
}

/* --- throttled -------------------------------------------------------------------------------- */

static uint32_t at_least_one(uint32_t n)
{
    return n > 0 ? n : 1;
}

/* Lanes of the place that may share what the receiver takes: this one, and those that were refused
 * lately too. More than COMPANY_MOST are as good as any number. */
static uint32_t company_of(const struct limits_lane *lane, enum pace_unit unit, usec_t now)
{
    enum { COMPANY_MOST = 16, LANES_MOST = 64 };
    uint32_t count = 1, seen = 0;
    list_foreach(other, &lane->place->lanes, struct limits_lane, in_place)
    {
        const struct limits_learned *learned = other->learned;
        const struct pace *p = learned == NULL ? NULL : learned->paces[unit];
        bool is_paced = p != NULL && p->phase != PACE_FREE;
        count += other != lane && is_paced && now - p->last_refusal < COMPANY_SPAN;
        if (count >= COMPANY_MOST || ++seen >= LANES_MOST) {
            break;
        }
    }
    return count;
}

struct pace *limits_learn_pace(struct limits *l, struct limits_lane *lane, enum pace_unit unit,
                               const struct limit_refusal *r, usec_t now) ON_ROLE(l->lock)
{
    struct pace *p = limits_pace_get(l, lane, unit, now);
    if (p == NULL) {
        return NULL;
    }
    bool is_new = p->phase == PACE_FREE;
    uint32_t n = at_least_one(unit == PACE_RECIPIENTS ? r->recipients : r->messages);
    p->chance.company = company_of(lane, unit, now);
    pace_refused(p, unit == PACE_CONNECTS ? 1 : n, r->hint, r->sent_at, now);
    if (p->phase == PACE_FREE) {
        return p; /* by chance */
    }
    if (is_new) {
        limits_fact_end(lane->learned, LIMITS_FACT_PACE + unit);
        limits_reacted(l, lane,
                       &(struct limits_reacted){.kind = LIMIT_REACTED_PACE,
                                                .rule = r->rule,
                                                .text = r->text,
                                                .class = r->class,
                                                .unit = unit,
                                                .value = p->rate},
                       now);
    }
    limits_fact_note(lane->learned, LIMITS_FACT_PACE + unit, r->rule, r->text, now);
    return p;
}

static void learn_ceiling(struct limits *l, struct limits_lane *lane, const struct limit_refusal *r,
                          usec_t now) ON_ROLE(l->lock)
{
    struct limits_learned *learned = limits_lane_learned(lane);
    if (learned == NULL) {
        return;
    }
    bool is_session = r->scope == REPLY_SESSION;
    struct ceiling *c = is_session ? &learned->session : &learned->connections;
    uint32_t before = c->limit;
    if (is_session) {
        ceiling_refused(c, r->session_messages, now);
    } else {
        ceiling_count_refused(&lane->connections, c, now);
    }
    unsigned fact = is_session ? LIMITS_FACT_SESSION : LIMITS_FACT_CONNECTIONS;
    limits_fact_note(learned, fact, r->rule, r->text, now);
    if (c->limit != before) {
        limits_reacted(l, lane,
                       &(struct limits_reacted){.kind = is_session ? LIMIT_REACTED_SESSION
                                                                   : LIMIT_REACTED_CONNECTIONS,
                                                .rule = r->rule,
                                                .text = r->text,
                                                .class = r->class,
                                                .value = c->limit},
                       now);
    }
}

/* Of messages or recipients, which a receiver may count for each destination. */
static bool learn_of_mail(struct limits *l, struct limits_lane *lane, enum pace_unit unit,
                          const struct limit_refusal *r, usec_t now) ON_ROLE(l->lock)
{
    const struct pace *p = lane->learned == NULL ? NULL : lane->learned->paces[unit];
    if (lane->learned != NULL && limits_alone_is_gone(lane, r)) {
        return false;
    }
    bool is_new = p == NULL || p->phase == PACE_FREE;
    p = limits_learn_pace(l, lane, unit, r, now);
    return p != NULL && p->phase != PACE_FREE && limits_alone_refused(l, lane, r, is_new, now);
}

/* What a session was refused with, unless a rule says so, is a limit of sessions when others are
 * refused with the same; and when it is none, it is a rate's. */
static bool learn_of_session(struct limits *l, struct limits_lane *lane,
                             const struct limit_refusal *r, usec_t now) ON_ROLE(l->lock)
{
    struct limits_learned *learned = limits_lane_learned(lane);
    if (learned == NULL) {
        return false;
    }
    enum ceiling_word word = CEILING_SAID;
    if (r->rule.len == 0) {
        word = ceiling_doubt_refused(&learned->session_doubt, r->session_messages, now);
    }
    if (word == CEILING_SAID) {
        learn_ceiling(l, lane, r, now);
    }
    return word == CEILING_DENIED && learn_of_mail(l, lane, PACE_MESSAGES, r, now);
}

/* Returns whether the destination is to stand apart. */
static bool learn(struct limits *l, struct limits_lane *lane, const struct limit_refusal *r,
                  usec_t now) ON_ROLE(l->lock)
{
    if (r->scope == REPLY_RECIPIENTS) {
        return learn_of_mail(l, lane, PACE_RECIPIENTS, r, now);
    }
    if (r->scope == REPLY_SESSION) {
        return learn_of_session(l, lane, r, now);
    }
    if (r->scope == REPLY_CONNECTIONS) {
        learn_ceiling(l, lane, r, now);
    } else if (r->scope == REPLY_CONNECTION_RATE) {
        (void)limits_learn_pace(l, lane, PACE_CONNECTS, r, now);
    } else {
        return learn_of_mail(l, lane, PACE_MESSAGES, r, now);
    }
    return false;
}

/* Once a round trip: what was sent before the last report tells the window nothing new. */
static bool is_news_to_window(struct limits_lane *lane, unsigned borrower, usec_t sent_at,
                              usec_t now)
{
    struct limits_learned *learned = limits_lane_learned(lane);
    if (learned == NULL) {
        return false;
    }
    usec_t *last = &learned->negative_at[borrower % (sizeof(learned->negative_at) /
                                                     sizeof(learned->negative_at[0]))];
    if (sent_at < *last) {
        return false;
    }
    *last = now;
    return true;
}

static void judge_throttled(struct limits_hold *h, const struct limit_refusal *r, usec_t now,
                            struct limit_verdict *ret)
{
    usec_t last = atomic_load_explicit(&h->lane->last_accepted, memory_order_relaxed);
    /* What was accepted is reported behind its content, and what was refused before that. */
    bool is_known = (last > 0 && now - last <= ACCEPTED_LATELY) || r->has_others_out;
    bool is_before_content = r->stage != REPLY_AT_END;
    bool is_free = is_known && is_before_content && !r->must_charge;
    ret->fate = is_free ? LIMIT_FATE_AGAIN : LIMIT_FATE_CHARGED;
    ret->is_throttled = true;
    ret->is_negative = is_news_to_window(h->lane, h->borrower->config.number, r->sent_at, now);
}

/* --- blocked ---------------------------------------------------------------------------------- */

static void judge_blocked(const struct limits_lane *lane, const struct limit_refusal *r,
                          usec_t wall, struct limit_verdict *ret)
{
    static const usec_t usual_grace = 2 * 3600 * USEC_PER_SEC;
    usec_t grace = lane->block_grace > 0 ? lane->block_grace : usual_grace;
    bool is_first = r->first_blocked == 0 || r->first_blocked > wall; /* the clock was set back */
    ret->first_blocked = is_first ? wall : r->first_blocked;
    ret->bounces_at = ret->first_blocked + grace;
    if (r->has_other_source) {
        ret->fate = LIMIT_FATE_OTHER_SOURCE;
    } else if (r->code >= 500 && r->has_open_source && wall < ret->bounces_at) {
        ret->fate = LIMIT_FATE_DEFER;
    }
}

/* --- all of it -------------------------------------------------------------------------------- */

/* Whether the window hears of a reply what it did before there were classes. */
static bool is_about_server(enum reply_class class)
{
    return class == REPLY_CLASS_NONE || class == REPLY_UNAVAILABLE || class == REPLY_PROTOCOL ||
           class == REPLY_OTHER;
}

/* What was not sent counts for nothing; a MAIL that was counts for rates, and not for a quota of what
 * a receiver gets. */
static void give_back(struct limits *l, struct limits_lane *lane, const struct limit_refusal *r,
                      usec_t now) ON_ROLE(l->lock)
{
    struct limit_units unsent = {.messages = at_least_one(r->messages),
                                 .recipients = at_least_one(r->recipients)};
    if (r->stage < REPLY_AT_MAIL) {
        limits_unsend(l, lane, &unsent, r->sent_at, now);
        return;
    }
    for (unsigned i = 0; i <= LIMIT_OF_SOURCE; i++) {
        if (lane->meters[i] != NULL) {
            limits_quota_back(lane->meters[i], unsent.messages, l->wall - (now - r->sent_at));
        }
    }
}

static void refused(struct limits *l, struct limits_hold *h, const struct limit_refusal *r,
                    usec_t now, struct limit_verdict *ret) ON_ROLE(l->lock)
{
    struct limits_lane *lane = h->lane;
    if (r->class == REPLY_THROTTLED) {
        judge_throttled(h, r, now, ret);
    }
    if (r->class == REPLY_BLOCKED) {
        judge_blocked(lane, r, l->wall, ret);
    }
    struct limit_verdict before = *ret;
    bool is_done = limits_act(l, h, r, now, ret);
    if (r->class == REPLY_THROTTLED && !is_done) {
        ret->stands_apart = learn(l, lane, r, now);
    }
    if (r->class == REPLY_BLOCKED && !is_done) {
        limits_blocked(l, lane, r, now);
    }
    bool stays = ret->fate == before.fate && ret->fate == LIMIT_FATE_AGAIN;
    if (stays || ret->fate == LIMIT_FATE_OTHER_SOURCE) {
        give_back(l, lane, r, now);
    }
}

void limits_refused(struct limits_hold *h, const struct limit_refusal *r, usec_t now, usec_t wall,
                    struct limit_verdict *ret)
{
    struct limits *l = h->borrower->limits;
    struct limits_lane *lane = h->lane;
    *ret = (struct limit_verdict){.fate = LIMIT_FATE_CODE,
                                  .keeps_feedback = is_about_server(r->class)};
    note_tenant(lane, r->tenant);
    limits_enter(l);
    l->wall = wall;
    struct limits_learned *learned = lane->learned;
    bool was_stopped = learned != NULL && is_stopped(learned->paces[PACE_MESSAGES]);
    if (learned != NULL && learned->is_closed && r->class != REPLY_BLOCKED &&
        r->sent_at >= learned->closed_until) {
        limits_probe_ended(l, lane, now);
    }
    l->changes += r->class == REPLY_THROTTLED || r->class == REPLY_BLOCKED;
    refused(l, h, r, now, ret);
    learned = lane->learned;
    bool is_turn = was_stopped && !is_stopped(learned->paces[PACE_MESSAGES]);
    limits_lane_changed(l, lane, is_turn, now);
    limits_leave_lock(l);
}
