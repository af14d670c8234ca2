/* The connections of a transport as numbered slots: which are free, idle or busy, what they carry,
 * and when they end. Which one an entry goes to is sched/place/placement.h. Owner thread only. */
#ifndef SCHED_CONNECTION_H
#define SCHED_CONNECTION_H

#include "base/heap.h"
#include "base/list.h"
#include "sched/action.h"
#include "sched/place/party.h"
#include "sched/sched.h"
#include "sched/tree.h"

struct destdb_host;
struct lane;
struct party;

enum connection_state { CONNECTION_FREE, CONNECTION_IDLE, CONNECTION_BUSY };

struct connection {
    struct list in_transport;      /* FREE: sched.free_connections; IDLE: sched.idle_connections, or
                                    * .idle_apart */
    struct list in_age;            /* open: sched.open_connections or .open_apart, oldest first */
    struct list in_lane;           /* open: lane.open, newest first */
    struct list in_host;           /* open, with a host: destdb_host.open, newest first */
    struct tree_node in_placement; /* IDLE: party.idle; BUSY with room: party.roomy */
    uint64_t order;                /* its key there */
    struct pending close;
    struct party *party;      /* NULL when FREE */
    struct lane *lane;        /* NULL when FREE */
    struct destdb_host *host; /* NULL: FREE, or a server without a name */
    struct flow *flow;        /* BUSY: whose entry made it so, where flows take turns; or NULL */
    struct list in_flow;      /* flow.connections, unless it is given over */
    struct list entries;      /* sched_entry.place: what it carries, but for sched.undelivered */
    usec_t opened, idle_since;
    uint64_t serial; /* order of opening */
    uint32_t number; /* set at creation */
    uint32_t name;   /* of its host, when it was opened */
    uint32_t server; /* index of its host in the hosts it was opened with */
    uint32_t source; /* its place in sched.sources */
    /* Its own, of the destination that it was opened for, if is_apart. */
    struct heap_node timer; /* in sched.apart_timers */
    usec_t idle_limit, age_limit;
    int reuse_limit;
    bool is_apart;
    bool is_single; /* one entry at a time: a delay follows each */
    int in_flight;  /* entries */
    int carried;    /* entries, ever */
    uint16_t preference;
    uint16_t depth; /* as reported */
    enum connection_state state;
    bool is_new;         /* BUSY: its first entry opens it */
    bool is_live;        /* it came as far as MAIL */
    bool is_out_of_step; /* of a server without a name */
    /* Why nothing more is placed on it while it is BUSY. */
    bool is_closing;  /* the shell has lost it, or was told to close it */
    bool is_retired;  /* too old, used up, or its host is none of the party's any more */
    bool is_draining; /* the window shrank below the number of busy connections */
    bool is_given;    /* its flow gives it over to another one: it is draining */
    bool is_yielding; /* its place at its lanes is for another flow: likewise; counted in its set */
    bool is_ending;   /* its end is awaited: BUSY until then, even without entries */
};

/* Slots up to this number exist from now on. errors: -ENOMEM, nothing changed */
MUST_USE int connection_grow(struct sched *s, uint32_t count);
void connection_fini_all(struct sched *s);
/* Some slot is free, or idle and can be closed. */
bool connection_has_slot(const struct sched *s);
/* Carry one more entry: it has room, or is idle. */
void connection_carry(struct sched *s, struct connection *c, struct sched_entry *e);
/* A new one of a lane for the party, to the server of that index; may queue CLOSE for an idle one
 * that has to give way. IDLE as far as counts go: the caller lets it carry an entry at once.
 *
 * d   the destination that it is opened for, one of the party's: its terms are the connection's */
struct connection *connection_open(struct sched *s, const struct sched_destination *d,
                                   struct lane *lane, uint32_t server);
/* The first of a set that is not empty, as the next two say. */
struct connection *connection_first(const struct party *p, const struct tree *t, struct lane *lane,
                                    uint16_t group, uint64_t tried);
/* The best of a group that is not at a host in `tried`; NULL when there is none: the newest one
 * with room, the one that became idle last.
 *
 * lane   NULL: any */
static inline struct connection *connection_with_room(const struct party *p, struct lane *lane,
                                                      uint16_t group, uint64_t tried)
{
    return tree_is_empty(&p->roomy) ? NULL : connection_first(p, &p->roomy, lane, group, tried);
}
static inline struct connection *connection_idle(const struct party *p, struct lane *lane,
                                                 uint16_t group, uint64_t tried)
{
    return tree_is_empty(&p->idle) ? NULL : connection_first(p, &p->idle, lane, group, tried);
}
/* An entry on it was reported; the entry has no connection any more.
 *
 * window   of the lane, before the report changed it */
void connection_report(struct sched *s, struct sched_entry *e, const struct sched_outcome *o,
                       int window);
/* The shell has no such connection any more. */
void connection_lose(struct sched *s, uint32_t number);
void connection_close_idle(struct sched *s, struct party *p);
void connection_close_idle_of(struct sched *s, struct lane *lane); /* and settles their parties */
/* No further entry; an idle one is closed. */
void connection_retire(struct sched *s, struct connection *c);
/* The lane takes a further entry on connections that carry some, or does not any more. */
void connection_refile_all(struct sched *s, const struct lane *lane);
void connection_set_preference(struct sched *s, struct connection *c, uint16_t preference);
/* The window shrank: the oldest busy connections beyond so many take no further entry. */
void connection_drain(struct sched *s, struct lane *lane, int most);
/* That one takes no further entry until it was idle. */
void connection_drain_one(struct sched *s, struct connection *c);
/* End those idle for too long or too old; the time at which the next one will be, or USEC_NEVER. */
void connection_expire(struct sched *s);
usec_t connection_wake_at(const struct sched *s);
/* The config changed: those beyond its limits are closed when idle, else take nothing more. */
void connection_refit_all(struct sched *s);
void connection_fit_host(struct sched *s, struct destdb_host *h);
/* Entries that it may carry in all; 0: no limit. */
int connection_reuse_limit(const struct sched *s, const struct connection *c);
/* Entries that it may carry at once; can take one more now (for sched_check). */
int connection_depth(const struct sched *s, const struct connection *c);
bool connection_has_room(const struct sched *s, const struct connection *c);

#endif
