/* See the header. Called by the thread of the core; decides nothing about mail. */
#include "engine/schedule/core_sources.h"

#include "base/error.h"
#include "base/log.h"
#include "dns/hosts.h"
#include "engine/config/config.h"
#include "engine/order/order_book.h"
#include "engine/post/delivery.h"
#include "engine/schedule/withdrawal.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/state/source_table.h"
#include "sched/sched.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static_assert(SOURCE_TABLE_POOLS_MAX == SCHED_POOLS_MAX, "every pool that has a number fits");

/* The clock may be set while the thread sleeps: at most so long until a closed source is looked at
 * again. */
static const usec_t longest_check = 60 * USEC_PER_SEC;
/* Places of earlier sources become free one by one, with their connections. */
static const usec_t retry_interval = 100 * USEC_PER_MSEC;

/* Bits of the transport's sources that orders close.
 *
 * ret_open_at  monotonic: when that may be over; USEC_NEVER: none is closed */
static uint64_t find_closed(const struct engine *e, const struct transport_sources *sources,
                            usec_t now, usec_t *ret_open_at)
{
    uint64_t closed = 0;
    *ret_open_at = USEC_NEVER;
    if (e->orders == NULL || !order_book_has_source_orders(e->orders)) {
        return 0;
    }
    usec_t wall = clock_wall();
    for (uint32_t i = 0; i < sources->count; i++) {
        const struct order *o =
            sources->sections[i] == NULL
                ? NULL
                : order_book_bar_of(e->orders, slice_of(sources->sections[i]->name), wall);
        if (o == NULL) {
            continue;
        }
        usec_t wait = o->until - wall < longest_check ? o->until - wall : longest_check;
        closed |= UINT64_C(1) << i;
        *ret_open_at = now + wait < *ret_open_at ? now + wait : *ret_open_at;
    }
    return closed;
}

static bool is_filled(const struct core_sources *c, uint32_t pool)
{
    return pool < c->pool_count && (c->filled[pool / 64] >> pool % 64 & 1) != 0;
}

/* Which pools have sources now. true: one that had some has none any more. */
static bool fill(struct core_sources *c, const uint64_t *pools, uint32_t count, uint64_t *filled)
{
    bool has_lost = false;
    for (uint32_t i = 0; i < count; i++) {
        filled[i / 64] |= (uint64_t)(pools[i] != 0) << i % 64;
        has_lost = has_lost || (pools[i] == 0 && is_filled(c, i));
    }
    free(c->filled);
    c->filled = filled;
    return has_lost;
}

/* errors: of sched_set_sources */
static int set(struct core_sources *c, struct sched *core, const struct settings *s,
               uint16_t transport, uint64_t closed, usec_t now)
{
    const struct source_table *t = s->sources;
    const struct transport_sources *sources = &t->transports[transport];
    uint64_t *pools = calloc(t->pool_count, sizeof(*pools));
    uint64_t *filled = calloc(t->pool_count / 64 + 1, sizeof(*filled));
    uint16_t *weights = calloc(t->pool_count, SCHED_SOURCES_MAX * sizeof(*weights));
    if (pools == NULL || filled == NULL || weights == NULL) {
        free(pools);
        free(weights);
        free(filled);
        return -ENOMEM;
    }
    source_table_masks(t, s->config, transport, 0, pools);
    if (fill(c, pools, t->pool_count, filled)) {
        withdrawal_give_back(core, now);
    }
    if (closed != 0) {
        source_table_masks(t, s->config, transport, closed, pools);
    }
    bool is_weighed = source_table_weights(t, s->config, transport, weights);
    const struct sched_pools all = {pools, is_weighed ? weights : NULL, t->pool_count};
    int err = sched_set_sources(core, sources->given, sources->count, &all, now);
    if (err == 0) {
        c->serial = s->serial;
        c->pool_count = t->pool_count;
        c->closed = closed;
    }
    free(pools);
    free(weights);
    return err;
}

void core_sources_set(struct core_sources *c, struct sched *core, const struct engine *e,
                      const struct settings *s, uint16_t transport, usec_t now)
{
    const struct transport_sources *sources = &s->sources->transports[transport];
    if (s->config->transports[transport].is_gone) {
        c->is_behind = false; /* what is in flight ends by the sources that it has */
        c->check_at = USEC_NEVER;
        return;
    }
    if (c->serial == 0 && !c->is_behind && sources->is_plain) {
        return;
    }
    usec_t open_at;
    c->orders = e->orders == NULL ? 0 : order_book_changes(e->orders);
    uint64_t closed = find_closed(e, sources, now, &open_at);
    c->check_at = open_at;
    if (c->serial == s->serial && c->closed == closed && !c->is_behind) {
        return;
    }
    int err = set(c, core, s, transport, closed, now);
    if (err != 0 && !c->is_behind) {
        log_warning("transport %s: its sources cannot be changed yet: %s",
                    s->config->transports[transport].name,
                    err == -EBUSY ? "connections from earlier ones are in use" : err_str(err));
    }
    c->is_behind = err != 0;
    c->check_at = c->is_behind ? now + retry_interval : open_at;
}

bool core_sources_have(struct core_sources *c, struct sched *core, const struct engine *e,
                       uint16_t transport, uint16_t pool, usec_t now)
{
    bool is_known = pool == 0 || pool < c->pool_count;
    if (is_known && (c->closed == 0 || c->orders == order_book_changes(e->orders))) {
        return true;
    }
    core_sources_set(c, core, e, settings_of(e), transport, now);
    return pool == 0 || pool < c->pool_count;
}

void core_sources_tick(struct core_sources *c, struct sched *core, const struct engine *e,
                       uint16_t transport, usec_t now)
{
    if (core_sources_wake_at(c) <= now) {
        core_sources_set(c, core, e, settings_of(e), transport, now);
    }
}

usec_t core_sources_wake_at(const struct core_sources *c)
{
    return c->serial != 0 || c->is_behind ? c->check_at : USEC_NEVER;
}

bool core_sources_are_told(const struct settings *s, uint32_t transport)
{
    return !s->sources->transports[transport].is_plain;
}

void core_sources_check_reach(const struct settings *s, struct resolution *r)
{
    const struct source_table *sources = s->sources;
    uint8_t families = 0;
    if (r->outcome != SCHED_RESOLVED || sources->transports[r->transport].is_plain) {
        return;
    }
    for (uint32_t i = 0; i < r->hosts->count; i++) {
        families |= r->hosts->list[i].ip.family == 6 ? 2 : 1;
    }
    uint16_t pool = sched_destination_pool(r->destination);
    if ((families & source_table_families(sources, s->config, r->transport, pool)) == 0) {
        r->outcome = SCHED_RESOLVE_SOFT;
        dns_hosts_put(r->hosts);
        r->hosts = NULL;
        r->reason = (struct sched_reason){
            "4.4.1", "no source of the pool reaches an address of any of its hosts"};
    }
}

void core_sources_fini(struct core_sources *c)
{
    free(c->filled);
}

bool core_sources_is_one(const struct engine *e, const struct sched_destination *destination)
{
    const struct source_table *s = settings_of(e)->sources;
    uint16_t pool = destination == NULL ? 0 : sched_destination_pool(destination);
    return pool != 0 && pool < s->pool_count && s->pools[pool].source != NULL;
}
