/* What a lane's holds have to hear: its state as it is now, and destinations that are closed to it.
 * Called with the lock held by whatever changes a lane; must not decide anything.
 *
 * Concurrency: a hold with something to tell stands in its borrower's list, under the lock. Whoever
 * puts the first one there stores has_changes, with release, and wakes the owner; the owner loads it
 * with acquire and then looks under the lock. It is cleared under the lock, when the list is empty,
 * so nothing that is in the list is ever without it. */
#include "engine/limit/limits_private.h"

static bool state_is(const struct limit_state *a, const struct limit_state *b)
{
    return a->is_limited == b->is_limited && a->is_closed == b->is_closed && a->until == b->until &&
           a->most_connections == b->most_connections && a->most_messages == b->most_messages;
}

static bool is_paced(const struct limits_learned *learned)
{
    bool is_any = false;
    for (unsigned i = 0; learned != NULL && i < LIMITS_UNITS; i++) {
        const struct pace *p = learned->paces[i];
        is_any = is_any || (p != NULL && p->phase != PACE_FREE);
    }
    return is_any;
}

/* Something was learned that all that goes is to heed, from now on. */
static bool is_bound(const struct limits_lane *lane, usec_t now)
{
    const struct limits_learned *learned = lane->learned;
    return learned != NULL && (is_paced(learned) || learned->is_closed ||
                               learned->paused_until > now || learned->connections.limit > 0);
}

static bool is_bounded(const struct limits_lane *lane, usec_t now)
{
    for (unsigned i = 0; i <= LIMIT_OF_SOURCE; i++) {
        if (lane->meters[i] != NULL) {
            return true;
        }
    }
    return is_bound(lane, now);
}

struct limit_state limits_lane_state(const struct limits_lane *lane, usec_t now)
{
    const struct limits_learned *learned = lane->learned;
    struct limit_state state = {.is_limited = is_bounded(lane, now)};
    if (learned != NULL) {
        state.is_closed = learned->is_closed;
        state.until = learned->is_closed ? learned->closed_until : 0;
        state.most_connections = learned->connections.limit;
        state.most_messages = learned->session.limit;
    }
    return state;
}

/* Is anything learned that acceptance changes, or that it must be compared with? */
static bool is_watched(const struct limits_learned *learned)
{
    return is_paced(learned) ||
           (learned != NULL &&
            (learned->is_closed || learned->session.limit > 0 || learned->session_doubt.times > 0 ||
             learned->destination_count > 0));
}

void limits_tell(struct limits_hold *h)
{
    struct limits_borrower *b = h->borrower;
    if (list_is_linked(&h->changed)) {
        return;
    }
    bool is_first = list_is_empty(&b->changed);
    list_push_back(&b->changed, &h->changed);
    if (is_first) {
        atomic_store_explicit(&b->has_changes, true, memory_order_release);
        if (b->config.wake != NULL) {
            b->config.wake(b->config.ctx);
        }
    }
}

void limits_tell_first(struct limits_hold *h)
{
    static const struct limit_state plain;
    h->must_tell = !state_is(&h->lane->shown, &plain);
    if (h->must_tell || h->lane->destination_serial > 0) {
        limits_tell(h);
    }
}

void limits_lane_uncount(struct limits *l, const struct limits_lane *lane)
{
    l->closed_lanes -= lane->shown.is_closed;
    l->paced_lanes -= lane->is_paced;
}

void limits_lane_changed(struct limits *l, struct limits_lane *lane, bool is_turn, usec_t now)
{
    struct limit_state state = limits_lane_state(lane, now);
    atomic_store_explicit(&lane->is_watched, is_watched(lane->learned), memory_order_relaxed);
    /* Who holds what rates lent to it is to give that back when more than rates bounds the lane. */
    bool begins_to_bind = !lane->is_bound && is_bound(lane, now);
    bool is_other = !state_is(&state, &lane->shown) || begins_to_bind;
    enum limits_figure_lanes before = limits_figure_lanes_of(lane);
    limits_lane_uncount(l, lane);
    lane->shown = state;
    lane->is_paced = is_paced(lane->learned);
    lane->is_bound = is_bound(lane, now);
    l->closed_lanes += state.is_closed;
    l->paced_lanes += lane->is_paced;
    limits_figure_move_lane(lane, before);
    if (!is_other && !is_turn) {
        return;
    }
    l->changes += is_other;
    list_foreach(h, &lane->holds, struct limits_hold, in_lane)
    {
        h->must_tell = true;
        limits_tell(h);
    }
}

bool limits_has_changes(const struct limits_borrower *b)
{
    return atomic_load_explicit(&b->has_changes, memory_order_acquire);
}

static void describe_lane(const struct limits_hold *h, struct limit_change *ret)
{
    const struct limits_learned *learned = h->lane->learned;
    ret->kind = LIMIT_CHANGED_LANE;
    ret->state = h->lane->shown;
    limits_seats_cap(h, &ret->state);
    const struct limits_fact *fact = learned == NULL ? NULL : learned->facts[LIMITS_FACT_CLOSED];
    if (ret->state.is_closed && fact != NULL) {
        limits_copy_text(ret->reason, sizeof(ret->reason), slice_of(fact->text));
    }
}

/* The oldest change of a destination that the hold was not told. */
static const struct limits_closed *next_destination(const struct limits_hold *h)
{
    const struct limits_learned *learned = h->lane->learned;
    const struct limits_closed *next = NULL;
    if (learned == NULL || h->destination_seen == h->lane->destination_serial) {
        return NULL;
    }
    list_foreach(c, &learned->destinations, const struct limits_closed, in_lane)
    {
        if (c->serial > h->destination_seen && (next == NULL || c->serial < next->serial)) {
            next = c;
        }
    }
    return next;
}

/* false: the hold has nothing to tell. */
static bool describe(struct limits_hold *h, struct limit_change *ret, usec_t now)
{
    *ret = (struct limit_change){.hold = h, .user = h->user};
    if (h->must_tell) {
        h->must_tell = false;
        describe_lane(h, ret);
        return true;
    }
    const struct limits_closed *c = next_destination(h);
    if (c == NULL) {
        h->destination_seen = h->lane->destination_serial;
        return false;
    }
    h->destination_seen = c->serial;
    ret->kind = c->until > now ? LIMIT_CLOSED_DESTINATION : LIMIT_OPENED_DESTINATION;
    ret->state.until = c->until;
    limits_copy_text(ret->destination, sizeof(ret->destination), slice_make(c->name, c->name_len));
    limits_copy_text(ret->reason, sizeof(ret->reason), slice_of(c->reason));
    return true;
}

bool limits_next_change(struct limits_borrower *b, struct limit_change *ret, usec_t now)
{
    struct limits *l = b->limits;
    bool is_told = false;
    limits_enter(l);
    while (!is_told && !list_is_empty(&b->changed)) {
        struct limits_hold *h = list_first(&b->changed, struct limits_hold, changed);
        is_told = describe(h, ret, now);
        if (!is_told) {
            list_remove(&h->changed);
        }
    }
    if (!is_told) {
        atomic_store_explicit(&b->has_changes, false, memory_order_release);
    }
    limits_leave_lock(l);
    return is_told;
}
