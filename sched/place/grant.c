/* Grants, see sched/place/grant.h. Called by lane (what it may take), placement (an entry goes), the
 * public calls and the pull loop. Knows nothing of rates: who lends says what may go when.
 *
 * A lane is not looked at in the middle of a selection, where the last waiting entry has left the
 * queue and is not placed yet: it is touched, and asks or gives back before the next action. */
#include "sched/place/grant.h"

#include "sched/place/shed.h"
#include "sched/place/site.h"
#include "sched/transport.h"

#include <assert.h>

/* What was lent in vain is not asked for again before: the lane has room, and yet nothing was placed
 * there, which nobody says when it changes (a host at its limit, a message at its cap), unless an entry
 * of its own ends. */
#define PAUSE_IN_VAIN (100 * USEC_PER_MSEC)
/* The first pause where nobody lacks what it asks for; it doubles up to the other one. Others use what
 * this lane waits for, and while it pauses it does not take its turn. */
#define PAUSE_IN_VAIN_AMPLE (5 * USEC_PER_MSEC)
/* An answer that has no time in the future. */
#define PAUSE_LEAST USEC_PER_MSEC

void grant_init(struct grant *g)
{
    action_init(&g->ask);
    action_init(&g->back);
    list_init(&g->touched);
}

/* Entries that want the lane: those that wait and nothing of their destination's bars them, and those
 * that must be placed again. */
static int64_t wanted(const struct site_lane *l)
{
    int64_t count = 0;
    list_foreach(set, &l->site->sets, const struct lane_set, in_site)
    {
        if ((set->mask & source_bit(l->source)) != 0) {
            count += set->wanted + set->displaced;
        }
    }
    return count;
}

static void set_why(struct grant *g, enum sched_why why, usec_t due)
{
    shared_set(&g->why, why);
    shared_set(&g->due, due);
}

bool grant_allows(const struct sched *s, const struct site_lane *l)
{
    const struct grant *g = &l->grant;
    return !g->is_limited ||
           (g->state == GRANT_HELD && g->lent.messages > 0 && g->lent.recipients > 0 &&
            s->now >= g->lent.from && s->now < g->lent.until);
}

bool grant_allows_connection(const struct site_lane *l)
{
    return !l->grant.is_limited || l->grant.lent.connects > 0;
}

usec_t grant_use(struct sched *s, struct site_lane *l, uint32_t recipients, bool is_new_connection)
{
    struct sched_grant *lent = &l->grant.lent;
    if (!l->grant.is_limited) {
        return 0;
    }
    assert(l->grant.state == GRANT_HELD && lent->messages > 0);
    l->grant.used++;
    l->grant.vain = 0;
    l->grant.used_recipients += recipients;
    lent->messages--;
    if (lent->recipients != SCHED_NO_BOUND) {
        lent->recipients -= recipients;
    }
    if (is_new_connection && lent->connects != SCHED_NO_BOUND_OF_CONNECTS) {
        assert(lent->connects > 0);
        lent->connects--;
    }
    lane_review(s, l);
    grant_touch(s, l);
    return lent->is_ample ? s->now : lent->from;
}

/* --- asking and giving back --------------------------------------------------------------------- */

void grant_touch(struct sched *s, struct site_lane *l)
{
    if (l->grant.is_limited) {
        list_remove(&l->grant.touched);
        list_push_back(&s->touched_lanes, &l->grant.touched);
    }
}

void grant_touch_all(struct sched *s, struct site *site, uint64_t lanes)
{
    LANE_FOREACH(l, site, lanes & site->limited)
    {
        grant_touch(s, l);
    }
}

/* How much to ask for next. A loan that is used up before it ends is followed by one of twice its size,
 * any other one by what was used of it: what lanes hold and do not need, others could lack. */
static void learn(struct grant *g, usec_t now)
{
    bool is_used_up = g->lent.messages == 0 || g->lent.recipients <= 0;
    if (!is_used_up) {
        g->usual = g->used > 0 ? g->used : 1;
    } else if (now < g->lent.until && g->given >= g->usual && g->given <= UINT32_MAX / 2) {
        g->usual = 2 * g->given;
    }
    if (g->used > 0) {
        g->each = (g->used_recipients + g->used - 1) / g->used;
    }
}

/* What is left goes back; it holds nothing any more. */
static void give_back(struct sched *s, struct site_lane *l)
{
    struct grant *g = &l->grant;
    struct sched_grant *lent = &g->lent;
    assert(g->state == GRANT_HELD && g->back.kind == SCHED_NONE);
    learn(g, s->now);
    g->state = GRANT_NONE;
    g->left = (struct sched_units){.messages = lent->messages};
    if (lent->recipients != SCHED_NO_BOUND && lent->recipients < 0) {
        g->owed += (uint32_t)-lent->recipients;
    } else if (lent->recipients != SCHED_NO_BOUND) {
        g->left.recipients = (uint32_t)lent->recipients;
    }
    if (lent->connects != SCHED_NO_BOUND_OF_CONNECTS) {
        g->left.connects = lent->connects;
    }
    lent->messages = lent->connects = 0;
    if (g->left.messages + g->left.recipients + g->left.connects > 0) {
        action_queue(s, &g->back, SCHED_RETURN);
    }
}

static void wait_until(struct sched *s, struct site_lane *l, usec_t due)
{
    l->grant.state = GRANT_WAITING;
    l->grant.is_vain = false;
    l->grant.lent.due = due > s->now ? due : s->now + PAUSE_LEAST;
    lane_arm(s, l);
}

/* An entry could be placed there if something were lent. */
static bool can_take(const struct sched *s, const struct site_lane *l)
{
    const struct lane *lane = &l->lane;
    bool has_room =
        (lane->busy < lane_most(l) && (connection_has_slot(s) || lane->idle_connections > 0)) ||
        lane->in_flight < (int64_t)lane->busy * s->config.pipeline_depth;
    return has_room && !s->hold && (l->site->alive & source_bit(l->source)) != 0 &&
           (!l->is_probing || lane->in_flight == 0);
}

bool grant_is_due(const struct sched *s, const struct site_lane *l)
{
    return l->grant.is_limited && wanted(l) > 0 && can_take(s, l);
}

static bool is_over(const struct sched *s, const struct grant *g)
{
    return s->now >= g->lent.until || g->lent.messages == 0 || g->lent.recipients <= 0;
}

static usec_t pause_in_vain(struct grant *g)
{
    usec_t pause = PAUSE_IN_VAIN_AMPLE << g->vain;
    if (!g->lent.is_ample || pause >= PAUSE_IN_VAIN) {
        return PAUSE_IN_VAIN;
    }
    g->vain++;
    return pause;
}

static void settle(struct sched *s, struct site_lane *l)
{
    struct grant *g = &l->grant;
    enum grant_state before = g->state;
    bool is_wanted = wanted(l) > 0;
    if (g->state == GRANT_HELD && (is_over(s, g) || (!is_wanted && !g->lent.is_ample))) {
        bool was_in_vain = g->used == 0 && is_wanted;
        give_back(s, l);
        if (was_in_vain) {
            wait_until(s, l, s->now + pause_in_vain(g));
            g->is_vain = true;
        }
    }
    if (g->state == GRANT_WAITING && s->now >= g->lent.due) {
        g->state = GRANT_NONE;
    }
    if (g->state == GRANT_NONE && is_wanted && can_take(s, l)) {
        g->state = GRANT_ASKED;
        action_queue(s, &g->ask, SCHED_ASK);
    } else if (g->ask.kind != SCHED_NONE && (!is_wanted || !can_take(s, l))) {
        action_cancel(&g->ask);
        g->state = GRANT_NONE;
    }
    if (g->state != before) {
        lane_arm(s, l);
        lane_review(s, l);
    }
}

void grant_settle_all(struct sched *s)
{
    while (!list_is_empty(&s->touched_lanes)) {
        struct grant *g = list_first(&s->touched_lanes, struct grant, touched);
        struct site_lane *l = container_of(g, struct site_lane, grant);
        settle(s, l);
        list_remove(&g->touched); /* the review has touched it */
        if (g->state == GRANT_NONE && wanted(l) > 0 && !connection_has_slot(s)) {
            list_push_back(&s->starved_lanes, &g->touched);
        }
    }
}

void grant_room(struct sched *s, struct site_lane *l)
{
    struct grant *g = &l->grant;
    if (g->is_limited && g->state == GRANT_WAITING && g->is_vain) {
        g->state = GRANT_NONE;
        lane_arm(s, l);
        grant_touch(s, l);
    }
}

void grant_slot_opened(struct sched *s)
{
    while (!list_is_empty(&s->starved_lanes)) {
        struct grant *g = list_first(&s->starved_lanes, struct grant, touched);
        grant_touch(s, container_of(g, struct site_lane, grant));
    }
}

/* --- what the shell says ------------------------------------------------------------------------ */

/* Nothing is asked for any more; what is held is given back. */
static void end_all(struct sched *s, struct site_lane *l)
{
    struct grant *g = &l->grant;
    action_cancel(&g->ask);
    if (g->state == GRANT_HELD) {
        give_back(s, l);
    }
    g->state = GRANT_NONE;
    g->lent = (struct sched_grant){0};
    g->per_second = 0;
    set_why(g, SCHED_WHY_NOTHING, 0);
    list_remove(&g->touched);
}

void grant_set_limited(struct sched *s, struct site_lane *l, bool is_limited)
{
    struct grant *g = &l->grant;
    uint64_t bit = source_bit(l->source);
    if (is_limited && g->is_limited && g->state == GRANT_WAITING) {
        g->state = GRANT_NONE; /* something has changed: it asks at once */
    }
    if (is_limited && g->is_limited && g->state == GRANT_HELD && g->lent.is_ample) {
        give_back(s, l); /* it may lack now */
    }
    if (!is_limited && g->is_limited) {
        end_all(s, l);
        g->owed = 0;
    }
    shared_set(&g->is_limited, is_limited);
    l->site->limited = is_limited ? l->site->limited | bit : l->site->limited & ~bit;
    lane_arm(s, l);
    lane_review(s, l);
    grant_touch(s, l);
}

bool grant_give(struct sched *s, struct site_lane *l, const struct sched_grant *lent)
{
    struct grant *g = &l->grant;
    if (g->state != GRANT_ASKED || g->ask.kind != SCHED_NONE) {
        return false;
    }
    g->lent = *lent;
    g->owed = 0; /* it was asked for with the rest */
    g->per_second = lent->per_second > 0 ? lent->per_second : g->per_second;
    g->given = lent->messages;
    g->used = g->used_recipients = 0;
    if (lent->messages > 0) {
        g->state = GRANT_HELD;
        set_why(g, lent->why, s->now < lent->from ? lent->from : 0);
        lane_arm(s, l);
    } else {
        wait_until(s, l, lent->due);
        set_why(g, lent->why, g->lent.due);
    }
    shed_touch_all(s, l->site, source_bit(l->source));
    lane_review(s, l);
    grant_touch(s, l);
    return true;
}

/* --- time ----------------------------------------------------------------------------------------- */

usec_t grant_wake_at(const struct sched *s, const struct site_lane *l)
{
    const struct grant *g = &l->grant;
    if (g->state == GRANT_WAITING) {
        return g->lent.due;
    }
    if (g->state == GRANT_HELD) {
        return s->now < g->lent.from ? g->lent.from : g->lent.until;
    }
    return USEC_NEVER;
}

void grant_tick(struct sched *s, struct site_lane *l)
{
    settle(s, l);
    lane_arm(s, l);
    lane_review(s, l); /* the time of what it holds may have come */
}

/* --- the end of the lane -------------------------------------------------------------------------- */

bool grant_leave(struct sched *s, struct site_lane *l)
{
    struct grant *g = &l->grant;
    end_all(s, l);
    action_cancel(&g->back);
    bool must_tell = l->user != NULL;
    if (must_tell) {
        action_queue(s, &g->back, SCHED_LANE_GONE);
    }
    return must_tell;
}

static uint32_t at_most(int64_t count)
{
    if (count < 0) {
        return 0;
    }
    return count > UINT32_MAX ? UINT32_MAX : (uint32_t)count;
}

/* A loan that was used up and has ended since says what is used in its time. */
static int64_t usual_of(const struct sched *s, const struct site_lane *l)
{
    const struct grant *g = &l->grant;
    if (g->usual == 0) {
        return lane_most(l);
    }
    return s->now < g->lent.until || g->used == 0 ? g->usual : g->used;
}

static void fill_ask(const struct sched *s, const struct site_lane *l, struct sched_loan *ret)
{
    const struct lane *lane = &l->lane;
    const struct grant *g = &l->grant;
    int64_t most = (int64_t)lane_most(l) * s->config.pipeline_depth;
    int64_t count = wanted(l), usual = usual_of(s, l);
    int64_t connects = (int64_t)lane_most(l) - lane->busy - lane->idle_connections;
    most = usual < most ? usual : most;
    count = g->lent.is_ample || count > most ? most : count;
    ret->wanted = at_most(count);
    ret->recipients_wanted = at_most(count * (g->each > 0 ? g->each : 1));
    ret->connects_wanted = at_most(connects < count ? connects : count);
    ret->recipients_owed = l->grant.owed;
    ret->has_connection = lane->connections > 0;
}

void grant_fill(struct sched *s, struct pending *p, struct sched_action *ret)
{
    struct site_lane *l;
    struct sched_loan *loan = &s->loan;
    *loan = (struct sched_loan){0};
    if (ret->kind == SCHED_ASK) {
        l = container_of(p, struct site_lane, grant.ask);
        fill_ask(s, l, loan);
    } else {
        l = container_of(p, struct site_lane, grant.back);
        loan->left = l->grant.left;
        l->grant.left = (struct sched_units){0};
    }
    ret->loan = loan;
    ret->lane_user = l->user;
    if (ret->kind == SCHED_LANE_GONE) {
        s->host.retire(s->host.ctx, l);
        return;
    }
    loan->lane = (struct sched_lane_key){site_key(l->site), s->sources.at[l->source].given.id};
}
