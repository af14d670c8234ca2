/* The futex and eventfd wake-up. The argument why no wake-up is lost is in waker.h; it rests on
 * `state` being decided upon by read-modify-writes only: each acquires what every earlier one
 * released, since read-modify-writes never break a release sequence. */
#include "base/waker.h"

#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void waker_init(struct waker *w)
{
    atomic_init(&w->state, WAKER_AWAKE);
    w->fd = -1;
    w->is_announced = false;
}

int waker_init_polled(struct waker *w)
{
    waker_init(w);
    w->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return w->fd < 0 ? -errno : 0;
}

void waker_fini(struct waker *w)
{
    if (w->fd >= 0) {
        (void)close(w->fd); /* an eventfd has nothing to flush */
    }
    w->fd = -1;
}

static void write_event(struct waker *w)
{
    const uint64_t one = 1;
    ssize_t wrote;
    do {
        wrote = write(w->fd, &one, sizeof(one));
    } while (wrote < 0 && errno == EINTR);
    /* One for each sleep at most: the counter of 64 bits, which may never be read, lasts. */
    assert(wrote == (ssize_t)sizeof(one));
}

static void wake_sleeper(struct waker *w)
{
    /* A private futex is an address to the kernel, which it does not read here. */
    long woken = syscall(SYS_futex, &w->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    assert(woken >= 0);
    (void)woken; /* read by the assertion only */
}

void waker_kick(struct waker *w)
{
    /* Partner: the exchange in waker_prepare and the compare-and-swap in sleep_as. Whoever takes
     * the state of a sleeper wakes it; the others need not. */
    uint32_t before = atomic_exchange_explicit(&w->state, WAKER_AWAKE, memory_order_acq_rel);
    if (before == WAKER_AWAKE) {
        return;
    }
    if (w->fd >= 0) {
        write_event(w);
    } else if (before != WAKER_ANNOUNCED) {
        wake_sleeper(w);
    }
}

void waker_nudge(struct waker *w)
{
    uint32_t dozing = WAKER_DOZING;
    /* Partner: the exchange in waker_finish. */
    if (!atomic_compare_exchange_strong_explicit(&w->state, &dozing, WAKER_DOZING,
                                                 memory_order_acq_rel, memory_order_relaxed)) {
        waker_kick(w);
    }
}

void waker_prepare(struct waker *w)
{
    assert(!w->is_announced);
    w->is_announced = true;
    /* Partner: the exchange in waker_kick. */
    uint32_t before = atomic_exchange_explicit(&w->state, WAKER_ANNOUNCED, memory_order_acq_rel);
    assert(before == WAKER_AWAKE);
    (void)before; /* read by the assertion only */
}

void waker_finish(struct waker *w)
{
    if (w->is_announced) {
        w->is_announced = false;
        /* Partner: the exchange in waker_kick, the compare-and-swap in waker_nudge. */
        (void)atomic_exchange_explicit(&w->state, WAKER_AWAKE, memory_order_acq_rel);
    }
}

void waker_clear(struct waker *w)
{
    uint64_t writes;
    (void)!read(w->fd, &writes, sizeof(writes)); /* EAGAIN: nobody wrote */
}

static void sleep_as(struct waker *w, uint32_t state, usec_t deadline)
{
    uint32_t announced = WAKER_ANNOUNCED;
    struct timespec until;
    struct timespec *limit = NULL;
    assert(w->is_announced && w->fd < 0);
    if (deadline != USEC_NEVER) {
        usec_t from_boot = deadline > 0 ? deadline : 0;
        until.tv_sec = (time_t)(from_boot / USEC_PER_SEC);
        until.tv_nsec = (long)(from_boot % USEC_PER_SEC) * 1000;
        limit = &until;
    }
    /* Partner: the exchange in waker_kick. It fails when that came first. */
    if (!atomic_compare_exchange_strong_explicit(&w->state, &announced, state, memory_order_acq_rel,
                                                 memory_order_relaxed)) {
        return;
    }
    /* Bitset waits take the moment of the monotonic clock itself. */
    while (syscall(SYS_futex, &w->state, FUTEX_WAIT_BITSET_PRIVATE, state, limit, NULL,
                   FUTEX_BITSET_MATCH_ANY) == 0) {
        /* It may be the wake of a producer that was late for an earlier sleep. This load needs no
         * order: what it misses the kernel sees, and waker_finish acquires. */
        if (atomic_load_explicit(&w->state, memory_order_relaxed) != state) {
            return;
        }
    }
    assert(errno == EAGAIN || errno == ETIMEDOUT || errno == EINTR);
}

void waker_wait(struct waker *w, usec_t deadline)
{
    sleep_as(w, WAKER_ASLEEP, deadline);
}

void waker_doze(struct waker *w, usec_t deadline)
{
    assert(deadline != USEC_NEVER);
    sleep_as(w, WAKER_DOZING, deadline);
}
