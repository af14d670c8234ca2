/* A rate that changes in the course of a run, as a receiver's hidden limit does: its text, and the
 * bucket that follows it. Without a clock of its own. */
#ifndef BENCH_RATE_PLAN_H
#define BENCH_RATE_PLAN_H

#include "base/attr.h"
#include "base/clock.h"
#include "bench/sink/rate_limit.h"
#include "bench/sink/value_text.h"

#include <stdbool.h>
#include <stddef.h>

#define RATE_STEPS_MAX 16

struct rate_step {
    usec_t from; /* since the plan began, ascending; before the first there is no limit */
    struct rate rate;
};

/* Immutable once read. */
struct rate_plan {
    struct rate_step steps[RATE_STEPS_MAX];
    size_t count; /* 0: no limit at any time */
};

/* The bucket of one that the plan limits. Zeroed is a full one. */
struct rate_bucket {
    struct rate_limit limit;
    size_t step_count; /* steps that have begun */
};

/* What a bucket holds where the text says nothing of it. */
enum rate_burst {
    RATE_BURST_SPAN,  /* what one span allows: 100 of 100/m */
    RATE_BURST_TENTH, /* what a tenth of a second allows, at least 1: 20 of 200/s */
};

/* Append one step: "200/s", "100/m, burst 20", "100/s from 60" (seconds since the plan began), or
 * "none". errors: ERR_SYNTAX, with ret_why as behaviour_read */
MUST_USE int rate_plan_add(struct rate_plan *p, const char *text, enum rate_burst burst,
                           char ret_why[VALUE_WHY_BYTES]);
/* Take one token at `now` of a plan that began at `begin`. Times as in rate_limit_take. */
MUST_USE bool rate_plan_take(struct rate_bucket *b, const struct rate_plan *p, usec_t begin,
                             usec_t now);
/* What it allows a second from one time since its beginning to a later one, on average; < 0: there
 * is no limit in a part of it. */
double rate_plan_mean(const struct rate_plan *p, usec_t from, usec_t to);

#endif
