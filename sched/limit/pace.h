/* What a receiver lets through a second, learned from its refusals: of messages, of recipients, or
 * of connects, one struct pace each. Pure: the caller brings the time (usec, monotonic), and chance
 * is a hash of a seed. The law, why it is so and what it reaches are in docs/scheduler.md, "Rates,
 * quotas and pace"; `sluice-sim pace` measures it.
 *
 * Without a pace (PACE_FREE) everything may go, and the refusals decide. The first refusal sets the
 * pace a little below what was accepted in the last seconds. A paced sender keeps to due times, as
 * rate.h does. From time to time, when there is enough mail to fill it, it sends a trial: a short
 * train at a raised pace, and then waits for all of its verdicts at the old pace. A trial that is
 * taken whole raises the pace to what it proves; one that is refused costs what it sent too much and
 * nothing else. A refusal outside of a trial lowers the pace, once a round trip.
 *
 * One owner at a time: a scheduler, or the lock that guards what several schedulers share. */
#ifndef SCHED_LIMIT_PACE_H
#define SCHED_LIMIT_PACE_H

#include "base/attr.h"
#include "base/clock.h"
#include "sched/limit/chance.h"
#include "sched/limit/debt.h"
#include "sched/limit/loan.h"

#include <stdbool.h>
#include <stdint.h>

#define PACE_LEAST      (1.0 / 3600) /* units a second */
#define PACE_MOST       1e6
#define PACE_GAIN_KNOWN 0.12 /* of the next trial, where the rate is known about */

enum pace_unit {
    PACE_MESSAGES,   /* MAILs: sought again quickly when the receiver changes its mind */
    PACE_RECIPIENTS, /* RCPTs and connects: at most one in a hundred may be refused */
    PACE_CONNECTS,
};

enum pace_phase {
    PACE_FREE,    /* no pace: nothing was refused, or it is forgotten */
    PACE_HELD,    /* even, at `rate` */
    PACE_TRIAL,   /* a train at `rate` x (1 + `gain`) */
    PACE_VERDICT, /* even again, until the replies to the trial are there */
    PACE_PAUSED,  /* nothing goes until `until` */
    PACE_PROBING, /* one went, and its reply decides */
};

/* A train whose verdicts are counted: a trial, faster than `rate`; or what went on in the round trip
 * until a refusal was known. */
struct pace_train {
    usec_t begin, end; /* when its first and its last were sent; end: valid once it is complete */
    usec_t give_up;    /* a verdict that is not there by then never comes */
    uint32_t size;     /* units it is to have */
    uint32_t each;     /* units that go together: the recipients of a message */
    uint32_t sent, accepted, refused;
    usec_t first_refused; /* sent when; valid when refused > 0 */
    uint32_t since;       /* accepted of those sent after first_refused */
    double rate;          /* at which it was sent */
    bool is_flood;        /* no trial: it went before there was a pace */
    uint32_t tolerated;   /* so many refused are taken for chance */
    bool is_single;       /* one unit, early */
    bool is_quick;        /* of a single: the one behind it goes later, unless it is refused; else
                             that one keeps its place */
    usec_t raised;        /* of a single: from the one before it */
    bool is_test;         /* whether refusals are of a limit at all; the rest as a trial */
    bool is_robust;       /* so much too fast that a limit shows in spite of chance */
    uint32_t events;      /* of refusals; several that are known at once are one */
    usec_t event_at;      /* of the last one */
};

struct pace {
    enum pace_unit unit;
    enum pace_phase phase;
    struct loan_turns turns; /* of a pace that several schedulers share */
    uint64_t seed;           /* of the jitter */
    struct chance chance;    /* refusals that are of no limit */
    struct debt debt;        /* of messages: refusals beyond what may be */
    double rate;             /* units a second; valid unless PACE_FREE */
    double lowest;           /* of `rate` since the pace began */
    double gain;             /* of the next trial, or of the present one */
    double refused_part;     /* of the latest units, smoothed, 0..1 */
    usec_t used_until;       /* the schedule, as in rate.h */
    usec_t since;            /* when the pace began */
    usec_t last_take, last_accepted, last_refusal;
    uint32_t since_refusal; /* accepted */
    usec_t bound_since;     /* since then each was sent as soon as it was due */
    usec_t bound_time;      /* without a refusal while it bound */
    usec_t next_trial;
    double burst;       /* seconds' worth that the receiver is taken to let pass at once */
    usec_t passed_at;   /* the last trial that raised the pace; USEC_NEVER: it is not in doubt */
    double passed_from; /* the pace before it; valid while it is in doubt */
    double bound;       /* a trial at that rate was refused */
    usec_t bound_until; /* while `bound` is fresh */
    usec_t excess_begin, excess_end; /* sent then: behind a single trial, perhaps too early */
    usec_t lowered_at;               /* refusals of what was sent before say nothing new */
    struct pace_train fall; /* from the first refusal outside of a trial to when it was known */
    usec_t round_trip;      /* from the take to the verdict, smoothed; 0: none yet */
    struct pace_train trial;
    /* Pauses. */
    usec_t until, pause; /* pause: the length of the latest one */
    usec_t paused_at;    /* when the first of the pauses in a row began */
    usec_t probed_at;
    uint32_t refused_in_row;
    /* What was accepted from one end of a pause to the next. */
    usec_t stretch_begin;
    uint64_t stretch_accepted;
    double stretch_rate;  /* in all from the pause before to the last one; 0: there was none */
    uint32_t calm_passes; /* trials that passed since the pause */
    usec_t calm_until;    /* pauses come back: the pace is not raised quickly until then */
    /* What was accepted in the present and in the last slot of a second. */
    usec_t slot_begin;
    uint32_t slot[2];
};

/* What outlives a restart or the lane: spans instead of times. */
struct pace_memory {
    double rate, lowest;
    usec_t age;         /* of the pace */
    usec_t refusal_age; /* of the last refusal */
};

void pace_init(struct pace *p, enum pace_unit unit, uint64_t seed, usec_t now);

/* When the next one may go: at most `now` when it may now. Ask before each take, and again at the
 * time returned, or after a verdict. */
MUST_USE usec_t pace_due(struct pace *p, usec_t now);
/* n units go now: 1 message, its recipients, or a connect. */
void pace_take(struct pace *p, uint32_t n, usec_t now);
/* They were not sent after all; without a verdict. sent_at: the `now` of their take. */
void pace_give_back(struct pace *p, uint32_t n, usec_t sent_at);

/* The receiver's verdict, before the content: taken, or "slow down".
 *
 * sent_at  the `now` of their pace_take; several with one call: of the last of them
 * hint     the time that the reply asks for; 0: none */
void pace_accepted(struct pace *p, uint32_t n, usec_t sent_at, usec_t now);
void pace_refused(struct pace *p, uint32_t n, usec_t hint, usec_t sent_at, usec_t now);

/* Of a pace that several schedulers share: taken at once, in parts worth LOAN_SPAN or one unit, in
 * turn. The verdicts then name `from` of the loan as the time that they were sent at.
 *
 * borrower, want, ret, returns  as with rate_lend; without a pace `want` is lent */
MUST_USE usec_t pace_lend(struct pace *p, unsigned borrower, uint32_t want, usec_t now,
                          struct loan *ret);
/* The pair of pace_lend. */
void pace_repay(struct pace *p, struct loan *loan);
/* The borrower that was told to ask again will not. */
void pace_leave(struct pace *p, unsigned borrower);

/* As if learned: by an operator's order, or from what was remembered. rate > 0 */
void pace_set(struct pace *p, double rate, usec_t now);
/* What another lane found goes on as the pace of this one, which has so much of its mail: 0..1. */
void pace_inherit(struct pace *p, const struct pace *from, double part, usec_t now);
void pace_forget(struct pace *p);
/* false: there is nothing to remember. */
MUST_USE bool pace_remember(const struct pace *p, usec_t now, struct pace_memory *ret);
/* errors: ERR_SYNTAX when the values cannot be of a pace; nothing changed */
MUST_USE int pace_recall(struct pace *p, const struct pace_memory *memory, usec_t now);

#endif
