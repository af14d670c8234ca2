/* What a scheduler core ought to do, found by a look at every entry, job, connection and server and
 * at no count or order that the core keeps to be quick. For the driver of the random simulation. */
#ifndef TESTS_SIM_SCHED_ORACLE_H
#define TESTS_SIM_SCHED_ORACLE_H

#include "sched/sched.h"

/* What there is for one more entry of a destination. */
enum oracle_place {
    ORACLE_NOTHING,    /* no server is left, it is dead, or its hosts are not known */
    ORACLE_LATER,      /* it must wait */
    ORACLE_CONNECTION, /* a connection: an active one with room, or an idle one */
    ORACLE_WORKER,     /* a connection that is to be opened */
};

/* tried          bits of its servers that the entry may not go to; bit 0 also where it has no list
 * sources_tried  bits of places of sources that it may not be sent from */
enum oracle_place sched_oracle_place(const struct sched *s, const struct sched_destination *d,
                                     uint64_t tried, uint64_t sources_tried);
/* Some entry waits for a destination that has a place for it, and the cap on the workers of its
 * message allows it. Then sched_pull must find one. */
bool sched_oracle_has_work(const struct sched *s);
/* The same, but for messages at their cap, which might go on a connection that is there. */
bool sched_oracle_has_work_within_cap(const struct sched *s);
/* What selection chooses among is what a search one by one finds: the candidate as the queue manager looks
 * for it, job by job (5.5), and the destination whose turn it is. */
void sched_oracle_check(struct sched *s);

#endif
