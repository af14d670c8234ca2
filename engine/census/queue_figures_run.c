/* Owns the last walk over a long queue, and who asked for one. Called by the reports that show the
 * states of the queue; changes nothing in it.
 *
 * Concurrency: the slow clerk puts its walks into a history, which any thread reads; `wanted_until`
 * is stored by who asks and read by the slow clerk: a value seen late costs one kick of its waker.
 */
#include "base/history.h"
#include "engine/census/clerk_walk.h"
#include "engine/census/queue_figures.h"
#include "engine/http/clerk.h"
#include "engine/order/order_book.h"
#include "engine/spool/spool_store.h"
#include "engine/state/engine.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { KEPT = 4 }; /* walks; readers want the last */

#define WANTED_FOR    (30 * USEC_PER_SEC) /* after a question; a scrape comes each 15 s or so */
#define PAUSE_LEAST   USEC_PER_SEC        /* the pause between two walks is at least this long, */
#define PAUSE_SHARE   3                   /* and this many times as long as the last walk took */
#define ALWAYS_BEHIND (60 * USEC_PER_SEC) /* numbers so old let calls wait for a walk */

/* In the history: multiples of 8 bytes. */
struct walked {
    struct queue_figures figures;
    uint64_t changes;   /* order_book_changes when it began */
    usec_t ended, took; /* monotonic */
};

struct queue_figures_keeper {
    /* set at creation */
    struct history *walks;

    /* any thread */
    _Atomic int64_t wanted_until; /* monotonic */
};

struct queue_figures_keeper *queue_figures_keeper_new(void)
{
    struct queue_figures_keeper *keeper = calloc(1, sizeof(*keeper));
    if (keeper != NULL) {
        keeper->walks = history_new(KEPT, sizeof(struct walked));
    }
    if (keeper != NULL && keeper->walks == NULL) {
        free(keeper);
        return NULL;
    }
    return keeper;
}

void queue_figures_keeper_free(struct queue_figures_keeper *keeper)
{
    if (keeper != NULL) {
        history_free(keeper->walks);
        free(keeper);
    }
}

/* --- without a walk --------------------------------------------------------------------------- */

static uint64_t load_counter(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* scheduled: see struct queue_figures_known */
static void derive(const struct engine *e, const struct spool_counts *counts,
                   bool is_held_suspended, uint64_t scheduled, struct queue_figures *ret)
{
    const struct queue_figures_known known = {
        .waiting = {[SPOOL_INCOMING] = counts->incoming,
                    [SPOOL_DEFERRED] = counts->deferred,
                    [SPOOL_HELD] = counts->held},
        .active_of = {[SPOOL_INCOMING] = load_counter(&e->active_of[SPOOL_INCOMING]),
                      [SPOOL_DEFERRED] = load_counter(&e->active_of[SPOOL_DEFERRED]),
                      [SPOOL_HELD] = load_counter(&e->active_of[SPOOL_HELD])},
        .active = load_counter(&e->active_messages),
        .scheduled = scheduled,
        .is_held_suspended = is_held_suspended,
    };
    queue_figures_derive(&known, ret);
    ret->as_of = clock_wall();
}

/* Whether only a walk can tell which held messages are scheduled: some of them may be held by
 * orders, or were until just now, or their time has come and they are not active yet. */
static bool needs_walk(const struct engine *e)
{
    return !order_book_is_empty(e->orders) || order_book_awaits_review(e->orders) ||
           load_counter(&e->next_held) <= (uint64_t)clock_wall();
}

/* --- by a walk -------------------------------------------------------------------------------- */

static int walk_clerk(struct clerk *k, bool (*between)(void *ctx, struct queue_walk *w),
                      struct queue_figures *ret)
{
    struct queue_source from;
    clerk_source(k, &from);
    from.between = between != NULL ? between : from.between;
    return queue_figures_walk(&from, ret);
}

/* --- long queues ------------------------------------------------------------------------------ */

static bool last_walk(const struct queue_figures_keeper *keeper, struct walked *ret)
{
    uint64_t end = history_end(keeper->walks);
    return end > 0 && history_get(keeper->walks, end - 1, ret);
}

static usec_t pause_after(const struct walked *w)
{
    return PAUSE_SHARE * w->took > PAUSE_LEAST ? PAUSE_SHARE * w->took : PAUSE_LEAST;
}

static bool is_of_these_orders(const struct engine *e, const struct walked *w)
{
    return w->changes == order_book_changes(e->orders);
}

/* The figures of the last walk if it is recent and the orders have not changed since it began, else
 * an estimate. Wakes the slow clerk when it should walk again. */
static void read_long(const struct engine *e, const struct spool_counts *counts,
                      struct queue_figures *ret)
{
    struct queue_figures_keeper *keeper = e->figures;
    struct walked last;
    usec_t now = clock_mono();
    bool has_last = last_walk(keeper, &last);
    atomic_store_explicit(&keeper->wanted_until, now + WANTED_FOR, memory_order_relaxed);
    bool is_good = has_last && is_of_these_orders(e, &last);
    if (!is_good || now - last.ended > pause_after(&last)) {
        mailbox_wake(e->boxes.clerks[1]);
    }
    if (is_good && now - last.ended <= WANTED_FOR + 2 * pause_after(&last)) {
        *ret = last.figures;
        return;
    }
    derive(e, counts, true, has_last ? last.figures.states[QUEUE_SCHEDULED] : 0, ret);
    ret->is_estimate = 1;
}

int queue_figures_read(struct clerk *k, const struct spool_counts *counts,
                       struct queue_figures *ret)
{
    const struct engine *e = k->engine;
    if (!needs_walk(e)) {
        derive(e, counts, false, 0, ret);
        return 0;
    }
    if (counts->messages <= QUEUE_FIGURES_AT_ONCE) {
        return walk_clerk(k, NULL, ret);
    }
    read_long(e, counts, ret);
    return 0;
}

/* Whether the walk goes on. It ends when a call waits for this clerk, unless the last figures have
 * become old. */
static bool goes_on(void *ctx, struct queue_walk *w)
{
    struct clerk *k = ctx;
    struct walked last;
    clerk_walk_between_pages(k, w);
    bool may_wait =
        !last_walk(k->engine->figures, &last) || clock_mono() - last.ended > ALWAYS_BEHIND;
    return !clerk_must_end(k) && (may_wait || !clerk_has_calls(k));
}

usec_t queue_figures_refresh(struct clerk *k)
{
    const struct engine *e = k->engine;
    struct queue_figures_keeper *keeper = e->figures;
    struct walked last, next = {.changes = order_book_changes(e->orders)};
    usec_t began = clock_mono();
    if (began >= atomic_load_explicit(&keeper->wanted_until, memory_order_relaxed) ||
        !needs_walk(e)) {
        return USEC_NEVER;
    }
    if (last_walk(keeper, &last) && is_of_these_orders(e, &last) &&
        began - last.ended < pause_after(&last)) {
        return last.ended + pause_after(&last);
    }
    int err = walk_clerk(k, goes_on, &next.figures);
    clerk_forget_active(k);
    next.ended = clock_mono();
    next.took = next.ended - began;
    if (err != 0) {
        return next.ended + PAUSE_LEAST;
    }
    history_put(keeper->walks, &next);
    return next.ended + pause_after(&next);
}
