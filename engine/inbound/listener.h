/* What stays of a `listener` of the configuration whatever is reloaded: its sockets and the
 * counters of its limits. Built by main before any thread starts and constant afterwards, except
 * the atomic counters. What its sessions go by is in the settings (listener_rules.h). */
#ifndef ENGINE_LISTENER_H
#define ENGINE_LISTENER_H

#include "base/attr.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct config;
struct config_listener;
struct listener_rules;
struct sockets;

#define LISTENER_CLIENT_BUCKETS 4096

struct listener {
    /* set at creation */
    const struct config_listener *config; /* of the start: for its name and address; NULL: sessions
                                           * over the control socket */
    size_t index;                         /* for settings_listener */
    int *fds;          /* [fd_count]: one a worker with SO_REUSEPORT, or those that were given */
    uint32_t fd_count; /* worker W accepts on those whose number is W modulo workers; when there are
                        * fewer than workers, some accept on the same */
    uint64_t hash_seed;

    /* any thread, atomic */
    _Atomic int connections;
    _Atomic uint64_t admitted, refused;                /* since the start */
    _Atomic uint16_t clients[LISTENER_CLIENT_BUCKETS]; /* connections by hash of the client address;
                                           * two clients of one bucket share its limit */
};

/* Open the sockets of listener `index`, or take those that were given for its address.
 *
 * ret_text  what failed, with the address
 * errors    -errno */
MUST_USE int listener_new(const struct config *config, size_t index, struct sockets *sockets,
                          struct listener **ret, char ret_text[256]);
/* For local sessions: trusted, no socket of its own. NULL when out of memory. */
struct listener *listener_new_local(const struct config *config);
void listener_free(struct listener *l); /* accepts NULL */
/* Say in the log where there are listeners; when their connections are taken, which wait in the sockets before. */
void listener_tell(const struct config *config);

enum listener_admission { LISTENER_ADMITTED, LISTENER_FULL, LISTENER_CLIENT_FULL };
/* Count a connection of this client, unless a limit of these rules is reached. Any thread. */
MUST_USE enum listener_admission
listener_admit(struct listener *l, const struct listener_rules *rules, const struct sockaddr *peer);
void listener_release(struct listener *l, const struct sockaddr *peer);

#endif
