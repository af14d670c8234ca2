/* Owns: the listening socket and one connection at a time. */
#include "engine/control.h"

#include "base/error.h"
#include "base/log.h"
#include "base/rcu.h"
#include "base/thread.h"
#include "engine/config.h"
#include "engine/control_client.h"
#include "engine/engine.h"
#include "engine/queue_report.h"
#include "engine/worker.h"
#include "net/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { PEER_PATIENCE = 10 }; /* seconds for a request line, or for the client to take an answer */

struct control {
    /* set at creation */
    struct engine *engine;
    int fd;
    struct waker waker;
    struct thread thread;
    struct queue_report *report;
    _Atomic bool is_stopping;

    /* control thread only */
    struct outbox *to_workers; /* [engine->worker_count] */
    uint32_t next_worker;
};

/* Reads up to the first line end and not beyond it, so that an SMTP client's next bytes stay in the
 * socket for the worker. returns the line's length, or -1 */
static ssize_t read_line(int fd, char *line, size_t size)
{
    size_t len = 0;
    while (len < size) {
        ssize_t n = recv(fd, line + len, 1, 0);
        if (n <= 0) {
            return -1;
        }
        if (line[len] == '\n') {
            return (ssize_t)(len > 0 && line[len - 1] == '\r' ? len - 1 : len);
        }
        len++;
    }
    return -1;
}

static void hand_over(struct control *c, int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        (void)close(fd); /* nothing was said */
        return;
    }
    struct outbox *o = &c->to_workers[c->next_worker++ % c->engine->worker_count];
    outbox_put(o, LETTER_ADOPT, NULL, (uint64_t)fd);
    (void)outbox_flush(o); /* what does not fit goes with the next session */
}

static void take_connection(struct control *c, int fd)
{
    char line[CONTROL_REQUEST_MAX_BYTES];
    const struct timeval patience = {.tv_sec = PEER_PATIENCE};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)); /* cannot fail */
    int flags = fcntl(fd, F_GETFL);
    (void)fcntl(fd, F_SETFL, flags & ~O_NONBLOCK); /* at worst the answer is cut off */
    ssize_t len = read_line(fd, line, sizeof(line));
    if (len >= 0 && slice_eq(slice_make(line, (size_t)len), SLICE("SMTP"))) {
        hand_over(c, fd);
        return;
    }
    if (len >= 0) {
        rcu_awake();
        queue_report_answer(c->report, fd, slice_make(line, (size_t)len));
        rcu_sleep();
    }
    (void)close(fd); /* the answer was complete or has no end line */
}

static void run(void *arg)
{
    struct control *c = arg;
    rcu_sleep();
    while (!atomic_load(&c->is_stopping)) {
        struct pollfd fds[2] = {{.fd = c->fd, .events = POLLIN},
                                {.fd = c->waker.fd, .events = POLLIN}};
        waker_prepare(&c->waker);
        if (!atomic_load(&c->is_stopping)) {
            (void)poll(fds, 2, -1); /* an error shows again */
        }
        waker_finish(&c->waker);
        waker_clear(&c->waker);
        int fd = listen_accept(c->fd, NULL, NULL);
        if (fd >= 0) {
            take_connection(c, fd);
        } else if (fd != ERR_AGAIN) {
            (void)usleep(100 * 1000); /* out of descriptors: the socket stays readable */
        }
    }
    rcu_awake();
}

/* --- life --------------------------------------------------------------------------------------
 */

static int bind_socket(const char *path, int *ret)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path)) {
        return -ENAMETOOLONG;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    /* The spool's lock says that no other daemon is alive: a socket that is there is left over.
     * Anything else is somebody's, and the bind below says that the address is in use. */
    struct stat found;
    if (lstat(path, &found) == 0 && S_ISSOCK(found.st_mode) && unlink(path) != 0) {
        return -errno;
    }
    mode_t mask = umask(0117);
    int fd = listen_open((const struct sockaddr *)&address, sizeof(address), 64, false);
    (void)umask(mask);
    if (fd < 0) {
        return fd;
    }
    *ret = fd;
    return 0;
}

int control_new(struct engine *engine, struct control **ret)
{
    struct control *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return -ENOMEM;
    }
    c->engine = engine;
    c->fd = -1;
    int err = waker_init_polled(&c->waker);
    if (err != 0) {
        free(c);
        return err;
    }
    c->to_workers = calloc(engine->worker_count, sizeof(*c->to_workers));
    err = c->to_workers == NULL ? -ENOMEM : queue_report_new(engine, &c->report);
    if (err == 0) {
        err = bind_socket(engine->config->control_path, &c->fd);
        if (err != 0) {
            log_error("control socket %s: %s", engine->config->control_path, err_str(err));
        }
    }
    for (uint32_t i = 0; err == 0 && i < engine->worker_count; i++) {
        outbox_init(&c->to_workers[i], worker_box(engine->workers[i]));
    }
    if (err != 0) {
        control_free(c);
        return err;
    }
    *ret = c;
    return 0;
}

int control_start(struct control *c)
{
    return thread_start(&c->thread, "control", run, c);
}

void control_stop(struct control *c)
{
    atomic_store(&c->is_stopping, true);
    waker_kick(&c->waker);
    thread_join(&c->thread);
}

void control_free(struct control *c)
{
    if (c == NULL) {
        return;
    }
    if (c->fd >= 0) {
        (void)close(c->fd);
        (void)unlink(c->engine->config->control_path); /* only tidiness */
    }
    queue_report_free(c->report);
    waker_fini(&c->waker);
    for (uint32_t i = 0; c->to_workers != NULL && i < c->engine->worker_count; i++) {
        outbox_fini(&c->to_workers[i]);
    }
    free(c->to_workers);
    free(c);
}
