/* Owns the account of changes that held mail has not been judged by. Called by the activator alone;
 * walks nothing itself (sweep.c does). */
#include "engine/activator/review.h"

#include "base/log.h"
#include "engine/activator/sweep.h"
#include "engine/order/order_book.h"
#include "engine/post/message.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

void review_init(struct review *r, struct engine *engine)
{
    *r = (struct review){.engine = engine};
}

/* More may go by now than when the turns were reckoned: an earlier run did so, or rates and quotas have changed.
 * What cannot go leaves memory again, with a turn of now. */
static void try_turns(struct sweeper *sweeper)
{
    const struct selector all = {0};
    struct sweep *s = sweep_new(SWEEP_TURNS, &all);
    if (s != NULL) {
        sweeper_add(sweeper, s);
    } else {
        log_error("out of memory: mail that left memory keeps the turn that it has");
    }
}

void review_start(struct review *r, struct sweeper *sweeper)
{
    const struct order_book *book = r->engine->orders;
    const struct order *o;
    r->wanted = order_book_wanted_review(book);
    r->is_needed = r->wanted != 0 || !order_book_is_empty(book);
    r->serial = settings_of(r->engine)->serial;
    r->rates_serial = settings_of(r->engine)->rates_serial;
    for (uint64_t id = 0; (o = order_book_next(book, id, NULL)) != NULL; id = o->id) {
        struct sweep *s = o->kind == ORDER_SUSPEND ? NULL : sweep_new(SWEEP_APPLY, &o->selector);
        if (s != NULL) {
            sweeper_add(sweeper, s);
        } else if (o->kind != ORDER_SUSPEND) {
            log_error("out of memory: mail in the queue meets an order when it is due");
        }
    }
    try_turns(sweeper);
}

/* Of what orders mean. */
static void note_change(struct review *r)
{
    r->changes++;
    r->stale_unloaded = r->unloaded;
}

void review_take_sweep(struct review *r, const struct sweep *s, uint64_t wanted)
{
    if (s->kind == SWEEP_REVIEW) {
        r->wanted = wanted;
    }
    if (s->kind != SWEEP_FLUSH) {
        note_change(r);
    }
}

/* A reload changes routes and sources, so an order that held mail may not concern it any more. */
static void note_settings(struct review *r, struct sweeper *sweeper)
{
    const struct settings *s = settings_of(r->engine);
    uint64_t serial = s->serial;
    if (s->rates_serial > r->serial) {
        r->rates_serial = s->rates_serial;
        try_turns(sweeper);
    }
    if (serial != r->serial && !order_book_is_empty(r->engine->orders)) {
        note_change(r);
        r->is_needed = true;
    }
    r->serial = serial;
}

/* Reviews all held mail, as the selectors of lifted orders are gone; this is rare. It begins when
 * no sweep is left that could go on, so that one review serves every message that settles until then. */
void review_begin(struct review *r, struct sweeper *sweeper)
{
    static const struct selector everything;
    note_settings(r, sweeper);
    if (!r->is_needed || (sweeper_is_busy(sweeper) && !sweeper_is_waiting(sweeper))) {
        return;
    }
    struct sweep *s = sweep_new(SWEEP_REVIEW, &everything);
    if (s != NULL) {
        sweeper_add(sweeper, s);
        r->is_needed = false;
    }
}

/* An active message keeps its place in the held class until it settles. When the daemon ends before that, what
 * it waits for there is an order that is gone, and the next run has to find that out again. */
static bool has_active_held(const struct review *r)
{
    return atomic_load_explicit(&r->engine->active_of[SPOOL_HELD], memory_order_relaxed) > 0;
}

void review_end(struct review *r, const struct sweeper *sweeper, const struct list *active,
                const struct list *lingering)
{
    if (r->noted == r->wanted || sweeper_is_busy(sweeper) || r->is_needed ||
        r->stale_unloaded > 0 || !list_is_empty(lingering) || has_active_held(r)) {
        return;
    }
    if (list_is_empty(active) ||
        list_first(active, const struct message, active)->changes == r->changes) {
        order_book_reviewed(r->engine->orders, r->wanted);
        r->noted = r->wanted;
    }
}

void review_note_active(const struct review *r, struct message *m)
{
    m->changes = r->changes;
}

void review_note_held(struct review *r, const struct message *m)
{
    r->is_needed = r->is_needed || m->changes != r->changes;
}

bool review_is_turn_old(const struct review *r, const struct message *m)
{
    return m->turn_by < r->rates_serial;
}

void review_note_unloaded(struct review *r)
{
    r->unloaded++;
}

void review_note_unloaded_settled(struct review *r)
{
    r->unloaded--;
    r->is_needed = r->is_needed || r->stale_unloaded == 1;
    r->stale_unloaded -= r->stale_unloaded > 0;
}
