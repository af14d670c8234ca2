/* What the slow clerk does beside its calls: the queue's figures, and the file of what lanes learned.
 * On its thread. */
#ifndef ENGINE_SLOW_CLERK_H
#define ENGINE_SLOW_CLERK_H

#include "base/attr.h"
#include "base/clock.h"

struct clerk;

usec_t slow_clerk_work(struct clerk *k); /* clerk.between_calls */

#endif
