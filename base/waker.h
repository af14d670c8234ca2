/* Wakes one sleeping thread through an eventfd, and only when it sleeps.
 *
 * Concurrency: every access to `sleeping` is an atomic exchange, so all of them stand in one order.
 * The consumer exchanges 1 into it, drains its rings once more and only then blocks; a producer
 * publishes its records and then exchanges 0 into it. If the producer's exchange comes second it
 * finds the 1 and writes the eventfd; if it comes first, the consumer's exchange reads from it and
 * therefore sees the records. No wake-up is lost, and no stand-alone fence is needed (which
 * ThreadSanitizer would not understand).
 *
 * Consumer's loop: drain; waker_prepare(w); drain again; if nothing was found, block on w->fd or
 * with waker_wait; waker_finish(w). A kick may wake the consumer once more than needed, never once
 * less. Produce, then kick, and only then wait for anything. */
#ifndef BASE_WAKER_H
#define BASE_WAKER_H

#include "base/attr.h"
#include "base/clock.h"

#include <stdatomic.h>
#include <stdbool.h>

struct waker {
    /* Padding, not alignment: a waker may lie in any malloc'ed object, and `sleeping`, which every
     * producer writes, still shares no cache line with anything outside. */
    char line_before[CACHE_LINE];
    _Atomic int sleeping; /* 1 from waker_prepare until a kick or waker_finish; any thread */
    int fd;               /* eventfd, non-blocking; set at creation */
    unsigned owed;        /* consumer only: kicks whose write to the eventfd is still to be read */
    bool is_announced;    /* consumer only: between waker_prepare and waker_finish */
    char line_after[CACHE_LINE];
};

MUST_USE int waker_init(struct waker *w); /* errors: -errno of eventfd */
void waker_fini(struct waker *w);
/* Any thread, once after a batch of pushes. */
void waker_kick(struct waker *w);
/* Consumer: announce sleep; the caller must look at its rings once more before blocking. */
void waker_prepare(struct waker *w);
/* Consumer: awake again; clears the eventfd when it was written. No-op without waker_prepare. */
void waker_finish(struct waker *w);
/* Consumer without an epoll loop: block until kicked or until the monotonic deadline
 * (USEC_NEVER: no deadline). Call between prepare and finish. */
void waker_wait(struct waker *w, usec_t deadline);

#endif
