/* Wakes one sleeping thread through an eventfd, and only when it sleeps.
 *
 * Concurrency: the consumer stores sleeping=1, issues a full fence, drains its rings once more and
 * only then blocks; a producer publishes its records, issues a full fence and then reads sleeping.
 * The two fences pair: either the producer sees sleeping=1, or the consumer sees the records.
 *
 * Consumer's loop: drain; if (waker_prepare(w)) { drain again; if nothing: block on waker_fd;
 * } waker_finish(w). */
#ifndef BASE_WAKER_H
#define BASE_WAKER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/attr.h"
#include "base/clock.h"

struct waker {
    _Alignas(CACHE_LINE) _Atomic int sleeping; /* 1 from waker_prepare until a kick or waker_finish */
    int fd;                                    /* eventfd, set at creation */
};

MUST_USE int waker_init(struct waker *w); /* errors: -errno of eventfd */
void waker_fini(struct waker *w);
/* Any thread, once after a batch of pushes. */
void waker_kick(struct waker *w);
/* Consumer: announce sleep; the caller must look at its rings once more before blocking. */
void waker_prepare(struct waker *w);
/* Consumer: awake again; clears the eventfd when it was written. */
void waker_finish(struct waker *w);
/* Consumer without an epoll loop: block until kicked or until the monotonic deadline
 * (USEC_NEVER: no deadline). Call between prepare and finish. */
void waker_wait(struct waker *w, usec_t deadline);

#endif
