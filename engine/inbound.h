/* Inbound SMTP connections of one worker: the shell around net/smtp_server that reads, writes, does
 * TLS, asks for authentication, and hands receptions to the spool writer. */
#ifndef ENGINE_INBOUND_H
#define ENGINE_INBOUND_H

#include <stdbool.h>

#include "base/attr.h"
#include "engine/auth.h"
#include "engine/intake.h"
#include "engine/listener.h"
#include "engine/worker.h"

/* A worker's watch on one listener's socket. */
struct listener_watch {
    struct poller_watch watch;
    struct worker *worker;
    struct listener *listener;
};

/* Begin to accept on the worker's socket of each listener. errors: -errno, -ENOMEM */
MUST_USE int inbound_listen(struct worker *w);
/* Stop accepting; sessions are told at their next command. */
void inbound_drain(struct worker *w);
/* A connected local socket that may relay; closed here when it cannot be served. */
void inbound_adopt(struct worker *w, int fd);
/* Answers from the other threads. */
void inbound_stored(struct worker *w, struct intake *in);
void inbound_authenticated(struct worker *w, struct auth_request *request);
/* Sessions that wait for intake_memory go on when there is room. Once a pass. */
void inbound_resume(struct worker *w);
/* Close everything, at the worker's end; answers still under way are freed by their senders. */
void inbound_close_all(struct worker *w);

#endif
