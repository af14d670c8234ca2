/* Lanes of its site that one destination keeps away from, each until a time. Owner thread only. */
#ifndef SCHED_AVOIDANCE_H
#define SCHED_AVOIDANCE_H

#include "sched/sched.h"

struct avoidance;
struct reason;
struct sched_destination;

/* reason: why, taken whatever happens. errors: -ENOMEM, nothing changed */
MUST_USE int avoidance_begin(struct sched *s, struct sched_destination *d, uint32_t place,
                             usec_t until, struct reason *reason);
/* It may go there again; the destination may be gone afterwards. */
void avoidance_end(struct sched *s, struct sched_destination *d, uint32_t place);
/* It goes away, or to another site. */
void avoidance_forget_all(struct sched *s, struct sched_destination *d);
uint64_t avoidance_mask(const struct sched_destination *d);         /* of places of sources */
struct reason *avoidance_reason(const struct sched_destination *d); /* of the latest; NULL: none */
void avoidance_tick(struct sched *s);
usec_t avoidance_wake_at(const struct sched *s);

#endif
