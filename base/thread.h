/* Named threads with every signal blocked, registered with RCU for their whole life. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include "base/attr.h"

#include <pthread.h>
#include <stdbool.h>

struct thread {
    pthread_t id;
    char name[16];
    void (*run)(void *arg);
    void *arg;
};

/* Which thread something belongs to. Set and cleared by that thread; others read it only before that
 * thread is started or after it was joined. */
struct thread_owner {
    pthread_t id;
    bool is_set;
};

void thread_owner_set(struct thread_owner *o); /* to the calling thread */
void thread_owner_clear(struct thread_owner *o);
/* Asserts, under a sanitizer and with the build option rcu_debug, that the calling thread is the
 * owner, or that there is none. */
#ifdef SLUICE_OWNER_DEBUG
void thread_owner_assert(const struct thread_owner *o);
#else
static inline void thread_owner_assert(const struct thread_owner *o)
{
    (void)o;
}
#endif

/* errors: -errno of pthread_create; *t must stay where it is until thread_join. */
MUST_USE int thread_start(struct thread *t, const char *name, void (*run)(void *), void *arg);
void thread_join(struct thread *t);

/* The policy (sched(7)) of the calling thread and of those that it starts later. A batch thread that is woken
 * waits until whoever has the processor has had its turn; it interrupts nobody. A policy that somebody chose for
 * the process, neither SCHED_OTHER nor SCHED_BATCH, stays, and so does that of a process that may not choose. */
void thread_set_batch(bool is_batch);

#endif
