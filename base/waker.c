/* The eventfd wake-up. The argument why no wake-up is lost is in waker.h; it rests on `sleeping`
 * being touched by read-modify-writes only: each acquires what every earlier one released, since
 * read-modify-writes never break a release sequence. */
#include "base/waker.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

int waker_init(struct waker *w)
{
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    atomic_init(&w->sleeping, 0);
    w->fd = fd;
    w->is_announced = false;
    w->owed = 0;
    return 0;
}

void waker_fini(struct waker *w)
{
    if (w->fd >= 0) {
        (void)close(w->fd); /* an eventfd has nothing to flush */
    }
    w->fd = -1;
}

void waker_kick(struct waker *w)
{
    /* Partner: the exchange in waker_prepare. Whoever takes the 1 writes; the others need not. */
    if (atomic_exchange_explicit(&w->sleeping, 0, memory_order_acq_rel) == 0) {
        return;
    }
    const uint64_t one = 1;
    ssize_t wrote;
    do {
        wrote = write(w->fd, &one, sizeof(one));
    } while (wrote < 0 && errno == EINTR);
    /* The counter cannot overflow: at most one write per sleep of the consumer. */
    assert(wrote == (ssize_t)sizeof(one));
}

void waker_prepare(struct waker *w)
{
    assert(!w->is_announced);
    w->is_announced = true;
    /* Partner: the exchange in waker_kick. */
    int before = atomic_exchange_explicit(&w->sleeping, 1, memory_order_acq_rel);
    assert(before == 0);
    (void)before; /* read by the assertion only */
}

void waker_finish(struct waker *w)
{
    if (!w->is_announced) {
        return;
    }
    w->is_announced = false;
    if (atomic_exchange_explicit(&w->sleeping, 0, memory_order_acq_rel) == 0) {
        w->owed++; /* a producer took the 1: it has written the eventfd or is about to */
    }
    if (w->owed == 0) {
        return;
    }
    /* A write that is still under way is read after a later sleep, which it cuts short. */
    uint64_t writes;
    if (read(w->fd, &writes, sizeof(writes)) == (ssize_t)sizeof(writes)) {
        assert(writes <= w->owed);
        w->owed -= (unsigned)writes;
    }
}

void waker_wait(struct waker *w, usec_t deadline)
{
    assert(w->is_announced);
    int ready;
    do {
        struct timespec timeout;
        struct timespec *limit = NULL;
        if (deadline != USEC_NEVER) {
            usec_t left = deadline - clock_mono();
            if (left <= 0) {
                return;
            }
            timeout.tv_sec = (time_t)(left / USEC_PER_SEC);
            timeout.tv_nsec = (long)(left % USEC_PER_SEC) * 1000;
            limit = &timeout;
        }
        struct pollfd event = {.fd = w->fd, .events = POLLIN};
        ready = ppoll(&event, 1, limit, NULL);
    } while (ready < 0 && errno == EINTR);
    assert(ready >= 0);
}
