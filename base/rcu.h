/* The only door to liburcu (QSBR flavour).
 *
 * A registered thread is online, that is inside a read-side section, for a whole pass of its loop.
 * Between passes it calls rcu_pass() when it will not sleep, or rcu_sleep()/rcu_awake() around
 * blocking. No pointer obtained under RCU outlives a pass. Publication is a release store, reading
 * an acquire load, so that ThreadSanitizer understands both; grace periods are annotated for it. */
#ifndef BASE_RCU_H
#define BASE_RCU_H

#include "base/attr.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Load a pointer that another thread publishes with rcu_publish. Thread: online reader; asserted
 * under a sanitizer and with the build option rcu_debug. The writer of *pp reads it plainly. */
#ifdef SLUICE_RCU_DEBUG
#define rcu_load(pp) (assert(rcu_is_online()), __atomic_load_n((pp), __ATOMIC_ACQUIRE))
#else
#define rcu_load(pp) __atomic_load_n((pp), __ATOMIC_ACQUIRE)
#endif
/* Publish a fully built object. Thread: the single writer of *pp. */
#define rcu_publish(pp, value) __atomic_store_n((pp), (value), __ATOMIC_RELEASE)

struct rcu_retired {
    struct rcu_retired *next;
    void (*release)(struct rcu_retired *self);
};

void rcu_join(void);  /* register the calling thread; online afterwards */
void rcu_leave(void); /* unregister */
void rcu_pass(void);  /* quiescent state */
void rcu_sleep(void); /* offline */
void rcu_awake(void); /* online */
bool rcu_is_online(void);
/* Run self->release after a grace period, on the reclaim thread. Thread: any registered. */
void rcu_retire(struct rcu_retired *self, void (*release)(struct rcu_retired *self));
/* Wait for a grace period. Thread: registered or not, never a loop that others wait for. */
void rcu_wait(void);
/* Objects that were retired and are not released yet. Any thread. */
uint64_t rcu_backlog(void);
/* Wait until every retired object is released; at shutdown, after all loops have left. */
void rcu_drain(void);
/* Start and stop of the reclaim thread, once per process; all signals are blocked in it. */
void rcu_start(void);
void rcu_stop(void);

#endif
