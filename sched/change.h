/* A record of the windows that changed, always on. It costs something only when one does. */
#ifndef SCHED_CHANGE_H
#define SCHED_CHANGE_H

#include "sched/sched.h"

#define CHANGE_RECORDS 256

struct site_lane;

struct change {
    struct sched_change *records; /* CHANGE_RECORDS */
    uint64_t written, read;
};

MUST_USE int change_init(struct sched *s); /* errors: -ENOMEM */
void change_fini(struct sched *s);
/* The window of a destination, or of a lane of a site, is another one now.
 *
 * from, to  as it was and is; WINDOW_... are written as 0
 * reason    NULL: none is known */
void change_record(struct sched *s, struct slice name, int from, int to,
                   enum sched_change_cause cause, const struct sched_reason *reason);

void change_record_of_lane(struct sched *s, const struct site_lane *l, int from, int to,
                           enum sched_change_cause cause, const struct sched_reason *reason);

#endif
