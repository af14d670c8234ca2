/* Whose a node's log is: a key of the bucket `sluice_owner` for each node, changed by compare-and-set
 * only. Its value is `VERSION EPOCH HOLDER`: who writes frames of that epoch into the log of the
 * node that the key names. */
#ifndef ENGINE_LOG_OWNER_H
#define ENGINE_LOG_OWNER_H

#include "base/attr.h"
#include "engine/nodes/cluster_log_module.h"
#include "engine/nodes/node_entry.h"

#include <stdint.h>

#define LOG_OWNER_BUCKET  "sluice_owner"
#define LOG_OWNER_VERSION 1U

struct log_owner {
    uint64_t epoch;
    char holder[NODE_ENTRY_NAME_MAX + 1];
};

/* errors: ERR_SYNTAX: it is none, or of a later version */
MUST_USE int log_owner_read(struct slice value, struct log_owner *ret);

/* The epoch of the last frame of a log; 0: it has none. errors: of the module */
MUST_USE int log_owner_last_epoch(const struct cluster_log_module *m, struct cluster_log *log,
                                  const struct cluster_log_state *state, uint64_t *ret);

/* Begin the next epoch of the node's own log, whose holder it must be or become. Waits for servers;
 * one thread.
 *
 * last    epoch of the last frame: the next one is greater, also when the key was lost, as readers
 *         take a lesser one for void
 * errors  ERR_LOCKED: another node has it, *ret says which; ERR_AGAIN: somebody changes it now;
 *         ERR_SYNTAX: the key's value is none; of the module */
MUST_USE int log_owner_begin(const struct cluster_module *m, struct cluster_client *client,
                             const char *node, uint64_t last, struct log_owner *ret);

#endif
