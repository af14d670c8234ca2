/* The thread `log`: has the frames of replica.h stored on the servers, in this node's stream, and
 * begins an epoch of the log each time that it cannot go on in the last one. */
#ifndef ENGINE_LOG_KEEPER_H
#define ENGINE_LOG_KEEPER_H

#include "base/attr.h"
#include "engine/nodes/cluster_log_module.h"

#include <stdint.h>

struct engine;
struct log_keeper;
struct node_lease;
struct replica;

/* What the keeper needs of its node; each is called by the thread `log`. */
struct log_keeper_node {
    struct engine *engine;
    struct node_lease *lease; /* hears that another has the log */
    struct replica *replica;
    const char *name;
    uint16_t spool;     /* its number as found at the start; 0: it has none, and had no log */
    uint64_t max_bytes; /* of the log */
    struct cluster_options options;
    const struct cluster_module *module;
    /* NULL: none yet */
    struct cluster_client *(*client)(void *ctx);
    /* 0: it has not joined, or has no number */
    uint16_t (*number)(void *ctx);
    void *ctx;
};

/* node is copied, but not what it points to. errors: -ENOMEM */
MUST_USE int log_keeper_new(const struct log_keeper_node *node,
                            const struct cluster_log_module *module, struct log_keeper **ret);
/* errors: -errno */
MUST_USE int log_keeper_start(struct log_keeper *k);
/* When the spool writer has ended. Waits for a server 2 s at most. */
void log_keeper_stop(struct log_keeper *k);
void log_keeper_free(struct log_keeper *k); /* accepts NULL */

#endif
