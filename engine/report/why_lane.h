/* Why mail waits for the lanes of its receiver: closed, paused, paced, out of rate or quota, or avoided
 * by its destination; since when, by which reply or order, and when it goes on. Part of `why`; on a clerk's
 * thread, online for RCU. */
#ifndef ENGINE_WHY_LANE_H
#define ENGINE_WHY_LANE_H

#include "base/attr.h"
#include "base/slice.h"
#include "engine/report/why_chain.h"

#include <stdbool.h>
#include <stdint.h>

struct why_lanes {
    uint32_t transport;
    struct slice site; /* as the core knows it, or knew it */
    struct slice destination;
    int pool; /* of the mail; WHY_ANY_POOL */
};

/* A link for each lane of the pool that something holds back. returns whether there was any */
bool why_lanes(struct why *w, int level, const struct why_lanes *q);

#endif
