/* Steps of the driver of the scheduler core about owners of messages, and a model of what was lent to
 * them: what goes out never exceeds it, and what is left comes back. */
#ifndef TESTS_SIM_OWNER_MOVES_H
#define TESTS_SIM_OWNER_MOVES_H

#include "sched/sched.h"

#define OWNERS 4 /* 0 is none */

struct driver;

struct loan_of_owner {
    struct sched_owner *owner; /* NULL: there is none */
    bool is_asked, is_held;
    uint32_t messages; /* left */
    int64_t recipients;
    usec_t from, until;
    uint32_t owed;
};

/* Of the next message; NULL: none. */
struct sched_owner *owner_moves_of(struct driver *d);
void owner_moves_asked(struct driver *d, const struct sched_action *a);
void owner_moves_returned(struct driver *d, const struct sched_action *a);
/* DELIVER of an entry that was selected just now, or earlier. */
void owner_moves_used(struct driver *d, const struct sched_action *a, uint32_t recipients,
                      bool is_delayed);
void owner_moves_answer(struct driver *d);
void owner_moves_step(struct driver *d);
/* From now on each has as much as it asks for. */
void owner_moves_end(struct driver *d);

#endif
