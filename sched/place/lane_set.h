/* The lanes of a site that some of its parties may use: those of one pool, without those that their
 * destinations keep away from. What waits for a lane is found here: the parties that need a new
 * connection, by the families of addresses of their hosts. Owner thread only, but for the fields that
 * say otherwise. */
#ifndef SCHED_LANE_SET_H
#define SCHED_LANE_SET_H

#include "base/list.h"
#include "sched/place/party.h"
#include "sched/sched.h"
#include "sched/tree.h"

#define SITE_FAMILIES 3 /* sets of address families that are not empty */

struct lane_turn;
struct reason;
struct site;
struct turn;

/* Parties that need a new connection, by the families of addresses that their hosts have. */
struct site_stand {
    struct tree parties;       /* party.in_ready */
    struct tree_node in_ready; /* sched.ready_sites: some lane has room, and jobs are parked */
};

struct lane_set {
    /* What each selection and report touches, close together. */
    struct site *site;
    uint64_t mask; /* any thread, relaxed: sources that it may use: of the pool, and not avoided */
    uint8_t room;  /* families of lanes that have room for a further connection */
    bool is_counted;        /* in sched.with_work[OPEN_SLOT]: room and a party that needs it */
    bool has_missed;        /* a party opened where a job was passed over */
    bool is_barred;         /* any thread, relaxed: all of its lanes are away */
    bool is_shared;         /* it has several parties, or had: its lanes have a turn of their own */
    uint8_t stood_at;       /* stands that have parties, as bits of their places */
    uint16_t pool;          /* set at creation */
    struct lane_turn *turn; /* of the pool at the site, which owns it; NULL: that of the lanes */
    uint64_t tag;           /* = flow.tag: some job was passed over because of it (5.8) */
    int64_t wanted;         /* entries of willing members that wait */
    int work[OPEN_COUNT];   /* its parties, by party.work */
    int counts[SITE_FAMILIES]; /* of each stand: parties that need OPEN_SLOT, parked or not */
    int seeking;               /* of the parties that share: those that need OPEN_SLOT */
    uint32_t parties;          /* it goes with the last one */
    uint32_t sharing;          /* of these, shared_party.shares_lanes */
    int yielding;              /* connections that are (connection.is_yielding) */
    struct turn *flow_turn; /* of its lanes; NULL unless flows take turns there, and it is shared */
    int64_t displaced;      /* entries of members that must be placed again */
    struct site_stand stands[SITE_FAMILIES];
    uint64_t avoided;      /* sources, set at creation */
    struct list in_site;   /* site.sets */
    struct reason *reason; /* barred only */
    int64_t excess;        /* of `wanted`: what its lanes cannot take soon; sched/place/shed.c */
    struct list touched;   /* sched.touched_sets */
    struct list in_excess; /* sched.sets_in_excess: excess > 0 */
};

uint64_t lane_set_key(const struct tree_node *n); /* of site_stand.in_ready */
/* That of a site, created with its lanes when missing. NULL when out of memory.
 *
 * reason  why what is avoided is; where no lane is left */
struct lane_set *lane_set_obtain(struct sched *s, struct site *site, uint16_t pool,
                                 uint64_t avoided, struct reason *reason);
void lane_set_put(struct sched *s, struct lane_set *set); /* a party of it is gone */
/* A party comes, or goes; its work is counted. */
void lane_set_count(struct sched *s, struct party *p, int change);
/* A party's openness is now this; parking_update must follow. */
void lane_set_work(struct sched *s, struct party *p, enum openness work);
/* Any lane of its set that has room will do for it. */
bool lane_set_is_shared_by(const struct sched *s, const struct party *p);
/* Its hosts that may be tried have changed, or the sources, or the config. */
void lane_set_fit(struct sched *s, struct party *p);
/* A party's openness or its first parked job changed. */
void lane_set_file(struct sched *s, struct party *p);
/* Lanes of its site have room or have none any more. */
void lane_set_review(struct sched *s, struct lane_set *set);
/* Let jobs that were passed over because of it try again, if that would help (5.8). */
void lane_set_reconsider(struct sched *s, struct lane_set *set);
/* An entry of some willing member of the party could be placed now. */
bool lane_set_is_open(const struct sched *s, const struct party *p);
/* Why none of its lanes takes a further entry, of that which is nearest to it; NOTHING: one does. Any
 * thread. */
enum sched_why lane_set_why(const struct lane_set *set);
/* Lanes of the site went or came back. Where none is left what waits is deferred, and what comes.
 *
 * reason  why the last one went; NULL: none went */
void lane_set_rebar_all(struct sched *s, struct site *site, struct reason *reason);
/* The sources, or the pools, changed: nobody stands anywhere else. */
void lane_set_refit_all(struct sched *s, struct site *site);

#endif
