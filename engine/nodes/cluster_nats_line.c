/* Owns a connection and the thread that replaces it. Called by the module's three tables; knows nothing
 * of what is said on it.
 *
 * Concurrency: whoever uses the connection reads under `lock`; the thread writes, for no longer than
 * the user's take_up. `lock` prefers readers, so that one may take it twice; those of a connection
 * that is away do not wait, and pause between their tries. */
#include "engine/nodes/cluster_nats_line.h"

#include "engine/nodes/cluster_nats.h"

#include <time.h>

enum {
    AWAY_LOOKS = 5, /* of a second each; a connection that libnats has not made anew until then */
};

static bool is_up(natsConnection *connection)
{
    return natsConnection_Status(connection) == NATS_CONN_STATUS_CONNECTED;
}

static natsStatus make_options(const struct cluster_nats_line *l, natsOptions **ret)
{
    natsStatus s = natsOptions_Create(ret);
    s = s != NATS_OK ? s : cluster_nats_set(*ret, &l->options);
    return s != NATS_OK ? s : l->user.set(l->user.ctx, *ret);
}

/* Another connection, if the servers let it in. */
static void replace(struct cluster_nats_line *l)
{
    natsOptions *options = NULL;
    natsConnection *connection = NULL;
    natsStatus s = make_options(l, &options);
    s = s != NATS_OK ? s : natsConnection_Connect(&connection, options);
    if (s == NATS_OK) {
        (void)pthread_rwlock_wrlock(&l->lock);
        if (!is_up(l->connection) && l->user.take_up(l->user.ctx, connection) == NATS_OK) {
            natsConnection *old = l->connection;
            natsOptions *old_options = l->connection_options;
            l->connection = connection;
            l->connection_options = options;
            connection = old;
            options = old_options;
        }
        (void)pthread_rwlock_unlock(&l->lock);
    }
    natsConnection_Destroy(connection);
    natsOptions_Destroy(options);
}

/* false: after a second; true: the line is to end */
static bool must_end(struct cluster_nats_line *l)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with this clock */
    t.tv_sec++;
    return sem_clockwait(&l->ending, CLOCK_MONOTONIC, &t) == 0;
}

static void *run_upkeep(void *arg)
{
    struct cluster_nats_line *l = arg;
    unsigned away = 0;
    while (!must_end(l)) {
        /* Only this thread replaces it. */
        away = is_up(l->connection) ? 0 : away + 1;
        if (away >= AWAY_LOOKS || natsConnection_IsClosed(l->connection)) {
            replace(l);
            away = 0;
        }
    }
    nats_ReleaseThreadMemory();
    return NULL;
}

/* Without such a handler natsConnection_Connect does not come back before there is a server. */
static void on_first(natsConnection *connection, void *closure)
{
}

natsStatus cluster_nats_line_open(struct cluster_nats_line *l, const struct cluster_options *from,
                                  const struct cluster_nats_user *user)
{
    l->options = *from;
    l->user = *user;
    /* Neither can fail with these arguments on Linux. */
    (void)sem_init(&l->ending, 0, 0);
    (void)pthread_rwlock_init(&l->lock, NULL);
    natsStatus s = make_options(l, &l->connection_options);
    s = s != NATS_OK
            ? s
            : natsOptions_SetRetryOnFailedConnect(l->connection_options, true, on_first, NULL);
    s = s != NATS_OK ? s : natsConnection_Connect(&l->connection, l->connection_options);
    s = s == NATS_NOT_YET_CONNECTED ? NATS_OK : s;
    s = s != NATS_OK ? s : user->take_up(user->ctx, l->connection);
    if (s == NATS_OK) {
        l->has_thread = pthread_create(&l->thread, NULL, run_upkeep, l) == 0;
        s = l->has_thread ? NATS_OK : NATS_NO_MEMORY;
    }
    return s;
}

void cluster_nats_line_stop(struct cluster_nats_line *l)
{
    if (l->has_thread) {
        (void)sem_post(&l->ending); /* cannot overflow */
        (void)pthread_join(l->thread, NULL);
        l->has_thread = false;
    }
}

void cluster_nats_line_fini(struct cluster_nats_line *l)
{
    natsConnection_Destroy(l->connection);
    natsOptions_Destroy(l->connection_options);
    /* Nobody holds or waits for them. */
    (void)sem_destroy(&l->ending);
    (void)pthread_rwlock_destroy(&l->lock);
}

natsConnection *cluster_nats_line_take(struct cluster_nats_line *l)
{
    (void)pthread_rwlock_rdlock(&l->lock); /* fails beyond 2^31 readers only */
    return l->connection;
}

void cluster_nats_line_leave(struct cluster_nats_line *l)
{
    (void)pthread_rwlock_unlock(&l->lock);
}

bool cluster_nats_line_is_connected(struct cluster_nats_line *l)
{
    bool is_connected = is_up(cluster_nats_line_take(l));
    cluster_nats_line_leave(l);
    return is_connected;
}
