/* Fields with one writer, the owner thread, and readers on any thread. Relaxed is enough: each is a
 * figure of its own, and whatever must be seen in order is published through sched/table.h. */
#ifndef SCHED_SHARED_H
#define SCHED_SHARED_H

#define shared_get(p)    __atomic_load_n((p), __ATOMIC_RELAXED)
#define shared_set(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
/* Owner only: not a read-modify-write operation. */
#define shared_add(p, n) shared_set((p), shared_get(p) + (n))
#define shared_sub(p, n) shared_set((p), shared_get(p) - (n))

#endif
