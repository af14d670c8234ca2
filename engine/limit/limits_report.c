/* What operators see of lanes, and their orders. Any thread; each call holds the lock for a page at
 * most. Must not decide what receivers mean. */
#include "engine/limit/limits_report.h"

#include "base/error.h"
#include "engine/limit/limits_private.h"

#include <assert.h>
#include <errno.h>

#define SPAN_MOST (366 * 86400 * USEC_PER_SEC)

const char *limit_cause_text(enum limit_cause cause)
{
    static const char *const texts[LIMIT_CAUSE_COUNT] = {
        [LIMIT_NO_CAUSE] = "",
        [LIMIT_BY_CLOSURE] = "closed",
        [LIMIT_BY_PAUSE] = "paused",
        [LIMIT_BY_PACE] = "pace",
        [LIMIT_BY_CEILING] = "ceiling",
        [LIMIT_BY_RATE] = "rate",
        [LIMIT_BY_QUOTA] = "quota",
        [LIMIT_BY_SHARE] = "share",
        [LIMIT_BY_CONNECTIONS] = "connections",
    };
    return texts[cause];
}

const char *limit_owner_text(enum limit_owner owner)
{
    static const char *const texts[LIMIT_OWNER_COUNT] = {
        [LIMIT_OF_LANE] = "lane",     [LIMIT_OF_SITE] = "site",     [LIMIT_OF_SOURCE] = "source",
        [LIMIT_OF_TENANT] = "tenant", [LIMIT_OF_DOMAIN] = "domain",
    };
    return texts[owner];
}

/* --- reports ---------------------------------------------------------------------------------- */

/* Monotonic times as wall times of now. */
struct moment {
    usec_t now, wall;
};

static usec_t wall_of(const struct moment *m, usec_t time)
{
    return time == 0 || time == USEC_NEVER ? 0 : m->wall + (time - m->now);
}

static void show_fact(const struct moment *m, const struct limits_fact *fact,
                      struct limit_fact *ret)
{
    *ret = (struct limit_fact){0};
    if (fact != NULL && fact->times > 0) {
        ret->since = wall_of(m, fact->since);
        ret->times = fact->times;
        limits_copy_text(ret->rule, sizeof(ret->rule), slice_of(fact->rule));
        limits_copy_text(ret->text, sizeof(ret->text), slice_of(fact->text));
    }
}

static void show_learned(const struct moment *m, const struct limits_learned *learned,
                         struct limit_lane_report *ret)
{
    ret->is_ordered = learned->is_ordered;
    ret->is_probing = learned->is_closed && m->now >= learned->closed_until;
    ret->paused_until = learned->paused_until > m->now ? wall_of(m, learned->paused_until) : 0;
    ret->closed_destinations = learned->destination_count;
    for (unsigned i = 0; i < LIMITS_UNITS; i++) {
        const struct pace *p = learned->paces[i];
        if (p != NULL && p->phase != PACE_FREE) {
            ret->paces[i] = p->rate;
            ret->pace_until[i] = p->phase == PACE_PAUSED ? wall_of(m, p->until) : 0;
            show_fact(m, learned->facts[LIMITS_FACT_PACE + i], &ret->pace_facts[i]);
        }
    }
    if (learned->connections.limit > 0) {
        show_fact(m, learned->facts[LIMITS_FACT_CONNECTIONS], &ret->connections_fact);
    }
    if (learned->session.limit > 0) {
        show_fact(m, learned->facts[LIMITS_FACT_SESSION], &ret->session_fact);
    }
    if (learned->is_closed) {
        show_fact(m, learned->facts[LIMITS_FACT_CLOSED], &ret->closed_fact);
    }
    if (ret->paused_until > 0) {
        show_fact(m, learned->facts[LIMITS_FACT_PAUSED], &ret->paused_fact);
    }
}

static void show_meter(struct limits_meter *m, usec_t wall, struct limit_rates *ret,
                       uint64_t *ret_left)
{
    *ret_left = UINT64_MAX;
    if (m != NULL) {
        ret->messages = *limits_meter_rule(m, PACE_MESSAGES);
        ret->recipients = *limits_meter_rule(m, PACE_RECIPIENTS);
        ret->connects = *limits_meter_rule(m, PACE_CONNECTS);
        ret->quota = m->quota.rule;
        ret->connections = m->seats.limit;
        *ret_left = limits_quota_left(m, wall);
    }
}

static void show_lane(const struct moment *m, const struct limits_lane *lane,
                      struct limit_lane_report *ret)
{
    *ret = (struct limit_lane_report){.id = lane->id};
    limits_copy_text(ret->source, sizeof(ret->source), limits_lane_source(lane));
    limits_copy_text(ret->site, sizeof(ret->site), limits_place_site(lane->place));
    limits_copy_text(ret->hosts, sizeof(ret->hosts), limits_place_hosts(lane->place));
    ret->state = limits_lane_state(lane, m->now);
    ret->state.until = wall_of(m, ret->state.until);
    ret->waits_for = lane->wait.why;
    ret->waits_whose = lane->wait.whose;
    ret->waits_until = wall_of(m, lane->wait.turn);
    ret->open_connections = lane->connections.open;
    ret->last_accepted =
        wall_of(m, atomic_load_explicit(&lane->last_accepted, memory_order_relaxed));
    list_foreach(h, &lane->holds, const struct limits_hold, in_lane)
    {
        ret->holds++;
    }
    for (unsigned i = 0; i <= LIMIT_OF_SOURCE; i++) {
        show_meter(lane->meters[i], m->wall, &ret->rates[i], &ret->quota_left[i]);
    }
    if (lane->learned != NULL) {
        show_learned(m, lane->learned, ret);
    }
}

uint32_t limits_report(struct limits *l, uint32_t *at, struct limit_lane_report *ret, uint32_t room,
                       usec_t now, usec_t wall)
{
    const struct moment m = {now, wall};
    uint32_t count = 0;
    assert(room > 0 && room <= LIMITS_PAGE_MAX);
    limits_enter(l);
    while (count < room && *at < l->slot_end) {
        const struct limits_lane *lane = l->lanes[(*at)++];
        if (lane != NULL) {
            show_lane(&m, lane, &ret[count++]);
        }
    }
    limits_leave_lock(l);
    return count;
}

/* At most that of limits_report_is_troubled, and cheaper to find out. */
static bool may_be_troubled(const struct limits_lane *lane, usec_t now)
{
    const struct limits_learned *learned = lane->learned;
    return learned != NULL && (learned->is_closed || lane->is_paced ||
                               learned->paused_until > now || learned->connections.limit > 0 ||
                               learned->session.limit > 0 || learned->destination_count > 0);
}

bool limits_report_is_troubled(const struct limit_lane_report *r)
{
    bool is_paced = false;
    for (unsigned i = 0; i < LIMIT_PACES; i++) {
        is_paced = is_paced || r->paces[i] > 0;
    }
    return is_paced || r->state.is_closed || r->paused_until > 0 || r->state.most_connections > 0 ||
           r->state.most_messages > 0 || r->closed_destinations > 0;
}

bool limits_report_troubled(struct limits *l, uint32_t *at, struct limit_lane_page *page,
                            usec_t now, usec_t wall)
{
    enum { LOOKED_AT = 4096 }; /* lanes while the lock is held */
    const struct moment m = {now, wall};
    uint32_t looked = 0;
    page->count = 0;
    assert(page->room > 0 && page->room <= LIMITS_PAGE_MAX);
    limits_enter(l);
    bool is_there = *at < l->slot_end;
    for (; page->count < page->room && *at < l->slot_end && looked < LOOKED_AT; looked++) {
        const struct limits_lane *lane = l->lanes[(*at)++];
        if (lane != NULL && may_be_troubled(lane, now)) {
            show_lane(&m, lane, &page->lanes[page->count]);
            page->count += limits_report_is_troubled(&page->lanes[page->count]);
        }
    }
    limits_leave_lock(l);
    return is_there;
}

bool limits_report_lane(struct limits *l, const struct limit_key *key, usec_t now, usec_t wall,
                        struct limit_lane_report *ret)
{
    const struct moment m = {now, wall};
    limits_enter(l);
    const struct limits_lane *lane = limits_lane_find(l, key);
    if (lane != NULL) {
        show_lane(&m, lane, ret);
    }
    limits_leave_lock(l);
    return lane != NULL;
}

uint32_t limits_report_destinations(struct limits *l, const struct limit_key *key,
                                    struct limit_destination_report *ret, uint32_t room, usec_t now,
                                    usec_t wall)
{
    const struct moment m = {now, wall};
    uint32_t count = 0;
    limits_enter(l);
    const struct limits_lane *lane = limits_lane_find(l, key);
    if (lane != NULL && lane->learned != NULL) {
        list_foreach(c, &lane->learned->destinations, const struct limits_closed, in_lane)
        {
            if (c->until > now && count < room) {
                struct limit_destination_report *d = &ret[count++];
                limits_copy_text(d->destination, sizeof(d->destination),
                                 slice_make(c->name, c->name_len));
                limits_copy_text(d->reason, sizeof(d->reason), slice_of(c->reason));
                d->since = wall_of(&m, c->until - c->pause);
                d->until = wall_of(&m, c->until);
            }
        }
    }
    limits_leave_lock(l);
    return count;
}

void limits_totals(struct limits *l, struct limits_totals *ret)
{
    limits_enter(l);
    *ret = (struct limits_totals){.sites = l->place_table.count,
                                  .lanes = l->lane_table.count,
                                  .meters = l->meter_table.count,
                                  .closed_lanes = l->closed_lanes,
                                  .paced_lanes = l->paced_lanes,
                                  .closed_destinations = l->destination_total};
    limits_leave_lock(l);
}

/* --- orders ----------------------------------------------------------------------------------- */

static void forget_paces(struct limits_learned *learned)
{
    for (unsigned i = 0; i < LIMITS_UNITS; i++) {
        if (learned->paces[i] != NULL) {
            pace_forget(learned->paces[i]);
        }
        limits_fact_end(learned, LIMITS_FACT_PACE + i);
    }
}

static void open_by_order(struct limits *l, struct limits_lane *lane, usec_t now) ON_ROLE(l->lock)
{
    struct limits_learned *learned = lane->learned;
    if (learned == NULL) {
        return;
    }
    limits_open(l, lane, LIMIT_DONE_BY_ORDER, now);
    limits_open_destinations(l, lane, now);
    forget_paces(learned);
    learned->connections = learned->session = (struct ceiling){0};
    learned->paused_until = 0;
    for (unsigned i = 0; i < LIMITS_FACT_COUNT; i++) {
        limits_fact_end(learned, i);
    }
}

static void set_pace(struct limits *l, struct limits_lane *lane, const struct limit_order *order,
                     usec_t now) ON_ROLE(l->lock)
{
    struct pace *p = limits_pace_get(l, lane, PACE_MESSAGES, now);
    if (p != NULL) {
        pace_set(p, order->rate, now);
        limits_fact_end(lane->learned, LIMITS_FACT_PACE);
        limits_fact_note(lane->learned, LIMITS_FACT_PACE, SLICE(""), order->reason, now);
    }
}

static void tell_order(struct limits *l, const struct limits_lane *lane,
                       const struct limit_order *order, usec_t now) ON_ROLE(l->lock)
{
    static const enum limit_reaction_kind kinds[] = {
        [LIMIT_ORDER_OPEN] = LIMIT_REACTED_OPENED,
        [LIMIT_ORDER_CLOSE] = LIMIT_REACTED_CLOSED,
        [LIMIT_ORDER_PACE] = LIMIT_REACTED_PACE,
        [LIMIT_ORDER_UNPACE] = LIMIT_REACTED_UNPACED,
    };
    limits_reacted(l, lane,
                   &(struct limits_reacted){
                       .kind = kinds[order->kind],
                       .cause = LIMIT_DONE_BY_ORDER,
                       .text = order->reason,
                       .span = order->kind == LIMIT_ORDER_CLOSE ? order->span : 0,
                       .value = order->kind == LIMIT_ORDER_PACE ? order->rate : 0,
                       .unit = PACE_MESSAGES,
                   },
                   now);
}

static void carry_out_order(struct limits *l, struct limits_lane *lane,
                            const struct limit_order *order, usec_t now) ON_ROLE(l->lock)
{
    if (limits_lane_learned(lane) == NULL) {
        return;
    }
    if (order->kind == LIMIT_ORDER_OPEN) {
        lane->place->closed_until = 0;
        open_by_order(l, lane, now);
    } else if (order->kind == LIMIT_ORDER_CLOSE) {
        limits_close(l, lane, order->span, true, now);
        limits_fact_end(lane->learned, LIMITS_FACT_CLOSED);
        limits_fact_note(lane->learned, LIMITS_FACT_CLOSED, SLICE(""), order->reason, now);
    } else if (order->kind == LIMIT_ORDER_PACE) {
        set_pace(l, lane, order, now);
    } else {
        forget_paces(lane->learned);
    }
    tell_order(l, lane, order, now);
    limits_lane_changed(l, lane, true, now);
}

int limits_order(struct limits *l, const struct limit_key *key, const struct limit_order *order,
                 usec_t now)
{
    bool is_sound = true;
    if (order->kind == LIMIT_ORDER_CLOSE) {
        is_sound = order->span > 0 && order->span <= SPAN_MOST;
    } else if (order->kind == LIMIT_ORDER_PACE) {
        is_sound = order->rate >= PACE_LEAST && order->rate <= PACE_MOST;
    }
    if (!is_sound) {
        return ERR_SYNTAX;
    }
    if (key->source.len > LIMITS_NAME_MAX || key->site.len > LIMITS_NAME_MAX ||
        key->hosts.len > LIMITS_NAME_MAX) {
        return -ENAMETOOLONG;
    }
    struct limits_lane *lane;
    limits_enter(l);
    int err = limits_lane_get(l, key, now, &lane);
    if (err == 0) {
        carry_out_order(l, lane, order, now);
        err = lane->learned == NULL ? -ENOMEM : 0;
    }
    limits_leave_lock(l);
    return err;
}
