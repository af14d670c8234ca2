/* How a listening address or a recipient domain behaves, and what it remembers for that across
 * connections. Shared by the workers: the behaviour is immutable, the rest is guarded by `lock`,
 * which is only taken where a rate or a greylist is set, and by the lock of `clients`. */
#ifndef BENCH_SINK_RULE_H
#define BENCH_SINK_RULE_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "bench/sink/behaviour_file.h"
#include "bench/sink/greylist.h"
#include "bench/sink/rate_plan.h"
#include "bench/sink/sink_client.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sink_rule {
    const struct behaviour *behaviour;
    pthread_mutex_t lock;
    struct rate_bucket rate;     /* under lock */
    usec_t begin;                /* under lock: of the plan of that rate; 0: not yet */
    struct greylist greylist;    /* under lock */
    struct sink_clients clients; /* of a domain with a rate; those of an address: sink.receivers */
};

/* Those of recipient domains, by name; immutable but for what is inside the rules. */
struct sink_rules {
    struct sink_rule *items; /* heap; in the order of the file */
    const struct behaviour_file *file;
    uint32_t *table; /* open addressing: index + 1 into items, 0 = empty */
    size_t table_size;
};

/* start, interval: of the course of a domain's clients. errors: -errno */
MUST_USE int sink_rule_init(struct sink_rule *r, const struct behaviour *behaviour, usec_t start,
                            usec_t interval);
void sink_rule_fini(struct sink_rule *r);
/* Both are true where there is no such limit. delay: of the greylist; now: monotonic */
MUST_USE bool sink_rule_take(struct sink_rule *r, usec_t now);
MUST_USE bool sink_rule_pass(struct sink_rule *r, const uint8_t client[16], struct slice sender,
                             struct slice recipient, usec_t delay, usec_t now);
/* Has the domain a rate, everybody's or of each client? */
bool sink_rule_has_rate(const struct sink_rule *r);

/* file: outlives it; start, interval: as above. errors: -errno */
MUST_USE int sink_rules_init(struct sink_rules *r, const struct behaviour_file *file, usec_t start,
                             usec_t interval);
void sink_rules_fini(struct sink_rules *r); /* accepts a zeroed one */
/* The rule of the domain of an address; NULL when there is none. */
struct sink_rule *sink_rules_find(const struct sink_rules *r, struct slice address);

#endif
