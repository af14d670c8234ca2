/* Owns the rows of figures. Called by lanes as they come and go, and by workers for the replies that
 * they hear; must not know what the figures are for.
 *
 * Concurrency: rows are only ever added, under a lock of their own, behind which nothing waits for
 * anything else. A row is complete before it is published with release, at the front of its chain and
 * of the list of all; who looks for one or walks over them loads with acquire, without the lock. */
#include "engine/limit/limits_figures.h"

#include "base/hash.h"
#include "engine/limit/limits_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct slice limits_figure_provider(const struct limits_figure *f)
{
    return slice_make(f->text, f->provider_len);
}

struct slice limits_figure_source(const struct limits_figure *f)
{
    return slice_make(f->text + f->provider_len, f->source_len);
}

static struct limits_figure *find_figure(struct limits_figure *first, uint64_t hash,
                                         struct slice provider, struct slice source)
{
    struct limits_figure *f = first;
    while (f != NULL && (f->hash != hash || !slice_eq(limits_figure_provider(f), provider) ||
                         !slice_eq(limits_figure_source(f), source))) {
        f = f->chained;
    }
    return f;
}

/* NULL: out of memory, or there are as many as may be */
static struct limits_figure *add_figure(struct limits_figures *all, uint64_t hash,
                                        struct slice provider, struct slice source)
{
    _Atomic(struct limits_figure *) *chain = &all->chains[hash % LIMITS_FIGURE_CHAINS];
    struct limits_figure *f =
        all->count < LIMITS_FIGURES_MAX ? calloc(1, sizeof(*f) + provider.len + source.len) : NULL;
    if (f == NULL) {
        return NULL;
    }
    f->hash = hash;
    f->provider_len = provider.len;
    f->source_len = source.len;
    if (provider.len > 0) {
        memcpy(f->text, provider.data, provider.len);
    }
    if (source.len > 0) {
        memcpy(f->text + provider.len, source.data, source.len);
    }
    f->next = atomic_load_explicit(&all->first, memory_order_relaxed);
    f->chained = atomic_load_explicit(chain, memory_order_relaxed);
    /* Release pairs with the acquire of limits_figure_of and limits_figure_first. */
    atomic_store_explicit(chain, f, memory_order_release);
    atomic_store_explicit(&all->first, f, memory_order_release);
    all->count++;
    return f;
}

int limits_figures_init(struct limits *l)
{
    struct limits_figures *all = &l->figures;
    static const struct slice other = {"other", 5};
    int err = pthread_mutex_init(&all->mutex, NULL);
    assert(err == 0); /* there is nothing that a plain one could lack */
    (void)err;
    /* Its hash leads to no chain that is looked through for a pair of these names. */
    all->other = add_figure(all, 0, other, other);
    return all->other == NULL ? -ENOMEM : 0;
}

void limits_figures_fini(struct limits *l)
{
    struct limits_figure *f = atomic_load_explicit(&l->figures.first, memory_order_relaxed);
    while (f != NULL) {
        struct limits_figure *next = f->next;
        free(f);
        f = next;
    }
    (void)pthread_mutex_destroy(&l->figures.mutex); /* nobody holds it */
}

struct limits_figure *limits_figure_of(struct limits *l, struct slice provider, struct slice source)
{
    struct limits_figures *all = &l->figures;
    uint64_t hash =
        hash_bytes(source.data, source.len, hash_bytes(provider.data, provider.len, l->seed));
    hash |= 1; /* never that of the row "other" */
    _Atomic(struct limits_figure *) *chain = &all->chains[hash % LIMITS_FIGURE_CHAINS];
    struct limits_figure *f =
        find_figure(atomic_load_explicit(chain, memory_order_acquire), hash, provider, source);
    if (f != NULL) {
        return f;
    }
    int err = pthread_mutex_lock(&all->mutex);
    assert(err == 0);
    f = find_figure(atomic_load_explicit(chain, memory_order_relaxed), hash, provider, source);
    f = f != NULL ? f : add_figure(all, hash, provider, source);
    err = pthread_mutex_unlock(&all->mutex);
    assert(err == 0);
    (void)err;
    return f != NULL ? f : all->other;
}

struct limits_figure *limits_figure_of_lane(struct limits *l, const struct limit_key *key)
{
    static const struct slice mark = {"provider:", sizeof("provider:") - 1};
    bool is_provider = key->site.len > mark.len && memcmp(key->site.data, mark.data, mark.len) == 0;
    return limits_figure_of(l, is_provider ? slice_from(key->site, mark.len) : SLICE(""),
                            key->source);
}

const struct limits_figure *limits_figure_first(const struct limits *l)
{
    return atomic_load_explicit(&l->figures.first, memory_order_acquire);
}

/* --- lanes as they are shown ------------------------------------------------------------------- */

enum limits_figure_lanes limits_figure_lanes_of(const struct limits_lane *lane)
{
    if (lane->shown.is_closed) {
        return LIMIT_LANES_CLOSED;
    }
    return lane->is_paced ? LIMIT_LANES_PACED : LIMIT_LANES_OPEN;
}

void limits_figure_move_lane(const struct limits_lane *lane, enum limits_figure_lanes before)
{
    enum limits_figure_lanes after = limits_figure_lanes_of(lane);
    if (after == before) {
        return;
    }
    atomic_fetch_add_explicit(&lane->figure->lanes[after], 1, memory_order_relaxed);
    if (before != LIMIT_LANES) {
        atomic_fetch_sub_explicit(&lane->figure->lanes[before], 1, memory_order_relaxed);
    }
}

void limits_figure_leave_lane(const struct limits_lane *lane)
{
    atomic_fetch_sub_explicit(&lane->figure->lanes[limits_figure_lanes_of(lane)], 1,
                              memory_order_relaxed);
}
