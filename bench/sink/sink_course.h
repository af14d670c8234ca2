/* The course over time of single recipient domains, beside those of the listening addresses: where
 * domains share an address, whose mail waits for whose is seen here.
 *
 * Shared by the workers: `lock` guards everything in it. Only with --timeline. */
#ifndef BENCH_SINK_COURSE_H
#define BENCH_SINK_COURSE_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "bench/sink/sink_count.h"
#include "bench/tool/timeline.h"

#include <pthread.h>
#include <stddef.h>

#define SINK_COURSES_MAX 16 /* domains in order of appearance; further ones have none */

struct sink_course {
    size_t name_len;
    char name[SINK_DOMAIN_NAME_MAX]; /* lower case */
    struct timeline timeline;        /* of messages and their latencies */
};

struct sink_courses {
    pthread_mutex_t lock;
    usec_t start, interval; /* set at creation; interval 0: none is kept */
    /* under lock */
    struct sink_course items[SINK_COURSES_MAX];
    size_t count;
};

/* errors: -errno */
MUST_USE int sink_courses_init(struct sink_courses *c, usec_t start, usec_t interval);
void sink_courses_fini(struct sink_courses *c); /* accepts a zeroed one */
/* A message for an address was accepted at `wall`. latency: usec, < 0 = unknown */
void sink_courses_message(struct sink_courses *c, struct slice address, usec_t wall,
                          usec_t latency);

#endif
