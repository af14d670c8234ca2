/* What a node says of itself to the others: the value of its key in the bucket of nodes, a JSON object
 * of version 1. Members that nobody knows are ignored, so later versions may say more. Pure. */
#ifndef ENGINE_NODE_ENTRY_H
#define ENGINE_NODE_ENTRY_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NODE_ENTRY_NAME_MAX    32
#define NODE_ENTRY_ADDRESS_MAX 255
#define NODE_ENTRY_VERSION_MAX 31
#define NODE_ENTRY_BYTES       1024

/* What a node has and did, as `sluice status` says of it; messages, and recipients since its start. */
struct node_counts {
    uint64_t messages; /* in its queue */
    uint64_t received, delivered, deferrals, failed, expired;
};

struct node_entry {
    char name[NODE_ENTRY_NAME_MAX + 1];
    char address[NODE_ENTRY_ADDRESS_MAX + 1]; /* its host name */
    char version[NODE_ENTRY_VERSION_MAX + 1]; /* of the program */
    uint64_t start;  /* a number that was drawn when it started: another one, another process */
    uint64_t beats;  /* how often it said so since then */
    usec_t started;  /* wall */
    uint16_t number; /* node_numbers.h; 0: it has none yet */
    bool is_leaving; /* it stopped in order, and says nothing more */
    uint64_t orders; /* the revision up to which it obeys shared_orders.h */
    bool has_counts;
    struct node_counts counts; /* when it said so; all zero without has_counts */
};

/* returns its length; 0: out of memory */
size_t node_entry_write(const struct node_entry *e, char ret[static NODE_ENTRY_BYTES]);
/* errors: ERR_SYNTAX: it is none, or of a version that is not known */
MUST_USE int node_entry_read(struct slice text, struct node_entry *ret);

#endif
