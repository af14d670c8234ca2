/* Named threads with every signal blocked, registered with RCU for their whole life. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include "base/attr.h"

#include <pthread.h>

struct thread {
    pthread_t id;
    char name[16];
    void (*run)(void *arg);
    void *arg;
};

/* errors: -errno of pthread_create; *t must stay where it is until thread_join. */
MUST_USE int thread_start(struct thread *t, const char *name, void (*run)(void *), void *arg);
void thread_join(struct thread *t);

#endif
