/* Owns struct limits, its borrowers and what they hold. Called by the engine at start and stop, and
 * by each scheduler thread about the lanes of its cores; must not know what a receiver said. */
#include "engine/limit/limits.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/history.h"
#include "engine/limit/limits_private.h"
#include "engine/limit/limits_report.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

ROLE_UNCHECKED void limits_enter(struct limits *l)
{
    int err = pthread_mutex_lock(&l->lock.mutex);
    assert(err == 0);
    (void)err;
}

ROLE_UNCHECKED void limits_leave_lock(struct limits *l)
{
    int err = pthread_mutex_unlock(&l->lock.mutex);
    assert(err == 0);
    (void)err;
}

/* --- creation --------------------------------------------------------------------------------- */

static int init_tables(struct limits *l)
{
    int err = limits_table_init(&l->lane_table, l->config.lanes_max);
    if (err == 0) {
        err = limits_table_init(&l->place_table, l->config.sites_max);
    }
    if (err == 0) {
        err = limits_table_init(&l->meter_table, l->config.lanes_max);
    }
    l->lanes = calloc(l->config.lanes_max, sizeof(struct limits_lane *));
    l->free_slots = calloc(l->config.lanes_max, sizeof(*l->free_slots));
    l->reactions = history_new(LIMITS_REACTIONS_KEPT, sizeof(struct limit_reaction));
    bool has_all = l->lanes != NULL && l->free_slots != NULL && l->reactions != NULL;
    return has_all ? err : -ENOMEM;
}

struct limits *limits_new(const struct limits_config *config)
{
    struct limits *l = calloc(1, sizeof(*l));
    if (l == NULL) {
        return NULL;
    }
    l->config = *config;
    l->config.sites_max = config->sites_max > 0 ? config->sites_max : LIMITS_SITES_MAX;
    l->config.lanes_max = config->lanes_max > 0 ? config->lanes_max : LIMITS_LANES_MAX;
    l->seed = config->seed != 0 ? config->seed : hash_random_seed();
    list_init(&l->idle_lanes);
    list_init(&l->idle_meters);
    int err = pthread_mutex_init(&l->lock.mutex, NULL);
    err = err != 0 ? err : pthread_mutex_init(&l->saving, NULL);
    assert(err == 0); /* there is nothing that plain ones could lack */
    err = limits_figures_init(l);
    err = err != 0 ? err : init_tables(l);
    if (err != 0) {
        limits_free(l);
        return NULL;
    }
    return l;
}

static void free_contents(struct limits *l)
{
    limits_enter(l);
    while (!list_is_empty(&l->idle_lanes)) {
        limits_free_lane(l, list_first(&l->idle_lanes, struct limits_lane, idle));
    }
    while (!list_is_empty(&l->idle_meters)) {
        limits_meter_free(l, list_first(&l->idle_meters, struct limits_meter, idle));
    }
    assert(l->lane_table.count == 0 && l->meter_table.count == 0 && l->place_table.count == 0);
    limits_leave_lock(l);
}

void limits_free(struct limits *l)
{
    if (l == NULL) {
        return;
    }
    free_contents(l);
    limits_table_fini(&l->lane_table);
    limits_table_fini(&l->place_table);
    limits_table_fini(&l->meter_table);
    limits_figures_fini(l);
    limits_parts_fini(l);
    history_free(l->reactions);
    free(l->lanes);
    free(l->free_slots);
    (void)pthread_mutex_destroy(&l->saving); /* nobody holds either */
    (void)pthread_mutex_destroy(&l->lock.mutex);
    free(l);
}

void limits_set_memory_span(struct limits *l, usec_t lane_memory)
{
    limits_enter(l);
    l->config.lane_memory = lane_memory;
    limits_leave_lock(l);
}

struct limits_borrower *limits_borrower_new(struct limits *l,
                                            const struct limits_borrower_config *config)
{
    assert(config->number < LOAN_BORROWERS_MAX);
    struct limits_borrower *b = calloc(1, sizeof(*b));
    if (b != NULL) {
        b->limits = l;
        b->config = *config;
        list_init(&b->changed);
    }
    return b;
}

void limits_borrower_free(struct limits_borrower *b)
{
    if (b != NULL) {
        assert(b->holds == 0);
        free(b);
    }
}

/* --- holds ------------------------------------------------------------------------------------ */

/* The meter of a lane that these rates are for; none where nobody brings any. */
static int set_meter(struct limits *l, struct limits_lane *lane, enum limit_owner owner,
                     struct limits_meter_rules rules, usec_t now) ON_ROLE(l->lock)
{
    struct limits_meter *old = lane->meters[owner], *m = NULL;
    char both[LIMITS_METER_NAME_MAX];
    struct slice name = limits_lane_source(lane), site = limits_place_site(lane->place);
    if (owner == LIMIT_OF_SITE) {
        name = site;
    } else if (owner == LIMIT_OF_LANE) {
        memcpy(both, name.data, name.len);
        both[name.len] = '\0';
        memcpy(both + name.len + 1, site.data, site.len);
        name = slice_make(both, name.len + 1 + site.len);
    }
    rules.key = (struct limit_meter_key){owner, name};
    bool is_wanted = old != NULL || !limit_rates_are_none(rules.rates);
    int err = is_wanted ? limits_meter_take(l, &rules, now, &m) : 0;
    if (err != 0) {
        return err;
    }
    if (old != NULL) {
        limits_meter_drop(l, old);
    }
    bool is_limited = m != NULL && limits_meter_is_limited(m);
    if (m != NULL && !is_limited) {
        limits_meter_drop(l, m);
    }
    m = is_limited ? m : NULL;
    if (m == NULL || m != old || m->seats.limit == 0) { /* else holds keep what they were told */
        limits_seats_leave(lane, owner);
        lane->meters[owner] = m;
        limits_seats_join(lane, owner);
    }
    return 0;
}

static int set_rules(struct limits *l, struct limits_lane *lane, const struct limit_rules *rules,
                     usec_t now) ON_ROLE(l->lock)
{
    const struct limit_rates *rates[] = {[LIMIT_OF_LANE] = &rules->lane,
                                         [LIMIT_OF_SITE] = &rules->site,
                                         [LIMIT_OF_SOURCE] = &rules->source};
    int err = 0;
    lane->block_pause = rules->block_pause;
    lane->block_grace = rules->block_grace;
    lane->memory = rules->memory;
    for (unsigned i = 0; i <= LIMIT_OF_SOURCE && err == 0; i++) {
        const struct limits_meter_rules of = {.rates = rates[i], .serial = rules->serial};
        err = set_meter(l, lane, i, of, now);
    }
    limits_lane_changed(l, lane, false, now);
    return err;
}

static void add_hold(struct limits_borrower *b, struct limits_hold *h, struct limits_lane *lane)
{
    h->borrower = b;
    h->lane = lane;
    list_init(&h->changed);
    list_remove(&lane->idle);
    list_push_back(&lane->holds, &h->in_lane);
    b->holds++;
}

int limits_hold(struct limits_borrower *b, const struct limit_key *key,
                const struct limit_rules *rules, void *user, usec_t now, struct limits_hold **ret)
{
    struct limits *l = b->limits;
    bool is_named = key->source.len <= LIMITS_NAME_MAX && key->site.len <= LIMITS_NAME_MAX &&
                    key->hosts.len <= LIMITS_NAME_MAX;
    struct limits_hold *h = is_named ? calloc(1, sizeof(*h)) : NULL;
    if (h == NULL) {
        return is_named ? -ENOMEM : -ENAMETOOLONG;
    }
    struct limits_lane *lane;
    limits_enter(l);
    limits_forget_idle(l, now);
    int err = limits_lane_get(l, key, now, &lane);
    if (err == 0) {
        err = set_rules(l, lane, rules, now);
    }
    if (err == 0) {
        add_hold(b, h, lane);
        h->user = user;
        limits_tell_first(h);
    }
    limits_leave_lock(l);
    if (err != 0) {
        free(h);
        return err;
    }
    *ret = h;
    return 0;
}

int limits_set_rules(struct limits_hold *h, const struct limit_rules *rules, usec_t now)
{
    struct limits *l = h->borrower->limits;
    limits_enter(l);
    int err = set_rules(l, h->lane, rules, now);
    limits_lane_changed(l, h->lane, true, now); /* who waits may be due sooner */
    limits_leave_lock(l);
    return err;
}

static void forget_borrower(struct limits_hold *h)
{
    unsigned borrower = h->borrower->config.number;
    struct limits_lane *lane = h->lane;
    for (unsigned i = 0; i < LIMITS_UNITS; i++) {
        if (lane->meters[LIMIT_OF_LANE] != NULL) {
            rate_leave(&lane->meters[LIMIT_OF_LANE]->rates[i], borrower);
        }
        if (lane->learned != NULL && lane->learned->paces[i] != NULL) {
            pace_leave(lane->learned->paces[i], borrower);
        }
    }
}

void limits_leave(struct limits_hold *h)
{
    struct limits *l = h->borrower->limits;
    limits_enter(l);
    forget_borrower(h);
    h->waits_to_connect = false;
    limits_leave_lock(l);
}

void limits_release(struct limits_hold *h, usec_t now)
{
    if (h == NULL) {
        return;
    }
    struct limits *l = h->borrower->limits;
    struct limits_lane *lane = h->lane;
    limits_enter(l);
    forget_borrower(h);
    limits_drop_loan(l, h);
    while (h->open > 0) {
        limits_count_disconnected(l, h, now);
    }
    limits_seats_count(lane, -(int)h->connecting, 0);
    lane->connecting -= h->connecting;
    if (lane->learned != NULL && lane->learned->prober == h) {
        limits_probe_ended(l, lane, now);
    }
    list_remove(&h->changed);
    list_remove(&h->in_lane);
    if (list_is_empty(&lane->holds)) {
        lane->idle_since = now;
        list_push_back(&l->idle_lanes, &lane->idle);
        limits_forget_idle(l, now);
    }
    limits_leave_lock(l);
    h->borrower->holds--;
    free(h);
}

void limits_tell_again(struct limits_hold *h)
{
    struct limits *l = h->borrower->limits;
    limits_enter(l);
    h->destination_seen = 0;
    limits_tell_first(h);
    limits_leave_lock(l);
}

uint64_t limits_hold_id(const struct limits_hold *h)
{
    return h->lane->id;
}
