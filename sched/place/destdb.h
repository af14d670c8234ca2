/* The database of hosts: one object for each server key, whichever destinations lead there. It
 * knows a host's connections, when the last one was made, and after failures in a row when to try
 * again; what is not needed is forgotten. Owner thread only, but for the fields that say otherwise.
 *
 * source   T. Finch, "How to schedule delivery", destdb */
#ifndef SCHED_DESTDB_H
#define SCHED_DESTDB_H

#include "base/list.h"
#include "sched/sched.h"
#include "sched/shared.h"
#include "sched/table.h"
#include "sched/tree.h"

struct connection;

struct destdb {
    struct table by_key;
    struct list stale; /* destdb_host.in_stale: records without a connection, oldest use first */
    struct list retry; /* destdb_host.in_retry: the earliest retry_until first */
    uint32_t stale_count;
    bool is_open; /* the table is there */
};

struct destdb_host {
    /* Any thread, relaxed; the owner writes. */
    int connections;    /* open or being opened */
    int busy;           /* of which carry entries */
    int in_flight;      /* entries */
    int failures;       /* in a row, while none of its connections was live */
    usec_t retry_until; /* 0: it did not fail, or answered since */
    uint32_t notes;     /* of the shell, until notes_until; see destdb_notes */
    usec_t notes_until;
    bool is_out_of_step; /* pipelined replies came in the wrong order: depth 1 until in_step_at */
    bool has_record;     /* it was connected to since it was last forgotten */
    bool is_full;        /* host_concurrency_limit connections carry entries */
    bool is_waiting;     /* not to be tried before retry_until; in destdb.retry */
    /* Owner thread only. */
    bool is_useful;            /* it has room and is wanted: counted in sched.useful_hosts */
    int wanted;                /* servers of destinations that could open a connection to it */
    uint64_t full_since;       /* sched.selection_runs then */
    struct tree queue;         /* server.in_queue: of these, where jobs are parked */
    struct tree_node in_queue; /* sched.host_queue: not full, some job is parked for it */
    int live;                  /* connections that came as far as MAIL */
    uint32_t references;       /* servers that name it */
    double fail_cohorts;       /* the failures as parts of windows */
    usec_t in_step_at;         /* at the first new connection from then on */
    usec_t last_connect;       /* when the last connection was made */
    usec_t last_used;          /* when the last connection ended */
    struct list open;          /* connection.in_host, newest first */
    struct list users;         /* server.in_host: where it is a server */
    struct list in_stale, in_retry;
    /* Set at creation, any thread. */
    struct table_node node;
    uint8_t key[SCHED_SERVER_KEY_MAX];
    uint8_t key_len;
};

MUST_USE int destdb_init(struct sched *s); /* errors: -ENOMEM */
void destdb_fini(struct sched *s);         /* no server refers to a host any more */
/* The host of that key, created when missing, with one more reference. NULL when out of memory. */
struct destdb_host *destdb_obtain(struct sched *s, const struct sched_server *server);
void destdb_put(struct sched *s, struct destdb_host *h);

/* Not to be tried before retry_until. Any thread. */
static inline bool destdb_host_is_waiting(const struct destdb_host *h)
{
    return shared_get(&h->is_waiting);
}
/* What the shell has noted about it lately. */
static inline uint32_t destdb_notes(const struct destdb_host *h, usec_t now)
{
    return now < h->notes_until ? h->notes : 0;
}
void destdb_note(struct sched *s, struct destdb_host *h, uint32_t notes);
/* Pipelined replies came in the wrong order; true when that is news. */
MUST_USE bool destdb_out_of_step(struct sched *s, struct destdb_host *h);
/* That was long ago; true when it is forgotten now. */
MUST_USE bool destdb_back_in_step(struct sched *s, struct destdb_host *h);
/* A connection to it is opened, takes its first entry, has reported its last one, or ended. */
void destdb_opened(struct sched *s, struct destdb_host *h, struct connection *c);
void destdb_busy(struct sched *s, struct destdb_host *h);
void destdb_idle(struct sched *s, struct destdb_host *h);
void destdb_closed(struct sched *s, struct destdb_host *h, struct connection *c);
/* A connection failed before MAIL (window: of its destination then); reached it; is_first: for the
 * first time. */
void destdb_failed(struct sched *s, struct destdb_host *h, int window);
void destdb_succeeded(struct sched *s, struct destdb_host *h, bool is_first);

/* Time passed: hosts may be tried again, old records are forgotten. */
void destdb_tick(struct sched *s);
usec_t destdb_wake_at(const struct sched *s);
/* host_concurrency_limit changed; no destination is filed at its hosts (host_queue_leave). */
void destdb_refit(struct sched *s);
void destdb_flush(struct sched *s);                        /* every host may be tried at once */
void destdb_retry(struct sched *s, struct destdb_host *h); /* this one */

#endif
