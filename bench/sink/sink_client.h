/* What the sink knows of each client address at one receiver (the listening addresses that one
 * section of the behaviour file names, or one recipient domain): the buckets of its hidden limits,
 * and what it got, in all and over time.
 *
 * Shared by the workers: `lock` of the table guards everything in it and in its clients, except what
 * is said to be immutable. A client stays until the table ends, so sessions keep pointers to it. */
#ifndef BENCH_SINK_CLIENT_H
#define BENCH_SINK_CLIENT_H

#include "base/attr.h"
#include "base/clock.h"
#include "bench/sink/behaviour.h"
#include "bench/sink/rate_plan.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SINK_CLIENTS_MAX       4096 /* further ones share the last entry */
#define SINK_CLIENT_NAME_BYTES 64

/* What can happen to a client, each counted. */
enum sink_happening {
    HAPPENED_MESSAGE, /* accepted at the end of data */
    HAPPENED_RECIPIENT,
    HAPPENED_REFUSAL, /* a MAIL that came to nothing on purpose; all of a pipelined group count */
    HAPPENED_RECIPIENT_REFUSAL,
    HAPPENED_CONNECTION, /* the refused included */
    HAPPENED_CONNECTION_REFUSAL,
    HAPPENED_COUNT,
};

enum sink_bucket { BUCKET_MESSAGES, BUCKET_CONNECTIONS, BUCKET_RECIPIENTS, BUCKET_COUNT };

struct sink_client {
    uint8_t address[16];               /* immutable, as the name and the behaviour */
    char name[SINK_CLIENT_NAME_BYTES]; /* without port */
    const struct behaviour *behaviour; /* towards it; of a domain: the domain's */
    struct rate_bucket buckets[BUCKET_COUNT];
    uint64_t totals[HAPPENED_COUNT];
    /* With an interval: what happened in each; heap, `room` of them. */
    uint32_t (*course)[HAPPENED_COUNT];
    size_t room;
};

struct sink_clients {
    pthread_mutex_t lock;
    /* set at creation */
    usec_t start, interval; /* of the course, wall clock; interval 0: none is kept */
    /* under lock */
    struct sink_client **items; /* heap, each too; in the order of their first connections */
    size_t count;
    usec_t begin, begin_wall; /* of the plans: when the first token was asked for; 0: not yet */
};

/* errors: -errno */
MUST_USE int sink_clients_init(struct sink_clients *t, usec_t start, usec_t interval);
void sink_clients_fini(struct sink_clients *t); /* accepts a zeroed one */
/* The entry of an address, which is made when there is none. Aborts when there is no memory. */
NONNULL_RET struct sink_client *sink_clients_find(struct sink_clients *t, const uint8_t address[16],
                                                  const struct behaviour *behaviour);
/* Take a token of a client's bucket; true where the plan has no limit. now: monotonic */
MUST_USE bool sink_clients_take(struct sink_clients *t, struct sink_client *c,
                                enum sink_bucket bucket, const struct rate_plan *plan, usec_t now);
/* Count what happened at `wall`. */
void sink_clients_count(struct sink_clients *t, struct sink_client *c, enum sink_happening what,
                        uint64_t count, usec_t wall);

#endif
