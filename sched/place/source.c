/* Sources and pools, see sched/place/source.h: the call that changes them under lanes, parties and
 * connections. A step for each site and each destination, once for each reload. */
#include "sched/place/source.h"

#include "sched/parking.h"
#include "sched/place/lane_set.h"
#include "sched/place/site.h"
#include "sched/transport.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define FAMILY_IPV4 1
#define FAMILY_IPV6 2

static void put_at(struct sched *s, uint32_t place, const struct sched_source *given)
{
    struct sources *t = &s->sources;
    uint64_t bit = source_bit(place);
    t->at[place].given = *given;
    t->ipv4 = (given->families & FAMILY_IPV4) != 0 ? t->ipv4 | bit : t->ipv4 & ~bit;
    t->ipv6 = (given->families & FAMILY_IPV6) != 0 ? t->ipv6 | bit : t->ipv6 & ~bit;
}

void source_init(struct sched *s)
{
    s->sources = (struct sources){.there = 1};
    put_at(s, 0, &(struct sched_source){.weight = 1, .families = SITE_FAMILIES});
}

void source_fini(struct sched *s)
{
    if (s->sources.pools != NULL) {
        s->host.release(s->host.ctx, s->sources.pools);
    }
    if (s->sources.weights != NULL) {
        s->host.release(s->host.ctx, s->sources.weights);
    }
    s->sources.pools = NULL;
    s->sources.weights = NULL;
}

const uint16_t *source_weights(const struct sched *s, uint16_t pool)
{
    if (s->sources.weights == NULL || pool >= s->sources.pool_count) {
        return NULL;
    }
    const uint16_t *of_pool = s->sources.weights + (size_t)pool * SCHED_SOURCES_MAX;
    for (uint32_t i = 0; i < SCHED_SOURCES_MAX; i++) {
        if (of_pool[i] != 0) {
            return of_pool;
        }
    }
    return NULL;
}

uint32_t source_find(const struct sched *s, uint32_t id)
{
    for (uint64_t left = s->sources.there; left != 0; left &= left - 1) {
        uint32_t place = (uint32_t)__builtin_ctzll(left);
        if (s->sources.at[place].given.id == id) {
            return place;
        }
    }
    return SCHED_SOURCES_MAX;
}

/* What a call changes to: nothing of it is seen before all of it is known to fit. */
struct change_of_sources {
    uint64_t there;
    uint64_t *pools;   /* by place; NULL: none */
    uint16_t *weights; /* likewise */
    uint32_t pool_count;
    uint8_t place_of[SCHED_SOURCES_MAX];
};

static bool find_place(const struct sched *s, uint32_t id, uint64_t taken, uint8_t *ret)
{
    uint32_t free = SCHED_SOURCES_MAX;
    for (uint32_t i = 0; i < SCHED_SOURCES_MAX; i++) {
        const struct source *at = &s->sources.at[i];
        bool is_used = at->uses > 0 || (s->sources.there & source_bit(i)) != 0;
        if (is_used && at->given.id == id && (taken & source_bit(i)) == 0) {
            *ret = (uint8_t)i;
            return true;
        }
        /* That of a source which goes now is free only when nothing names it. */
        if (free == SCHED_SOURCES_MAX && at->uses == 0 && (taken & source_bit(i)) == 0) {
            free = i;
        }
    }
    *ret = (uint8_t)free;
    return free < SCHED_SOURCES_MAX;
}

/* Those that stay first, so that their places are not given away. */
static int find_places(const struct sched *s, const struct sched_source *sources, uint32_t count,
                       struct change_of_sources *ret)
{
    uint64_t known = 0;
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < count; i++) {
            uint8_t place;
            bool is_found = find_place(s, sources[i].id, ret->there, &place);
            bool is_known =
                is_found && s->sources.at[place].given.id == sources[i].id &&
                (s->sources.at[place].uses > 0 || (s->sources.there & source_bit(place)) != 0);
            if ((known >> i & 1) != 0 || (round == 0 && !is_known)) {
                continue;
            }
            if (!is_found) {
                return -EBUSY;
            }
            known |= UINT64_C(1) << i;
            ret->place_of[i] = place;
            ret->there |= source_bit(place);
        }
    }
    return 0;
}

static uint64_t by_place(const struct change_of_sources *c, uint64_t mask, uint32_t count)
{
    uint64_t ret = 0;
    for (uint32_t i = 0; i < count; i++) {
        ret |= (mask >> i & 1) != 0 ? source_bit(c->place_of[i]) : 0;
    }
    return ret;
}

static int stage_weights(struct sched *s, const uint16_t *weights, uint32_t source_count,
                         struct change_of_sources *ret)
{
    size_t count = (size_t)ret->pool_count * SCHED_SOURCES_MAX;
    ret->weights = s->host.alloc(s->host.ctx, count * sizeof(*ret->weights));
    if (ret->weights == NULL) {
        return -ENOMEM;
    }
    memset(ret->weights, 0, count * sizeof(*ret->weights));
    for (size_t pool = 0; pool < count; pool += SCHED_SOURCES_MAX) {
        for (uint32_t i = 0; i < source_count; i++) {
            ret->weights[pool + ret->place_of[i]] = weights[pool + i];
        }
    }
    return 0;
}

static int stage_pools(struct sched *s, const struct sched_pools *pools, uint32_t source_count,
                       struct change_of_sources *ret)
{
    ret->pool_count = pools->count;
    ret->pools = s->host.alloc(s->host.ctx, pools->count * sizeof(*ret->pools));
    if (ret->pools == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < pools->count; i++) {
        ret->pools[i] = by_place(ret, pools->sources[i], source_count);
    }
    return pools->weights == NULL ? 0 : stage_weights(s, pools->weights, source_count, ret);
}

static void drop_staged(struct sched *s, const struct change_of_sources *c)
{
    if (c->pools != NULL) {
        s->host.release(s->host.ctx, c->pools);
    }
    if (c->weights != NULL) {
        s->host.release(s->host.ctx, c->weights);
    }
}

/* What lanes the sites will need; those that are made in vain stay with their sites. */
static int stage_lanes(struct sched *s, const struct change_of_sources *c)
{
    list_foreach(site, &s->all_sites, struct site, all)
    {
        list_foreach(set, &site->sets, struct lane_set, in_site)
        {
            uint64_t pool = set->pool < c->pool_count ? c->pools[set->pool] : c->there;
            if (!lane_obtain_all(s, site, pool & ~set->avoided)) {
                return -ENOMEM;
            }
        }
    }
    return 0;
}

/* A destination without a site has connections of one source: the first of its pool. */
static void refit_own(struct sched *s, struct sched_destination *d)
{
    uint32_t first = source_first(s, d->pool);
    list_foreach_safe(c, &d->lane.open, struct connection, in_lane)
    {
        if (c->source != first) {
            connection_retire(s, c);
        }
    }
    server_review(s, &d->own);
}

static void commit(struct sched *s, const struct sched_source *sources, uint32_t count,
                   const struct change_of_sources *c)
{
    for (uint32_t i = 0; i < count; i++) {
        put_at(s, c->place_of[i], &sources[i]);
    }
    source_fini(s);
    s->sources.there = c->there;
    s->sources.pools = c->pools;
    s->sources.weights = c->weights;
    s->sources.pool_count = c->pool_count;
    s->resume_job = NULL;
    list_foreach_safe(site, &s->all_sites, struct site, all)
    {
        lane_set_refit_all(s, site);
    }
    list_foreach_safe(d, &s->destinations, struct sched_destination, all)
    {
        refit_own(s, d);
        destination_settle(s, d);
    }
    parking_unblock_flows(s);
}

int sched_set_sources(struct sched *s, const struct sched_source *sources, uint32_t source_count,
                      const struct sched_pools *pools, usec_t now)
{
    assert(source_count >= 1 && source_count <= SCHED_SOURCES_MAX);
    assert(pools == NULL || pools->count <= SCHED_POOLS_MAX);
    transport_enter(s, now);
    struct change_of_sources c = {0};
    lane_forget_gone(s);
    int err = find_places(s, sources, source_count, &c);
    if (err == 0 && pools != NULL && pools->count > 0) {
        err = stage_pools(s, pools, source_count, &c);
    }
    if (err != 0) {
        drop_staged(s, &c);
        site_settle_all(s); /* a lane that has gone may have been all that a site was there for */
        return err;
    }
    /* The places must be right before lanes name them. */
    for (uint32_t i = 0; i < source_count; i++) {
        if (s->sources.at[c.place_of[i]].uses == 0 &&
            (s->sources.there & source_bit(c.place_of[i])) == 0) {
            put_at(s, c.place_of[i], &sources[i]);
        }
    }
    err = stage_lanes(s, &c);
    if (err == 0) {
        commit(s, sources, source_count, &c);
    } else {
        drop_staged(s, &c);
        site_settle_all(s);
    }
    return err;
}
