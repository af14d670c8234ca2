/* The loop of a sink thread: accept, run sessions, keep their delays. Started and stopped by main;
 * knows nothing of SMTP. */
#include "bench/sink/sink_worker.h"

#include "base/error.h"
#include "base/log.h"
#include "bench/sink/sink_session.h"
#include "net/listen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS_A_PASS  256
#define ACCEPTS_A_PASS 16 /* of one listener, so that a flood of connections does not stop mail */

struct sink_accept {
    struct poller_watch watch;
    struct sink_worker *worker;
    size_t index;
};

/* xorshift64* (Vigna 2016); never 0. */
double sink_worker_random(struct sink_worker *w)
{
    w->random ^= w->random >> 12;
    w->random ^= w->random << 25;
    w->random ^= w->random >> 27;
    uint64_t bits = w->random * 2685821657736338717ULL;
    return (double)(bits >> 11) * 0x1p-53;
}

bool sink_worker_draw(struct sink_worker *w, double share)
{
    return sink_worker_random(w) < share;
}

static void accept_ready(struct poller_watch *watch, unsigned events)
{
    struct sink_accept *a = container_of(watch, struct sink_accept, watch);
    (void)events; /* only input was asked for */
    for (int i = 0; i < ACCEPTS_A_PASS; i++) {
        struct sockaddr_storage peer;
        socklen_t len;
        int fd = listen_accept(watch->fd, &peer, &len);
        if (fd == ERR_AGAIN) {
            return;
        }
        if (fd < 0) {
            log_error("accept on %s: %s", a->worker->sink->listeners[a->index].name, err_str(fd));
            return; /* level-triggered: it comes again, and descriptors may be free then */
        }
        int err = sink_session_start(a->worker, a->index, fd, &peer);
        if (err != 0) {
            log_error("new session: %s", err_str(err));
        }
    }
}

static void wake_ready(struct poller_watch *watch, unsigned events)
{
    uint64_t value;
    (void)events;
    (void)!read(watch->fd, &value, sizeof(value)); /* the eventfd is there only to wake the loop */
    struct sink_worker *w = container_of(watch, struct sink_worker, wake_watch);
    list_foreach_safe(s, &w->sessions, struct sink_session, link)
    {
        sink_session_resume(s);
    }
}

static usec_t wait_time(usec_t next, usec_t now)
{
    if (next == USEC_NEVER) {
        return USEC_NEVER;
    }
    return next > now ? next - now : 0;
}

static void worker_run(void *arg)
{
    struct sink_worker *w = arg;
    while (!atomic_load_explicit(&w->sink->is_stopping, memory_order_acquire)) {
        usec_t next = timeout_queue_next(&w->timeouts);
        int err = poller_wait(&w->poller, wait_time(next, clock_mono()));
        if (err < 0) {
            log_error("epoll_wait: %s", err_str(err));
            return;
        }
        pthread_mutex_lock(&w->lock);
        w->now = clock_mono();
        (void)poller_dispatch(&w->poller);
        (void)timeout_queue_run(&w->timeouts, clock_mono());
        pthread_mutex_unlock(&w->lock);
    }
}

static int watch_all(struct sink_worker *w)
{
    int err = poller_watch(&w->poller, &w->wake_watch, w->wake_fd, POLLER_READ, wake_ready);
    for (size_t i = 0; i < w->sink->listener_count && err == 0; i++) {
        w->accepts[i].worker = w;
        w->accepts[i].index = i;
        if (w->sink->listeners[i].rule.behaviour->is_silent) {
            continue;
        }
        err = poller_watch(&w->poller, &w->accepts[i].watch, w->sink->listeners[i].fd, POLLER_READ,
                           accept_ready);
    }
    return err;
}

int sink_worker_start(struct sink_worker *w, struct sink *sink, int index)
{
    memset(w, 0, sizeof(*w));
    w->sink = sink;
    w->random = sink->options->seed * 0x9e3779b97f4a7c15ULL + (uint64_t)index + 1;
    if (w->random == 0) {
        w->random = 1;
    }
    list_init(&w->sessions);
    timeout_queue_init(&w->timeouts);
    w->accepts = calloc(sink->listener_count, sizeof(*w->accepts));
    w->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    int err = w->wake_fd < 0 ? -errno : 0;
    if (w->accepts == NULL) {
        err = -ENOMEM;
    }
    if (err == 0) {
        err = sink_count_init(&w->count, sink->listener_count);
    }
    if (err == 0) {
        err = -pthread_mutex_init(&w->lock, NULL);
    }
    if (err == 0) {
        err = poller_init(&w->poller, EVENTS_A_PASS);
    }
    if (err == 0) {
        err = watch_all(w);
    }
    if (err == 0) {
        err = thread_start(&w->thread, "sink", worker_run, w);
    }
    return err;
}

void sink_worker_wake(struct sink_worker *w)
{
    const uint64_t one = 1;
    (void)!write(w->wake_fd, &one, sizeof(one)); /* can only fail when it is awake already */
}

void sink_worker_stop(struct sink_worker *w)
{
    sink_worker_wake(w);
    thread_join(&w->thread);
}

void sink_worker_close(struct sink_worker *w)
{
    list_foreach_safe(s, &w->sessions, struct sink_session, link)
    {
        sink_session_free(s);
    }
}

void sink_worker_fini(struct sink_worker *w)
{
    for (size_t i = 0; i < w->sink->listener_count; i++) {
        poller_remove(&w->poller, &w->accepts[i].watch);
    }
    poller_remove(&w->poller, &w->wake_watch);
    poller_fini(&w->poller);
    timeout_queue_fini(&w->timeouts);
    sink_count_fini(&w->count);
    (void)close(w->wake_fd);
    free(w->accepts);
    (void)pthread_mutex_destroy(&w->lock);
}
