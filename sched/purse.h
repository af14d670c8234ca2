/* What the messages of one owner may spend: an owner, a tenant say, sends to all destinations together
 * only what it was lent. Its jobs that were met while nothing was there are held, out of everybody's
 * way, and let go again in the order of the schedule, as many as may go. Owner thread only, but for
 * the fields that say otherwise. */
#ifndef SCHED_PURSE_H
#define SCHED_PURSE_H

#include "base/heap.h"
#include "base/list.h"
#include "sched/action.h"
#include "sched/sched.h"
#include "sched/tree.h"

struct job;
struct peer;

enum purse_state {
    PURSE_NONE,    /* nothing is held, and nothing was asked for */
    PURSE_ASKED,   /* OWNER_ASKS is on its way, or waits for its answer */
    PURSE_LENT,    /* from `from` to `until` */
    PURSE_WAITING, /* until `due`: there was nothing to lend, or it was lent in vain */
};

struct sched_owner {
    void *user;               /* the shell's; set at creation */
    uint32_t place;           /* in sched.owners; set at creation */
    uint32_t jobs;            /* its own */
    uint32_t runnable;        /* of them, to be looked at */
    struct tree held;         /* of them, job.in_place: met while nothing was there */
    int64_t waiting;          /* entries of those that are held */
    int64_t excess;           /* of `waiting`: what cannot go soon; sched/place/shed.c */
    struct sched_grant lent;  /* what is left of it */
    struct sched_units left;  /* OWNER_RETURNS says so much */
    struct pending ask, back; /* OWNER_ASKS; OWNER_RETURNS */
    struct list touched;      /* sched.touched_owners: to be looked at before the next action */
    struct list shed_touched; /* sched.owners_to_shed */
    struct list in_excess;    /* sched.owners_in_excess: excess > 0 */
    struct heap_node timer;   /* sched.owner_timers, always */
    double per_second;        /* as it was told last; 0: not known */
    usec_t shed_turn;         /* of what was shed last */
    uint32_t owed;            /* recipients beyond those lent, paid for by the next loan */
    uint32_t tries;           /* jobs that were let go since one was sent */
    uint32_t going;           /* of these, found an open destination, and may go yet */
    struct list in_lent;      /* sched.lent_owners: LENT */
    enum purse_state state;
    enum sched_why why; /* why it has nothing */
    bool is_used;       /* LENT: some of it was */
    bool is_vain;       /* WAITING: not for the lender */
};

struct owners {
    struct sched_owner **at; /* by their places; [0] is nobody */
    uint32_t count, room;
    struct list unused; /* sched_owner.touched: freed, for the next ones */
};

struct sched_owner *purse_of(const struct sched *s, const struct job *j); /* NULL: nobody's */
/* An entry of the job may go, as far as this is concerned. */
bool purse_allows(const struct sched *s, const struct job *j);
/* It may not: the job is held. true: the owner asks, and selection is to go on when that is answered. */
bool purse_hold(struct sched *s, struct job *j);
/* An entry of the job was selected. */
void purse_use(struct sched *s, const struct job *j, uint32_t recipients);
/* A job of it is to be looked at, or not any more. */
void purse_count_runnable(struct sched *s, const struct job *j, int change);
/* A held one leaves the others. */
void purse_let_go(struct sched *s, struct job *j);
/* So many more of its entries wait; its destination is counted anew by the caller. */
void purse_count_waiting(struct sched *s, const struct peer *p, int change);
/* A job is the owner's from now on, NULL: nobody's. It is neither held nor runnable. */
void purse_own(struct sched *s, struct job *j, struct sched_owner *o);
/* What is wanted of it has changed, for all: selection may run again. */
void purse_touch_all(struct sched *s);
/* Ask, give back and let go, as it is now; before each action. */
void purse_settle_all(struct sched *s);
/* Nothing can be selected: true when others are tried by the next settling. */
bool purse_retry(struct sched *s);
usec_t purse_wake_at(const struct sched *s);
void purse_tick(struct sched *s);
/* OWNER_ASKS or OWNER_RETURNS is pulled. */
void purse_fill(struct sched *s, struct pending *p, struct sched_action *ret);
void purse_init_all(struct sched *s);
void purse_fini_all(struct sched *s); /* no job is left */
/* What is wrong; NULL: nothing (for sched_check). */
int64_t purse_excess(const struct sched *s); /* of all owners; likewise */
const char *purse_check(const struct sched *s);

#endif
