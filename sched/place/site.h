/* A site: what one receiver is. Destinations join it when the shell says so (sched_resolved); it has
 * lanes of our sources, and parties of destinations that may use the same connections.
 * Owner thread only, but for the fields that say otherwise.
 *
 * A destination without a site has a lane and a party inside itself, and none of this. */
#ifndef SCHED_SITE_H
#define SCHED_SITE_H

#include "base/list.h"
#include "sched/place/lane.h"
#include "sched/place/lane_set.h"
#include "sched/place/party.h"
#include "sched/sched.h"
#include "sched/table.h"
#include "sched/tree.h"

/* What counts at a site in place of the config. */
struct site_options {
    struct feedback_rule rule;
    int concurrency_limit; /* 0 = none */
    usec_t memory;         /* lane_memory */
};

/* What each selection and report touches stands first and together. */
struct site {
    /* Lanes, as bits of their sources. */
    uint64_t present;
    uint64_t alive;    /* any thread, relaxed: not dead, not closed, and the source is there */
    uint64_t usable;   /* likewise: their connections may carry a further entry */
    uint64_t spare;    /* likewise: the window has room for a further busy connection */
    uint64_t room;     /* likewise; and site_concurrency_limit was not reached */
    uint64_t openable; /* what was lent allows a new connection, or they are not limited */
    uint64_t fresh;    /* room and openable: the others with room ride on idle connections only */
    uint64_t limited;
    bool is_pinned; /* not freed however unused */
    bool is_dead;   /* counted in sched.shared.dead_sites: it has lanes, and none is alive */
    int busy;       /* connections of all lanes that carry entries */
    int occupied;   /* any thread, relaxed: destinations that have entries */
    int waiting;    /* any thread, relaxed: their entries that wait */
    /* Any thread. */
    struct lane_array *lanes; /* published; NULL: none yet */
    /* Owner thread only. */
    struct site_options *options; /* NULL: those of the config */
    struct list remembered;       /* sched.remembered: without mail, the longest first */
    struct list sets;             /* lane_set.in_site */
    struct list turns;            /* lane_turn.in_site */
    struct list parties;          /* shared_party.in_site */
    struct list all;              /* sched.all_sites */
    usec_t last_used;             /* since when it is remembered */
    usec_t shed_turn;             /* of what was shed last; sched/place/shed.c */
    /* Set at creation, any thread. */
    struct table_node node; /* sched.sites */
    uint32_t key_len;
    char key[];
};

/* Destinations of one site that may use the same lanes and have the same servers and the same
 * demands on TLS. */
struct shared_party {
    struct party party;
    struct lane_set *set; /* constant, any thread */
    int willing;          /* members that have entries waiting and nothing of their own bars them */
    int connections;
    uint32_t lingering; /* members that do (sched.lingering) */
    uint32_t tls;
    bool is_pinned;      /* not freed however unused */
    bool shares_lanes;   /* any lane of the set that has room will do for it: counted in the set */
    struct list members; /* sched_destination.in_party; those that linger first */
    struct tree queue;   /* members' own.in_ready: jobs are parked, and they are willing */
    struct list in_site;
    struct table_node node; /* sched.by_list */
};

/* Any thread; NULL: the site has no lane of that source. */
static inline struct site_lane *lane_find(const struct site *site, uint32_t place)
{
    const struct lane_array *lanes = __atomic_load_n(&site->lanes, __ATOMIC_ACQUIRE);
    if (lanes == NULL || place >= lanes->count) {
        return NULL;
    }
    return __atomic_load_n(&lanes->at[place], __ATOMIC_ACQUIRE);
}

/* For the owner; the loop may free the lane. */
#define LANE_FOREACH(l, site, mask)                                                                \
    for (uint64_t left_of_##l = (mask); left_of_##l != 0; left_of_##l &= left_of_##l - 1)          \
        for (struct site_lane *l = lane_find(site, (uint32_t)__builtin_ctzll(left_of_##l));        \
             l != NULL; l = NULL)

static inline struct shared_party *shared_party_of(const struct party *p)
{
    return container_of(p, struct shared_party, party);
}

/* What a selection or a report reads of it, hints for the processor: first the party itself, and when that has
 * come what it leads to. */
static inline void site_expect_party(const struct party *p)
{
    const struct shared_party *q = shared_party_of(p);
    __builtin_prefetch(q, 1);
    __builtin_prefetch(&q->set, 1);
    __builtin_prefetch(&q->is_pinned, 1);
}
static inline void site_expect(const struct party *p)
{
    const struct lane_set *set = shared_party_of(p)->set;
    __builtin_prefetch(set, 1);
    __builtin_prefetch(set->counts, 1);
    __builtin_prefetch(p->site, 1);
    __builtin_prefetch(&p->site->lanes, 1);
    __builtin_prefetch(p->servers, 1);
}

void site_init_all(struct sched *s);
void site_free_all(struct sched *s);                             /* no destination is left */
struct site *site_find(const struct sched *s, struct slice key); /* any thread */
struct slice site_key(const struct site *site);
/* Where a destination's mail goes from now on, and to which servers: what waits moves, what is in
 * flight stays. Without memory for it, it goes on its own. */
void site_place(struct sched *s, struct sched_destination *d, const struct sched_hosts_result *r);
/* The destination goes away. */
void site_leave(struct sched *s, struct sched_destination *d);
/* What a member has waiting, or whether it could be sent, has changed. */
void site_recount_member(struct sched *s, struct sched_destination *d);
void site_recount_members(struct sched *s, struct party *p); /* all of its */
/* So many more entries of it must be placed again; at a site or not. */
void site_count_displaced(struct sched *s, struct sched_destination *d, int change);
/* The first job parked at a member is another one. */
void site_file_member(struct sched *s, struct sched_destination *d);
/* A lane has room or has none any more, or site_concurrency_limit was reached or left. */
void site_review(struct sched *s, struct site *site);
/* The lanes that a destination of a site keeps away from have changed. false: no memory, it stays.
 *
 * reason  why, where it has none left */
bool site_move_avoiding(struct sched *s, struct sched_destination *d, struct reason *reason);
/* Forget a party, or a site, that nothing is left of. */
void site_settle_party(struct sched *s, struct party *p);
void site_settle(struct sched *s, struct site *site);
/* Limited lanes may ask, or may not any more. */
void site_touch_all(struct sched *s);
/* What was found out about hosts does not hold any more. */
void site_forget_hosts(struct sched *s);
void site_settle_all(struct sched *s);
/* Sites that were remembered long enough. */
void site_tick(struct sched *s);

const struct feedback_rule *site_rule(const struct sched *s, const struct site *site);
int site_limit(const struct sched *s,
               const struct site *site); /* of its busy connections; 0: none */
usec_t site_memory(const struct sched *s, const struct site *site); /* lane_memory */
void site_free_options(struct sched *s, struct site *site);

#endif
