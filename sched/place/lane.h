/* What a receiver sees of one of our sources: the window of its connections and what it has taught.
 * Owner thread only, but for the fields that say otherwise. */
#ifndef SCHED_LANE_H
#define SCHED_LANE_H

#include "base/list.h"
#include "sched/feedback.h"
#include "sched/sched.h"

#define WINDOW_DEAD      0
#define WINDOW_SUSPENDED (-1)

struct lane {
    /* Any thread, relaxed; the owner writes. */
    int window; /* > 0 READY, else WINDOW_... */
    int busy;   /* connections that carry entries */
    int connections, idle_connections;
    /* Owner thread only. */
    struct feedback feedback;
    struct list open; /* connections, newest first */
};

#endif
