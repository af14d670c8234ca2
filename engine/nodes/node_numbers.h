/* Which number each node of a cluster has: 1 to 65,535, none twice, and none given again to another
 * node, so that what carries a number for long (an id, a share of a limit) means one node for good.
 * All stand in one value of the bucket of nodes, a JSON object of version 1, which only
 * compare-and-set changes; these functions say what it should become. Pure.
 *
 * {"format":1,"next":3,"nodes":{"a":1,"b":2}} */
#ifndef ENGINE_NODE_NUMBERS_H
#define ENGINE_NODE_NUMBERS_H

#include "base/attr.h"
#include "base/slice.h"

#include <stddef.h>
#include <stdint.h>

/* No node has this name: it has a slash. */
#define NODE_NUMBERS_KEY    "all/numbers"
#define NODE_NUMBERS_BUCKET "sluice_nodes"

/* What follows from the value that was seen. */
struct node_numbers_step {
    uint16_t number; /* the node's, once `value` was put; of a removal 0 */
    char *value;     /* to be put in place of the one that was seen; the caller frees it. NULL: it
                      * stays as it is */
    size_t len;
};

/* The number of a node: the one that it has, else `wanted`, else the next.
 *
 * seen    the value; data NULL: there is none yet
 * wanted  the number that the node went by before the value was lost; 0: none. Another one may have
 *         it by now, and then the node gets a new one
 * errors  ERR_SYNTAX: it is no such value, or of a version that is not known; ERR_LIMIT: all
 *         numbers are given, or the value would be longer than one may be; -ENOMEM. *ret is then
 *         all zero */
MUST_USE int node_numbers_take(struct slice seen, const char *name, uint16_t wanted,
                               struct node_numbers_step *ret);

/* The number of the spool that a node with a log has. A spool has one number for good and no other
 * spool has the same, so a node gets another one with each new spool.
 *
 * number  the spool's; 0: it has none, and gets the next
 * errors  as above; ERR_LOCKED: another node has it */
MUST_USE int node_numbers_own(struct slice seen, const char *name, uint16_t number,
                              struct node_numbers_step *ret);

/* A node was forgotten: its name has no number any more, and nobody gets the one that it had.
 * Errors as above. */
MUST_USE int node_numbers_drop(struct slice seen, const char *name, struct node_numbers_step *ret);

#endif
