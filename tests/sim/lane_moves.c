#include "tests/sim/lane_moves.h"

#include "sched/transport.h"
#include "tests/sim/driver_state.h"
#include "tests/sim/require.h"

#include <errno.h>
#include <string.h>

static const struct sched_reason closure = {"5.7.1", "not from there"};

static struct sched_lane_key lane_key(unsigned site, unsigned source)
{
    return (struct sched_lane_key){flight_site(site), source};
}

/* Other sources and pools, with memory for all of it, some or none. */
void lane_moves_set_sources(struct driver *d)
{
    struct sched_source sources[SOURCES];
    uint64_t pools[POOLS];
    uint16_t weights[POOLS * SCHED_SOURCES_MAX] = {0};
    uint32_t count = 1 + take(d, 4), first = take(d, SOURCES);
    for (uint32_t i = 0; i < count; i++) {
        sources[i] = (struct sched_source){.id = (first + i) % SOURCES,
                                           .weight = (uint16_t)(1 + take(d, 3)),
                                           .families = (uint8_t)(1 + take(d, 3))};
    }
    uint32_t pool_count = take(d, POOLS + 1);
    for (uint32_t i = 0; i < pool_count; i++) {
        pools[i] = take(d, 1u << count);
        /* Of their own in some: by what was taken already, so that older inputs say what they said. */
        for (uint32_t k = 0; pools[i] % 3 == 0 && k < count; k++) {
            weights[i * SCHED_SOURCES_MAX + k] = (uint16_t)((pools[i] + first + 3 * k) % 5);
        }
    }
    driver_pull_pending(d);
    d->fail_after = take(d, 8) == 0 ? (long)take(d, 6) : -1;
    const struct sched_pools all = {pools, first % 4 == 0 ? NULL : weights, pool_count};
    int err = sched_set_sources(d->sched, sources, count, &all, d->now);
    REQUIRE(err == 0 || (d->fail_after == 0 && err == -ENOMEM));
    d->fail_after = -1;
    d->flights.was_reconfigured = true;
    flight_forget_lanes(&d->flights);
}

/* Most often one that is there. */
static unsigned take_source(struct driver *d)
{
    unsigned which = take(d, 2 * SOURCES);
    for (unsigned i = 0; which < SOURCES + 6 && i < SOURCES; i++) {
        unsigned source = (which + i) % SOURCES;
        if (source_find(d->sched, source) < SCHED_SOURCES_MAX) {
            return source;
        }
    }
    return which % SOURCES;
}

static void close_lane(struct driver *d)
{
    unsigned site = 1 + take(d, SITES - 1), source = take_source(d);
    unsigned span = take(d, 40);
    usec_t until = span == 0 ? USEC_NEVER : d->now + (span - 1) * USEC_PER_SEC;
    driver_pull_pending(d);
    if (sched_lane_close(d->sched, lane_key(site, source), until, &closure, d->now)) {
        d->flights.closed_until[site][source] = until > 0 ? until : 1;
    }
}

static void open_lane(struct driver *d, unsigned site, unsigned source)
{
    driver_pull_pending(d);
    if (sched_lane_open(d->sched, lane_key(site, source), d->now)) {
        d->flights.closed_until[site][source] = 0;
    }
}

static void close_for(struct driver *d, unsigned which)
{
    struct sched_destination *found = NULL;
    driver_pull_pending(d);
    list_foreach(known, &d->sched->destinations, struct sched_destination, all)
    {
        if (known->party->site != NULL && (found == NULL || which > 0)) {
            found = known;
            which -= which > 0;
        }
    }
    if (found == NULL) {
        return;
    }
    d->fail_after = take(d, 8) == 0 ? (long)take(d, 6) : -1;
    usec_t until = d->now + take(d, 20) * USEC_PER_SEC;
    struct slice name =
        take(d, 2) == 0 ? sched_destination_name(found) : sched_destination_nexthop(found);
    char copy[64]; /* it may go by that */
    REQUIRE(name.len <= sizeof(copy));
    memcpy(copy, name.data, name.len);
    unsigned site = (unsigned)site_key(found->party->site).len;
    (void)sched_close_for(d->sched, lane_key(site, take_source(d)), slice_make(copy, name.len),
                          until, &closure, d->now); /* it may not be there, nor the memory */
    d->fail_after = -1;
}

static void limit_lane(struct driver *d, unsigned site, unsigned source, bool is_limited)
{
    struct loan_of_lane *l = &d->flights.loans.lanes[site][source];
    driver_pull_pending(d);
    if (!sched_lane_attach(d->sched, lane_key(site, source), l, d->now)) {
        return;
    }
    driver_pull_pending(d); /* what is moved by the time */
    REQUIRE(sched_lane_user(d->sched, lane_key(site, source)) == l);
    REQUIRE(sched_lane_limit(d->sched, lane_key(site, source), is_limited, d->now));
    l->is_limited = is_limited;
    if (!is_limited) {
        driver_pull_pending(d);
        l->is_asked = false;
        l->is_held = false;
        l->owed = 0;
    }
}

static void set_ceiling(struct driver *d)
{
    unsigned site = 1 + take(d, SITES - 1), source = take_source(d);
    uint32_t connections = take(d, 5);
    uint32_t most = connections > 3 ? SCHED_NO_CONNECTIONS : connections;
    driver_pull_pending(d);
    if (sched_lane_ceiling(d->sched, lane_key(site, source), most, take(d, 4), d->now)) {
        d->flights.ceilings[site][source] = connections > 3 ? 1 : connections;
    }
}

static void answer_one(struct driver *d, unsigned site, unsigned source)
{
    struct loan_of_lane *l = &d->flights.loans.lanes[site][source];
    struct sched_grant g = {.messages = take(d, 5), .why = SCHED_WHY_PACE};
    g.connects = take(d, 2) == 0 ? SCHED_NO_BOUND_OF_CONNECTS : take(d, 3);
    g.recipients = take(d, 2) == 0 ? SCHED_NO_BOUND : 1 + take(d, 6);
    g.due = d->now + take(d, 3) * USEC_PER_SEC;
    g.from = (d->now == 0 ? 1 : d->now) + take(d, 2) * USEC_PER_SEC;
    g.per_second = take(d, 4) * 0.05;
    g.turn = g.due + take(d, 3) * 20 * USEC_PER_SEC;
    g.until = g.from + (1 + take(d, 3)) * USEC_PER_SEC / 2;
    g.is_ample = g.messages % 2 == 1 && g.from <= d->now;
    if (sched_lane_grant(d->sched, lane_key(site, source), &g, d->now)) {
        loan_lent(l, &g);
    } else {
        /* It has not asked, or the lane goes, which is told. */
        REQUIRE(!l->is_asked || site_find(d->sched, flight_site(site)) == NULL ||
                source_find(d->sched, source) == SCHED_SOURCES_MAX);
    }
}

void lane_moves_asked(struct driver *d, const struct sched_action *a)
{
    loan_asked(&d->flights.loans, a);
    REQUIRE(a->loan->lane.site.len < SITES && a->loan->lane.source < SOURCES);
    REQUIRE(a->lane_user == &d->flights.loans.lanes[a->loan->lane.site.len][a->loan->lane.source]);
    if (take(d, 3) != 0) {
        answer_one(d, (unsigned)a->loan->lane.site.len, a->loan->lane.source);
    }
}

void lane_moves_answer(struct driver *d)
{
    driver_pull_pending(d); /* which lanes are gone */
    for (unsigned site = 1; site < SITES; site++) {
        for (unsigned source = 0; source < SOURCES; source++) {
            if (d->flights.loans.lanes[site][source].is_asked) {
                answer_one(d, site, source);
            }
        }
    }
}

static void recall_window(struct driver *d)
{
    const struct sched_lane_key key = lane_key(1 + take(d, SITES - 1), take_source(d));
    uint32_t window = take(d, 40);
    driver_pull_pending(d);
    uint32_t before = sched_lane_window(d->sched, key);
    sched_lane_recall(d->sched, key, window, d->now);
    uint32_t after = sched_lane_window(d->sched, key);
    REQUIRE(before == after || before == 0 || after == 0); /* 0: it was unused, and is forgotten */
    REQUIRE(before > 0 || after == 0 || after <= window);
}

void lane_moves_step(struct driver *d)
{
    switch (take(d, 8)) {
    case 4:
    case 5:
        limit_lane(d, 1 + take(d, SITES - 1), take_source(d), true);
        break;
    case 6:
        limit_lane(d, 1 + take(d, SITES - 1), take_source(d), false);
        break;
    case 7:
        set_ceiling(d);
        break;
    case 0:
        lane_moves_set_sources(d);
        break;
    case 1:
        close_lane(d);
        break;
    case 2:
        open_lane(d, 1 + take(d, SITES - 1), take_source(d));
        break;
    case 3:
        recall_window(d);
        break;
    default:
        close_for(d, take(d, 8));
        break;
    }
    driver_check(d);
}

/* One source that reaches everything, and is closed nowhere. */
void lane_moves_end(struct driver *d)
{
    const struct sched_source source = {.id = 0, .weight = 1, .families = SITE_FAMILIES};
    driver_pull_pending(d);
    REQUIRE(sched_set_sources(d->sched, &source, 1, NULL, d->now) == 0);
    d->flights.was_reconfigured = true;
    flight_forget_lanes(&d->flights);
    for (unsigned site = 1; site < SITES; site++) {
        open_lane(d, site, 0);
        limit_lane(d, site, 0, false);
        for (unsigned i = 0; i < d->sched->shared.destinations; i++) {
            struct sched_destination *at =
                list_first(&d->sched->destinations, struct sched_destination, all);
            for (unsigned k = 0; k < i; k++) {
                at = list_next(at, struct sched_destination, all);
            }
            char name[64];
            size_t len = at->name_len;
            memcpy(name, at->name, len);
            (void)sched_close_for(d->sched, lane_key(site, 0), slice_make(name, len), d->now,
                                  &closure, d->now); /* it may not be at that site */
        }
    }
    driver_check(d);
}
