/* A flow: mail that takes turns with the mail of other flows. Inside of it the schedule of Postfix holds
 * exactly: which job goes first, which ones are passed over, which may slip in front. Owner thread
 * only. */
#ifndef SCHED_FLOW_H
#define SCHED_FLOW_H

#include "base/list.h"
#include "sched/place/placement.h"
#include "sched/sched.h"
#include "sched/table.h"
#include "sched/tree.h"

#include <assert.h>

#define FLOW_NEEDS (OPEN_SLOT + 1) /* of what a party can need, as far as a flow looks for it */

struct job;

/* A tenant's flows in a class, while flows take turns. */
struct flow_tenant {
    struct table_node node; /* sched.flows.tenants */
    uint32_t class, tenant;
    uint32_t flows;           /* it goes with the last one */
    const struct flow *first; /* the one that it came with; NULL: that is gone */
};

/* What lower classes are owed where a higher one goes first: percents of a unit, more than 0 only
 * while they wait. */
struct floors {
    int64_t of_lower; /* normal and bulk together, beside urgent */
    int64_t of_bulk;  /* beside normal */
};

struct flow {
    /* What is read wherever flows take turns stands together. */
    uint64_t tag;    /* odd; destinations that carry it are blocked */
    uint64_t passed; /* selection passed all positions before it: their parked jobs
                      * and the destinations of these are blocked (5.8) */
    /* Any thread, relaxed; the owner writes. The key is constant, but for that of the first flow. */
    struct sched_flow_key key;
    uint32_t weight;              /* of its tenant in this class */
    uint32_t waiting, recipients; /* of its jobs: entries that wait; recipients in entries */
    uint32_t held;                /* connections that it made busy */
    bool passed_without_slot;     /* selection ran since no slot was to be had */
    bool is_live;                 /* in sched.flows.live: it may have something to select */
    struct tree_node in_live;     /* sched.flows.live or .slotless, by rank */
    uint64_t rank;                /* of what it holds, and of what it has taken (sched/flow.c) */
    uint64_t taken;  /* a start tag: connections that it was given, each by its weight */
    uint64_t number; /* in the order of creation, from 1 */
    usec_t oldest;   /* queued_time of the first job on its schedule by age; 0: none is there */
    uint32_t jobs;
    /* Its jobs: schedule and by_time hold the same ones. */
    struct list schedule;
    struct tree by_time;
    struct job *current;           /* where selection starts; NULL: nothing can be selected */
    struct tree runnable, aside;   /* job.in_place, in the order of the schedule */
    struct tree turns[FLOW_NEEDS]; /* turn.in_ready: where it has the turn and jobs are parked, by
                                    * the first of them; by what that needs: OPEN_NOW, OPEN_SLOT */
    struct tree sizes;             /* size_class.in_sizes */
    struct list irregular;         /* job.in_irregular */
    struct job *adrift;            /* its size class may be out of date */
    struct job *candidate, *candidate_owner; /* cache of the search (5.5); owner NULL: invalid */
    int64_t candidate_second;
    /* What follows matters where flows take turns; sched/turn.h. */
    uint32_t giving;             /* of `held`, given over: they drain; sched/place/handover.h */
    struct list connections;     /* connection.in_flow: the others, the one held longest first */
    struct tree_node in_holders; /* sched.flows.holders, by what it keeps */
    uint64_t keeps;              /* as it was filed there: these, for its weight */
    struct list holds;           /* turn.in_flow: open places where it has the turn */
    struct flow_tenant *tenant;  /* NULL: of the first flow, while there are no turns */
    struct list passed_shares;   /* share.passed: places where it had the turn in vain */
    struct tree seeks;           /* share.in_seeks: where it could use a slot; some no more */
    struct list loose;           /* share.in_list: likewise, and no job is parked there */
    struct list all;             /* sched.flows.all */
    struct table_node node;      /* sched.flows.by_key; not the first one */
};

static_assert(sizeof(struct flow) + 16 <= 640, "a size of malloc's, 16 of its bytes the shell's");

/* By what the ranks of a class's flows go. */
struct flow_scale {
    uint32_t unit;    /* the least weight of those that waited when it was looked for last */
    uint32_t charges; /* since then */
    uint64_t tag;     /* flow.taken of the flow that was given the last connection, before that */
};

struct flows {
    struct tree ready[FLOW_NEEDS]; /* while all mail is of one flow, what flow.turns has else:
                                    * party.in_ready */
    bool take_turns;               /* there are several, or were since the last job left */
    struct list all;
    struct tree live[SCHED_CLASSES];     /* flow.in_live: current is not NULL */
    struct tree slotless[SCHED_CLASSES]; /* those that found nothing for want of a slot */
    struct flow_scale scales[SCHED_CLASSES];
    struct tree holders[SCHED_CLASSES]; /* flow.in_holders: those that keep connections */
    bool has_given;                     /* some were given over since the last action */
    uint32_t giving;                    /* flow.giving of all */
    uint64_t pass;                      /* of sched/place/handover.c, by number */
    struct table by_key, tenants;
    struct table stands, shares, stakes; /* sched/turn.h */
    uint64_t numbers;                    /* given to flows and turns */
    struct floors floors;                /* of selections */
    struct list touched;                 /* turn.touched */
    struct list unlimited;               /* turn.in_unlimited */
    struct list ahead;                   /* turn.in_ahead */
    struct list claims;                  /* turn.in_claims */
    struct turn *claim;                  /* whose claimant is looked at; NULL: none is */
    bool has_claimed;                    /* one was, for this selection */
    bool keeps_passed;                   /* where this selection found nothing of a flow */
    bool has_kept;                       /* and such a flow was let go on */
    int claims_granted;                  /* since whoever was next by slots went in spite of one */
};

/* As new, without a job. */
void flow_init(struct flow *f);
void flow_init_lists(struct sched *s);
MUST_USE int flow_init_all(struct sched *s); /* errors: -ENOMEM */
void flow_fini_all(struct sched *s);
/* The flow of that key, made when missing, with one job more. NULL when out of memory. */
struct flow *flow_obtain(struct sched *s, const struct sched_flow_key *key);
/* A job of it has gone: it goes with the last one, and the last connection that it holds. */
void flow_put(struct sched *s, struct flow *f);
/* It has a current job: selection looks at it. Only where flows take turns. */
void flow_wake(struct sched *s, struct flow *f);
/* Whether some flow has not been looked at since it might have something. */
bool flow_is_any_live(const struct sched *s);
/* The class that goes next, of those that wait; some do. */
uint32_t flow_pick_class(const struct sched *s, const struct floors *floors,
                         const bool waits[SCHED_CLASSES]);
/* So many units were given to a class while those waited. */
void flow_charge_class(const struct sched *s, struct floors *floors,
                       const bool waits[SCHED_CLASSES], uint32_t class, uint32_t units);
/* A selection of it is counted. */
void flow_charge(struct sched *s, struct flow *f);
/* What its tenant weighs from now on. */
void flow_weigh(struct sched *s, struct flow *f, uint16_t weight);
/* It is given a connection: it goes behind those of its level that have taken as many for their
 * weights. */
void flow_take(struct sched *s, struct flow *f);
/* It made a connection busy, or that is over. */
void flow_hold(struct sched *s, struct flow *f, int change);
/* Something can be selected, as far as jobs go. */
bool flow_has_current(struct sched *s);
/* Which flow is looked at next; NULL: none. */
struct flow *flow_pick(struct sched *s);
/* A slot may be given to it before the other, which is next by rank. */
bool flow_is_due(const struct sched *s, const struct flow *f, const struct flow *other);
/* There is a slot: what it passed without one is looked at again. */
void flow_look_again(struct sched *s, struct flow *f);
/* It has something that lacks a slot: it is looked at anew when there is one. */
void flow_await_slot(struct sched *s, struct flow *f);
/* Nothing of it can be selected. */
void flow_rest(struct sched *s, struct flow *f);

#endif
