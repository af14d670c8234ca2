/* The thread of a worker: its loop, its start and its stop.
 *
 * A pass: time once; events; letters; connections that have more to do; deadlines; DNS; letters
 * out; then quiescent for RCU, or offline and asleep. */
#ifndef ENGINE_WORKER_THREAD_H
#define ENGINE_WORKER_THREAD_H

#include "base/attr.h"

#include <stdint.h>

struct engine;
struct worker;

/* errors: -ENOMEM, -errno */
MUST_USE int worker_thread_new(struct engine *engine, uint32_t index, struct worker **ret);
MUST_USE int worker_thread_start(struct worker *w);
/* Accept nothing more and end sessions at their next command. Any thread. */
void worker_thread_drain(struct worker *w);
/* End the thread; connections are closed as they are. */
void worker_thread_stop(struct worker *w);
void worker_thread_free(struct worker *w); /* accepts NULL */

#endif
