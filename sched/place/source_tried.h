/* Which sources an entry in flight has tried: few entries have, so it is kept beside them. Owner
 * thread only. */
#ifndef SCHED_SOURCE_TRIED_H
#define SCHED_SOURCE_TRIED_H

#include "sched/sched.h"

struct sched_entry;
struct source_record;

struct source_records {
    struct source_record *at; /* capacity of them; number n of an entry is at[n - 1] */
    uint32_t capacity;
    uint32_t first_free; /* a number; 0: none */
    uint32_t used;       /* not free */
};

void source_tried_fini(struct sched *s);
/* Places in sched.sources; all when there was no memory to keep them. */
uint64_t source_tried(const struct sched *s, const struct sched_entry *e);
void source_tried_add(struct sched *s, struct sched_entry *e, uint32_t place);
void source_tried_forget(struct sched *s, struct sched_entry *e);

#endif
