/* Owns the accounts that all threads share: the ids, the gates, and the bound on what a crash can
 * repeat. Called by every thread; what an atomic pairs with stands beside it. Must not know any
 * thread but by its mailbox. */
#include "engine/state/engine.h"

#include "base/mailbox.h"
#include "engine/state/dispatch_bound.h"

#include <time.h>

uint64_t engine_new_id(struct engine *e)
{
    return atomic_fetch_add_explicit(&e->next_id, 1, memory_order_relaxed);
}

void engine_number_ids(struct engine *e, uint16_t node)
{
    /* Relaxed: an id means nothing before a commit has it, and the writer reserves it before that. */
    if (atomic_exchange_explicit(&e->node_number, node, memory_order_relaxed) == 0) {
        atomic_fetch_add_explicit(&e->next_id, (uint64_t)node << SPOOL_NODE_SHIFT,
                                  memory_order_relaxed);
    }
}

bool engine_id_is_reserved(const struct engine *e, uint64_t id)
{
    /* Acquire pairs with the writer's release after the commit of the reservation. */
    return id < atomic_load_explicit(&e->id_limit, memory_order_acquire);
}

static int bit_number(enum engine_gate bit)
{
    return __builtin_ctz((unsigned)bit);
}

usec_t engine_gate_since(const struct engine *e, enum engine_gate bit)
{
    return atomic_load_explicit(&e->gate_since[bit_number(bit)], memory_order_relaxed);
}

void engine_gate_set(struct engine *e, enum engine_gate bit)
{
    if ((engine_gate(e) & (uint32_t)bit) == 0) { /* no race: one thread alone sets each bit */
        atomic_store_explicit(&e->gate_since[bit_number(bit)], clock_wall(), memory_order_relaxed);
    }
    atomic_fetch_or_explicit(&e->gate, (uint32_t)bit, memory_order_release);
}

void engine_gate_clear(struct engine *e, enum engine_gate bit)
{
    atomic_fetch_and_explicit(&e->gate, ~(uint32_t)bit, memory_order_release);
    engine_wake_all(e);
}

static usec_t boot_time(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_BOOTTIME, &t); /* cannot fail with this clock */
    return (usec_t)t.tv_sec * USEC_PER_SEC + t.tv_nsec / 1000;
}

bool engine_lease_is_over(const struct engine *e)
{
    /* Relaxed: a time that orders nothing; one that was just put off is seen a moment later. */
    usec_t until = atomic_load_explicit(&e->lease_until, memory_order_relaxed);
    return until != 0 && boot_time() >= until;
}

bool engine_may_dispatch(const struct engine *e, uint64_t entry)
{
    /* Sequentially consistent: a scheduler publishes `entry` and then reads the bound here; the
     * writer lowers the bound and then reads the published entries (housekeeping.c). So at least one of
     * the two sees what the other wrote. */
    return entry <= atomic_load(&e->dispatch_entry) &&
           atomic_load_explicit(&e->undurable, memory_order_relaxed) <
               atomic_load_explicit(&e->dispatch_limit, memory_order_relaxed) &&
           (engine_gate(e) & (ENGINE_GATE_BROKEN | ENGINE_GATE_STOPPING)) == 0 &&
           !engine_lease_is_over(e);
}

void engine_dispatched(struct engine *e, uint32_t recipients)
{
    atomic_fetch_add_explicit(&e->undurable, recipients, memory_order_relaxed);
}

static void wake_schedulers(const struct engine *e)
{
    for (uint32_t i = 0; e->boxes.scheds != NULL && i < e->sched_count; i++) {
        mailbox_wake(e->boxes.scheds[i]);
    }
}

void engine_set_lease(struct engine *e, usec_t until)
{
    usec_t before = atomic_exchange(&e->lease_until, until);
    /* One that is nearly over counts, as a scheduler may just have read it and find it over in a moment. */
    if (before != 0 && boot_time() + USEC_PER_SEC >= before) {
        wake_schedulers(e);
    }
}

void engine_durable(struct engine *e, uint64_t recipients)
{
    uint64_t before = atomic_fetch_sub_explicit(&e->undurable, recipients, memory_order_relaxed);
    uint64_t limit = atomic_load_explicit(&e->dispatch_limit, memory_order_relaxed);
    if (before >= limit && before - recipients < limit) {
        wake_schedulers(e);
    }
}

void engine_set_dispatch_bound(struct engine *e, const struct dispatch_bound *bound)
{
    /* Both stores come before the kick: nap in sched_thread.c relies on it. */
    atomic_store_explicit(&e->dispatch_limit, bound->undurable, memory_order_relaxed);
    atomic_store(&e->dispatch_entry, bound->entry); /* see engine_may_dispatch */
    wake_schedulers(e);
}

bool engine_is_bound_by(const struct engine *e, const struct dispatch_bound *bound)
{
    const struct dispatch_bound now = {
        .undurable = atomic_load_explicit(&e->dispatch_limit, memory_order_relaxed),
        .entry = atomic_load_explicit(&e->dispatch_entry, memory_order_relaxed)};
    return dispatch_bound_is_same(&now, bound);
}

uint64_t engine_entry_limit(const struct engine *e)
{
    uint64_t most = 0;
    for (uint32_t i = 0; e->entry_limits != NULL && i < e->sched_count; i++) {
        uint64_t entry = atomic_load(&e->entry_limits[i]);
        most = entry > most ? entry : most;
    }
    return most;
}

void engine_wake_all(struct engine *e)
{
    wake_schedulers(e);
    for (uint32_t i = 0; i < e->worker_count; i++) {
        mailbox_wake(e->boxes.workers[i]);
    }
    mailbox_wake(e->boxes.activator);
}
