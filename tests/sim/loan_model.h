/* A model of what was lent to lanes: what goes out never exceeds it, and what is left comes back. */
#ifndef TESTS_SIM_LOAN_MODEL_H
#define TESTS_SIM_LOAN_MODEL_H

#include "sched/sched.h"

#define SITES   4 /* 0 is none */
#define SOURCES 8 /* ids of sources */

struct loan_of_lane {
    bool is_limited, is_asked, is_held, is_ample;
    uint32_t messages, connects; /* left */
    int64_t recipients;          /* less than 0: owed */
    usec_t from, until;
    uint32_t owed; /* before that */
};

struct loan_model {
    struct loan_of_lane lanes[SITES][SOURCES];
};

/* The lane of a user pointer, which is one of the above. */
void loan_asked(struct loan_model *m, const struct sched_action *a);
/* It was lent; the core took it. */
void loan_lent(struct loan_of_lane *l, const struct sched_grant *g);
void loan_returned(struct loan_model *m, const struct sched_action *a);
/* DELIVER. is_delayed: it was placed earlier */
void loan_used(struct loan_model *m, const struct sched_action *a, uint32_t recipients,
               bool is_delayed, usec_t now);

#endif
