/* Owns the state of the backlog. Called by the activator, but for backlog_is_seen, which is the spool
 * writer's; the drawing in backlog.h has every call. Reads no mail. */
#include "engine/post/backlog.h"

#include "engine/state/engine.h"

static void set_state(struct backlog *b, enum backlog_state state)
{
    b->state = state;
    /* The writer may see this late; backlog.h says what becomes of that. */
    atomic_store_explicit(&b->engine->has_backlog, state != BACKLOG_NONE, memory_order_relaxed);
}

void backlog_init(struct backlog *b, struct engine *engine)
{
    *b = (struct backlog){.engine = engine, .at = {.class = SPOOL_INCOMING}};
    set_state(b, BACKLOG_READABLE);
}

void backlog_grow(struct backlog *b)
{
    set_state(b, BACKLOG_READABLE);
}

void backlog_return(struct backlog *b, uint64_t place)
{
    b->returned = place;
    if (b->state == BACKLOG_NONE) {
        set_state(b, BACKLOG_READABLE);
    }
}

void backlog_pass(struct backlog *b, const struct spool_position *position)
{
    b->at = *position;
}

void backlog_end(struct backlog *b)
{
    set_state(b, b->at.time < b->returned ? BACKLOG_AWAITED : BACKLOG_NONE);
}

bool backlog_is_seen(const struct engine *e)
{
    return atomic_load_explicit(&e->has_backlog, memory_order_relaxed);
}
