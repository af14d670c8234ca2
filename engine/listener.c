#include "engine/listener.h"

#include "base/error.h"
#include "base/hash.h"
#include "engine/auth.h"
#include "engine/config.h"
#include "engine/spool_store.h"
#include "net/listen.h"
#include "net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LISTEN_BACKLOG = 1024 };

static void smtp_config(const struct config *config, const struct config_listener *lc,
                        struct smtp_server_config *ret)
{
    smtp_server_config_defaults(ret);
    ret->hostname = config->hostname;
    ret->software = "sluice";
    ret->recipient_batch = SPOOL_BATCH_RECIPIENTS;
    ret->hop_limit = (uint32_t)config->hopcount_limit;
    if (lc != NULL) {
        ret->message_size_limit = lc->message_size_limit;
        ret->recipient_limit = (uint32_t)lc->smtpd_recipient_limit;
        ret->error_limit = (uint32_t)lc->smtpd_hard_error_limit;
        ret->junk_limit = (uint32_t)lc->smtpd_junk_command_limit;
        ret->command_line_limit = (uint32_t)lc->line_length_limit;
        ret->command_timeout = lc->smtpd_timeout;
        ret->offers_starttls = lc->tls_certificate != NULL;
        ret->offers_auth = lc->users != NULL;
    } else {
        ret->recipient_limit = 0;
    }
    /* Mail that is longer per line than RFC 5321 allows is accepted as it is, like Postfix. */
    ret->text_line_limit = 0;
}

/* The workers' sockets share their address, and would share it with another daemon's as well, which
 * would then take half of our clients: a socket that does not share shows whether one is there.
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

static int open_sockets(struct listener *l, uint32_t workers, char ret_text[256])
{
    l->fds = calloc(workers, sizeof(*l->fds));
    if (l->fds == NULL) {
        return -ENOMEM;
    }
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
        l->fds[l->fd_count++] = fd;
    }
    return 0;
}

int listener_new(const struct config *config, size_t index, struct listener **ret,
                 char ret_text[256])
{
    struct listener *l = listener_new_local(config);
    const struct config_listener *lc = &config->listeners[index];
    int err = 0;
    (void)snprintf(ret_text, 256, "listener \"%s\": out of memory", lc->name);
    if (l == NULL) {
        return -ENOMEM;
    }
    l->config = lc;
    smtp_config(config, lc, &l->smtp);
    if (lc->tls_certificate != NULL) {
        struct tls_error why;
        const struct tls_server_config tls = {.certificate_file = lc->tls_certificate,
                                              .key_file = lc->tls_key};
        err = tls_server_new(&tls, &l->tls, &why);
        if (err != 0) {
            (void)snprintf(ret_text, 256, "listener \"%.60s\": %.180s", lc->name, why.text);
        }
    }
    if (err == 0 && lc->users != NULL) {
        err = auth_users_load(lc->users, &l->users, ret_text);
    }
    if (err == 0) {
        err = open_sockets(l, (uint32_t)config->workers, ret_text);
    }
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
        smtp_config(config, NULL, &l->smtp);
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
    tls_server_free(l->tls);
    auth_users_free(l->users);
    free(l);
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

enum listener_admission listener_admit(struct listener *l, const struct sockaddr *peer)
{
    if (l->config == NULL) {
        return LISTENER_ADMITTED;
    }
    int total = atomic_fetch_add_explicit(&l->connections, 1, memory_order_relaxed) + 1;
    if (l->config->smtpd_connection_limit > 0 && total > l->config->smtpd_connection_limit) {
        atomic_fetch_sub_explicit(&l->connections, 1, memory_order_relaxed);
        return LISTENER_FULL;
    }
    _Atomic uint16_t *client = bucket(l, peer);
    int count = atomic_fetch_add_explicit(client, 1, memory_order_relaxed) + 1;
    int limit = l->config->smtpd_client_connection_count_limit;
    /* A client that may relay from here is ours: its own pool of connections is its business. */
    if (limit > 0 && count > limit && !config_listener_trusts(l->config, peer)) {
        atomic_fetch_sub_explicit(client, 1, memory_order_relaxed);
        atomic_fetch_sub_explicit(&l->connections, 1, memory_order_relaxed);
        return LISTENER_CLIENT_FULL;
    }
    return LISTENER_ADMITTED;
}

void listener_release(struct listener *l, const struct sockaddr *peer)
{
    if (l->config != NULL) {
        atomic_fetch_sub_explicit(bucket(l, peer), 1, memory_order_relaxed);
        atomic_fetch_sub_explicit(&l->connections, 1, memory_order_relaxed);
    }
}
