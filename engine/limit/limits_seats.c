/* Connections at a time, of which all nodes together may have so many: each connection of the lanes of a
 * meter has a seat, and this node has as many as its part of the limit. Called with the lock held by
 * whoever lends, counts connections or sets the part; must not know other nodes.
 *
 * What a connect is lent for is a seat from then on, so that they are never more than the part, but
 * for a part that becomes smaller: then holds are told to have fewer connections (limits_cap), and a
 * seat is given back when its connection has ended. Holds of one meter share the seats max-min fairly
 * over what they have and lack; what does not divide goes round every ten seconds. */
#include "engine/limit/limits_private.h"

/* What was closed may still be open for the receiver. */
#define SEATS_CLOSE_SPAN (100 * USEC_PER_MSEC)
#define LACKING_SPAN     USEC_PER_SEC
#define TURN             (10 * USEC_PER_SEC)

/* How the seats of this node divide over its holds. */
struct division {
    uint32_t level;     /* what each of the contested has at least */
    uint32_t rest;      /* seats above that, one for each of so many of them */
    uint32_t contested; /* holds that want more than `level` */
    bool is_short;      /* somebody has or lacks more than there is for him */
};

/* --- counting --------------------------------------------------------------------------------- */

static struct limits_seats *seats_of(const struct limits_lane *lane, unsigned owner)
{
    return lane->meters[owner] == NULL ? NULL : &lane->meters[owner]->seats;
}

void limits_seats_join(struct limits_lane *lane, unsigned owner)
{
    struct limits_seats *s = owner < LIMITS_SEATS ? seats_of(lane, owner) : NULL;
    if (s != NULL) {
        lane->seated[owner].lane = lane;
        list_push_back(&s->lanes, &lane->seated[owner].in_meter);
        s->open += lane->connections.open;
        s->connecting += lane->connecting;
    }
}

void limits_seats_leave(struct limits_lane *lane, unsigned owner)
{
    struct limits_seats *s = owner < LIMITS_SEATS ? seats_of(lane, owner) : NULL;
    if (s != NULL) {
        list_remove(&lane->seated[owner].in_meter);
        s->open -= lane->connections.open;
        s->connecting -= lane->connecting;
        list_foreach(h, &lane->holds, struct limits_hold, in_lane)
        {
            h->caps[owner].is_set = false;
        }
    }
}

void limits_seats_count(struct limits_lane *lane, int connecting, int open)
{
    for (unsigned i = 0; i < LIMITS_SEATS; i++) {
        struct limits_seats *s = seats_of(lane, i);
        if (s != NULL) {
            s->connecting += (uint32_t)connecting;
            s->open += (uint32_t)open;
        }
    }
}

static uint32_t held(struct limits_seats *s, usec_t now)
{
    if (now - s->closed_at >= SEATS_CLOSE_SPAN) {
        s->closing = 0;
    }
    return s->open + s->connecting + s->closing;
}

uint32_t limits_seats_held(struct limits_meter *m, usec_t now)
{
    return held(&m->seats, now);
}

static uint32_t lacks(const struct limits_hold *h, usec_t now)
{
    return h->lacking > 0 && now - h->lacking_at < LACKING_SPAN ? h->lacking : 0;
}

uint32_t limits_seats_lacking(struct limits_meter *m, usec_t now)
{
    uint32_t sum = 0;
    list_foreach(at, &m->seats.lanes, struct limits_seated, in_meter)
    {
        list_foreach(h, &at->lane->holds, struct limits_hold, in_lane)
        {
            sum += lacks(h, now);
        }
    }
    return sum;
}

/* --- among holds ------------------------------------------------------------------------------ */

static uint32_t has(const struct limits_hold *h)
{
    return h->open + h->connecting;
}

/* One round of it: what is left of the part for those that want more than the level. */
static uint32_t rest_of(const struct limits_meter *m, uint32_t level, uint32_t part, usec_t now,
                        uint32_t *ret_contested)
{
    uint32_t rest = part;
    *ret_contested = 0;
    list_foreach(at, &m->seats.lanes, const struct limits_seated, in_meter)
    {
        list_foreach(h, &at->lane->holds, const struct limits_hold, in_lane)
        {
            uint32_t want = has(h) + lacks(h, now);
            if (want > level) {
                ++*ret_contested;
            } else {
                rest -= want;
            }
        }
    }
    return rest;
}

/* As in engine/cluster/limit_share.c: those that want no more than the level are content, and what they
 * leave raises it for the others. */
static struct division divide(const struct limits_meter *m, usec_t now)
{
    const struct limits_part *p = m->parts[LIMITS_PART_CONNECTIONS];
    uint32_t part = p != NULL && now < p->all->until ? p->share : 0;
    struct division d = {.level = 0};
    for (bool is_settled = false; !is_settled;) {
        uint32_t rest = rest_of(m, d.level, part, now, &d.contested);
        is_settled = d.contested == 0 || rest / d.contested == d.level;
        if (d.contested > 0) {
            d.level = rest / d.contested;
            d.rest = rest % d.contested;
        }
    }
    d.is_short = d.contested > 0;
    return d;
}

/* rank: counts the contested holds before this one */
static uint32_t fair(const struct division *d, const struct limits_hold *h, usec_t now,
                     uint32_t *rank)
{
    uint32_t want = has(h) + lacks(h, now);
    if (want <= d->level) {
        return want;
    }
    uint32_t first = (uint32_t)((uint64_t)(now / TURN) * d->rest % d->contested);
    uint32_t place = (*rank + d->contested - first) % d->contested;
    ++*rank;
    return d->level + (place < d->rest);
}

static void set_cap(struct limits_hold *h, unsigned owner, bool is_set, uint32_t most)
{
    struct limits_cap *cap = &h->caps[owner];
    if (cap->is_set != is_set || (is_set && cap->most != most)) {
        *cap = (struct limits_cap){is_set, most};
        h->must_tell = true;
        limits_tell(h);
    }
}

static void call_waiting(struct limits_hold *h)
{
    if (h->waits_to_connect) {
        h->waits_to_connect = false;
        h->must_tell = true;
        limits_tell(h);
    }
}

/* must_call: a seat may have become free. Not when one was refused: they would call each other. */
static void fit(struct limits_meter *m, bool must_call, usec_t now)
{
    struct division d = divide(m, now);
    uint32_t rank = 0;
    list_foreach(at, &m->seats.lanes, struct limits_seated, in_meter)
    {
        list_foreach(h, &at->lane->holds, struct limits_hold, in_lane)
        {
            uint32_t most = fair(&d, h, now, &rank);
            set_cap(h, m->owner, has(h) > most, most);
            if (must_call && has(h) < most) {
                call_waiting(h);
            }
        }
    }
}

void limits_seats_fit(struct limits *l, struct limits_meter *m, usec_t now)
{
    (void)l;
    fit(m, true, now);
}

uint32_t limits_seats_room(struct limits_meter *m, struct limits_hold *h, uint32_t asked,
                           usec_t now)
{
    const struct limits_part *p = m->parts[LIMITS_PART_CONNECTIONS];
    uint32_t rank = 0, room = 0, taken = held(&m->seats, now), part = p == NULL ? 0 : p->share;
    h->lacking = asked;
    h->lacking_at = now;
    struct division d = divide(m, now);
    list_foreach(at, &m->seats.lanes, struct limits_seated, in_meter)
    {
        list_foreach(other, &at->lane->holds, struct limits_hold, in_lane)
        {
            uint32_t most = fair(&d, other, now, &rank);
            if (other == h && most > has(h) && part > taken) {
                room = most - has(h) < part - taken ? most - has(h) : part - taken;
            }
        }
    }
    room = room < asked ? room : asked;
    h->lacking = asked - room;
    return room;
}

usec_t limits_seats_refuse(struct limits *l, struct limits_meter *m, struct limits_hold *h,
                           uint32_t asked, usec_t now)
{
    const struct limits_seats *s = &m->seats;
    (void)l;
    h->lacking = asked;
    h->lacking_at = now;
    h->waits_to_connect = true;
    fit(m, false, now);
    return s->closing > 0 ? s->closed_at + SEATS_CLOSE_SPAN : now + LACKING_SPAN / 2;
}

void limits_seats_closed(struct limits *l, struct limits_lane *lane, usec_t now)
{
    for (unsigned i = 0; i < LIMITS_SEATS; i++) {
        struct limits_seats *s = seats_of(lane, i);
        if (s != NULL && s->limit > 0) {
            s->closing = held(s, now) - s->open - s->connecting + 1;
            s->closed_at = now;
            limits_seats_fit(l, lane->meters[i], now);
        }
    }
}

void limits_seats_cap(const struct limits_hold *h, struct limit_state *state)
{
    for (unsigned i = 0; i < LIMITS_SEATS; i++) {
        const struct limits_cap *cap = &h->caps[i];
        if (cap->is_set && (state->most_connections == 0 || cap->most < state->most_connections)) {
            state->most_connections = cap->most > 0 ? cap->most : 1;
        }
        state->is_emptied = state->is_emptied || (cap->is_set && cap->most == 0);
    }
}
