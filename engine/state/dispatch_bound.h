/* The bound on deliveries that a crash can repeat: dispatch stops when `undurable` recipients lack
 * a durable result, and each scheduler thread may pass that number by the one entry it hands out.
 * The bound in the spool must never be less than what can happen, so a reload replaces it in steps;
 * this file has the arithmetic. Called by the settings and by housekeeping.c of the spool writer. */
#ifndef ENGINE_DISPATCH_BOUND_H
#define ENGINE_DISPATCH_BOUND_H

#include <stdbool.h>
#include <stdint.h>

struct dispatch_bound {
    uint64_t undurable; /* recipients: dispatch stops when so many have no durable result */
    uint64_t entry;     /* recipients of the largest entry that may be dispatched */
};

/* Most deliveries that a crash can repeat. */
static inline uint64_t dispatch_bound_deliveries(const struct dispatch_bound *b, uint32_t threads)
{
    return b->undurable + b->entry * threads;
}

static inline bool dispatch_bound_is_same(const struct dispatch_bound *a,
                                          const struct dispatch_bound *b)
{
    return a->undurable == b->undurable && a->entry == b->entry;
}

struct dispatch_bound dispatch_bound_least(const struct dispatch_bound *a,
                                           const struct dispatch_bound *b);
/* The bound to commit next: `wanted` once nothing in flight is above it, until then the larger
 * values of `committed` and `wanted`.
 *
 * undurable  recipients dispatched without a durable result
 * entry      the largest entry that some scheduler may still dispatch */
struct dispatch_bound dispatch_bound_next(const struct dispatch_bound *committed,
                                          const struct dispatch_bound *wanted, uint64_t undurable,
                                          uint64_t entry);

#endif
