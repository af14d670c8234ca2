/* The listening sockets of the daemon over the lives of its processes: taken from whoever started it
 * (LISTEN_FDS, as systemd's socket units give them), kept beside their users, and handed to the next
 * process, which this one becomes by execve. So no client is refused while one stops and the next
 * starts: the kernel queues connections as long as somebody has the socket.
 *
 * Sockets are known by their addresses, not by names, so that it does not matter who gave them.
 * Thread: main, before the first thread and after the last. */
#ifndef ENGINE_SOCKETS_H
#define ENGINE_SOCKETS_H

#include "base/attr.h"

#include <stdbool.h>
#include <sys/socket.h>

struct sockets;

/* takes_given: the process is a daemon, whose environment speaks of it. NULL: out of memory */
struct sockets *sockets_new(bool takes_given);
void sockets_free(struct sockets *s); /* closes what is kept; accepts NULL */
/* A socket that was given and listens there, the caller's; each once.
 *
 * returns  descriptor, non-blocking and close-on-exec; ERR_MISSING: there is none (any more) */
MUST_USE int sockets_take(struct sockets *s, const struct sockaddr_storage *address);
/* Keep a duplicate, so that the socket listens until the process ends, or the next one has it.
 * errors: -errno */
MUST_USE int sockets_keep(struct sockets *s, int fd);
/* Have a socket that listens there for the next process, if none is kept: whether it can be had is known
 * while this process can still go on. Until then its clients wait. errors: -errno of bind or listen */
MUST_USE int sockets_reserve(struct sockets *s, const struct sockaddr_storage *address,
                             socklen_t len);
/* How many are kept; and close those beyond so many, the last ones. */
size_t sockets_kept(const struct sockets *s);
void sockets_drop(struct sockets *s, size_t count);
/* Close what was given and not taken; each with a line in the log. */
void sockets_close_left(struct sockets *s);
/* Become the program, with all sockets that are kept. Returns only when that fails: -errno */
int sockets_hand_over(struct sockets *s, const char *program, char *const argv[]);

#endif
