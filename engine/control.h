/* The daemon's side of the control socket; engine/control_client.h defines what goes over it. One
 * thread answers one request at a time and hands SMTP sessions to the workers. It reads schedulers
 * and spool lock-free, and never changes anything. */
#ifndef ENGINE_CONTROL_H
#define ENGINE_CONTROL_H

#include "base/attr.h"

struct control;
struct engine;

/* Binds the socket. errors: -errno, logged with its path */
MUST_USE int control_new(struct engine *engine, struct control **ret);
MUST_USE int control_start(struct control *c);
void control_stop(struct control *c);
void control_free(struct control *c); /* accepts NULL; removes the socket */

#endif
