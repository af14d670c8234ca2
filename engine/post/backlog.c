/* Owns the states of backlogs. Called by the activator, but for backlog_is_seen, which is the spool
 * writer's, and backlog_is_any; the drawing in backlog.h has every call. Reads no mail. */
#include "engine/post/backlog.h"

#include "engine/state/engine.h"

/* A load and a store are enough, as only the activator writes the numbers. Others may see a change late;
 * backlog.h says what becomes of that. */
static void count(struct engine *e, uint32_t flow, int by)
{
    _Atomic uint8_t *place = &e->backlog_of[flow % ENGINE_BACKLOG_PLACES];
    uint8_t flows = atomic_load_explicit(place, memory_order_relaxed);
    uint32_t all = atomic_load_explicit(&e->backlogs, memory_order_relaxed);
    atomic_store_explicit(place, (uint8_t)(flows + by), memory_order_relaxed);
    atomic_store_explicit(&e->backlogs, all + (uint32_t)by, memory_order_relaxed);
}

static void set_state(struct backlog *b, struct engine *e, enum backlog_state state)
{
    bool was_empty = backlog_is_empty(b);
    b->state = (uint8_t)state;
    if (was_empty != backlog_is_empty(b)) {
        count(e, b->flow, was_empty ? 1 : -1);
    }
}

void backlog_grow(struct backlog *b, struct engine *e)
{
    set_state(b, e, BACKLOG_READABLE);
}

void backlog_return(struct backlog *b, struct engine *e, uint64_t place)
{
    b->returned = place;
    if (b->state == BACKLOG_NONE) {
        set_state(b, e, BACKLOG_READABLE);
    }
}

void backlog_reopen(struct backlog *b, struct engine *e, uint64_t place)
{
    b->at = place <= b->at ? place - 1 : b->at;
    b->returned = place > b->returned ? place : b->returned;
    set_state(b, e, BACKLOG_READABLE);
}

void backlog_pass(struct backlog *b, uint64_t place)
{
    b->at = place;
}

void backlog_end(struct backlog *b, struct engine *e)
{
    set_state(b, e, b->at < b->returned ? BACKLOG_AWAITED : BACKLOG_NONE);
}

bool backlog_is_seen(const struct engine *e, uint32_t flow)
{
    return atomic_load_explicit(&e->backlog_of[flow % ENGINE_BACKLOG_PLACES],
                                memory_order_relaxed) != 0;
}

bool backlog_is_any(const struct engine *e)
{
    return atomic_load_explicit(&e->backlogs, memory_order_relaxed) != 0;
}
