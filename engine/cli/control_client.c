/* Owns the client's end of the control socket. Called by the commands; must not know what the
 * answers mean. */
#include "engine/cli/control_client.h"

#include "base/error.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static int set_timeout(int fd, usec_t timeout)
{
    struct timeval t = {.tv_sec = timeout / USEC_PER_SEC, .tv_usec = timeout % USEC_PER_SEC};
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)) < 0) {
        return -errno;
    }
    return 0;
}

int control_client_open(struct control_client *c, const char *path, const char *request,
                        usec_t timeout)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    *c = (struct control_client){.fd = -1};
    buf_init(&c->in, CONTROL_LINE_MAX_BYTES + 65536);
    if (len >= sizeof(address.sun_path) || strlen(request) > CONTROL_REQUEST_MAX_BYTES) {
        return -ENAMETOOLONG;
    }
    memcpy(address.sun_path, path, len + 1);
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int err = c->fd < 0 ? -errno : set_timeout(c->fd, timeout);
    if (err == 0 && connect(c->fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        err = -errno;
    }
    err = err < 0 ? err : control_client_write(c, request, strlen(request));
    err = err < 0 ? err : control_client_write(c, "\r\n", 2);
    if (err < 0) {
        control_client_close(c);
    }
    return err;
}

void control_client_close(struct control_client *c)
{
    if (c->fd >= 0) {
        (void)close(c->fd); /* the socket has no buffered bytes whose loss close could tell */
    }
    c->fd = -1;
    buf_fini(&c->in);
}

/* Of a recv or send that failed, by errno. */
static int call_error(void)
{
    if (errno == EPIPE || errno == ECONNRESET) {
        return ERR_CLOSED;
    }
    return errno == EAGAIN ? -ETIMEDOUT : -errno;
}

/* One read into `in`. */
static int fill_lines(struct control_client *c)
{
    char *room = buf_reserve(&c->in, 65536);
    if (room == NULL) {
        return ERR_LIMIT;
    }
    ssize_t n;
    do {
        n = recv(c->fd, room, 65536, 0);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
        return n == 0 ? ERR_CLOSED : call_error();
    }
    c->in.len += (size_t)n;
    return 0;
}

int control_client_line(struct control_client *c, struct slice *ret)
{
    buf_consume(&c->in, c->taken);
    c->taken = 0;
    size_t searched = 0;
    for (;;) {
        const char *lf =
            c->in.len > searched ? memchr(c->in.data + searched, '\n', c->in.len - searched) : NULL;
        if (lf != NULL) {
            size_t len = (size_t)(lf - c->in.data);
            c->taken = len + 1;
            len -= len > 0 && c->in.data[len - 1] == '\r' ? 1 : 0;
            *ret = slice_make(c->in.data, len);
            return 0;
        }
        searched = c->in.len;
        int err = searched > CONTROL_LINE_MAX_BYTES ? ERR_LIMIT : fill_lines(c);
        if (err < 0) {
            return err;
        }
    }
}

int control_client_write(struct control_client *c, const void *data, size_t len)
{
    const char *at = data;
    while (len > 0) {
        ssize_t n = send(c->fd, at, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return call_error();
        }
        at += n;
        len -= (size_t)n;
    }
    return 0;
}
