/* One listening address: its socket, who is connected, and its timeline. Opened by main; called by
 * all workers when a connection begins and ends. */
#include "bench/sink/sink_worker.h"
#include "net/listen.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG        1024
#define FILL_WAIT_MSEC 20

static struct sink_peer *find_peer(struct sink_listener *l, const uint8_t address[16])
{
    for (size_t i = 0; i < l->peer_count; i++) {
        if (memcmp(l->peers[i].address, address, sizeof(l->peers[i].address)) == 0) {
            return &l->peers[i];
        }
    }
    if (l->peer_count == l->peer_capacity) {
        size_t capacity = l->peer_capacity == 0 ? 4 : l->peer_capacity * 2;
        struct sink_peer *peers = realloc(l->peers, capacity * sizeof(*peers));
        if (peers == NULL) {
            abort(); /* a limit that is not kept falsifies the measurement */
        }
        l->peers = peers;
        l->peer_capacity = capacity;
    }
    struct sink_peer *peer = &l->peers[l->peer_count++];
    memcpy(peer->address, address, sizeof(peer->address));
    peer->connections = 0;
    return peer;
}

static bool has_timeline(const struct sink_listener *l)
{
    return l->timeline.interval > 0;
}

static void note_open(struct sink_listener *l)
{
    if (has_timeline(l)) {
        timeline_open(&l->timeline, clock_wall(), l->open);
    }
}

bool sink_listener_enter(struct sink_listener *l, const struct behaviour *b,
                         const uint8_t address[16])
{
    pthread_mutex_lock(&l->lock);
    struct sink_peer *peer = find_peer(l, address);
    bool is_allowed =
        (b->connections_per_client == 0 || peer->connections < b->connections_per_client) &&
        (b->connections == 0 || l->open < b->connections);
    if (is_allowed) {
        peer->connections++;
        l->open++;
        if (l->open > l->max_open) {
            l->max_open = l->open;
        }
        note_open(l);
    } else if (peer->connections == 0) {
        l->peer_count--; /* takes back the entry that was appended just now */
    }
    pthread_mutex_unlock(&l->lock);
    return is_allowed;
}

void sink_listener_leave(struct sink_listener *l, const uint8_t address[16])
{
    pthread_mutex_lock(&l->lock);
    struct sink_peer *peer = find_peer(l, address);
    assert(peer->connections > 0);
    l->open--;
    if (--peer->connections == 0) {
        *peer = l->peers[--l->peer_count];
    }
    note_open(l);
    pthread_mutex_unlock(&l->lock);
}

void sink_listener_message(struct sink_listener *l, usec_t wall, usec_t latency)
{
    if (has_timeline(l)) {
        pthread_mutex_lock(&l->lock);
        timeline_message(&l->timeline, wall, latency);
        pthread_mutex_unlock(&l->lock);
    }
}

void sink_listener_deferred(struct sink_listener *l)
{
    if (has_timeline(l)) {
        pthread_mutex_lock(&l->lock);
        timeline_deferred(&l->timeline, clock_wall());
        pthread_mutex_unlock(&l->lock);
    }
}

/* Connect to our own listener until the kernel drops the next connection. On loopback each is made,
 * or dropped, before connect returns. errors: -errno */
static int fill_backlog(struct sink_listener *l, const struct sockaddr *address, socklen_t len)
{
    bool is_full = false;
    while (!is_full) {
        int *fillers = realloc(l->fillers, (l->filler_count + 1) * sizeof(*fillers));
        if (fillers == NULL) {
            return -ENOMEM;
        }
        l->fillers = fillers;
        int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            return -errno;
        }
        fillers[l->filler_count++] = fd;
        if (connect(fd, address, len) != 0 && errno != EINPROGRESS) {
            return -errno;
        }
        struct pollfd writable = {.fd = fd, .events = POLLOUT};
        is_full = poll(&writable, 1, FILL_WAIT_MSEC) == 0;
    }
    return 0;
}

int sink_listener_open(struct sink_listener *l, const struct endpoint *at,
                       const struct sink_options *options, usec_t started)
{
    const struct sockaddr *address = (const struct sockaddr *)&at->address;
    struct sockaddr_storage bound;
    socklen_t len;
    l->fd = -1;
    endpoint_text(&at->address, l->name);
    int err = -pthread_mutex_init(&l->lock, NULL);
    if (err == 0) {
        /* It may name the port, which is known only now where the kernel chose it. */
        err = sink_rule_init(&l->rule, &options->file.common, 0, 0);
    }
    if (err != 0) {
        return err;
    }
    l->fd = listen_open(address, at->len, BACKLOG, false);
    if (l->fd < 0) {
        return l->fd;
    }
    err = listen_address(l->fd, &bound, &len);
    if (err != 0) {
        return err;
    }
    endpoint_text(&bound, l->name);
    l->rule.behaviour = behaviour_file_of(&options->file, &bound, &l->destination);
    if (options->timeline > 0) {
        timeline_init(&l->timeline, started, options->timeline);
    }
    if (!l->rule.behaviour->is_silent) {
        return 0;
    }
    /* listen again with a backlog in which one connection at most waits */
    if (listen(l->fd, 0) != 0) {
        return -errno;
    }
    return fill_backlog(l, (const struct sockaddr *)&bound, len);
}

void sink_listener_fini(struct sink_listener *l)
{
    for (size_t i = 0; i < l->filler_count; i++) {
        (void)close(l->fillers[i]);
    }
    if (l->fd >= 0) {
        (void)close(l->fd);
    }
    sink_rule_fini(&l->rule);
    timeline_fini(&l->timeline);
    (void)pthread_mutex_destroy(&l->lock);
    free(l->fillers);
    free(l->peers);
}
