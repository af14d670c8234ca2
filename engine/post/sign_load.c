/* Owns the choice of a thread that signs. Called by the activator and by these threads; must not wait. */
#include "engine/post/sign_load.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    PARTS = 16,      /* of a microsecond, in which a pace is counted */
    OLD = 7,         /* what a mean keeps of itself, in parts of OLD + 1 */
    FIRST_PACE = 250 /* us, until a thread has signed something: of RSA with 2048 bits */
};

/* Of all that waits, in 1/16 us. */
static uint64_t wait_of(const struct sign_load *l, uint32_t waiting)
{
    uint32_t pace = atomic_load_explicit(&l->pace, memory_order_relaxed);
    return (uint64_t)waiting * (pace == 0 ? FIRST_PACE * PARTS : pace);
}

struct sign_load *sign_loads_new(uint32_t count)
{
    struct sign_load *loads = aligned_alloc(CACHE_LINE, count * sizeof(*loads));
    if (loads != NULL) {
        memset(loads, 0, count * sizeof(*loads));
    }
    return loads;
}

uint32_t sign_load_pick(struct sign_load *loads, uint32_t count)
{
    uint32_t best = 0;
    uint64_t shortest = UINT64_MAX;
    assert(count > 0);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t waiting = atomic_load_explicit(&loads[i].waiting, memory_order_relaxed);
        uint64_t wait = wait_of(&loads[i], waiting);
        if (waiting < SIGN_LOAD_MAX && wait < (uint64_t)SIGN_LOAD_TIME * PARTS) {
            return i;
        }
        if (wait < shortest) {
            shortest = wait;
            best = i;
        }
    }
    return best;
}

void sign_load_add(struct sign_load *l)
{
    atomic_fetch_add_explicit(&l->waiting, 1, memory_order_relaxed);
}

void sign_load_take(struct sign_load *l, size_t count)
{
    atomic_fetch_sub_explicit(&l->waiting, (uint32_t)count, memory_order_relaxed);
}

void sign_load_learn(struct sign_load *l, size_t count, usec_t took)
{
    uint64_t each = took > 0 ? (uint64_t)took * PARTS / count : 0;
    uint64_t old = atomic_load_explicit(&l->pace, memory_order_relaxed);
    each = each == 0 ? 1 : each;
    each = old == 0 ? each : (old * OLD + each) / (OLD + 1);
    atomic_store_explicit(&l->pace, each > UINT32_MAX ? UINT32_MAX : (uint32_t)each,
                          memory_order_relaxed);
}
