/* For how long this node may deliver without being heard (member.h), and what the rest of the engine
 * hears of it. Thread: `cluster`, but for node_lease_taken. */
#ifndef ENGINE_NODE_LEASE_H
#define ENGINE_NODE_LEASE_H

#include "base/attr.h"
#include "engine/cluster/member.h"
#include "engine/nodes/cluster_module.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;

struct node_lease {
    /* set before the threads start */
    struct engine *engine;
    const struct cluster_module *module;
    bool is_heeded; /* others take over what this node has when it is not heard */
    void (*when_taken)(struct engine *engine, uint16_t holder); /* NULL: nobody asks */

    struct member_lease is;
};

/* is_automatic: others take over without an order. Where it is heeded, nothing may be delivered until
 * the first renewal. */
void node_lease_init(struct node_lease *l, struct engine *engine,
                     const struct cluster_module *module, bool is_automatic);
/* A put of our entry was acknowledged that was sent then. After the lease ran out, and at the start, the
 * owner's key of our log is read first. false: it cannot be renewed, as others have the log, or nobody
 * knows */
MUST_USE bool node_lease_renew(struct node_lease *l, struct cluster_client *client, usec_t sent,
                               usec_t now);
/* Our log is another spool's. Any thread. */
void node_lease_taken(struct node_lease *l, uint16_t holder);

#endif
