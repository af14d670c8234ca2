/* Owns the listening sockets, and connections until their first bytes say what they are. Called by
 * http.c on its thread. Must not read what belongs to a request or to a mail session. */
#include "base/error.h"
#include "base/log.h"
#include "engine/config/config.h"
#include "engine/http/http_guard.h"
#include "engine/http/http_private.h"
#include "engine/post/letter.h"
#include "engine/state/engine.h"
#include "engine/state/sockets.h"
#include "net/listen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define ARRIVAL_PATIENCE (10 * USEC_PER_SEC) /* for the first bytes */
#define CONTROL_TIMEOUT  (60 * USEC_PER_SEC)
#define ACCEPT_REST      (500 * USEC_PER_MSEC)

enum {
    ACCEPTS_PER_PASS = 64,
    CONTROL_CAPACITY = 500, /* connections */
    CONTROL_BODY_MAX = 128 * 1024 * 1024,
    PEM_MAX = 1024 * 1024,
    BACKLOG = 256,
};

/* A connection to the control socket whose first bytes do not say yet if it is HTTP or SMTP. */
struct arrival {
    struct list link;
    struct poller_watch watch;
    struct http_door *door;
    int fd;
    usec_t deadline;
};

/* --- what it is ------------------------------------------------------------------------------- */

static void hand_to_worker(struct http *h, int fd)
{
    struct outbox *o = &h->to_workers[h->next_worker++ % h->engine->worker_count];
    letter_put_adopt(o, fd);
    (void)outbox_flush(o); /* what does not fit goes with the next pass */
}

static void hand_to_daemon(struct http_door *d, int fd, const struct sockaddr *peer, socklen_t len)
{
    if (MHD_add_connection(d->daemon, fd, peer, len) != MHD_YES) {
        log_debug("%s: a connection is not served", d->name); /* it is closed */
    }
    d->is_due = true;
}

static void arrival_end(struct http *h, struct arrival *a)
{
    poller_remove(&h->poller, &a->watch);
    list_remove(&a->link);
    h->arrival_count--;
    free(a);
}

enum first_bytes { FIRST_UNKNOWN, FIRST_SMTP, FIRST_HTTP, FIRST_GONE };

/* ret_line: the bytes of the line "SMTP" with its end */
static enum first_bytes peek_first_bytes(int fd, size_t *ret_line)
{
    static const char word[] = "SMTP\r\n";
    char seen[6];
    ssize_t n = recv(fd, seen, sizeof(seen), MSG_PEEK | MSG_DONTWAIT);
    if (n <= 0) {
        return n < 0 && (errno == EAGAIN || errno == EINTR) ? FIRST_UNKNOWN : FIRST_GONE;
    }
    size_t len = (size_t)n;
    if (len >= 5 && memcmp(seen, "SMTP\n", 5) == 0) {
        *ret_line = 5;
        return FIRST_SMTP;
    }
    if (memcmp(seen, word, len) != 0) {
        return FIRST_HTTP;
    }
    *ret_line = len;
    return len == sizeof(seen) ? FIRST_SMTP : FIRST_UNKNOWN;
}

/* Edge-triggered: called again when there is more. */
static void on_arrival(struct poller_watch *watch, unsigned events)
{
    struct arrival *a = container_of(watch, struct arrival, watch);
    struct http_door *d = a->door;
    const struct sockaddr_un peer = {.sun_family = AF_UNIX};
    char line[8];
    size_t len = 0;
    enum first_bytes first = peek_first_bytes(a->fd, &len);
    int fd = a->fd;
    if (first == FIRST_UNKNOWN) {
        if ((events & POLLER_HANGUP) != 0) {
            arrival_end(d->http, a);
            (void)close(fd); /* nothing was said */
        }
        return;
    }
    arrival_end(d->http, a);
    if (first == FIRST_SMTP && recv(fd, line, len, 0) == (ssize_t)len) {
        hand_to_worker(d->http, fd);
    } else if (first == FIRST_HTTP) {
        hand_to_daemon(d, fd, (const struct sockaddr *)&peer, sizeof(peer));
    } else {
        (void)close(fd); /* likewise */
    }
}

static void arrive(struct http_door *d, int fd)
{
    struct http *h = d->http;
    struct arrival *a = h->arrival_count < d->capacity ? calloc(1, sizeof(*a)) : NULL;
    if (a == NULL) {
        (void)close(fd); /* nothing was said */
        return;
    }
    a->door = d;
    a->fd = fd;
    a->deadline = h->now + ARRIVAL_PATIENCE;
    list_push_back(&h->arrivals, &a->link);
    h->arrival_count++;
    if (poller_add(&h->poller, &a->watch, fd, on_arrival) != 0) {
        arrival_end(h, a);
        (void)close(fd); /* likewise */
    }
}

/* --- accepting -------------------------------------------------------------------------------- */

static void on_door_connection(struct poller_watch *watch, unsigned events)
{
    struct http_door *d = container_of(watch, struct http_door, listening);
    struct http *h = d->http;
    (void)events;
    for (int i = 0; i < ACCEPTS_PER_PASS; i++) {
        struct sockaddr_storage peer;
        socklen_t len = sizeof(peer);
        int fd = listen_accept(d->fd, &peer, &len);
        if (fd == ERR_AGAIN) {
            return;
        }
        if (fd < 0) {
            if (h->accept_at == USEC_NEVER) {
                log_warning("%s: cannot accept: %s", d->name, err_str(fd));
            }
            h->accept_at = h->now + ACCEPT_REST;
            if (poller_change(&h->poller, watch, 0) != 0) {
                log_debug("%s: cannot rest, tries again in the next pass", d->name);
            }
            return;
        }
        if (d->is_control) {
            arrive(d, fd);
        } else {
            hand_to_daemon(d, fd, (const struct sockaddr *)&peer, len);
        }
    }
}

static void on_busy(struct poller_watch *watch, unsigned events)
{
    (void)events; /* the daemon finds out */
    container_of(watch, struct http_door, busy)->is_due = true;
}

void http_door_expire(struct http *h)
{
    while (!list_is_empty(&h->arrivals)) {
        struct arrival *a = list_first(&h->arrivals, struct arrival, link);
        int fd = a->fd;
        if (a->deadline > h->now) {
            break;
        }
        arrival_end(h, a);
        (void)close(fd); /* nothing was said */
    }
    if (h->accept_at > h->now) {
        return;
    }
    h->accept_at = USEC_NEVER;
    list_foreach_safe(d, &h->doors, struct http_door, link)
    {
        int err = d->fd < 0 ? 0 : poller_change(&h->poller, &d->listening, POLLER_READ);
        if (err != 0) {
            log_error("%s: cannot watch the socket: %s", d->name, err_str(err));
        }
    }
}

usec_t http_door_wake_at(const struct http *h)
{
    usec_t at = h->accept_at;
    if (!list_is_empty(&h->arrivals)) {
        const struct arrival *a = list_first(&h->arrivals, struct arrival, link);
        at = a->deadline < at ? a->deadline : at;
    }
    return at;
}

/* --- life ------------------------------------------------------------------------------------- */

static int bind_control(const char *path, int *ret)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path)) {
        return -ENAMETOOLONG;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    /* We have the spool's lock, so no other daemon is alive and a socket at this path is left over
     * from an earlier run. A file of another kind is not ours: it stays, and the bind below fails
     * with EADDRINUSE. */
    struct stat found;
    if (lstat(path, &found) == 0 && S_ISSOCK(found.st_mode) && unlink(path) != 0) {
        return -errno;
    }
    mode_t mask = umask(0117);
    int fd = listen_open((const struct sockaddr *)&address, sizeof(address), BACKLOG, false);
    (void)umask(mask);
    if (fd < 0) {
        return fd;
    }
    *ret = fd;
    return 0;
}

static struct http_door *make_door(struct http *h, const char *name, size_t number)
{
    struct http_door *d = calloc(1, sizeof(*d));
    if (d != NULL) {
        list_init(&d->link);
        d->http = h;
        d->name = name;
        d->number = number;
        d->fd = -1;
    }
    return d;
}

int http_door_open_control(struct http *h, struct http_door **ret)
{
    const char *path = h->engine->config->control_path;
    struct http_door *d = make_door(h, path, 0);
    if (d == NULL) {
        return -ENOMEM;
    }
    d->is_control = true;
    d->capacity = CONTROL_CAPACITY;
    d->body_max = CONTROL_BODY_MAX;
    d->timeout = CONTROL_TIMEOUT;
    list_push_back(&h->doors, &d->link);
    int err = bind_control(path, &d->fd);
    if (err != 0) {
        log_error("control socket %s: %s%s", path, err_str(err),
                  err == -ENOENT ? "; make its folder, and give it to the user of the daemon" : "");
        return err;
    }
    *ret = d;
    return http_exchange_open(d);
}

/* A whole file, NUL-terminated, or NULL with errno set. */
static char *read_pem(const char *path)
{
    FILE *in = fopen(path, "re");
    char *text = in == NULL ? NULL : malloc(PEM_MAX + 1);
    if (text != NULL) {
        size_t len = fread(text, 1, PEM_MAX, in);
        text[len] = '\0';
        if (len == 0 || ferror(in) != 0) {
            errno = len == 0 ? ENODATA : errno;
            free(text);
            text = NULL;
        }
    }
    if (in != NULL) {
        int err = errno;
        (void)fclose(in); /* only read */
        errno = err;
    }
    return text;
}

static int load_pem(const struct http_door *d, const char *option, const char *path, char **ret,
                    char *ret_text)
{
    if (path != NULL) {
        *ret = read_pem(path);
        if (*ret == NULL) {
            int err = -errno;
            (void)snprintf(ret_text, HTTP_DOOR_TEXT_MAX, "http \"%.60s\": %s %.300s: %s", d->name,
                           option, path, err_str(err));
            return err == -ENOMEM ? err : ERR_SYNTAX; /* the configuration is wrong */
        }
    }
    return 0;
}

int http_door_new(struct http *h, const struct config_http *config, size_t number,
                  struct http_door **ret, char ret_text[static HTTP_DOOR_TEXT_MAX])
{
    struct http_door *d = make_door(h, h->engine->config->http_doors[number].name, number);
    (void)snprintf(ret_text, HTTP_DOOR_TEXT_MAX, "out of memory");
    if (d == NULL) {
        return -ENOMEM;
    }
    d->capacity = (unsigned)config->connection_limit;
    d->body_max = config->request_size_limit;
    d->timeout = config->timeout;
    int err = load_pem(d, "tls_certificate", config->tls_certificate, &d->certificate, ret_text);
    err = err != 0 ? err : load_pem(d, "tls_key", config->tls_key, &d->key, ret_text);
    if (err == 0 && http_exchange_open(d) != 0) {
        (void)snprintf(ret_text, HTTP_DOOR_TEXT_MAX, "http \"%.60s\": cannot start%s", d->name,
                       d->key != NULL ? ": is the certificate one of this key?" : "");
        err = d->key != NULL ? ERR_SYNTAX : -ENOMEM;
    }
    if (err != 0) {
        http_door_discard(d);
        return err;
    }
    *ret = d;
    return 0;
}

int http_door_open(struct http *h, const struct config_http *config, size_t number,
                   struct http_door **ret)
{
    char text[HTTP_DOOR_TEXT_MAX];
    struct http_door *d;
    int err = http_door_new(h, config, number, &d, text);
    if (err != 0) {
        log_error("%s", text);
        return err;
    }
    list_push_back(&h->doors, &d->link);
    struct sockets *sockets = h->engine->sockets;
    d->fd = sockets_take(sockets, &config->bind.address);
    if (d->fd < 0) {
        d->fd = listen_open((const struct sockaddr *)&config->bind.address, config->bind.len,
                            BACKLOG, false);
    }
    err = d->fd < 0 ? d->fd : sockets_keep(sockets, d->fd);
    if (err != 0) {
        log_error("http \"%s\": cannot listen: %s", d->name, err_str(err));
        return err;
    }
    *ret = d;
    return 0;
}

static int watch_daemon(struct http_door *d)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(d->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    return info == NULL || info->epoll_fd < 0
               ? -ENOTSUP
               : poller_watch(&d->http->poller, &d->busy, info->epoll_fd, POLLER_READ, on_busy);
}

int http_door_watch(struct http_door *d)
{
    int err = watch_daemon(d);
    err = err != 0 ? err
                   : poller_watch(&d->http->poller, &d->listening, d->fd, POLLER_READ,
                                  on_door_connection);
    if (err == 0 && !d->is_control) {
        log_info("listening on http%s://%s", d->key != NULL ? "s" : "", d->name);
    }
    return err;
}

int http_door_take_over(struct http_door *d, struct http_door *from)
{
    struct poller *p = &d->http->poller;
    int err = watch_daemon(d);
    if (err != 0) {
        return err;
    }
    poller_remove(p, &from->listening);
    err = poller_watch(p, &d->listening, from->fd, POLLER_READ, on_door_connection);
    if (err != 0) {
        poller_remove(p, &d->busy);
        int again = poller_watch(p, &from->listening, from->fd, POLLER_READ, on_door_connection);
        return again != 0 ? again : err;
    }
    d->fd = from->fd;
    from->fd = -1;
    from->is_leaving = true;
    return 0;
}

/* What a door is made of, but for its socket. */
static void free_door(struct http_door *d)
{
    if (d->daemon != NULL) {
        MHD_stop_daemon(d->daemon);
    }
    free(d->certificate);
    if (d->key != NULL) {
        explicit_bzero(d->key, strlen(d->key));
    }
    free(d->key);
    free(d);
}

void http_door_discard(struct http_door *d)
{
    if (d != NULL) {
        free_door(d);
    }
}

static bool has_connections(const struct http_door *d)
{
    list_foreach_safe(n, &d->http->connections, struct http_connection, link)
    {
        if (n->door == d) {
            return true;
        }
    }
    return false;
}

bool http_door_end_leaving(struct http *h)
{
    bool is_leaving = false;
    list_foreach_safe(d, &h->doors, struct http_door, link)
    {
        if (d->is_leaving && !has_connections(d)) {
            http_door_close(d);
        } else {
            is_leaving = is_leaving || d->is_leaving;
        }
    }
    return is_leaving;
}

void http_door_close(struct http_door *d)
{
    struct http *h = d->http;
    poller_remove(&h->poller, &d->listening);
    poller_remove(&h->poller, &d->busy);
    while (d->is_control && !list_is_empty(&h->arrivals)) {
        struct arrival *a = list_first(&h->arrivals, struct arrival, link);
        int fd = a->fd;
        arrival_end(h, a);
        (void)close(fd); /* nothing was said */
    }
    if (d->daemon != NULL) {
        MHD_stop_daemon(d->daemon); /* before its socket is closed */
        d->daemon = NULL;
    }
    if (d->fd >= 0) {
        (void)close(d->fd);
        if (d->is_control) {
            (void)unlink(d->name); /* only tidiness */
        }
    }
    list_remove(&d->link);
    free_door(d);
}
