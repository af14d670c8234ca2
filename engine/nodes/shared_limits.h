/* This node's parts of the rates that all nodes share: configured rates of lanes, sites, sources,
 * tenants and domains, each a key of the bucket `sluice_limits` (engine/cluster/limit_share.h says how
 * a key divides its rate). A rate is one at all nodes that have it configured alike, by the same name;
 * where it is configured otherwise, it is another one.
 *
 * Owner: the thread `cluster`, but for what the watcher puts and for the counters. */
#ifndef ENGINE_SHARED_LIMITS_H
#define ENGINE_SHARED_LIMITS_H

#include "base/attr.h"
#include "base/clock.h"
#include "engine/nodes/cluster_module.h"
#include "engine/nodes/inbox.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct limits;
struct shared_limit;

#define SHARED_LIMITS_CHAINS 4096U

struct shared_limits {
    /* set at creation */
    struct limits *limits;
    const struct cluster_module *module;
    void (*wake)(void *ctx); /* after something was put into the inbox */
    /* Whether the entries of that node count no more, as far as was heard. By the owner. */
    bool (*is_late)(void *ctx, uint16_t node);
    void *ctx;
    /* owner only */
    struct cluster_client *client; /* NULL: not open */
    struct shared_limit *chains[SHARED_LIMITS_CHAINS];
    struct shared_limit **by_slot; /* [slot_count] */
    struct shared_limit *gone;     /* whose rate is configured no more, or otherwise */
    uint32_t slot_count, next_slot;
    uint32_t lapses;
    usec_t retry;     /* monotonic: no server is asked before that */
    bool is_in_doubt; /* a value that is younger than `heard` has parts of a node that is late */
    struct inbox inbox;
    /* any thread, atomic: counters, relaxed */
    _Atomic uint64_t puts, count;
};

/* What a turn of the thread knows. */
struct shared_limits_turn {
    uint16_t node;   /* this node's number; 0: none yet */
    uint32_t lapses; /* of the lease, as for shared_limits_heed */
    usec_t heard;    /* CLOCK_BOOTTIME: as long as that a node that is late was silent */
    bool may_use;    /* the lease permits shares */
    bool is_end;     /* this node leaves: all is given back */
};

/* limits: the engine's; from now on its rates are shared */
void shared_limits_init(struct shared_limits *s, struct limits *limits,
                        const struct cluster_module *module);
void shared_limits_fini(struct shared_limits *s); /* the client is closed */
/* errors: of the module */
MUST_USE int shared_limits_open(struct shared_limits *s, struct cluster_client *client);
/* All parts are void at once when these are other lapses of the lease (member.h) than before. */
void shared_limits_heed(struct shared_limits *s, uint32_t lapses);
/* Take and give what is due. now: CLOCK_BOOTTIME. true: there is more to do at once */
bool shared_limits_work(struct shared_limits *s, const struct shared_limits_turn *turn, usec_t now);

#endif
