/* The state of one scheduler: everything that the nouns of this folder share. */
#ifndef SCHED_TRANSPORT_H
#define SCHED_TRANSPORT_H

#include "base/heap.h"
#include "base/list.h"
#include "sched/action.h"
#include "sched/change.h"
#include "sched/debug.h"
#include "sched/destination.h"
#include "sched/feedback.h"
#include "sched/flow.h"
#include "sched/job.h"
#include "sched/place/connection.h"
#include "sched/place/destdb.h"
#include "sched/place/server.h"
#include "sched/place/site.h"
#include "sched/place/source.h"
#include "sched/place/source_tried.h"
#include "sched/position.h"
#include "sched/purse.h"
#include "sched/sched.h"
#include "sched/table.h"
#include "sched/tree.h"

/* Recipients read at once, whatever the pools allow: bounds the time of one call (4.2). */
#define BATCH_LIMIT 5000

/* Connections never move: there are lists through them. */
#define CONNECTION_BLOCK  256
#define CONNECTION_BLOCKS (65536 / CONNECTION_BLOCK)

enum rate_state { RATE_FREE, RATE_WAITING, RATE_BUSY };

/* How far the examination of a job had come when it asked for recipients (6.4). */
enum selection_stage {
    SELECTION_REFILL, /* top up before looking at peers */
    SELECTION_PICK,   /* look at peers; read if there is none */
    SELECTION_LAST,   /* look at peers once more */
};

struct sched {
    struct sched_config config; /* with the cross-rules of 1.3 applied */
    uint64_t hash_seed;         /* set at creation, any thread */
    struct sched_host host;
    void (*release_hosts)(void *ctx, void *hosts);
    struct feedback_rule rule;
    int loan_factor; /* percent */
    usec_t now;      /* of the current call */

    struct flow flow; /* the first one: of all jobs, unless several take turns */
    struct flows flows;
    struct tree
        unread; /* of all jobs, in the order of their ages; next_unread and those with has_more */
    struct tree host_queue; /* destdb_host.in_queue, by the first job parked at a destination
                                    * there; these need OPEN_HOST */
    uint64_t rounds;        /* the last number that a destination was given; sched/selection.h */
    int useful_hosts;       /* hosts with room that some destination could open one to */
    uint64_t selection_runs;
    bool needs_connection;   /* the entry selected last may not open one (sched/gate.h) */
    struct job *next_unread; /* takes freed recipient slots */
    int64_t rcpt_unused;     /* recipient slots in the pool; negative while overdrawn */
    struct job *resume_job;  /* selection goes on there when its recipients have come */
    enum selection_stage resume_stage;

    struct sources sources;
    uint32_t pool_most; /* any thread, relaxed: every destination's pool is below */
    struct list all_sites;
    struct list remembered;  /* of them, site.remembered: nothing is left of them but this */
    struct tree ready_sites; /* site_stand.in_ready, by the first job parked at a party there */
    struct table sites;      /* site.node, by key */
    struct table by_list;    /* shared_party.node, by site, lanes and servers */
    struct heap lane_timers; /* site_lane.timer */
    uint32_t lane_count;     /* of all sites */
    uint32_t barred_sets;    /* lane_set.is_barred */
    struct list touched_sets, sets_in_excess; /* lane_set.touched, .in_excess */
    struct list destinations_in_excess;       /* terms.in_excess */
    bool must_shed;                           /* the excess of a destination has grown */
    int64_t excess;                           /* of all sets, owners and destinations */
    struct list touched_lanes, starved_lanes; /* site_lane.grant.touched */
    struct owners owners;
    struct heap owner_timers; /* sched_owner.timer */
    struct list touched_owners, owners_to_shed, owners_in_excess,
        lent_owners;              /* sched_owner, likewise */
    struct heap avoidance_timers; /* avoidance.timer */
    struct source_records tried_sources;
    struct list lingering; /* sched_destination.in_displaced: at a site, without an entry, the
                                 * longest first; their hosts are known still */
    uint32_t lingering_count;

    struct list destinations;
    uint64_t recipient_destinations; /* of them: named for a recipient, nexthop_at > 0 */
    int with_work[OPEN_COUNT];       /* of them, by party.work */
    struct list unreachable;         /* of them: no host may be tried; to be declared dead */
    struct list displaced, displaced_waiting; /* of them: have displaced entries that have to be
                                               * looked at; that wait for a change */
    struct list exhausted; /* sched_entry.place: EXHAUSTED was pulled, not reported yet */
    struct destdb destdb;
    uint64_t random;    /* state of the generator of placement */
    uint64_t serial;    /* last number given to a connection that opened or became idle */
    struct heap timers; /* sched_destination.timer */
    struct table by_name, by_id;

    void *scratch; /* of sched/batch.c; NULL: none was needed so far */
    size_t scratch_bytes;
    struct list pending;
    struct sched_entry *spent;       /* its indexes are in the caller's hands until the next call */
    struct sched_entry *undelivered; /* placed, DELIVER not pulled yet */
    bool undelivered_is_back;        /* it was displaced, not selected */
    usec_t undelivered_from;         /* of the grant that it used; 0: none */
    struct sched_loan loan;          /* of the last action */
    void *held_hosts;                /* of the above; released at the next call */
    struct reason spare_reason;      /* when there is no memory for a better one */

    struct connection *connections[CONNECTION_BLOCKS]; /* see connection_at; NULL: not needed yet */
    uint32_t connection_count;                         /* the greatest process_limit so far */
    struct list free_connections;
    struct list idle_connections; /* longest idle first; by the limits of the config */
    struct list open_connections; /* likewise; all but those found too old, oldest first */
    /* Those that have limits of their own, in the same orders. */
    struct list idle_apart, open_apart;
    struct heap apart_timers; /* connection.timer: when the next of them is idle or open too long */
    usec_t none_expires;      /* before that time no connection is idle or open too long */

    struct debug debug;
    struct change change;

    enum rate_state rate;
    usec_t rate_until;
    bool hold; /* any thread, relaxed */
    /* Of config, for any thread, relaxed. */
    int process_limit;
    usec_t transport_rate_delay;
    /* What was allowed by an earlier config and may still be there; for sched_check. */
    int depth_max;         /* entries on one connection */
    int64_t overdraft_max; /* rcpt_unused is not less than -overdraft_max */

    /* Any thread, relaxed; the owner writes. */
    struct sched_counters shared;
};

/* There are several flows. Not so is the common case, and the one that must cost nothing. */
static inline bool flows_take_turns(const struct sched *s)
{
    return __builtin_expect(s->flows.take_turns, false);
}

static inline struct connection *connection_at(const struct sched *s, uint32_t number)
{
    return &s->connections[number / CONNECTION_BLOCK][number % CONNECTION_BLOCK];
}

/* The sources of a pool, as places. */
static inline uint64_t source_pool(const struct sched *s, uint16_t pool)
{
    const struct sources *t = &s->sources;
    return pool < t->pool_count ? t->pools[pool] : t->there;
}
/* Of the sources at these places: families of their addresses. */
static inline uint8_t source_families(const struct sched *s, uint64_t mask)
{
    return (uint8_t)((mask & s->sources.ipv4) != 0) |
           (uint8_t)((uint8_t)((mask & s->sources.ipv6) != 0) << 1);
}
/* What a destination without a site is sent from. */
static inline uint32_t source_first(const struct sched *s, uint16_t pool)
{
    uint64_t mask = source_pool(s, pool);
    return (uint32_t)__builtin_ctzll(mask == 0 ? s->sources.there : mask);
}

/* Start of every public call that may change something: time moves, what fell due happens. */
void transport_enter(struct sched *s, usec_t now);
usec_t transport_wake_at(const struct sched *s);
/* The transport rate delay allows a selection now (2.6); may start the delay. */
bool transport_rate_allows(struct sched *s);
/* There is nothing to select: a delay that runs was for nothing. */
void transport_rate_cancel(struct sched *s);

#endif
