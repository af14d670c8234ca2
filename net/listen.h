/* Listening sockets: bind, listen, accept. Owns nothing; descriptors go to the caller. */
#ifndef NET_LISTEN_H
#define NET_LISTEN_H

#include "base/attr.h"

#include <stdbool.h>
#include <sys/socket.h>

/* Bind and listen, non-blocking and close-on-exec. IPv6 sockets take IPv6 only.
 *
 * shared   SO_REUSEPORT: each worker opens its own and the kernel spreads connections (TCP only)
 * returns  descriptor
 * errors   -errno
 */
MUST_USE int listen_open(const struct sockaddr *address, socklen_t len, int backlog, bool shared);

/* Accept one connection: non-blocking, close-on-exec, TCP_NODELAY.
 *
 * ret_peer      may be NULL
 * returns       descriptor
 * errors        ERR_AGAIN: none waiting; -EMFILE, -ENFILE, -ENOBUFS, -ENOMEM: pause accepting;
 *               other -errno: the listener is broken. Connections that died in the queue are
 * skipped
 */
MUST_USE int listen_accept(int fd, struct sockaddr_storage *ret_peer, socklen_t *ret_len);

/* The address a socket is bound to (the port when 0 was asked for). errors: -errno */
MUST_USE int listen_address(int fd, struct sockaddr_storage *ret, socklen_t *ret_len);

#endif
