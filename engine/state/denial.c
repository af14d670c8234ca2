/* Owns the counting of refusals. Called by the http thread and by workers; logs nothing itself, as
 * whoever refuses knows what is to be told. */
#include "engine/state/denial.h"

const char *denial_text(enum denial kind)
{
    static const char *const texts[DENIAL_COUNT] = {
        [DENIAL_NONE] = "none",     [DENIAL_TOKEN] = "token",   [DENIAL_RIGHT] = "right",
        [DENIAL_TENANT] = "tenant", [DENIAL_ORIGIN] = "origin", [DENIAL_USER] = "user",
    };
    return texts[kind];
}

bool denial_count(struct denials *d, enum denial kind, usec_t now, uint64_t *ret_silent)
{
    /* The counts stand alone: nothing else is published with them, so relaxed is enough. */
    uint64_t count = atomic_fetch_add_explicit(&d->counts[kind], 1, memory_order_relaxed) + 1;
    int64_t before = atomic_load_explicit(&d->told_at[kind], memory_order_relaxed);
    if ((before != 0 && now - before < DENIAL_LOG_INTERVAL) ||
        !atomic_compare_exchange_strong_explicit(&d->told_at[kind], &before, now,
                                                 memory_order_relaxed, memory_order_relaxed)) {
        return false;
    }
    uint64_t told = atomic_exchange_explicit(&d->told[kind], count, memory_order_relaxed);
    *ret_silent = count > told ? count - told - 1 : 0;
    return true;
}
