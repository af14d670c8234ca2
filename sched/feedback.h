/* The arithmetic of a destination's window. Owned by sched/destination.c, which keeps the state and
 * decides when a report counts; no side effects here. */
#ifndef SCHED_FEEDBACK_H
#define SCHED_FEEDBACK_H

#include "sched/sched.h"

struct feedback {
    double success;      /* 0..1, toward the next step up */
    double failure;      /* 0..1, what is left before the next step down */
    double fail_cohorts; /* failed pseudo-cohorts since the last success */
};

/* What remains of struct sched_config after its cross-rules (limit >= initial). */
struct feedback_rule {
    enum sched_feedback_rule rule;
    struct sched_feedback positive, negative;
    int initial;      /* >= 1, <= limit */
    int limit;        /* 0 = none */
    int cohort_limit; /* 0 = never dead */
};

void feedback_rule_of(const struct sched_config *c, struct feedback_rule *ret);

/* A delivery ended without site failure.
 *
 * window   >= 1
 * busy     entries in flight, the reporting one included
 * returns  the new window */
MUST_USE int feedback_positive(struct feedback *f, const struct feedback_rule *r, int window,
                               int busy);
/* A delivery ended with a site failure; returns the new window, or 0: the destination is dead. */
MUST_USE int feedback_negative(struct feedback *f, const struct feedback_rule *r, int window);
/* The same without a failed cohort: never dead. */
MUST_USE int feedback_slower(struct feedback *f, const struct feedback_rule *r, int window);

#endif
