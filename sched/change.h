/* A record of the windows that changed, always on. It costs something only when one does. */
#ifndef SCHED_CHANGE_H
#define SCHED_CHANGE_H

#include "sched/sched.h"

#define CHANGE_RECORDS 256

struct sched_destination;

struct change {
    struct sched_change *records; /* CHANGE_RECORDS */
    uint64_t written, read;
};

MUST_USE int change_init(struct sched *s); /* errors: -ENOMEM */
void change_fini(struct sched *s);
/* Its window is another one now.
 *
 * from      as it was; WINDOW_... are written as 0
 * reason    NULL: none is known */
void change_record(struct sched *s, const struct sched_destination *d, int from,
                   enum sched_change_cause cause, const struct sched_reason *reason);

#endif
