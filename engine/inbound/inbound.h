/* Inbound SMTP connections of one worker: the shell around net/smtp_server that reads, writes, does
 * TLS, asks for authentication, and hands receptions to the spool writer. */
#ifndef ENGINE_INBOUND_H
#define ENGINE_INBOUND_H

#include "base/attr.h"
#include "engine/inbound/auth.h"
#include "engine/inbound/listener.h"
#include "engine/post/intake.h"
#include "engine/worker/worker.h"

#include <stdbool.h>

struct hearing;

/* Begin a session on a connected, non-blocking socket, which it owns from here.
 *
 * peer         whose limits in the listener it counts against
 * is_trusted   may relay without AUTH */
void inbound_begin(struct worker *w, struct listener *l, int fd,
                   const struct sockaddr_storage *peer, bool is_trusted);
/* Sessions are told at their next command that the daemon stops. */
void inbound_drain(struct worker *w) ON_ROLE(w->post);
/* Answers from the other threads. */
void inbound_stored(struct worker *w, struct intake *in) ON_ROLE(w->post);
void inbound_heard(struct worker *w, struct hearing *hearing) ON_ROLE(w->post);
void inbound_authenticated(struct worker *w, struct auth_request *request) ON_ROLE(w->post);
/* Sessions that wait for intake_memory go on when there is room. Once a pass. */
void inbound_resume(struct worker *w) ON_ROLE(w->post);
/* Close everything, at the worker's end; answers still under way are freed by their senders. */
void inbound_close_all(struct worker *w) ON_ROLE(w->post);

#endif
