/* Where a worker's inbound connections come from: its sockets of the listeners, and sessions handed
 * over by the control thread. Worker thread only. */
#ifndef ENGINE_ACCEPTOR_H
#define ENGINE_ACCEPTOR_H

#include "base/attr.h"
#include "engine/worker/worker.h"

/* Begin to accept on the worker's socket of each listener. errors: -errno, -ENOMEM */
MUST_USE int acceptor_listen(struct worker *w);
/* A connected local socket that may relay; closed here when it cannot be served. */
void acceptor_adopt(struct worker *w, int fd) ON_ROLE(w->post);
/* Listeners that rest for lack of descriptors go on when it is time. Once a pass. */
void acceptor_resume(struct worker *w) ON_ROLE(w->post);
/* Accept nothing more. */
void acceptor_close(struct worker *w) ON_ROLE(w->post);

#endif
