/* Start and end of threads: what every thread of the process has in common. */
#include "base/thread.h"

#include "base/rcu.h"

#include <assert.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>

static void *thread_main(void *arg)
{
    struct thread *t = arg;
    (void)pthread_setname_np(pthread_self(), t->name); /* a name is a convenience for debuggers */
    rcu_join();
    t->run(t->arg);
    rcu_leave();
    return NULL;
}

int thread_start(struct thread *t, const char *name, void (*run)(void *), void *arg)
{
    (void)snprintf(t->name, sizeof(t->name), "%s", name); /* cut to what the kernel keeps */
    t->run = run;
    t->arg = arg;

    /* A thread inherits the mask, so that no signal can slip in before it blocks them itself.
     * Faults of the thread's own making stay open: blocking those only hides their report. */
    sigset_t all;
    sigset_t before;
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    int failed = sigfillset(&all);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        failed |= sigdelset(&all, faults[i]);
    }
    failed |= pthread_sigmask(SIG_SETMASK, &all, &before);
    assert(failed == 0);
    int err = pthread_create(&t->id, NULL, thread_main, t);
    failed = pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert(failed == 0);
    return -err;
}

void thread_set_batch(bool is_batch)
{
    static const struct sched_param none = {.sched_priority = 0};
    const int wanted = is_batch ? SCHED_BATCH : SCHED_OTHER;
    const int policy = sched_getscheduler(0); /* 0: the calling thread */
    if (policy != wanted && (policy == SCHED_OTHER || policy == SCHED_BATCH)) {
        (void)sched_setscheduler(0, wanted, &none); /* not granted: it is a wish */
    }
}

void thread_join(struct thread *t)
{
    int failed = pthread_join(t->id, NULL);
    assert(failed == 0);
    (void)failed; /* read by the assertion only */
}

void thread_owner_set(struct thread_owner *o)
{
    o->id = pthread_self();
    o->is_set = true;
}

void thread_owner_clear(struct thread_owner *o)
{
    o->is_set = false;
}

#ifdef SLUICE_OWNER_DEBUG
void thread_owner_assert(const struct thread_owner *o)
{
    assert(!o->is_set || pthread_equal(o->id, pthread_self()));
}
#endif
