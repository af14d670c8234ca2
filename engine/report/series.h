/* Figures over time: once a second a point of totals, and what the busiest destinations look like.
 *
 * One thread samples; it reads the counters of all threads, the schedulers' views and the spool,
 * and changes nothing. Any thread may read what it keeps: points and samples are histories
 * (base/history.h), the watched destinations are published under RCU, so their reader is online. */
#ifndef ENGINE_SERIES_H
#define ENGINE_SERIES_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define SERIES_POINTS  3600 /* seconds of points */
#define SERIES_WATCHED 64   /* destinations, */
#define SERIES_SAMPLES 600  /* and seconds of each */

struct engine;
struct history;
struct series;

struct series_point {
    usec_t time;                                    /* wall */
    uint64_t received, delivered, deferred, failed; /* since the start */
    uint64_t queued, active, connections;           /* now: messages, messages, connections */
};

struct series_sample {
    usec_t time; /* wall */
    int32_t window, busy, in_flight, todo;
};

/* A second, over the last 10 seconds or as many as there are. */
struct series_rates {
    double received, delivered, deferred, failed;
};

/* errors: -ENOMEM, -errno of the spool reader */
MUST_USE int series_new(struct engine *engine, struct series **ret);
MUST_USE int series_start(struct series *s);
void series_stop(struct series *s);
void series_free(struct series *s); /* accepts NULL */

/* Records are struct series_point. */
const struct history *series_points(const struct series *s);
void series_rates(const struct series *s, struct series_rates *ret);
/* The records (struct series_sample) of a destination if it is watched, else NULL; valid while the
 * reader stays online. Thread: any, online. */
const struct history *series_samples(const struct series *s, uint32_t transport,
                                     struct slice destination);

#endif
