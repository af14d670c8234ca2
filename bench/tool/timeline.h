/* What happened at one listening address in each interval since the start: messages, deferrals,
 * latencies and connections. Intervals in which nothing changed take no memory. Knows no clock.
 * Owner: whoever holds the lock of the listener (sink_worker.h). */
#ifndef BENCH_TIMELINE_H
#define BENCH_TIMELINE_H

#include "base/attr.h"
#include "base/clock.h"
#include "bench/tool/latency.h"

#include <stddef.h>
#include <stdint.h>

/* An interval in which something happened. */
struct timeline_point {
    uint32_t index; /* intervals since the start */
    uint32_t messages, deferred;
    uint32_t open_max, open_end; /* connections: the most at once, and how many at the end of the
                                  * interval */
    usec_t p50, p99;             /* of the messages with a latency; -1 = there was none */
};

struct timeline {
    /* set at creation */
    usec_t start, interval;
    /* the current interval */
    struct timeline_point now;
    struct latency latency;
    /* those before it that had anything to tell; heap, ascending index */
    struct timeline_point *points;
    size_t count, capacity;
};

/* interval: > 0 */
void timeline_init(struct timeline *t, usec_t start, usec_t interval);
void timeline_fini(struct timeline *t); /* accepts a zeroed one */
/* Times must not go backwards by more than threads are late; one of an interval that is over counts
 * for the current one. latency: usec, < 0 = unknown. Aborts when there is no memory. */
void timeline_message(struct timeline *t, usec_t now, usec_t latency);
void timeline_deferred(struct timeline *t, usec_t now);
/* There are `open` connections from now on. */
void timeline_open(struct timeline *t, usec_t now, uint32_t open);
/* Close the current interval if `now` lies behind it. */
void timeline_advance(struct timeline *t, usec_t now);
/* The interval `index`, ret_point->index among them; what is behind the current one looks as if
 * nothing happened. *cursor: 0 before the first call, ascending indices only. */
void timeline_read(const struct timeline *t, uint32_t index, size_t *cursor,
                   struct timeline_point *ret_point);

#endif
