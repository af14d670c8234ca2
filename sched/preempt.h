/* Small jobs slip past large ones, at a bounded price (5.5-5.7). Owner thread only. */
#ifndef SCHED_PREEMPT_H
#define SCHED_PREEMPT_H

struct flow;
struct job;
struct sched;

/* The job to examine first in place of current: the one that preempts it, or itself. */
struct job *preempt_try(struct sched *s, struct job *current);
/* Leave the stack: unused slots go back to the parent, the children are adopted. Level > 0. */
void preempt_pop(struct sched *s, struct job *j);
/* The cached candidate may be wrong. */
void preempt_invalidate(struct flow *f);

#endif
