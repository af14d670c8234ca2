/* The paces of a lane: made at the first refusal, from what was accepted until then. Called with the
 * lock held, but for the counts of a lane that nothing was learned of: those any thread adds up
 * without it. Must not know what a reply says.
 *
 * Concurrency: limits_count_recent and the first refusal may meet. What is added while the pace is
 * made is not in it, which costs a message or two of an estimate that is corrected by what is in
 * flight. All words are figures without anything behind them, so relaxed order is enough. */
#include "engine/limit/limits_private.h"

#include <stdlib.h>

static uint32_t second_of(usec_t now)
{
    return (uint32_t)(now / USEC_PER_SEC);
}

void limits_count_recent(struct limits_lane *lane, enum pace_unit unit, uint32_t n, usec_t now)
{
    if (n == 0) {
        return;
    }
    uint32_t second = second_of(now);
    _Atomic uint64_t *slot = &lane->recent[unit][second % 2];
    uint64_t seen = atomic_load_explicit(slot, memory_order_relaxed), wanted;
    do {
        wanted = (seen >> 32 == second ? seen : (uint64_t)second << 32) + n;
    } while (!atomic_compare_exchange_weak_explicit(slot, &seen, wanted, memory_order_relaxed,
                                                    memory_order_relaxed));
}

static uint32_t recent_of(const struct limits_lane *lane, enum pace_unit unit, uint32_t second)
{
    uint64_t seen = atomic_load_explicit(&lane->recent[unit][second % 2], memory_order_relaxed);
    return seen >> 32 == second ? (uint32_t)seen : 0;
}

/* As if the pace had been there in the last second and in this one. */
static void recall_recent(struct pace *p, const struct limits_lane *lane, usec_t now)
{
    uint32_t second = second_of(now);
    uint32_t before = second > 0 ? recent_of(lane, p->unit, second - 1) : 0;
    uint32_t present = recent_of(lane, p->unit, second);
    usec_t then = now - now % USEC_PER_SEC - USEC_PER_SEC;
    p->slot_begin = then;
    p->slot[0] = p->slot[1] = 0;
    if (before > 0) {
        pace_accepted(p, before, then, then);
    }
    if (present > 0) {
        pace_accepted(p, present, now, now);
    }
}

struct pace *limits_pace_get(struct limits *l, struct limits_lane *lane, enum pace_unit unit,
                             usec_t now)
{
    struct limits_learned *learned = limits_lane_learned(lane);
    if (learned == NULL) {
        return NULL;
    }
    if (learned->paces[unit] == NULL) {
        struct pace *p = calloc(1, sizeof(*p));
        if (p == NULL) {
            return NULL;
        }
        pace_init(p, unit, l->seed ^ (lane->id * 4 + unit), now);
        learned->paces[unit] = p;
    }
    if (learned->paces[unit]->phase == PACE_FREE) {
        recall_recent(learned->paces[unit], lane, now);
    }
    return learned->paces[unit];
}
