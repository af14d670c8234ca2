/* The connections of a lane, and who may make another one. Called by the owner of a hold when a
 * connection is made, ends, or does not come about; must not know why.
 *
 * A connect that was lent counts as a connection until its outcome is reported, or for CONNECT_SPAN:
 * all that a lane may have are then made or being made, whoever makes them. */
#include "engine/limit/limits_private.h"

#include <assert.h>

void limits_count_connect_ended(struct limits_hold *h)
{
    if (h->connecting > 0) {
        h->connecting--;
        h->lane->connecting--;
        limits_seats_count(h->lane, -1, 0);
    }
}

void limits_connected(struct limits_hold *h, usec_t sent_at, usec_t now)
{
    struct limits *l = h->borrower->limits;
    struct limits_lane *lane = h->lane;
    struct ceiling none = {0};
    limits_enter(l);
    struct limits_learned *learned = lane->learned;
    limits_count_connect_ended(h);
    h->open++;
    limits_seats_count(lane, 0, 1);
    atomic_fetch_add_explicit(&lane->figure->connects, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&lane->figure->connections, 1, memory_order_relaxed);
    ceiling_count_opened(&lane->connections, learned == NULL ? &none : &learned->connections, now);
    limits_count_recent(lane, PACE_CONNECTS, 1, now);
    if (learned != NULL && learned->paces[PACE_CONNECTS] != NULL) {
        pace_accepted(learned->paces[PACE_CONNECTS], 1, sent_at, now);
    }
    if (learned != NULL) {
        limits_lane_changed(l, lane, false, now);
    }
    limits_leave_lock(l);
}

/* One that waits for a ceiling may ask again; the others when it has. */
static void call_waiting(struct limits_lane *lane)
{
    list_foreach(h, &lane->holds, struct limits_hold, in_lane)
    {
        if (h->waits_to_connect) {
            h->waits_to_connect = false;
            h->must_tell = true;
            limits_tell(h);
            list_remove(&h->in_lane); /* in turn */
            list_push_back(&lane->holds, &h->in_lane);
            return;
        }
    }
}

void limits_not_connected(struct limits_hold *h, usec_t now)
{
    struct limits *l = h->borrower->limits;
    limits_enter(l);
    limits_count_connect_ended(h);
    limits_seats_closed(l, h->lane, now);
    call_waiting(h->lane);
    limits_leave_lock(l);
}

void limits_count_disconnected(struct limits *l, struct limits_hold *h, usec_t now)
{
    assert(h->open > 0);
    h->open--;
    limits_seats_count(h->lane, 0, -1);
    limits_seats_closed(l, h->lane, now);
    atomic_fetch_sub_explicit(&h->lane->figure->connections, 1, memory_order_relaxed);
    ceiling_count_closed(&h->lane->connections, now);
}

void limits_disconnected(struct limits_hold *h, usec_t now)
{
    struct limits *l = h->borrower->limits;
    limits_enter(l);
    limits_count_disconnected(l, h, now);
    call_waiting(h->lane);
    limits_leave_lock(l);
}
