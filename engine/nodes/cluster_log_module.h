/* The module's second table: a stream of frames that servers number and keep, one for each node's
 * log. It has a connection of its own, which watches nothing, so that frames are sent at once
 * (cluster_nats.c says why the other cannot have that).
 *
 * All functions but open and close are called by one thread, wait for a server's answer at most as
 * long as cluster_options.timeout, and then fail with -ETIMEDOUT: what was asked may have happened
 * or not, or may happen yet. Nothing is sent again by itself. Errors are negative enum err. */
#ifndef ENGINE_CLUSTER_LOG_MODULE_H
#define ENGINE_CLUSTER_LOG_MODULE_H

#include "engine/nodes/cluster_module.h"

#define CLUSTER_LOG_MODULE_SYMBOL "sluice_cluster_log_module"
#define CLUSTER_LOG_PREFIX        "SLUICE_LOG_" /* a stream's name, before its node's */
#define CLUSTER_LOG_SUBJECT       "sluice.log." /* its one subject, before its node's name */

#define CLUSTER_LOG_BYTES_MAX (512U * 1024) /* of a frame; what is larger is sent as it is */

struct cluster_log;

/* What a stream has, as its leader says. */
struct cluster_log_state {
    uint64_t first, last; /* sequences; first is last + 1 when it is empty */
    uint64_t bytes, max_bytes;
    int replicas; /* on so many servers */
    uint64_t
        made; /* when the stream was made, in the servers' own count: another stream of the same
                    * name has another one */
};

struct cluster_log_module {
    uint32_t version; /* CLUSTER_MODULE_VERSION */
    /* As cluster_module.open; for the log of this node. */
    int (*open)(const struct cluster_options *options, const char *node, struct cluster_log **ret);
    void (*close)(struct cluster_log *l); /* accepts NULL */
    bool (*is_connected)(struct cluster_log *l);
    /* Whether the server that it is connected to takes frames of so many bytes. */
    bool (*takes)(struct cluster_log *l, size_t bytes);
    /* Make the stream, or give the one that there is this limit and cluster_options.replicas; what it
     * has stays. errors: ERR_LIMIT: the servers have no room for so many bytes */
    int (*make)(struct cluster_log *l, uint64_t max_bytes);
    /* errors: ERR_MISSING: there is no such stream */
    int (*look)(struct cluster_log *l, struct cluster_log_state *ret);
    /* Store a frame in this place, if the one before it is the last; it may be compressed on the way and
     * there. ret_place: where it lies.
     * errors: ERR_AGAIN: another one is the last; ERR_LIMIT: the stream is full; ERR_MISSING: there is
     * no stream */
    int (*send)(struct cluster_log *l, uint64_t place, struct slice frame, uint64_t *ret_place);
    /* What lies there, as it was sent. errors: ERR_MISSING: nothing */
    int (*read)(struct cluster_log *l, uint64_t place, struct cluster_value *ret);
    /* Drop all in front of a place. */
    int (*purge)(struct cluster_log *l, uint64_t below);
    int (*remove)(struct cluster_log *l);
};

typedef const struct cluster_log_module *cluster_log_module_get(void);
const struct cluster_log_module *sluice_cluster_log_module(void);

#endif
