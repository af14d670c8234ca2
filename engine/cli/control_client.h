/* The client side of a mail session over the control socket.
 *
 * The daemon listens on a Unix stream socket (`control { path }`, mode 0660). Unix file permissions
 * decide who may connect; whoever may connect is trusted. A client that begins with the line "SMTP"
 * gets an ordinary SMTP session that may relay: the daemon sends its 220 greeting, the client EHLO
 * and so on. Everything else on this socket is HTTP (api_client.h, api.h).
 *
 * Used by the commands, one thread, blocking I/O with a timeout. */
#ifndef ENGINE_CONTROL_CLIENT_H
#define ENGINE_CONTROL_CLIENT_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>

#define CONTROL_REQUEST_MAX_BYTES 1000
#define CONTROL_LINE_MAX_BYTES    (1024 * 1024) /* longer is a protocol error */

struct control_client {
    int fd;
    struct buf in; /* received and not yet handed out */
    size_t taken;  /* bytes at the start of `in` that were */
};

/* Connects and sends the request (without LF).
 *
 * timeout  of each later wait for the daemon
 * errors   -ENOENT, -ECONNREFUSED: no daemon listens there; -EACCES; other -errno */
MUST_USE int control_client_open(struct control_client *c, const char *path, const char *request,
                                 usec_t timeout);
void control_client_close(struct control_client *c);
/* The next line without its end (CRLF or LF), valid until the next call.
 * errors: ERR_CLOSED, ERR_LIMIT, -ETIMEDOUT, -errno */
MUST_USE int control_client_line(struct control_client *c, struct slice *ret);
/* All of it. errors: ERR_CLOSED, -ETIMEDOUT, -errno. SIGPIPE is not raised. */
MUST_USE int control_client_write(struct control_client *c, const void *data, size_t len);

#endif
