/* What this node's lanes learn goes to the others, and what theirs learn is obeyed here: closures and
 * openings of lanes, destinations that avoid one, paces and ceilings, by the bucket `sluice_sites`. A lane is (source, site, hosts) by their
 * names: nodes whose sources have one name are taken to be one to the receiver.
 *
 * Owner: the thread `cluster`, but for what the watcher puts and for the counters. What other nodes
 * learned before this one joined is not told: spans travel, not times, and nobody can say how much of
 * one is left. */
#ifndef ENGINE_LESSONS_H
#define ENGINE_LESSONS_H

#include "base/attr.h"
#include "engine/nodes/cluster_module.h"
#include "engine/nodes/inbox.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct limits;

#define LESSONS_LOOK (20 * USEC_PER_MSEC) /* how soon a reaction is seen */

struct lessons {
    /* set at creation */
    struct limits *limits;
    const struct cluster_module *module;
    const char *node;
    void (*wake)(void *ctx); /* after something was put into the inbox */
    void *ctx;
    /* owner only */
    struct cluster_client *client; /* NULL: not open */
    uint64_t next;                 /* reaction */
    uint64_t revision;             /* of the newest that was seen */
    bool has_begun;                /* all that stood before we joined was passed over */
    struct inbox inbox;
    /* any thread, atomic: counters, relaxed */
    _Atomic uint64_t sent, unsent, obeyed;
};

/* limits: the engine's */
void lessons_init(struct lessons *s, struct limits *limits, const struct cluster_module *module,
                  const char *node);
void lessons_fini(struct lessons *s); /* the client is closed */
/* errors: of the module */
MUST_USE int lessons_open(struct lessons *s, struct cluster_client *client);
/* Send what lanes learned since the last call, and obey what came. While no server is connected,
 * what is learned is left out: the others learn it themselves. */
void lessons_work(struct lessons *s);

#endif
