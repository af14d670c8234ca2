/* Listening sockets; see the header. Called at start and by the accept callback of a worker. */
#include "net/listen.h"

#include "base/error.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

static int configure(int fd, sa_family_t family, bool shared)
{
    const int on = 1;
    if (family == AF_UNIX) {
        return 0;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0) {
        return -errno;
    }
    if (shared && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0) {
        return -errno;
    }
    if (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) != 0) {
        return -errno;
    }
    return 0;
}

int listen_open(const struct sockaddr *address, socklen_t len, int backlog, bool shared)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    int err = configure(fd, address->sa_family, shared);
    if (err == 0 && (bind(fd, address, len) != 0 || listen(fd, backlog) != 0)) {
        err = -errno;
    }
    if (err != 0) {
        (void)close(fd);
        return err;
    }
    return fd;
}

int listen_accept(int fd, struct sockaddr_storage *ret_peer, socklen_t *ret_len)
{
    const int on = 1;
    for (;;) {
        struct sockaddr_storage peer;
        socklen_t len = sizeof(peer);
        int conn = accept4(fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (conn >= 0) {
            if (len >= sizeof(sa_family_t) && peer.ss_family != AF_UNIX) {
                (void)setsockopt(conn, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
            }
            if (ret_peer != NULL) {
                *ret_peer = peer;
                *ret_len = len;
            }
            return conn;
        }
        switch (errno) {
        case EAGAIN:
            return ERR_AGAIN;
        /* accept(2): errors of the new connection itself count as if it had never been there. */
        case EINTR:
        case ECONNABORTED:
        case EPROTO:
        case ENETDOWN:
        case ENOPROTOOPT:
        case EHOSTDOWN:
        case ENONET:
        case EHOSTUNREACH:
        case ENETUNREACH:
        case EPERM:
            continue;
        default:
            return -errno;
        }
    }
}

int listen_address(int fd, struct sockaddr_storage *ret, socklen_t *ret_len)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof(address);
    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
        return -errno;
    }
    *ret = address;
    *ret_len = len;
    return 0;
}
