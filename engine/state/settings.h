/* Everything that a reload replaces, as one object: a configuration and what was made of it
 * (routes, passwords, TLS contexts, the settings of sessions).
 *
 * Immutable once made. Published in engine.settings under RCU: settings_of is valid until the end
 * of the caller's pass, and whoever needs them longer (a connection, a session, recipients on their
 * way to a scheduler) holds a reference. The engine's own reference goes after a grace period, so
 * that a reference can be taken from what settings_of returned. Written by main only.
 *
 * engine.config is the configuration of the start and stays: what only a restart changes (the
 * spool, the threads, paths, listeners) is read there. Listeners are found by settings_listener.
 *
 * A transport has a number, which is its index in config->transports and everywhere else. Those of
 * the start have theirs by the order of the file; a name that comes later gets the next one. A
 * number belongs to its name for the life of the daemon: it is never given to another. A transport
 * whose section is gone keeps its number and its scheduler, and stands in the configuration as a
 * copy that is_gone; what waits there is routed anew, and what is in flight ends by the last
 * settings that had it (settings_for). When its section comes back, so does it. So whoever has a
 * number may use it with these and all later settings, and with none before its time; arrays by
 * number that outlive settings have config_transport_room places, which is the most that there
 * will be, and nothing is ever moved in them. */
#ifndef ENGINE_SETTINGS_H
#define ENGINE_SETTINGS_H

#include "base/attr.h"
#include "base/rcu.h"
#include "engine/state/dispatch_bound.h"
#include "engine/state/engine.h"
#include "engine/state/listener_rules.h"
#include "engine/state/password.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;
struct config_http;
struct dns_cache;
struct key_ring;
struct policy_table;
struct reply_set;
struct router;
struct smtp_client_config;
struct source_table;
struct tls_client;
struct tokens;

#define SETTINGS_TEXT_MAX 600

/* What one listener says to its sessions. */
struct settings_listener {
    const struct listener_rules *rules;
    struct listener_rules own; /* what `rules` points to, unless there is an owner */
    struct settings *owner; /* own reference: its section is gone, and these are its last rules */
};

/* What one http door asks for, and by which section. */
struct settings_door {
    const struct config_http *section;
    struct settings *owner; /* own reference: its section is gone, and this is its last one */
    struct tokens *tokens;  /* NULL: none are asked for */
};

struct settings {
    /* set at creation */
    const struct config *config;
    struct config *owned; /* the same, when it goes with the settings; else NULL */
    uint64_t serial;      /* 1 at the start, then one more with each reload */
    uint64_t rates_serial; /* that of the last ones whose rates, quotas, limits or pools are not those of
                            * the ones before them */
    struct router *router;
    struct policy_table *policies; /* what counts for each receiver; policy.h */
    struct reply_set *replies;     /* what receivers' replies mean; reply_set.h */
    struct key_ring *keys;         /* that sign mail; NULL: there are none */
    struct dns_cache *dns_cache; /* own reference; the same as before when nothing changed there */
    struct passwords passwords;
    struct source_table *sources;    /* what transports send from, and the pools of mail */
    struct tls_client **tls_clients; /* [config->transport_count], some are the same */
    struct smtp_client_config **client_configs; /* see client_settings_of */
    struct settings_listener *listeners; /* [listener_count + 1], the last for local sessions */
    size_t listener_count;               /* the engine's */
    struct settings_door *doors;         /* [door_count] */
    size_t door_count;                   /* the engine's http doors */
    size_t transport_count; /* the config's: numbers that are given, also of those that are gone */
    struct settings **last; /* [transport_count], own references: of those that are gone the last
                             * settings that had them; else NULL */
    uint32_t *generations;  /* [transport_count]; one more when it connects in another way */
    struct dispatch_bound dispatch_bound;

    /* any thread, atomic */
    _Atomic uint32_t references;
    _Atomic uint32_t lasts; /* how many of them are in `last` of other settings */
    struct rcu_retired retired;
};

/* Make everything that a configuration leads to; reads the files that it names.
 *
 * engine   whose settings they will be: recipients are routed by engine.settings at any time
 * config   outlives the settings, or is given to them afterwards (owned); transports have their
 *          numbers (config_change_arrange)
 * before   those in force, or NULL at the start
 * ret      the caller holds the one reference
 * errors   -errno, ERR_TLS, ERR_SYNTAX, ERR_LIMIT: ret_text says what and why */
MUST_USE int settings_new(const struct engine *engine, const struct config *config,
                          struct settings *before, struct settings **ret,
                          char ret_text[static SETTINGS_TEXT_MAX]);
struct settings *settings_get(struct settings *s); /* returns s */
void settings_put(struct settings *s);             /* accepts NULL; any thread */

/* The settings by which a transport connects: these, or, when it is gone, the last that had it. Valid
 * as long as s. */
static inline struct settings *settings_for(struct settings *s, size_t transport)
{
    return s->last[transport] != NULL ? s->last[transport] : s;
}

/* The settings in force. Thread: online under RCU. */
static inline struct settings *settings_of(const struct engine *e)
{
    return rcu_load(&e->settings);
}

/* What the engine's listener `index` says to its sessions; listener_count: those over the control
 * socket. Valid as long as s. */
static inline const struct listener_rules *settings_listener(const struct settings *s, size_t index)
{
    return s->listeners[index].rules;
}

#endif
