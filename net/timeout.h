/* A worker's deadlines: one struct timeout in each connection, one queue a worker.
 *
 * Most deadlines move later with every packet and never fire. So the queue is a heap that is
 * re-sorted lazily: a deadline that moves later is only noted, O(1), and the node sinks when its
 * old time comes up. A deadline that moves earlier costs O(log n). A timeout keeps its place in
 * the heap from timeout_add to timeout_remove, so arming it can never fail. Owner: one thread. */
#ifndef NET_TIMEOUT_H
#define NET_TIMEOUT_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/heap.h"

#include <stdbool.h>

struct timeout {
    struct heap_node node; /* key <= deadline, except for a past one armed inside a run */
    usec_t deadline;       /* monotonic; USEC_NEVER: not armed */
    /* Called by timeout_queue_run, unarmed; may set, add and remove any timeout, itself included,
     * and free its owner. */
    void (*expired)(struct timeout *t, usec_t now);
};

struct timeout_queue {
    struct heap heap;
    usec_t running; /* the now of the run in progress, else INT64_MIN */
};

void timeout_queue_init(struct timeout_queue *q);
void timeout_queue_fini(struct timeout_queue *q); /* every timeout must have been removed */

/* Join the queue, not armed. t must not move until timeout_remove. errors: -ENOMEM */
MUST_USE int timeout_add(struct timeout_queue *q, struct timeout *t,
                         void (*expired)(struct timeout *t, usec_t now));
/* Arm, move or (USEC_NEVER) disarm. */
void timeout_set(struct timeout_queue *q, struct timeout *t, usec_t deadline);
/* Leave the queue; no-op for a zeroed or removed timeout. */
void timeout_remove(struct timeout_queue *q, struct timeout *t);

static inline bool timeout_is_armed(const struct timeout *t)
{
    return t->deadline != USEC_NEVER;
}

/* When timeout_queue_run must be called next; may be earlier than the first deadline (lazy
 * re-sorting), never later. USEC_NEVER when nothing is armed. */
usec_t timeout_queue_next(const struct timeout_queue *q);
/* Expire all with deadline <= now, earliest first; each at most once a call. returns: expired */
unsigned timeout_queue_run(struct timeout_queue *q, usec_t now);

#endif
