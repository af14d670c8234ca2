/* See engine/state/dispatch_bound.h: pure arithmetic, called with what the caller has read. */
#include "engine/state/dispatch_bound.h"

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

struct dispatch_bound dispatch_bound_least(const struct dispatch_bound *a,
                                           const struct dispatch_bound *b)
{
    return (struct dispatch_bound){least_of(a->undurable, b->undurable),
                                   least_of(a->entry, b->entry)};
}

struct dispatch_bound dispatch_bound_next(const struct dispatch_bound *committed,
                                          const struct dispatch_bound *wanted, uint64_t undurable,
                                          uint64_t entry)
{
    if (undurable <= wanted->undurable && entry <= wanted->entry) {
        return *wanted;
    }
    return (struct dispatch_bound){most(committed->undurable, wanted->undurable),
                                   most(committed->entry, wanted->entry)};
}
