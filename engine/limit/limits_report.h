/* What stands of lanes, for operators: reports, what was done and when, and their orders. Any thread;
 * a walk holds the lock for a page at a time. */
#ifndef ENGINE_LIMITS_REPORT_H
#define ENGINE_LIMITS_REPORT_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "engine/limit/limits.h"

#include <stdbool.h>
#include <stdint.h>

/* --- what was done ---------------------------------------------------------------------------- */

enum limit_reaction_kind {
    LIMIT_REACTED_PACE,        /* a pace began, or a rule slowed it */
    LIMIT_REACTED_CONNECTIONS, /* a ceiling of connections */
    LIMIT_REACTED_SESSION,     /* a ceiling of messages on a connection */
    LIMIT_REACTED_PAUSE,
    LIMIT_REACTED_CLOSED,
    LIMIT_REACTED_CLOSED_DESTINATION,
    LIMIT_REACTED_CLOSED_SITE,
    LIMIT_REACTED_OPENED,
    LIMIT_REACTED_UNPACED,          /* an order ended its paces, or time the one of the unit */
    LIMIT_REACTED_SUSPENDED_TENANT, /* is to be: the verdict said so */
    LIMIT_REACTED_SUSPENDED_CAMPAIGN,
    LIMIT_REACTED_COUNT
};
/* "paced", "closed", ...; static */
const char *limit_reaction_text(enum limit_reaction_kind kind) NONNULL_RET;

enum limit_reaction_cause {
    LIMIT_DONE_BY_REPLY,
    LIMIT_DONE_BY_ORDER,
    LIMIT_DONE_BY_ACCEPTANCE, /* the receiver took something again */
    LIMIT_DONE_BY_TIME,       /* what an order closed is open at its end */
    LIMIT_DONE_BY_PEER,       /* another node of the cluster did it: limits_obey */
};

struct limit_reaction {
    usec_t time;  /* wall */
    usec_t until; /* wall; 0: without an end */
    double value; /* messages, recipients or connects a second; connections; messages */
    uint64_t lane;
    uint64_t kind;  /* enum limit_reaction_kind */
    uint64_t cause; /* enum limit_reaction_cause */
    uint64_t class; /* enum reply_class of the reply */
    uint64_t unit;  /* enum pace_unit, of a pace */
    char source[LIMITS_NAME_MAX + 1], site[LIMITS_NAME_MAX + 1], hosts[LIMITS_NAME_MAX + 1];
    char destination[LIMITS_NAME_MAX + 1];
    char rule[LIMITS_RULE_MAX + 8], text[LIMITS_TEXT_MAX + 8];
};

/* The newest LIMITS_REACTIONS_KEPT, by number. Any thread, without the lock. */
#define LIMITS_REACTIONS_KEPT 1024U
uint64_t limits_reaction_begin(const struct limits *l);
uint64_t limits_reaction_end(const struct limits *l);
MUST_USE bool limits_reaction_get(const struct limits *l, uint64_t number,
                                  struct limit_reaction *ret);

/* Who writes them down, one thread: it is woken when there is one more, once after each
 * limits_reaction_await. wake is called under the lock, by any thread: it must not call limits. Set
 * while no other thread knows the limits. */
void limits_reaction_watch(struct limits *l, void (*wake)(void *ctx), void *ctx);
/* returns the number of the next one: those before it can be read now, and wake may not tell of them
 * any more */
uint64_t limits_reaction_await(struct limits *l);

/* What another node learned of a lane. */
struct limit_lesson {
    /* LIMIT_REACTED_PACE, _CONNECTIONS, _SESSION, _CLOSED, _CLOSED_DESTINATION or _OPENED */
    enum limit_reaction_kind kind;
    usec_t span;     /* of a closure */
    double value;    /* of a pace, a second; of a ceiling */
    unsigned unit;   /* enum pace_unit, of a pace */
    bool is_ordered; /* of a closure: by an operator, so it ends without a probe */
    struct slice rule, text;
    struct slice destination; /* of a closure to one */
};
/* Does the same to the lane here, unless what it knows itself is stricter; it is made where there is
 * none yet. errors: as limits_hold; ERR_SYNTAX: such a lesson cannot be */
MUST_USE int limits_obey(struct limits *l, const struct limit_key *key,
                         const struct limit_lesson *what, usec_t now);

/* --- lanes ------------------------------------------------------------------------------------ */

enum { LIMIT_PACES = 3 }; /* of messages, recipients and connects, as in enum pace_unit */

/* Why something stands. */
struct limit_fact {
    usec_t since; /* wall; 0: it does not stand */
    uint32_t times;
    char rule[LIMITS_RULE_MAX + 1];
    char text[LIMITS_TEXT_MAX + 1];
};

struct limit_lane_report {
    uint64_t id;
    char source[LIMITS_NAME_MAX + 1], site[LIMITS_NAME_MAX + 1], hosts[LIMITS_NAME_MAX + 1];
    struct limit_state state;  /* until: wall */
    bool is_ordered;           /* closed by an operator */
    bool is_probing;           /* its time is over, and it is tried */
    usec_t paused_until;       /* wall; 0: not */
    double paces[LIMIT_PACES]; /* a second; 0: none */
    usec_t
        pace_until[LIMIT_PACES]; /* wall: the receiver let nothing through, and this is when it is
                                     * tried again; 0: it goes on */
    struct limit_fact pace_facts[LIMIT_PACES];
    struct limit_fact connections_fact, session_fact, closed_fact, paused_fact;
    struct limit_rates rates[LIMIT_OF_SOURCE + 1]; /* in force; warmup: NULL */
    uint64_t quota_left[LIMIT_OF_SOURCE + 1];      /* UINT64_MAX: no quota */
    enum limit_cause waits_for;                    /* why it lent nothing when it was asked last */
    enum limit_owner waits_whose;
    usec_t waits_until; /* wall: when it is likely to have something; 0: nobody knows */
    uint32_t open_connections;
    uint32_t holds;
    uint32_t closed_destinations;
    usec_t last_accepted; /* wall; 0: never */
};

/* Up to `room` lanes from a place of the walk on, which is moved on; 0: it is at its end.
 *
 * at     0 at the begin
 * room   1..LIMITS_PAGE_MAX */
#define LIMITS_PAGE_MAX 64U
MUST_USE uint32_t limits_report(struct limits *l, uint32_t *at, struct limit_lane_report *ret,
                                uint32_t room, usec_t now, usec_t wall);
struct limit_lane_page {
    struct limit_lane_report *lanes; /* [room] the caller's */
    uint32_t room;                   /* 1..LIMITS_PAGE_MAX */
    uint32_t count;
};
/* The same of those of which anything stands (limits_report_is_troubled), a part of the walk at a time:
 * a page may be empty before the end. false: the walk is at its end, and the page is empty */
MUST_USE bool limits_report_troubled(struct limits *l, uint32_t *at, struct limit_lane_page *page,
                                     usec_t now, usec_t wall);
/* Closed, paced, paused, with a ceiling, or avoided by destinations. Pure. */
bool limits_report_is_troubled(const struct limit_lane_report *r);
/* One lane. false: there is none */
MUST_USE bool limits_report_lane(struct limits *l, const struct limit_key *key, usec_t now,
                                 usec_t wall, struct limit_lane_report *ret);
/* A destination that avoids a lane. */
struct limit_destination_report {
    char destination[LIMITS_NAME_MAX + 1];
    char reason[LIMITS_TEXT_MAX + 1];
    usec_t since, until; /* wall */
};
/* Those of a lane, closed now; returns their number, at most room. */
MUST_USE uint32_t limits_report_destinations(struct limits *l, const struct limit_key *key,
                                             struct limit_destination_report *ret, uint32_t room,
                                             usec_t now, usec_t wall);

struct limits_totals {
    uint32_t sites, lanes, meters;
    uint32_t closed_lanes, paced_lanes; /* probed ones are closed */
    uint64_t closed_destinations;
};
void limits_totals(struct limits *l, struct limits_totals *ret);

/* --- orders of operators ---------------------------------------------------------------------- */

enum limit_order_kind {
    LIMIT_ORDER_OPEN,   /* what reactions did ends: closed, paused, paced, ceilings */
    LIMIT_ORDER_CLOSE,  /* for `span`; then it is open, without a probe */
    LIMIT_ORDER_PACE,   /* of messages, `rate` a second, and learned on from there */
    LIMIT_ORDER_UNPACE, /* no pace, of whatever */
};

struct limit_order {
    enum limit_order_kind kind;
    usec_t span;
    double rate;
    struct slice reason; /* who, and why */
};

/* One lane; it is made where there is none yet, so that it can be closed beforehand.
 * errors: as limits_hold; ERR_SYNTAX: a rate or span that cannot be */
MUST_USE int limits_order(struct limits *l, const struct limit_key *key,
                          const struct limit_order *order, usec_t now);

#endif
