/* The number of this node, asked for from the value of all numbers (node_numbers.h). With a log it is
 * the spool's for good, without one the node's while its entry is kept. Thread: `cluster`, but for
 * numbering_drop. */
#ifndef ENGINE_NUMBERING_H
#define ENGINE_NUMBERING_H

#include "base/attr.h"
#include "engine/nodes/cluster_module.h"

#include <stdbool.h>
#include <stdint.h>

struct numbering {
    /* set at creation */
    const struct cluster_module *module;
    const char *node;
    bool has_log;
    uint16_t spool; /* number that the spool had at the start; 0: none */

    uint16_t number; /* 0: none */
    bool is_known;   /* it is right since the servers were last in contact */
    bool has_told;   /* of what is wrong */
};

/* Ask for it, unless it is known. What is wrong with the value of all numbers is no reason to stay
 * alone: a node goes on with the number that it had, or without one. errors: of a server */
MUST_USE int numbering_find(struct numbering *n, struct cluster_client *client);

/* A node is forgotten. Any thread. errors: of node_numbers_drop; ERR_AGAIN: others change it now; of a
 * server */
MUST_USE int numbering_drop(const struct cluster_module *m, struct cluster_client *client,
                            const char *name);

#endif
