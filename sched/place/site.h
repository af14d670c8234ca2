/* A site: what one receiver is. Destinations join it when the shell says so (sched_resolved); it has
 * a lane for each of our sources, and parties of destinations that may use the same connections.
 * Owner thread only, but for the fields that say otherwise.
 *
 * A destination without a site has a lane and a party inside itself, and none of this. */
#ifndef SCHED_SITE_H
#define SCHED_SITE_H

#include "base/list.h"
#include "sched/place/lane.h"
#include "sched/place/party.h"
#include "sched/sched.h"
#include "sched/table.h"
#include "sched/tree.h"

#define SITE_FAMILIES 3 /* sets of address families that are not empty */

/* Parties that need a new connection, by the families of addresses that their hosts have. */
struct site_stand {
    struct tree parties;       /* party.in_ready */
    struct tree_node in_ready; /* sched.ready_sites: some lane has room, and jobs are parked */
    int count;                 /* parties that need OPEN_SLOT, parked or not */
};

struct site {
    struct table_node node; /* sched.sites; set at creation */
    struct list all;        /* sched.all_sites */
    struct list remembered; /* sched.remembered: without mail, the longest first */
    struct list parties;    /* shared_party.in_site */
    struct site_stand stands[SITE_FAMILIES];
    int work[OPEN_COUNT];  /* parties, by party.work */
    uint64_t tag;          /* = sched.tag: some job was passed over because of it (5.8) */
    uint8_t room;          /* families of lanes that have room for a further connection */
    bool is_counted;       /* in sched.with_work[OPEN_SLOT]: room and a party that needs it */
    bool has_missed;       /* a party opened where a job was passed over */
    bool is_pinned;        /* not freed however unused */
    bool is_barred;        /* any thread, relaxed: all of its lanes are dead */
    int busy;              /* connections of all lanes that carry entries */
    int occupied;          /* any thread, relaxed: destinations that have entries */
    int waiting;           /* any thread, relaxed: their entries that wait */
    usec_t last_used;      /* since when it is remembered */
    struct reason *reason; /* barred only */
    /* Set at creation, any thread. */
    uint32_t lane_count;
    uint32_t key_len;
    struct site_lane *lanes;
    char key[];
};

/* Destinations of one site that have the same servers and the same demands on TLS. */
struct shared_party {
    struct party party;
    struct table_node node; /* sched.by_list */
    struct list in_site;
    struct list members; /* sched_destination.in_party; those that linger first */
    struct tree queue;   /* members' own.in_ready: jobs are parked, and they are willing */
    int willing;         /* members that have entries waiting and nothing of their own bars them */
    int connections;
    uint32_t tls;
    bool is_pinned; /* not freed however unused */
};

static inline struct shared_party *shared_party_of(const struct party *p)
{
    return container_of(p, struct shared_party, party);
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
/* The first job parked at a member is another one. */
void site_file_member(struct sched *s, struct sched_destination *d);
/* A party's openness is now this; parking_update must follow. */
void site_set_work(struct sched *s, struct party *p, enum openness work);
/* Its openness or its first parked job changed. */
void site_file(struct sched *s, struct party *p);
/* A lane has room or has none any more, or site_concurrency_limit was reached or left. */
void site_review(struct sched *s, struct site *site);
/* Let jobs that were passed over because of it try again, if that would help (5.8). */
void site_reconsider(struct sched *s, struct site *site);
/* An entry of some willing member could be placed now. */
bool site_party_is_open(const struct sched *s, const struct party *p);
/* All lanes are away: what waits is deferred, and what comes; and one is back. */
void site_bar(struct sched *s, struct site *site, struct reason *reason);
void site_unbar(struct sched *s, struct site *site);
/* Forget a party, or a site, that nothing is left of. */
void site_settle_party(struct sched *s, struct party *p);
void site_settle(struct sched *s, struct site *site);
/* What was found out about hosts does not hold any more. */
void site_forget_hosts(struct sched *s);
void site_settle_all(struct sched *s);
/* Sites that were remembered long enough. */
void site_tick(struct sched *s);

#endif
