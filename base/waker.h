/* Wakes one sleeping thread, and only when it sleeps: through a futex, or through an eventfd where
 * the thread sleeps in a poll of other descriptors as well.
 *
 * Concurrency: every access to `state` that decides anything is an atomic read-modify-write, so all
 * of them stand in one order. The consumer exchanges ANNOUNCED into it, drains its rings once more
 * and only then blocks; a producer publishes its records and then exchanges AWAKE into it. If the
 * producer's exchange comes first, the consumer's exchange reads from it and therefore sees the
 * records; if it comes second, it finds what the consumer put there, and either the consumer does
 * not block or it is woken:
 *   - with a futex the consumer goes from ANNOUNCED to ASLEEP by compare-and-swap and does not
 *     block when that fails. A producer that finds ANNOUNCED has therefore nothing to do. One that
 *     finds ASLEEP calls the kernel, which compares the word with ASLEEP and queues the consumer
 *     under a lock that the wake takes too: the consumer is queued and woken, or finds another
 *     value and does not sleep.
 *   - with an eventfd a producer that finds ANNOUNCED writes it, and a poll that starts after the
 *     write returns at once.
 * No wake-up is lost, and no stand-alone fence is needed (which ThreadSanitizer would not
 * understand). A producer that is suspended between its exchange and its call to the kernel wakes
 * a later sleep: waker_wait sleeps on, a poll returns once more than needed.
 *
 * A consumer that has work for a moment that is near, and nothing before it, may doze until then:
 * waker_nudge, which says that something came that can wait so long, leaves it asleep. It decides
 * by a compare-and-swap of DOZING with itself: as a read-modify-write too it comes before the
 * exchange with which the consumer gets up and after which it looks at its rings.
 *
 * Consumer's loop: drain; waker_prepare(w); drain again; if nothing was found, waker_wait or poll
 * w->fd; waker_finish(w). A kick may wake the consumer once more than needed, never once less.
 * Produce, then kick, and only then wait for anything. */
#ifndef BASE_WAKER_H
#define BASE_WAKER_H

#include "base/attr.h"
#include "base/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum waker_state { WAKER_AWAKE, WAKER_ANNOUNCED, WAKER_ASLEEP, WAKER_DOZING };

struct waker {
    /* Padding, not alignment: a waker may lie in any malloc'ed object, and `state`, which every
     * producer writes, still shares no cache line with anything outside. */
    char line_before[CACHE_LINE];
    _Atomic uint32_t state; /* enum waker_state, the futex; any thread */
    int fd;                 /* eventfd, non-blocking, or -1: a futex; set at creation */
    bool is_announced;      /* consumer only: between waker_prepare and waker_finish */
    char line_after[CACHE_LINE];
};

/* For a consumer that sleeps in waker_wait. */
void waker_init(struct waker *w);
/* For a consumer that polls w->fd. An edge-triggered epoll need never read it, since every write is
 * an event; who polls for its level calls waker_clear. errors: -errno of eventfd */
MUST_USE int waker_init_polled(struct waker *w);
void waker_fini(struct waker *w);
/* Any thread, once after a batch of pushes. */
void waker_kick(struct waker *w);
/* Any thread: as waker_kick, for what can wait until a dozing consumer gets up by itself. */
void waker_nudge(struct waker *w);
/* Consumer: announce sleep; the caller must look at its rings once more before blocking. */
void waker_prepare(struct waker *w);
/* Consumer: awake again. No-op without waker_prepare. */
void waker_finish(struct waker *w);
/* Consumer that polls for the level of w->fd, after waker_finish: not readable any more. */
void waker_clear(struct waker *w);
/* Consumer of a futex, once between prepare and finish: block until kicked or nudged, or until the
 * monotonic deadline (USEC_NEVER: no deadline). */
void waker_wait(struct waker *w, usec_t deadline);
/* The same, but not ended by a nudge. deadline: near; not USEC_NEVER */
void waker_doze(struct waker *w, usec_t deadline);

#endif
