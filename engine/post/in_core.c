/* Owns the count of recipients in memory. Called by the activator, which adds, and by the spool
 * writer, which removes. Decides nothing: limits are the activator's. */
#include "engine/post/in_core.h"

#include "engine/post/message.h"
#include "engine/state/engine.h"

#include <assert.h>

void in_core_add(struct engine *e, struct message *m, uint32_t recipients)
{
    m->in_core_added += recipients;
    atomic_fetch_add_explicit(&e->recipients_in_core, recipients, memory_order_relaxed);
}

void in_core_remove(struct engine *e, struct message *m, uint32_t recipients)
{
    m->account.in_core_removed += recipients;
    atomic_fetch_sub_explicit(&e->recipients_in_core, recipients, memory_order_relaxed);
}

void in_core_settled(const struct message *m)
{
    assert(m->in_core_added == m->account.in_core_removed);
}

void in_core_abandon(struct engine *e, const struct message *m)
{
    assert(m->in_core_added >= m->account.in_core_removed);
    atomic_fetch_sub_explicit(&e->recipients_in_core, m->in_core_added - m->account.in_core_removed,
                              memory_order_relaxed);
}

uint64_t in_core_count(const struct engine *e)
{
    return atomic_load_explicit(&e->recipients_in_core, memory_order_relaxed);
}
