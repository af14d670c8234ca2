/* What waits for each of the threads that sign, and which of them gets the next message.
 *
 * A thread that has company for what it signs sleeps and is woken less often, and wakes others less
 * often: so messages go to the first thread until it has as much work as may delay one of them, then to
 * the next. How many messages that are its own pace says, which the key and the machine decide.
 *
 * Shared: the activator adds and picks, the thread itself takes away and learns; all are atomic, and
 * what is read is momentary, which makes a choice worse and nothing wrong. */
#ifndef ENGINE_SIGN_LOAD_H
#define ENGINE_SIGN_LOAD_H

#include "base/attr.h"
#include "base/clock.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* So long a message may wait behind others of its thread while another thread has nothing to do. As long
 * as a thread signs in one go: SEAL_TIME. */
#define SIGN_LOAD_TIME (2 * USEC_PER_MSEC)
/* And behind so many at most: more company made a signature no cheaper (docs/benchmarks.md). */
#define SIGN_LOAD_MAX 32U

struct sign_load {
    _Alignas(CACHE_LINE) _Atomic uint32_t waiting; /* submissions */
    _Atomic uint32_t pace; /* 1/16 us of time a message, a moving mean; 0: none is known yet */
};

/* [count], with nothing to do and no pace known; heap, the caller frees it. NULL: out of memory */
MUST_USE struct sign_load *sign_loads_new(uint32_t count);
/* The first thread whose wait is short; where there is none, the one with the shortest wait.
 *
 * loads    [count], count > 0
 * returns  its place */
uint32_t sign_load_pick(struct sign_load *loads, uint32_t count);
/* A submission is sent there. */
void sign_load_add(struct sign_load *l);
/* So many are passed on, or given up. */
void sign_load_take(struct sign_load *l, size_t count);
/* It signed so many messages, at least one, in that time. Thread: the one that signs. */
void sign_load_learn(struct sign_load *l, size_t count, usec_t took);

#endif
