/* What the daemon and the module that speaks to NATS servers have of each other: one table of
 * functions. The module is a shared object of its own (cluster_nats.c), which links the client
 * library and is loaded only where a cluster is configured; a test puts another one in its place.
 *
 * Every function but open and close may be called by any thread, and by several at once. Those that
 * ask a server wait for its answer as long as cluster_options.timeout, and then fail with
 * -ETIMEDOUT: what was asked may have happened or not. Nothing is sent again by itself. Errors are
 * negative enum err; none of them ends a client, which connects anew for as long as it is open, with
 * what the files of its options say then. */
#ifndef ENGINE_CLUSTER_MODULE_H
#define ENGINE_CLUSTER_MODULE_H

#include "base/clock.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLUSTER_MODULE_VERSION                                                                     \
    6U /* one more with each change of this file or the two other tables' */
#define CLUSTER_MODULE_SYMBOL    "sluice_cluster_module"
#define CLUSTER_VALUE_MAX        65536U /* bytes of a value */
#define CLUSTER_BUCKETS_MAX      8U
#define CLUSTER_DESCRIPTION_SIZE 256U

struct cluster_api_module;
struct cluster_client;

/* What it points to outlives what is opened with it. */
struct cluster_options {
    const char *name; /* what the servers show of this connection */
    char *const *servers;
    size_t server_count;
    const char *credentials, *tls_ca_file, *tls_certificate, *tls_key; /* files; NULL: none */
    int replicas;                                                      /* of what is made */
    usec_t timeout;
};

struct cluster_value {
    void *data; /* the caller frees it */
    size_t len;
    uint64_t revision; /* grows with each change in the bucket */
};

/* A key has this value now, also while it had it before; data NULL: it was removed. Called by one
 * thread of the module for each bucket, in the order of revisions; valid during the call.
 *
 * key  NULL, with data NULL: what follows is all that there is, at the begin of the watch or after
 *      the connection was lost; NULL, with data: that has been told, and changes follow */
typedef void cluster_watcher(void *ctx, const char *key, const void *data, size_t len,
                             uint64_t revision);

struct cluster_module {
    uint32_t version; /* CLUSTER_MODULE_VERSION */
    const struct cluster_api_module *api;
    /* Connect once, log in and end that again. Waits as long as cluster_options.timeout for each server.
     * text: why not, as the library says. errors: ERR_CLOSED: none answers; -EACCES: it refuses this
     * node; ERR_SYNTAX: TLS, or an address or a file is none; -EIO */
    int (*reach)(const struct cluster_options *options, char text[CLUSTER_DESCRIPTION_SIZE]);
    /* Returns at once; it connects on threads of its own. errors: -ENOMEM; ERR_SYNTAX: an address or
     * a file is none */
    int (*open)(const struct cluster_options *options, struct cluster_client **ret);
    /* Ends its threads; nobody is in another function. Accepts NULL. */
    void (*close)(struct cluster_client *c);
    bool (*is_connected)(struct cluster_client *c);
    /* To which server, or why to none. */
    void (*describe)(struct cluster_client *c, char ret[CLUSTER_DESCRIPTION_SIZE]);
    /* Find a bucket of keys and values, or make it; again and again is no error. errors: ERR_LIMIT,
     * too many */
    int (*bucket)(struct cluster_client *c, const char *name);
    /* errors of all below: ERR_MISSING: no such bucket or key; ERR_CLOSED: no server is connected */
    int (*get)(struct cluster_client *c, const char *bucket, const char *key,
               struct cluster_value *ret);
    int (*put)(struct cluster_client *c, const char *bucket, const char *key, struct slice value,
               uint64_t *ret_revision);
    /* Only when the key's value still has this revision; 0: it has none. errors: ERR_AGAIN: it has
     * another one */
    int (*swap)(struct cluster_client *c, const char *bucket, const char *key, struct slice value,
                uint64_t revision, uint64_t *ret_revision);
    int (*remove)(struct cluster_client *c, const char *bucket, const char *key);
    /* Tell of all keys of a bucket, from now until close. errors: -ENOMEM, -errno of a thread */
    int (*watch)(struct cluster_client *c, const char *bucket, cluster_watcher *tell, void *ctx);
};

/* Find or make a bucket, and be told of all its keys. errors: of both */
static inline int cluster_module_follow(const struct cluster_module *m, struct cluster_client *c,
                                        const char *bucket, cluster_watcher *tell, void *ctx)
{
    int err = m->bucket(c, bucket);
    return err != 0 ? err : m->watch(c, bucket, tell, ctx);
}

/* The module's one symbol; static storage. */
typedef const struct cluster_module *cluster_module_get(void);
const struct cluster_module *sluice_cluster_module(void);

#endif
