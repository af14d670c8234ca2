/* What the slow clerk does beside its calls: the queue's figures, and the file of what lanes learned.
 * On its thread, but for what the engine's start and end do. */
#ifndef ENGINE_SLOW_CLERK_H
#define ENGINE_SLOW_CLERK_H

#include "base/attr.h"
#include "base/clock.h"

struct clerk;
struct engine;

usec_t slow_clerk_work(struct clerk *k); /* clerk.between_calls */
/* Takes over what the last run of the daemon learned; before any scheduler thread is made. A file
 * that cannot be read is left alone, and told of. */
void slow_clerk_recall_lanes(struct engine *e);
/* When all threads have ended. */
void slow_clerk_keep_lanes(struct engine *e);

#endif
