/* Whose turn it is at a party: what flows have waiting there, and which of them its next room is for.
 *
 *     party, lane_set ──▶ turn ──▶ share   one for each flow that has mail there: its start tag
 *                           │        └─▶ standing ─▶ stand   one for each destination: its parked jobs
 *                           └──▶ whose   the share that the next room is for
 *
 * At a site a new connection, or an idle one, takes a place in the windows of its lanes: where several parties
 * share these, it is for the flow whose turn it is at the lanes, of all of them (shared_party.shares_lanes). Who rides on a connection that
 * carries entries already is decided at its party. Elsewhere the turn of the party is for all of its room.
 *
 * Start-time fair queueing, in recipients selected: the share with the smallest tag goes, pays for what
 * it took by its weight, and a share that begins to wait starts at the virtual time, which is the tag of
 * the one served last. That is so where a party's window or pace is the limit; while it lacks nothing but a
 * slot its room is any flow's. There is none of this while all mail is of one flow. Owner thread only. */
#ifndef SCHED_TURN_H
#define SCHED_TURN_H

#include "base/list.h"
#include "sched/flow.h"
#include "sched/place/placement.h"
#include "sched/sched.h"
#include "sched/table.h"
#include "sched/tree.h"

struct connection;
struct job;
struct lane_set;
struct party;
struct peer;
struct share;
struct stake;

struct turn {
    struct party *party;                /* NULL: it is that of the lanes of a set */
    struct lane_set *set;               /* NULL: it is that of a party */
    uint64_t number;                    /* sched.flows.numbers */
    struct tree waiting[SCHED_CLASSES]; /* share.in_turn: entries wait, and it was not passed */
    uint64_t served[SCHED_CLASSES];     /* the virtual time */
    struct floors floors;
    struct share *whose;       /* NULL: nobody's; it is as of the last settling */
    bool is_short;             /* it lacked nothing but a slot, and was not closed since */
    bool is_free;              /* nobody's, as its next room is that of a slot: any flow's;
                                * sched/place/shortage.h */
    struct list in_unlimited;  /* sched.flows.unlimited: is_free changes when no slot is left */
    struct list unheard;       /* share.in_list */
    struct list marked;        /* share.in_marked; some were unblocked since */
    enum openness ready_in;    /* what the party needs, slots aside; NOT: it is not open */
    struct tree_node in_ready; /* flow.ready: it is open, and jobs of its flow are parked */
    struct list in_flow;       /* flow.holds: it is open, and somebody's turn */
    struct list passed;        /* share.in_passed */
    struct list touched;       /* sched.flows.touched */
    struct share *last; /* of lanes: of whose flow a connection became idle last, when opening
                                * one would end an idle one; it was not served since. Or NULL */
    uint64_t goes_on;   /* so much its tag may be ahead: as its weight was then */
    struct tree barred; /* of lanes: turn.in_barred, by barred_until */
    struct tree_node in_barred; /* of a party: nobody rides there, as others are too far behind */
    uint64_t barred_until;      /* the least tag at the lanes is this */
    struct list in_ahead;       /* sched.flows.ahead: of a party, who rides there is */
    struct connection *yields;  /* which one would do */
    uint32_t holders;           /* shares, and stands of the destination whose own party it is: it
                                 * goes with the last one */
    uint32_t found; /* connections, by the pass of that number; sched/place/handover.c */
    uint64_t pass;
    bool was_closed;        /* its window or pace had nothing left since it claimed a slot */
    struct list in_claims;  /* sched.flows.claims; sched/place/claim.h */
    struct share *claimant; /* whose turn it is by a claim; NULL: that of the smallest tag */
    bool has_news;          /* what was passed is asked again by the next settling */
};

/* A flow at a party. What a look through turn.waiting reads of each stands together in front. */
struct share {
    struct table_node node; /* sched.flows.shares */
    struct flow *flow;
    uint64_t start; /* the tag of its next entry */
    union {
        struct tree_node in_turn; /* turn.waiting, by start: entries wait */
        struct { /* is_passed: selection found nothing of it, though it had the turn */
            struct list in_passed; /* turn.passed */
            struct list in_flow;   /* flow.passed_shares */
        };
    };
    struct turn *turn;
    struct tree queue;   /* standing.in_queue, by the first job parked there */
    uint64_t tag;        /* = flow.tag: some job was passed over because of it (5.8) */
    uint32_t stands;     /* it goes with the last one */
    uint32_t waiting;    /* entries */
    struct stake *stake; /* NULL: that of its tenant's first flow, while no other is there */
    /* Its only stand; NULL: those that it has are in a table, or it is at lanes. */
    struct stand *only;
    union {
        struct tree_node in_seeks; /* flow.seeks: it is told, and jobs are parked */
        /* is_listed. flow.loose: it is told, and no jobs are parked; turn.unheard: it is not told. */
        struct list in_list;
    };
    struct list in_marked; /* turn.marked: some job was passed over though it is told */
    /* Low half of sched.selection_runs when a selection last found nothing for it. */
    uint32_t passed_in;
    bool is_passed, is_listed;
    bool is_told; /* its flow looks there for a slot; sched/place/shortage.h */
};

/* Its entries wait, and it was not passed: it stands in turn.waiting. */
static inline bool share_is_in_line(const struct share *share)
{
    return !share->is_passed && tree_node_is_linked(&share->in_turn);
}
static inline bool share_seeks(const struct share *share)
{
    return !share->is_listed && tree_node_is_linked(&share->in_seeks);
}

/* Where a share finds jobs. */
struct standing {
    struct stand *stand;       /* whose jobs; constant */
    struct share *share;       /* NULL: nobody's */
    struct tree_node in_queue; /* share.queue: jobs are parked, and the destination is willing */
};

/* A flow at a destination. */
struct stand {
    struct standing at_party;  /* of the destination's party; nobody's: on the move */
    struct standing *at_lanes; /* of the lanes that several parties share, its own; NULL: of none;
                                * nobody's: on the move */
    struct flow *flow;
    struct sched_destination *destination;
    struct tree parked; /* peer.in_parked, in the order of the schedule */
    uint32_t peers;     /* it goes with the last one */
    uint32_t waiting;
    struct share *own;      /* at its own party: the same, unless it is at a site; NULL there: the
                        * memory of that at the party would become it */
    struct table_node node; /* sched.flows.stands, if is_in_table */
    struct list in_destination;
    bool was_marked;  /* on the move: as share.tag said */
    bool is_in_table; /* its share at the party has, or had, others besides; else that knows it */
};

/* At the lanes that several parties share. NULL: none, or it is on the move. */
static inline struct share *turn_share_at_lanes(const struct stand *stand)
{
    return stand->at_lanes == NULL ? NULL : stand->at_lanes->share;
}

void turn_init_flow(struct flow *f);
/* Several flows from now on: what waits is the first one's. errors: -ENOMEM, nothing changed */
MUST_USE int turn_begin(struct sched *s);
/* The lanes of the set, which one party has so far, have a turn of their own from now on: it goes on where
 * that of the party has come to. errors: -ENOMEM, nothing changed */
MUST_USE int turn_begin_lanes(struct sched *s, struct lane_set *set);
/* A peer of the flow comes to the destination, and its stand is returned; or it leaves. NULL: no memory,
 * nothing changed */
MUST_USE struct stand *turn_add_peer(struct sched *s, struct flow *f, struct sched_destination *d);
void turn_remove_peer(struct sched *s, struct peer *p);
/* So many more entries of it wait. */
void turn_count_waiting(struct sched *s, const struct peer *p, int change);
/* An entry was selected, or comes back as if it had not been. */
void turn_charge(struct sched *s, struct sched_entry *e);
void turn_give_back(struct sched *s, struct sched_entry *e);
/* Its jobs are parked at the destination, or not any more. */
void turn_park(struct sched *s, struct peer *p);
void turn_unpark(struct sched *s, struct peer *p);
/* A job of the flow was passed over because of it (5.8). */
void turn_mark(struct sched *s, const struct peer *p);
/* The destination is about to leave its party: shares for the next one are made, then it leaves, and
 * is there. errors: -ENOMEM, nothing changed */
MUST_USE int turn_stage(struct sched *s, struct sched_destination *d, struct party *to);
void turn_leave(struct sched *s, struct sched_destination *d);
void turn_arrive(struct sched *s, struct sched_destination *d);
/* It is willing, or is not any more. */
void turn_file_member(struct sched *s, struct sched_destination *d);
/* The party may have opened or closed, or what waits for it may go now. */
void turn_touch(struct sched *s, struct party *p);
/* The same for all parties of a set. */
void turn_touch_set(struct sched *s, struct lane_set *set);
/* Whose turn it is, everywhere; before a selection. */
void turn_settle_all(struct sched *s);
/* An entry of the flow for the destination could be placed now, and it is the flow's turn. */
bool turn_allows(const struct sched *s, const struct sched_destination *d, const struct flow *f);
/* Selection has found nothing of the flow: others go where it had the turn. */
void turn_pass(struct sched *s, struct flow *f);
/* The flow has something new to look at. With a cap on messages, it stays passed where the selection that is under
 * way has found nothing of it: nothing opens meanwhile, and flows whose messages are at their cap, and so passed over
 * wherever they are, would have each other look again for ever. */
void turn_retry(struct sched *s, struct flow *f);
/* The first job parked where the flow has the turn. NULL: none. */
struct job *turn_first(const struct flow *f, enum openness need);
/* A connection of the party becomes idle, which the flow made busy. */
void turn_vacate(struct sched *s, const struct flow *f, const struct party *p);
/* Whoever rides on connections is ahead of those that wait for a place in the windows of the same lanes: one of
 * its connections takes nothing more, and leaves its place, for each such party. */
void turn_yield_all(struct sched *s);
/* What the flow has there; NULL: nothing. A peer knows its stand. */
struct stand *turn_stand(const struct sched *s, const struct flow *f,
                         const struct sched_destination *d);
/* --- between sched/turn.c and sched/stand.c --------------------------------------------------- */

void turn_init_trees(struct turn *t);
void turn_init_share(struct share *share);
void turn_init_stand(struct stand *stand);
/* It is the share's, NULL: nobody's. */
void turn_give(struct turn *t, struct share *whose, enum openness need);
/* So many more of its entries wait. */
void turn_count_share(struct sched *s, struct share *share, int change);
/* Jobs are parked there, and nothing of the destination's own bars them. */
bool turn_is_sought(const struct stand *stand);
/* What selection did not find of it may be there now. */
void turn_review_stand(struct sched *s, struct stand *stand);
/* What selection did not find there may be there now. */
void turn_ask_again(struct sched *s, struct share *share);
/* Of two numbers, not of addresses: when a table grows must not depend on where memory lies. */
uint64_t turn_hash(const struct sched *s, uint64_t a, uint64_t b);
/* What so many recipients add to its tag. */
uint64_t turn_price(const struct share *share, uint32_t recipients);
/* NULL: it has none there. */
struct share *turn_share(const struct sched *s, const struct flow *f, const struct turn *t);
void turn_unbar(struct turn *t);
/* Its first job, or whether its destination is willing, has changed; it leaves its share. */
void turn_file_stand(struct sched *s, struct stand *stand);
void turn_unfile_stand(struct sched *s, struct stand *stand);
void turn_touch_one(struct sched *s, struct turn *t);
/* What an entry of a willing destination needs that is placed now by this turn, but for a slot. */
enum openness turn_openness(const struct sched *s, const struct turn *t);
/* It is decided anew when no slot is left. */
bool turn_depends_on_slots(const struct turn *t, enum openness need);
struct share *turn_first_share(const struct sched *s,
                               const struct turn *t); /* NULL: nobody waits */
/* Likewise, or whose connection has become idle, if it is not far behind in turn. */
struct share *turn_next_share(const struct sched *s, const struct turn *t);
/* Of a party that is barred: it need not be any more, and the lanes have been settled. */
bool turn_may_ride_again(const struct sched *s, const struct turn *t);
/* A job that is parked there for the flow is found when it can go on. */
bool turn_finds(const struct sched *s, const struct sched_destination *d, const struct flow *f);
/* The first job parked there; there is one. */
struct job *turn_first_job(const struct share *share);
/* Some job of its flow was passed over because of it. */
bool turn_blocks(const struct share *share);
/* Its flow has nothing for it: it is asked again when something changes. */
void turn_pass_share(struct sched *s, struct share *share);
/* What is wrong; NULL: nothing (for sched_check). */
const char *turn_check(const struct sched *s);

#endif
