/* Which entry goes out next (5.3). Owner thread only. */
#ifndef SCHED_SELECTION_H
#define SCHED_SELECTION_H

struct flow;
struct sched;
struct sched_entry;

enum selection {
    SELECTION_NONE,  /* nothing can be selected until something changes */
    SELECTION_ENTRY, /* *ret is BUSY */
    SELECTION_READS, /* READ was queued; call again after it was pulled */
    SELECTION_ASKS,  /* OWNER_ASKS was; likewise */
};

/* Of one flow. */
enum selection selection_run(struct sched *s, struct flow *f, struct sched_entry **ret);
/* Of any, where they take turns. */
enum selection selection_in_turn(struct sched *s, struct sched_entry **ret);

#endif
