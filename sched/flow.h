/* A flow: mail that takes turns with the mail of other flows. Inside of it the schedule of Postfix holds
 * exactly: which job goes first, which ones are passed over, which may slip in front. Owner thread
 * only. */
#ifndef SCHED_FLOW_H
#define SCHED_FLOW_H

#include "base/list.h"
#include "sched/place/placement.h"
#include "sched/sched.h"
#include "sched/tree.h"

struct job;

struct flow {
    /* Its jobs: schedule and by_time hold the same ones. */
    struct list schedule;
    struct tree by_time;
    struct job *current;           /* where selection starts; NULL: nothing can be selected */
    struct tree runnable, aside;   /* job.in_place, in the order of the schedule */
    struct tree ready[OPEN_COUNT]; /* party.in_ready, by the first job parked there;
                                    * by what they need: OPEN_NOW, OPEN_SLOT */
    uint64_t passed;               /* selection passed all positions before it: their parked jobs
                                    * and the destinations of these are blocked (5.8) */
    uint64_t tag;                  /* odd; destinations that carry it are blocked */
    struct tree sizes;             /* size_class.in_sizes */
    struct list irregular;         /* job.in_irregular */
    struct job *adrift;            /* its size class may be out of date */
    struct job *candidate, *candidate_owner; /* cache of the search (5.5); owner NULL: invalid */
    int64_t candidate_second;
    bool passed_without_slot; /* selection ran since no slot was to be had */
};

/* As new, without a job. */
void flow_init(struct flow *f);

#endif
