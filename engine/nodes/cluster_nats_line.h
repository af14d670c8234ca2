/* A connection that is kept for good. libnats closes one for ever when a server refused its credentials
 * twice while it connected anew, and reads the files of TLS but once. So each line has a thread that
 * looks once a second; when the connection is closed, or was away for a while, it tries another one
 * with what the files say now, and when that is let in it takes the place of the old one. */
#ifndef ENGINE_CLUSTER_NATS_LINE_H
#define ENGINE_CLUSTER_NATS_LINE_H

#include "engine/nodes/cluster_module.h"

#include <nats/nats.h>
#include <pthread.h>
#include <semaphore.h>

/* Whose line it is; both are called by whoever opens the line, and then by its thread. */
struct cluster_nats_user {
    /* Options of this line alone, beside cluster_nats_set's. */
    natsStatus (*set)(void *ctx, natsOptions *o);
    /* Make on this connection what is needed, in place of what was made on the one before. Nobody has
     * taken the line meanwhile. When it fails, the connection before stays. */
    natsStatus (*take_up)(void *ctx, natsConnection *connection);
    void *ctx;
};

struct cluster_nats_line {
    struct cluster_options options;
    struct cluster_nats_user user;
    pthread_t thread;
    bool has_thread;
    sem_t ending;
    pthread_rwlock_t lock; /* guards the two below, and what the user made on the connection */
    natsConnection *connection;
    natsOptions *connection_options;
};

/* Does not wait for a server longer than cluster_options.timeout each. What it cannot do, _stop and _fini
 * still end. Zeroed before. errors: of natsConnection_Connect, but for servers that do not answer */
natsStatus cluster_nats_line_open(struct cluster_nats_line *l, const struct cluster_options *from,
                                  const struct cluster_nats_user *user);
/* Its thread has ended afterwards; the connection is there yet. */
void cluster_nats_line_stop(struct cluster_nats_line *l);
/* After _stop. Nobody has taken it. */
void cluster_nats_line_fini(struct cluster_nats_line *l);

/* The connection, which stays, with all that was made on it, until _leave. Several threads may, and one
 * may twice. */
natsConnection *cluster_nats_line_take(struct cluster_nats_line *l);
void cluster_nats_line_leave(struct cluster_nats_line *l);
bool cluster_nats_line_is_connected(struct cluster_nats_line *l);

#endif
