/* Lanes and the places that they lead to: found by name, made, forgotten. Called with the lock held;
 * must not know what a receiver said.
 *
 * A lane without holds stays for its lane_memory, longer while it is closed, in a list with the longest
 * idle first: whoever adds a lane looks at a few of the front, so there is never a walk over all. One
 * that stands there too long, behind another that is kept for longer, is as new when it is wanted. */
#include "base/error.h"
#include "base/hash.h"
#include "engine/limit/limits_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SWEEP_STEPS 4

static uint64_t hash_place(const struct limits *l, const struct limit_key *key)
{
    return hash_bytes(key->hosts.data, key->hosts.len,
                      hash_bytes(key->site.data, key->site.len, l->seed));
}

static uint64_t hash_lane(const struct limit_key *key, uint64_t place)
{
    return hash_bytes(key->source.data, key->source.len, place);
}

static bool is_place(const struct limits_place *p, const struct limit_key *key)
{
    return slice_eq(limits_place_site(p), key->site) && slice_eq(limits_place_hosts(p), key->hosts);
}

static struct limits_place *find_place(struct limits *l, const struct limit_key *key, uint64_t hash)
    ON_ROLE(l->lock)
{
    struct limits_link *at = limits_table_chain(&l->place_table, hash);
    for (; at != NULL; at = at->next) {
        struct limits_place *p = container_of(at, struct limits_place, link);
        if (at->hash == hash && is_place(p, key)) {
            return p;
        }
    }
    return NULL;
}

static struct limits_lane *find_lane(struct limits *l, const struct limit_key *key, uint64_t hash)
    ON_ROLE(l->lock)
{
    struct limits_link *at = limits_table_chain(&l->lane_table, hash);
    for (; at != NULL; at = at->next) {
        struct limits_lane *lane = container_of(at, struct limits_lane, link);
        if (at->hash == hash && slice_eq(limits_lane_source(lane), key->source) &&
            is_place(lane->place, key)) {
            return lane;
        }
    }
    return NULL;
}

struct limits_lane *limits_lane_find(struct limits *l, const struct limit_key *key)
{
    return find_lane(l, key, hash_lane(key, hash_place(l, key)));
}

/* --- places ----------------------------------------------------------------------------------- */

static int take_place(struct limits *l, const struct limit_key *key, uint64_t hash,
                      struct limits_place **ret) ON_ROLE(l->lock)
{
    *ret = find_place(l, key, hash);
    if (*ret != NULL) {
        return 0;
    }
    if (l->place_table.count >= l->config.sites_max) {
        return ERR_LIMIT;
    }
    struct limits_place *p = calloc(1, sizeof(*p) + key->site.len + key->hosts.len);
    if (p == NULL) {
        return -ENOMEM;
    }
    list_init(&p->lanes);
    p->site_len = key->site.len;
    p->hosts_len = key->hosts.len;
    memcpy(p->text, key->site.data, key->site.len);
    if (key->hosts.len > 0) { /* a site of one destination alone has none, and no address of them */
        memcpy(p->text + p->site_len, key->hosts.data, key->hosts.len);
    }
    limits_table_add(&l->place_table, &p->link, hash);
    *ret = p;
    return 0;
}

static void leave_place(struct limits *l, struct limits_place *p) ON_ROLE(l->lock)
{
    if (list_is_empty(&p->lanes)) {
        limits_table_remove(&l->place_table, &p->link);
        free(p);
    }
}

/* --- lanes ------------------------------------------------------------------------------------ */

static void take_slot(struct limits *l, struct limits_lane *lane) ON_ROLE(l->lock)
{
    lane->slot = l->free_slot_count > 0 ? l->free_slots[--l->free_slot_count] : l->slot_end++;
    l->lanes[lane->slot] = lane;
}

static struct limits_lane *make_lane(struct limits *l, const struct limit_key *key,
                                     struct limits_place *place, usec_t now) ON_ROLE(l->lock)
{
    struct limits_lane *lane = calloc(1, sizeof(*lane) + key->source.len);
    if (lane == NULL) {
        return NULL;
    }
    lane->id = ++l->next_id;
    lane->place = place;
    lane->source_len = key->source.len;
    memcpy(lane->source, key->source.data, key->source.len);
    list_init(&lane->holds);
    list_push_back(&place->lanes, &lane->in_place);
    list_push_back(&l->idle_lanes, &lane->idle);
    lane->idle_since = now;
    lane->figure = limits_figure_of_lane(l, key);
    limits_figure_move_lane(lane, LIMIT_LANES);
    take_slot(l, lane);
    limits_table_add(&l->lane_table, &lane->link, hash_lane(key, place->link.hash));
    return lane;
}

/* Room for one more: of those that nobody holds the longest idle goes. */
static bool make_room(struct limits *l) ON_ROLE(l->lock)
{
    if (list_is_empty(&l->idle_lanes)) {
        return false;
    }
    limits_free_lane(l, list_first(&l->idle_lanes, struct limits_lane, idle));
    return true;
}

static usec_t memory_of(const struct limits *l, const struct limits_lane *lane) ON_ROLE(l->lock)
{
    usec_t own = lane->memory < 0 ? 0 : lane->memory;
    return lane->memory == 0 ? l->config.lane_memory : own;
}

/* What ends by itself, and is not over before that. */
static bool is_kept(const struct limits_lane *lane, usec_t now)
{
    const struct limits_learned *learned = lane->learned;
    return learned != NULL &&
           ((learned->is_closed && learned->closed_until > now) || learned->paused_until > now);
}

static bool is_over(const struct limits *l, const struct limits_lane *lane, usec_t now)
    ON_ROLE(l->lock)
{
    return now - lane->idle_since >= memory_of(l, lane) && !is_kept(lane, now);
}

int limits_lane_get(struct limits *l, const struct limit_key *key, usec_t now,
                    struct limits_lane **ret)
{
    uint64_t hash = hash_place(l, key);
    *ret = find_lane(l, key, hash_lane(key, hash));
    if (*ret != NULL && list_is_linked(&(*ret)->idle) && is_over(l, *ret, now)) {
        limits_free_lane(l, *ret);
        *ret = NULL;
    }
    if (*ret != NULL) {
        return 0;
    }
    if (l->lane_table.count >= l->config.lanes_max && !make_room(l)) {
        return ERR_LIMIT;
    }
    struct limits_place *place;
    int err = take_place(l, key, hash, &place);
    while (err == ERR_LIMIT && make_room(l)) {
        err = take_place(l, key, hash, &place);
    }
    if (err != 0) {
        return err;
    }
    *ret = make_lane(l, key, place, now);
    if (*ret == NULL) {
        leave_place(l, place);
        return -ENOMEM;
    }
    limits_alone_inherit(l, *ret, now);
    if (place->closed_until > now && limits_lane_learned(*ret) != NULL) {
        limits_close(l, *ret, place->closed_until - now, false, now);
        limits_fact_note((*ret)->learned, LIMITS_FACT_CLOSED, SLICE(""),
                         SLICE("a rule has closed all lanes of the site"), now);
    }
    return 0;
}

struct limits_learned *limits_lane_learned(struct limits_lane *lane)
{
    if (lane->learned == NULL) {
        lane->learned = calloc(1, sizeof(*lane->learned));
        if (lane->learned != NULL) {
            list_init(&lane->learned->destinations);
            list_init(&lane->learned->counters);
            list_init(&lane->learned->windows);
        }
    }
    return lane->learned;
}

static void free_learned(struct limits *l, struct limits_lane *lane) ON_ROLE(l->lock)
{
    struct limits_learned *learned = lane->learned;
    if (learned == NULL) {
        return;
    }
    limits_free_destinations(l, lane);
    limits_windows_drop(learned);
    list_foreach_safe(c, &learned->counters, struct limits_counter, in_lane)
    {
        free(c);
    }
    for (unsigned i = 0; i < LIMITS_UNITS; i++) {
        free(learned->paces[i]);
    }
    for (unsigned i = 0; i < LIMITS_FACT_COUNT; i++) {
        free(learned->facts[i]);
    }
    free(learned);
    l->changes++;
}

void limits_free_lane(struct limits *l, struct limits_lane *lane)
{
    limits_lane_uncount(l, lane);
    limits_figure_leave_lane(lane);
    free_learned(l, lane);
    for (unsigned i = 0; i <= LIMIT_OF_SOURCE; i++) {
        if (lane->meters[i] != NULL) {
            limits_seats_leave(lane, i);
            limits_meter_drop(l, lane->meters[i]);
        }
    }
    limits_table_remove(&l->lane_table, &lane->link);
    l->lanes[lane->slot] = NULL;
    l->free_slots[l->free_slot_count++] = lane->slot;
    list_remove(&lane->idle);
    list_remove(&lane->in_place);
    leave_place(l, lane->place);
    free(lane);
}

void limits_forget_idle(struct limits *l, usec_t now)
{
    for (unsigned i = 0; i < SWEEP_STEPS && !list_is_empty(&l->idle_lanes); i++) {
        struct limits_lane *lane = list_first(&l->idle_lanes, struct limits_lane, idle);
        if (now - lane->idle_since < memory_of(l, lane)) {
            break;
        }
        if (is_kept(lane, now)) {
            lane->idle_since = now;
            list_remove(&lane->idle);
            list_push_back(&l->idle_lanes, &lane->idle);
        } else {
            limits_free_lane(l, lane);
        }
    }
    limits_meter_forget_idle(l, now);
}
