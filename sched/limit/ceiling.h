/* How many of something a receiver lets us have at a time: connections of a lane, or messages of a
 * connection. Learned from a refusal, raised by one every five minutes without one while it bound,
 * forgotten beyond four times the least it was. Pure: the caller brings the time (usec, monotonic).
 *
 * One owner at a time, as with struct pace. */
#ifndef SCHED_LIMIT_CEILING_H
#define SCHED_LIMIT_CEILING_H

#include "base/attr.h"
#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

#define CEILING_STEP_SPAN (300 * USEC_PER_SEC)

/* All zero: none. */
struct ceiling {
    uint32_t limit;  /* 0: no ceiling */
    uint32_t lowest; /* of `limit` since there is one */
    usec_t since;    /* when it began */
    usec_t last_refusal;
    usec_t changed_at; /* last refusal or step */
    bool did_bind;     /* since changed_at */
};

/* What outlives a restart or the lane. */
struct ceiling_memory {
    uint32_t limit, lowest;
    usec_t age, refusal_age;
};

/* Refused while there were `had`: the ceiling, at least 1. */
void ceiling_refused(struct ceiling *c, uint32_t had, usec_t now);
/* Whether a refusal of a later message of a connection is about the number of messages on it: only
 * when connections are refused at the same count again and again, and none went beyond that count
 * meanwhile. Else it is about something else, a rate or nothing at all. All zero: no suspicion. */
struct ceiling_doubt {
    uint32_t had;           /* the last one was refused with so many accepted */
    uint32_t times;         /* in a row at that count; 0: none */
    usec_t said_at;         /* the last of them */
    usec_t contradicted_at; /* a connection went beyond one of them; 0: none did */
};

#define CEILING_DOUBT_SPAN (600 * USEC_PER_SEC)

enum ceiling_word {
    CEILING_UNKNOWN, /* the next one tells */
    CEILING_SAID,    /* a limit: ceiling_refused */
    CEILING_DENIED,  /* it is not about that number */
};

MUST_USE enum ceiling_word ceiling_doubt_refused(struct ceiling_doubt *d, uint32_t had, usec_t now);
/* So many were accepted on one connection. */
void ceiling_doubt_accepted(struct ceiling_doubt *d, uint32_t have, usec_t now);

/* There are so many, all accepted: a lower ceiling was wrong, because they were still on their way
 * when it was set. */
void ceiling_proved(struct ceiling *c, uint32_t have);
/* May there be one more than `have`? Steps up when it is time. */
MUST_USE bool ceiling_permits(struct ceiling *c, uint32_t have, usec_t now);
/* When a ceiling that does not permit may do so: the time of its next step; USEC_NEVER: there is
 * none to wait for. */
MUST_USE usec_t ceiling_due(const struct ceiling *c);
/* false: there is nothing to remember. */
MUST_USE bool ceiling_remember(const struct ceiling *c, usec_t now, struct ceiling_memory *ret);
/* errors: ERR_SYNTAX when the values cannot be of a ceiling; nothing changed */
MUST_USE int ceiling_recall(struct ceiling *c, const struct ceiling_memory *memory, usec_t now);

#define CEILING_CLOSE_SPAN (250 * USEC_PER_MSEC)

/* The connections of a lane that were accepted and are open. One that was closed a moment ago may
 * still be open for the receiver: it counts for CEILING_CLOSE_SPAN where another one is to be made,
 * and for a second where a refusal sets the ceiling. */
struct ceiling_count {
    uint32_t open;
    uint32_t closing; /* closed within CEILING_CLOSE_SPAN of closed_at, and not later */
    usec_t closed_at;
    uint32_t most[2]; /* in the present second and in the last one */
    usec_t slot_begin;
};

void ceiling_count_opened(struct ceiling_count *n, struct ceiling *c, usec_t now);
void ceiling_count_closed(struct ceiling_count *n, usec_t now);
/* For ceiling_permits, with those that are being made besides. */
MUST_USE uint32_t ceiling_count_held(struct ceiling_count *n, usec_t now);
void ceiling_count_refused(struct ceiling_count *n, struct ceiling *c, usec_t now);

#endif
