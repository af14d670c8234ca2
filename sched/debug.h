/* A record of feedback as it is applied, for destination_concurrency_feedback_debug. */
#ifndef SCHED_DEBUG_H
#define SCHED_DEBUG_H

#include "sched/sched.h"

#define DEBUG_RECORDS 256

struct lane;

struct debug {
    struct sched_debug *records; /* DEBUG_RECORDS, or NULL: off */
    uint64_t written, read;
};

MUST_USE int debug_init(struct sched *s); /* keep records from now on; errors: -ENOMEM */
void debug_fini(struct sched *s);
void debug_record(struct sched *s, struct slice name, const struct lane *lane, bool is_positive);

#endif
