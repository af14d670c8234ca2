/* Owns: the points, and which destinations are watched. Its thread samples and sleeps; called by
 * the engine, and by reports that read. Must not walk all destinations each second when there are
 * many. */
#include "engine/report/series.h"

#include "base/history.h"
#include "base/post.h"
#include "base/rcu.h"
#include "engine/config/config.h"
#include "engine/schedule/sched_thread.h"
#include "engine/spool/spool_store.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "sched/sched.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    RATE_POINTS = 10,    /* seconds that a rate is about */
    WALK_FREELY = 2000,  /* destinations up to which all are looked at each second, */
    WALK_INTERVAL = 10,  /* and else every so many seconds */
    DISPLACING_LOAD = 2, /* how many times as busy as a watched destination another one must be
                          * to take its place */
};

struct watch {
    struct rcu_retired retired;

    /* set at creation */
    uint32_t transport;
    struct history *samples;

    /* series thread only */
    uint64_t load; /* entries, when last looked at */
    bool is_busiest;

    /* set at creation */
    uint32_t name_len;
    char name[];
};

/* One of the busiest destinations, during a walk. */
struct candidate {
    uint64_t load;
    uint32_t transport;
    struct slice name; /* valid until the thread's next pass */
};

struct series {
    /* set at creation */
    struct engine *engine;
    struct spool_reader *reader;
    struct history *points;
    struct post post; /* for its naps: it gets no letters */

    /* series thread only */
    uint64_t queued; /* as last read */
    uint32_t seconds;
    struct candidate busiest[SERIES_WATCHED]; /* the least busy last */
    uint32_t busiest_count;

    /* any thread, online: published under RCU */
    struct watch *watched[SERIES_WATCHED];
};

static const struct sched *series_core(const struct series *s, uint32_t transport)
{
    const struct engine *e = s->engine;
    return sched_thread_core(e->scheds[transport % e->sched_count], transport);
}

/* --- points ----------------------------------------------------------------------------------- */

static uint64_t counter(const _Atomic uint64_t *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

/* Messages in the spool; as before while the spool is being reopened. */
static uint64_t read_queued(struct series *s)
{
    struct spool_counts counts;
    if (spool_reader_begin(s->reader) == 0) {
        if (spool_read_counts(s->reader, &counts) == 0) {
            s->queued = counts.messages;
        }
        spool_reader_end(s->reader);
    }
    return s->queued;
}

static void add_point(struct series *s)
{
    const struct engine *e = s->engine;
    struct series_point p = {
        .time = clock_wall(),
        .received = counter(&e->received),
        .delivered = counter(&e->delivered),
        .deferred = counter(&e->deferred),
        .failed = counter(&e->failed),
        .queued = read_queued(s),
        .active = counter(&e->active_messages),
    };
    for (uint32_t t = 0; t < settings_of(e)->transport_count; t++) {
        struct sched_counters c;
        sched_view_counters(series_core(s, t), &c);
        p.connections += c.connections;
    }
    history_put(s->points, &p);
}

const struct history *series_points(const struct series *s)
{
    return s->points;
}

static double rate(uint64_t before, uint64_t after, usec_t span)
{
    return after > before ? (double)(after - before) * (double)USEC_PER_SEC / (double)span : 0;
}

void series_rates(const struct series *s, struct series_rates *ret)
{
    struct series_point first, last;
    uint64_t end = history_end(s->points);
    *ret = (struct series_rates){0};
    if (end < 2) {
        return;
    }
    uint64_t begin = end > RATE_POINTS ? end - 1 - RATE_POINTS : 0;
    if (!history_get(s->points, begin, &first) || !history_get(s->points, end - 1, &last) ||
        last.time <= first.time) {
        return; /* the clock was set back */
    }
    usec_t span = last.time - first.time;
    ret->received = rate(first.received, last.received, span);
    ret->delivered = rate(first.delivered, last.delivered, span);
    ret->deferred = rate(first.deferred, last.deferred, span);
    ret->failed = rate(first.failed, last.failed, span);
}

/* --- which destinations are watched ----------------------------------------------------------- */

static void offer_candidate(struct series *s, const struct candidate *c)
{
    uint32_t at = s->busiest_count;
    if (at == SERIES_WATCHED) {
        if (s->busiest[at - 1].load >= c->load) {
            return;
        }
        at--;
    } else {
        s->busiest_count++;
    }
    for (; at > 0 && s->busiest[at - 1].load < c->load; at--) {
        s->busiest[at] = s->busiest[at - 1];
    }
    s->busiest[at] = *c;
}

static uint64_t load_of(const struct sched_destination_view *d)
{
    return (uint64_t)d->in_flight + (uint64_t)d->todo;
}

static void find_busiest(struct series *s)
{
    s->busiest_count = 0;
    for (uint32_t t = 0; t < settings_of(s->engine)->transport_count; t++) {
        struct sched_destination_view d;
        uint64_t cursor = 0;
        while (sched_view_destinations(series_core(s, t), &cursor, &d)) {
            struct candidate c = {.load = load_of(&d), .transport = t, .name = d.name};
            if (c.load > 0) {
                offer_candidate(s, &c);
            }
        }
    }
}

static bool is_watch_of(const struct watch *w, uint32_t transport, struct slice name)
{
    return w != NULL && w->transport == transport &&
           slice_eq(slice_make(w->name, w->name_len), name);
}

static void watch_free(struct watch *w)
{
    if (w != NULL) {
        history_free(w->samples);
        free(w);
    }
}

static void release_point(struct rcu_retired *self)
{
    watch_free(container_of(self, struct watch, retired));
}

/* NULL when out of memory. */
static struct watch *watch_new(const struct candidate *c)
{
    struct watch *w = calloc(1, sizeof(*w) + c->name.len);
    if (w == NULL) {
        return NULL;
    }
    w->transport = c->transport;
    w->load = c->load;
    w->is_busiest = true;
    w->name_len = (uint32_t)c->name.len;
    memcpy(w->name, c->name.data, c->name.len);
    w->samples = history_new(SERIES_SAMPLES, sizeof(struct series_sample));
    if (w->samples == NULL) {
        watch_free(w);
        return NULL;
    }
    return w;
}

/* Marks the candidate as watched; false: it is not. */
static bool is_watched(struct series *s, const struct candidate *c)
{
    for (uint32_t i = 0; i < SERIES_WATCHED; i++) {
        if (is_watch_of(s->watched[i], c->transport, c->name)) {
            s->watched[i]->is_busiest = true;
            return true;
        }
    }
    return false;
}

/* A free slot, or the one whose destination does least and clearly less; SERIES_WATCHED: none. What
 * was watched keeps its place when it is as good as equal, as its history would be lost. */
static uint32_t slot_for(const struct series *s, const struct candidate *c)
{
    uint32_t found = SERIES_WATCHED;
    uint64_t least = c->load / DISPLACING_LOAD + 1;
    for (uint32_t i = 0; i < SERIES_WATCHED; i++) {
        if (s->watched[i] == NULL) {
            return i;
        }
        if (!s->watched[i]->is_busiest && s->watched[i]->load < least) {
            found = i;
            least = s->watched[i]->load;
        }
    }
    return found;
}

static void watch_candidate(struct series *s, const struct candidate *c)
{
    uint32_t slot = slot_for(s, c);
    struct watch *w = slot == SERIES_WATCHED ? NULL : watch_new(c);
    if (w == NULL) {
        return;
    }
    struct watch *old = s->watched[slot];
    rcu_publish(&s->watched[slot], w);
    if (old != NULL) {
        rcu_retire(&old->retired, release_point);
    }
}

static void choose_watched(struct series *s)
{
    bool is_known[SERIES_WATCHED] = {false};
    find_busiest(s);
    for (uint32_t i = 0; i < SERIES_WATCHED; i++) {
        if (s->watched[i] != NULL) {
            s->watched[i]->is_busiest = false;
        }
    }
    for (uint32_t i = 0; i < s->busiest_count; i++) {
        is_known[i] = is_watched(s, &s->busiest[i]);
    }
    for (uint32_t i = 0; i < s->busiest_count; i++) {
        if (!is_known[i]) {
            watch_candidate(s, &s->busiest[i]);
        }
    }
}

static bool may_walk(const struct series *s)
{
    uint64_t destinations = 0;
    for (uint32_t t = 0; t < settings_of(s->engine)->transport_count; t++) {
        struct sched_counters c;
        sched_view_counters(series_core(s, t), &c);
        destinations += c.destinations;
    }
    return destinations <= WALK_FREELY || s->seconds % WALK_INTERVAL == 0;
}

/* --- their samples ---------------------------------------------------------------------------- */

static void add_sample(const struct series *s, struct watch *w, usec_t now)
{
    struct series_sample sample = {.time = now}; /* zeros: the scheduler has forgotten it */
    struct sched_destination_view d;
    w->load = 0;
    if (sched_view_destination(series_core(s, w->transport), slice_make(w->name, w->name_len),
                               &d)) {
        sample.window = d.window;
        sample.busy = d.busy;
        sample.in_flight = d.in_flight;
        sample.todo = d.todo;
        w->load = load_of(&d);
    }
    history_put(w->samples, &sample);
}

const struct history *series_samples(const struct series *s, uint32_t transport,
                                     struct slice destination)
{
    for (uint32_t i = 0; i < SERIES_WATCHED; i++) {
        const struct watch *w = rcu_load(&s->watched[i]);
        if (is_watch_of(w, transport, destination)) {
            return w->samples;
        }
    }
    return NULL;
}

/* --- the thread ------------------------------------------------------------------------------- */

static void sample(struct series *s)
{
    add_point(s);
    if (may_walk(s)) {
        choose_watched(s);
    }
    usec_t now = clock_wall();
    for (uint32_t i = 0; i < SERIES_WATCHED; i++) {
        if (s->watched[i] != NULL) {
            add_sample(s, s->watched[i], now);
        }
    }
    s->seconds++;
}

static void run_series(void *arg)
{
    struct series *s = arg;
    usec_t due = clock_mono();
    post_assert_owner(&s->post);
    while (!post_must_end(&s->post)) {
        sample(s);
        due += USEC_PER_SEC;
        if (due < clock_mono()) {
            due = clock_mono(); /* points that are missed stay so */
        }
        post_nap(&s->post, due);
    }
}

int series_new(struct engine *engine, struct series **ret)
{
    struct series *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return -ENOMEM;
    }
    s->engine = engine;
    s->points = history_new(SERIES_POINTS, sizeof(struct series_point));
    int err = s->points == NULL ? -ENOMEM : post_init(&s->post, 1);
    if (err == 0) {
        err = spool_reader_new(engine->store, &s->reader);
    }
    if (err != 0) {
        series_free(s);
        return err;
    }
    *ret = s;
    return 0;
}

int series_start(struct series *s)
{
    return post_start(&s->post, "series", run_series, s);
}

void series_stop(struct series *s)
{
    post_stop(&s->post);
}

void series_free(struct series *s)
{
    if (s != NULL) {
        for (uint32_t i = 0; i < SERIES_WATCHED; i++) {
            watch_free(s->watched[i]);
        }
        spool_reader_free(s->reader);
        history_free(s->points);
        post_fini(&s->post);
        free(s);
    }
}
