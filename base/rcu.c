/* RCU for the whole process: liburcu's QSBR flavour for grace periods, and one reclaim thread.
 *
 * Concurrency. A thread collects what it retires in a list of its own and hands the list over when
 * it next announces a quiescent state or goes offline: one compare-and-swap per pass, however many
 * objects. `handed_over` is a stack of such lists. Pushing is a release, taking the whole stack an
 * acquire, so the reclaim thread sees the objects as their retirers left them. It waits for a grace
 * period that begins after the take, hence after every unpublication, and then runs the release
 * functions in the order in which each thread retired.
 *
 * ThreadSanitizer does not see the barriers inside liburcu (assembler in a library that is not
 * instrumented). The two annotations below state the guarantee they give: everything a thread did
 * before a quiescent state happens before what follows a grace period that waited for it. The
 * library is called by function, never inlined (_LGPL_SOURCE stays undefined). */
#include "base/rcu.h"

#include "base/thread.h"
#include "base/waker.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>
#include <urcu/urcu-qsbr.h>

/* Between two batches, so that a busy process pays for a bounded number of grace periods: each one
 * wakes every thread that sleeps or is about to. */
#define RECLAIM_PAUSE_NSEC 20000000

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RCU_TSAN 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define RCU_TSAN 1
#endif

#ifdef RCU_TSAN
extern void __tsan_acquire(void *addr);
extern void __tsan_release(void *addr);
static char grace_token; /* stands for "some grace period"; only its address is used */
#define grace_release() __tsan_release(&grace_token)
#define grace_acquire() __tsan_acquire(&grace_token)
#else
#define grace_release() ((void)0)
#define grace_acquire() ((void)0)
#endif

/* The calling thread's part; touched by that thread only. */
static _Thread_local struct {
    bool is_joined;
    bool is_online;
    struct rcu_retired *newest; /* retired and not handed over; linked to older ones */
    struct rcu_retired *oldest;
    uint64_t count;
} self;

static struct {
    struct thread thread;
    struct waker waker;
    bool is_running; /* written before the first thread starts and after the last one ended */
    _Atomic bool is_stopping;
    _Atomic(struct rcu_retired *) handed_over;
    _Atomic uint64_t retired_count; /* raised before a list is handed over */
    pthread_mutex_t lock;           /* of the two below; never held while waiting for readers */
    pthread_cond_t released;
    uint64_t released_count;
} reclaim = {.lock = PTHREAD_MUTEX_INITIALIZER, .released = PTHREAD_COND_INITIALIZER};

static void hand_over(void)
{
    if (self.newest == NULL) {
        return;
    }
    atomic_fetch_add_explicit(&reclaim.retired_count, self.count, memory_order_relaxed);
    struct rcu_retired *top = atomic_load_explicit(&reclaim.handed_over, memory_order_relaxed);
    do {
        self.oldest->next = top;
        /* Partner: the exchange in take_all. */
    } while (!atomic_compare_exchange_weak_explicit(&reclaim.handed_over, &top, self.newest,
                                                    memory_order_release, memory_order_relaxed));
    self.newest = self.oldest = NULL;
    self.count = 0;
    waker_kick(&reclaim.waker);
}

void rcu_join(void)
{
    assert(!self.is_joined);
    urcu_qsbr_register_thread();
    self.is_joined = true;
    self.is_online = true;
}

void rcu_leave(void)
{
    assert(self.is_joined);
    hand_over();
    grace_release();
    self.is_online = false;
    self.is_joined = false;
    urcu_qsbr_unregister_thread();
}

void rcu_pass(void)
{
    assert(self.is_online);
    hand_over();
    grace_release();
    urcu_qsbr_quiescent_state();
}

void rcu_sleep(void)
{
    assert(self.is_online);
    hand_over();
    grace_release();
    self.is_online = false;
    urcu_qsbr_thread_offline();
}

void rcu_awake(void)
{
    assert(self.is_joined && !self.is_online);
    urcu_qsbr_thread_online();
    self.is_online = true;
}

bool rcu_is_online(void)
{
    return self.is_online;
}

void rcu_retire(struct rcu_retired *retired, void (*release)(struct rcu_retired *self))
{
    assert(self.is_joined && reclaim.is_running);
    retired->release = release;
    retired->next = self.newest;
    self.newest = retired;
    if (self.oldest == NULL) {
        self.oldest = retired;
    }
    self.count++;
    if (!self.is_online) {
        hand_over(); /* no quiescent state will follow soon */
    }
}

void rcu_wait(void)
{
    bool was_online = self.is_online;
    if (was_online) {
        rcu_sleep(); /* or this thread would wait for itself */
    }
    urcu_qsbr_synchronize_rcu();
    grace_acquire();
    if (was_online) {
        rcu_awake();
    }
}

static struct rcu_retired *take_all(void)
{
    /* Partner: the compare-and-swap in hand_over. */
    return atomic_exchange_explicit(&reclaim.handed_over, NULL, memory_order_acquire);
}

/* Runs every release function, oldest first; returns how many. */
static uint64_t release_all(struct rcu_retired *newest_first)
{
    struct rcu_retired *oldest_first = NULL;
    while (newest_first != NULL) {
        struct rcu_retired *next = newest_first->next;
        newest_first->next = oldest_first;
        oldest_first = newest_first;
        newest_first = next;
    }
    uint64_t count = 0;
    while (oldest_first != NULL) {
        struct rcu_retired *next = oldest_first->next;
        oldest_first->release(oldest_first);
        oldest_first = next;
        count++;
    }
    return count;
}

/* Blocks until something is handed over or a stop is asked for; NULL when stopping. */
static struct rcu_retired *next_batch(void)
{
    for (;;) {
        struct rcu_retired *batch = take_all();
        if (batch != NULL) {
            return batch;
        }
        waker_prepare(&reclaim.waker);
        batch = take_all();
        /* Partner: the store in rcu_stop, before its kick. */
        bool is_stopping = atomic_load_explicit(&reclaim.is_stopping, memory_order_acquire);
        if (batch == NULL && !is_stopping) {
            waker_wait(&reclaim.waker, USEC_NEVER);
        }
        waker_finish(&reclaim.waker);
        if (batch != NULL || is_stopping) {
            return batch;
        }
    }
}

static void reclaim_run(void *arg)
{
    rcu_sleep(); /* reads nothing, so nobody ever waits for this thread */
    struct rcu_retired *batch;
    while ((batch = next_batch()) != NULL) {
        rcu_wait();
        uint64_t count = release_all(batch);
        int failed = pthread_mutex_lock(&reclaim.lock);
        reclaim.released_count += count;
        failed |= pthread_cond_broadcast(&reclaim.released);
        failed |= pthread_mutex_unlock(&reclaim.lock);
        assert(failed == 0);
        if (!atomic_load_explicit(&reclaim.is_stopping, memory_order_relaxed)) {
            const struct timespec pause = {.tv_nsec = RECLAIM_PAUSE_NSEC};
            (void)nanosleep(&pause, NULL); /* shorter is harmless */
        }
    }
    rcu_awake();
}

void rcu_drain(void)
{
    assert(reclaim.is_running);
    bool was_online = self.is_online;
    if (was_online) {
        rcu_sleep();
    }
    int failed = pthread_mutex_lock(&reclaim.lock);
    /* A release function may retire more; it hands that over before it is counted as released. */
    while (failed == 0 && reclaim.released_count !=
                              atomic_load_explicit(&reclaim.retired_count, memory_order_relaxed)) {
        failed = pthread_cond_wait(&reclaim.released, &reclaim.lock);
    }
    failed |= pthread_mutex_unlock(&reclaim.lock);
    assert(failed == 0);
    if (was_online) {
        rcu_awake();
    }
}

uint64_t rcu_backlog(void)
{
    int failed = pthread_mutex_lock(&reclaim.lock);
    uint64_t released = reclaim.released_count;
    failed |= pthread_mutex_unlock(&reclaim.lock);
    assert(failed == 0);
    return atomic_load_explicit(&reclaim.retired_count, memory_order_relaxed) - released;
}

void rcu_start(void)
{
    assert(!reclaim.is_running);
    atomic_store_explicit(&reclaim.is_stopping, false, memory_order_relaxed);
    waker_init(&reclaim.waker);
    reclaim.is_running = true;
    int err = thread_start(&reclaim.thread, "reclaim", reclaim_run, NULL);
    assert(err == 0); /* out of memory at start: nothing to fall back to */
}

void rcu_stop(void)
{
    assert(reclaim.is_running);
    bool was_online = self.is_online;
    if (was_online) {
        rcu_sleep(); /* hands over what this thread retired, and holds up no grace period */
    }
    /* Partner: the load in next_batch. */
    atomic_store_explicit(&reclaim.is_stopping, true, memory_order_release);
    waker_kick(&reclaim.waker);
    thread_join(&reclaim.thread);
    if (was_online) {
        rcu_awake();
    }
    reclaim.is_running = false;
    waker_fini(&reclaim.waker);
}
