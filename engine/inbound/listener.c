#include "engine/inbound/listener.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "engine/config/config.h"
#include "engine/state/listener_rules.h"
#include "engine/state/sockets.h"
#include "net/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LISTEN_BACKLOG = 1024 };

/* Tries to bind the address without SO_REUSEPORT. The workers' sockets share their address, and
 * would share it with those of another daemon too, which would then get a part of our clients. This
 * socket does not share it, so its bind fails when another daemon is there.
 * returns 0, or -errno of its bind */
static int probe_address(const struct config_address *bind_to)
{
    int fd = listen_open((const struct sockaddr *)&bind_to->address, bind_to->len, 1, false);
    if (fd >= 0) {
        (void)close(fd); /* nobody can have connected yet, or it is reset like a refused one */
        return 0;
    }
    return fd;
}

/* errors: -ENOMEM; the descriptor is closed */
static int add_socket(struct listener *l, int fd)
{
    int *grown = reallocarray(l->fds, l->fd_count + 1, sizeof(*grown));
    if (grown == NULL) {
        (void)close(fd); /* nothing was written to it */
        return -ENOMEM;
    }
    l->fds = grown;
    l->fds[l->fd_count++] = fd;
    return 0;
}

/* All of them: a client may already wait in the queue of each. errors: -ENOMEM */
static int take_given(struct listener *l, struct sockets *sockets)
{
    int fd, err = 0;
    while (err == 0 && (fd = sockets_take(sockets, &l->config->bind.address)) >= 0) {
        err = add_socket(l, fd);
    }
    return err;
}

static int open_sockets(struct listener *l, uint32_t workers, char ret_text[256])
{
    const struct config_address *bind_to = &l->config->bind;
    int err = probe_address(bind_to);
    for (uint32_t i = 0; i < workers; i++) {
        int fd = err != 0 ? err
                          : listen_open((const struct sockaddr *)&bind_to->address, bind_to->len,
                                        LISTEN_BACKLOG, true);
        if (fd < 0) {
            (void)snprintf(ret_text, 256, "listener \"%s\": cannot listen: %s", l->config->name,
                           err_str(fd));
            return fd;
        }
        err = add_socket(l, fd);
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

static int keep_sockets(const struct listener *l, struct sockets *sockets)
{
    int err = 0;
    for (uint32_t i = 0; err == 0 && i < l->fd_count; i++) {
        err = sockets_keep(sockets, l->fds[i]);
    }
    return err;
}

int listener_new(const struct config *config, size_t index, struct sockets *sockets,
                 struct listener **ret, char ret_text[256])
{
    struct listener *l = listener_new_local(config);
    const struct config_listener *lc = &config->listeners[index];
    (void)snprintf(ret_text, 256, "listener \"%s\": out of memory", lc->name);
    if (l == NULL) {
        return -ENOMEM;
    }
    l->config = lc;
    l->index = index;
    int err = take_given(l, sockets);
    if (err == 0 && l->fd_count == 0) {
        err = open_sockets(l, (uint32_t)config->workers, ret_text);
    }
    err = err != 0 ? err : keep_sockets(l, sockets);
    if (err != 0) {
        listener_free(l);
        return err;
    }
    *ret = l;
    return 0;
}

struct listener *listener_new_local(const struct config *config)
{
    struct listener *l = calloc(1, sizeof(*l));
    if (l != NULL) {
        l->index = config->listener_count;
        l->hash_seed = hash_random_seed();
    }
    return l;
}

void listener_free(struct listener *l)
{
    if (l == NULL) {
        return;
    }
    for (uint32_t i = 0; i < l->fd_count; i++) {
        (void)close(l->fds[i]); /* nothing was written to it */
    }
    free(l->fds);
    free(l);
}

void listener_tell(const struct config *config)
{
    for (size_t i = 0; i < config->listener_count; i++) {
        log_info("listening on %s", config->listeners[i].name);
    }
}

static _Atomic uint16_t *bucket(struct listener *l, const struct sockaddr *peer)
{
    uint64_t hash;
    if (peer->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)peer;
        hash = hash_bytes(&in6->sin6_addr, 8, l->hash_seed); /* one customer has at least a /64 */
    } else {
        const struct sockaddr_in *in = (const void *)peer;
        hash = hash_bytes(&in->sin_addr, sizeof(in->sin_addr), l->hash_seed);
    }
    return &l->clients[hash % LISTENER_CLIENT_BUCKETS];
}

static enum listener_admission admit(struct listener *l, const struct listener_rules *rules,
                                     const struct sockaddr *peer)
{
    const struct config_listener *limits = rules->config;
    if (limits == NULL) {
        return LISTENER_ADMITTED;
    }
    int total = atomic_fetch_add_explicit(&l->connections, 1, memory_order_relaxed) + 1;
    if (limits->smtpd_connection_limit > 0 && total > limits->smtpd_connection_limit) {
        atomic_fetch_sub_explicit(&l->connections, 1, memory_order_relaxed);
        return LISTENER_FULL;
    }
    _Atomic uint16_t *client = bucket(l, peer);
    int count = atomic_fetch_add_explicit(client, 1, memory_order_relaxed) + 1;
    int limit = limits->smtpd_client_connection_count_limit;
    /* The limit for each client does not concern clients that may relay, as they are our own. */
    if (limit > 0 && count > limit && !config_listener_trusts(limits, peer)) {
        atomic_fetch_sub_explicit(client, 1, memory_order_relaxed);
        atomic_fetch_sub_explicit(&l->connections, 1, memory_order_relaxed);
        return LISTENER_CLIENT_FULL;
    }
    return LISTENER_ADMITTED;
}

enum listener_admission listener_admit(struct listener *l, const struct listener_rules *rules,
                                       const struct sockaddr *peer)
{
    enum listener_admission admission = admit(l, rules, peer);
    _Atomic uint64_t *counter = admission == LISTENER_ADMITTED ? &l->admitted : &l->refused;
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
    return admission;
}

void listener_release(struct listener *l, const struct sockaddr *peer)
{
    if (l->config != NULL) {
        atomic_fetch_sub_explicit(bucket(l, peer), 1, memory_order_relaxed);
        atomic_fetch_sub_explicit(&l->connections, 1, memory_order_relaxed);
    }
}
