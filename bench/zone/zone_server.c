/* See the header. Answers over TCP go into the socket's buffer at once, and a client that leaves no
 * room there loses its connection. */
#include "bench/zone/zone_server.h"

#include "base/error.h"
#include "bench/zone/zone_answer.h"
#include "net/listen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    QUERY_MAX = 4096,
    BATCH = 64,
    RECEIVE_BUFFER = 8 << 20, /* bytes: bursts of questions are the point; the kernel may cut it */
};

/* An answer over UDP that waits. */
struct late {
    struct list link;
    usec_t due;
    struct sockaddr_storage peer;
    socklen_t peer_len;
    size_t size;
    uint8_t answer[];
};

struct connection {
    struct list link;
    struct zone_server *server;
    struct poller_watch watch;
    size_t len;
    uint8_t in[2 + QUERY_MAX];
};

/* --- UDP -------------------------------------------------------------------------------------- */

static void send_answer(struct zone_server *s, const uint8_t *answer, size_t size,
                        const struct sockaddr_storage *peer, socklen_t peer_len)
{
    if (sendto(s->udp.fd, answer, size, 0, (const struct sockaddr *)peer, peer_len) ==
        (ssize_t)size) {
        s->answered++;
    }
}

/* Most wait equally long, so its place is near the end. Out of memory: as if it had been lost. */
static void put_off(struct zone_server *s, const uint8_t *answer, size_t size,
                    const struct sockaddr_storage *peer, socklen_t peer_len, usec_t due)
{
    struct late *l = malloc(sizeof(*l) + size);
    if (l == NULL) {
        return;
    }
    *l = (struct late){.due = due, .peer = *peer, .peer_len = peer_len, .size = size};
    memcpy(l->answer, answer, size);
    struct list *before = s->late.prev;
    while (before != &s->late && container_of(before, struct late, link)->due > due) {
        before = before->prev;
    }
    list_insert_after(before, &l->link);
}

static void send_due(struct zone_server *s, usec_t now)
{
    list_foreach_safe(l, &s->late, struct late, link)
    {
        if (l->due > now) {
            break;
        }
        send_answer(s, l->answer, l->size, &l->peer, l->peer_len);
        list_remove(&l->link);
        free(l);
    }
}

static void on_questions(struct poller_watch *watch, unsigned events)
{
    struct zone_server *s = container_of(watch, struct zone_server, udp);
    char query[QUERY_MAX];
    uint8_t answer[ZONE_ANSWER_MAX];
    (void)events;
    for (;;) {
        struct sockaddr_storage peer;
        socklen_t len = sizeof(peer);
        uint32_t delay = 0;
        ssize_t n = recvfrom(watch->fd, query, sizeof(query), 0, (struct sockaddr *)&peer, &len);
        if (n < 0) {
            return; /* nothing waits, or a peer that is gone said so */
        }
        size_t size = zone_answer(s->zone, slice_make(query, (size_t)n), s->ttl, answer, &delay);
        if (size > 0 && delay > 0) {
            put_off(s, answer, size, &peer, len, clock_mono() + delay * USEC_PER_MSEC);
        } else if (size > 0) {
            send_answer(s, answer, size, &peer, len);
        }
    }
}

/* --- TCP -------------------------------------------------------------------------------------- */

static void end_connection(struct connection *c)
{
    int fd = c->watch.fd;
    poller_remove(&c->server->poller, &c->watch);
    (void)close(fd); /* an error of close has no consequence here */
    list_remove(&c->link);
    free(c);
}

/* returns: false when the connection is of no use any more */
static bool answer_one(struct connection *c, const uint8_t *query, size_t len)
{
    uint8_t framed[2 + ZONE_ANSWER_MAX];
    struct zone_server *s = c->server;
    size_t size =
        zone_answer(s->zone, slice_make((const char *)query, len), s->ttl, framed + 2, NULL);
    framed[0] = (uint8_t)(size >> 8);
    framed[1] = (uint8_t)size;
    if (size == 0) {
        return true; /* DROP */
    }
    s->answered++;
    return send(c->watch.fd, framed, size + 2, MSG_NOSIGNAL) == (ssize_t)size + 2;
}

/* The questions that are there as a whole. returns as answer_one */
static bool answer_whole(struct connection *c)
{
    size_t at = 0;
    while (c->len - at >= 2) {
        size_t len = (size_t)c->in[at] << 8 | c->in[at + 1];
        if (len > QUERY_MAX) {
            return false;
        }
        if (c->len - at < 2 + len) {
            break;
        }
        if (!answer_one(c, c->in + at + 2, len)) {
            return false;
        }
        at += 2 + len;
    }
    c->len -= at;
    memmove(c->in, c->in + at, c->len);
    return true;
}

static void on_zone_connection(struct poller_watch *watch, unsigned events)
{
    struct connection *c = container_of(watch, struct connection, watch);
    (void)events;
    ssize_t n = recv(watch->fd, c->in + c->len, sizeof(c->in) - c->len, 0);
    if (n < 0 && errno == EAGAIN) {
        return;
    }
    c->len += n > 0 ? (size_t)n : 0;
    if (n <= 0 || !answer_whole(c)) {
        end_connection(c);
    }
}

static void on_caller(struct poller_watch *watch, unsigned events)
{
    struct zone_server *s = container_of(watch, struct zone_server, tcp);
    (void)events;
    int fd = listen_accept(watch->fd, NULL, NULL);
    if (fd < 0) {
        return;
    }
    struct connection *c = calloc(1, sizeof(*c));
    if (c == NULL ||
        poller_watch(&s->poller, &c->watch, fd, POLLER_READ, on_zone_connection) != 0) {
        free(c);
        (void)close(fd); /* nothing was said */
        return;
    }
    c->server = s;
    list_push_back(&s->connections, &c->link);
}

/* --- life ------------------------------------------------------------------------------------- */

static int open_udp(const struct endpoint *e)
{
    const int size = RECEIVE_BUFFER;
    int fd = socket(e->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    /* as far as the kernel's limit allows */
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    if (bind(fd, (const struct sockaddr *)&e->address, e->len) != 0) {
        int err = -errno;
        (void)close(fd); /* nothing was sent */
        return err;
    }
    return fd;
}

/* Takes the descriptor. */
static int watch_socket(struct zone_server *s, struct poller_watch *watch, int fd,
                        void (*ready)(struct poller_watch *, unsigned))
{
    if (fd < 0) {
        return fd;
    }
    int err = poller_watch(&s->poller, watch, fd, POLLER_READ, ready);
    if (err != 0) {
        (void)close(fd); /* nothing was sent */
    }
    return err;
}

int zone_server_open(struct zone_server *s, const struct zone *zone, uint32_t ttl,
                     const struct endpoint *where)
{
    *s = (struct zone_server){.zone = zone, .ttl = ttl};
    list_init(&s->late);
    list_init(&s->connections);
    int err = poller_init(&s->poller, BATCH);
    if (err != 0) {
        return err;
    }
    err = watch_socket(s, &s->udp, open_udp(where), on_questions);
    if (err == 0) {
        int fd = listen_open((const struct sockaddr *)&where->address, where->len, BATCH, false);
        err = watch_socket(s, &s->tcp, fd, on_caller);
    }
    if (err != 0) {
        zone_server_close(s);
    }
    return err;
}

struct stop {
    struct poller_watch watch;
    bool is_due;
};

static void on_stop(struct poller_watch *watch, unsigned events)
{
    (void)events;
    container_of(watch, struct stop, watch)->is_due = true;
}

int zone_server_run(struct zone_server *s, int until)
{
    struct stop stop = {.is_due = false};
    int err = poller_watch(&s->poller, &stop.watch, until, POLLER_READ, on_stop);
    while (err >= 0 && !stop.is_due) {
        usec_t now = clock_mono();
        send_due(s, now);
        usec_t wait = list_is_empty(&s->late) ? USEC_NEVER
                                              : list_first(&s->late, struct late, link)->due - now;
        err = poller_wait(&s->poller, wait);
        (void)poller_dispatch(&s->poller); /* how many does not matter */
    }
    poller_remove(&s->poller, &stop.watch);
    return err < 0 ? err : 0;
}

static void close_watch(struct zone_server *s, struct poller_watch *watch)
{
    if (poller_has(watch)) {
        int fd = watch->fd;
        poller_remove(&s->poller, watch);
        (void)close(fd); /* an error of close has no consequence here */
    }
}

void zone_server_close(struct zone_server *s)
{
    list_foreach_safe(l, &s->late, struct late, link)
    {
        list_remove(&l->link);
        free(l);
    }
    list_foreach_safe(c, &s->connections, struct connection, link)
    {
        end_connection(c);
    }
    close_watch(s, &s->udp);
    close_watch(s, &s->tcp);
    poller_fini(&s->poller);
}
