/* The job that may preempt the current one (5.5), found among the sizes of the waiting jobs rather
 * than among the jobs. Owner thread only. */
#ifndef SCHED_CANDIDATE_H
#define SCHED_CANDIDATE_H

#include "sched/sched.h"
#include "sched/tree.h"

struct flow;
struct job;

/* Jobs of the same need and the same total, at level 0 and without children. Those that are not
 * parked are not blocked; of the parked ones, those from flow.passed on are not. Both sets are in
 * the order of the schedule, so each starts with the oldest. */
struct size_class {
    struct tree_node in_sizes; /* flow.sizes, by need, then total */
    uint32_t need, total;      /* entries */
    struct tree free, parked;  /* job.in_class */
};

void candidate_init(struct flow *f);
/* A linked job's size, place or standing changed: find its class. */
void candidate_file(struct sched *s, struct job *j);
/* Before its position or place changes, or it is unlinked. */
void candidate_withdraw(struct sched *s, struct job *j);
/* An entry of it was selected: filed later, so that a job in delivery costs nothing. */
void candidate_drift(struct sched *s, struct job *j);
/* The best candidate to preempt `owner`, the current job; NULL when there is none. */
struct job *candidate_search(struct sched *s, struct job *owner);
/* A search comes soon: hints for the processor about the job that it will probably find.
 *
 * has_come   about that job's neighbours and destination; asked for the job itself before */
void candidate_expect(const struct sched *s, const struct flow *f, bool has_come);

#endif
