/* Refusals that are of no limit: a receiver, or one host of a farm, that refuses some of what comes
 * whatever the rate is. What such refusals have in common is that their share stays when the pace
 * falls, and when it rises. So they are suspected when the pace was lowered again and again for few
 * refusals each time, and believed when a long train at a much higher pace, a test, is refused no more
 * than what goes at the pace is. Pure; a part of struct pace, whose law calls it.
 *
 * Believed is a share of the units, CHANCE_MOST at most. Units that are accepted earn credit, half as
 * much again as that share, and a refusal that has credit lowers nothing. What is refused beyond it
 * lowers the pace as ever, so a limit is found all the same. The share is measured in dips: below the
 * pace a limit refuses nothing, and chance as much as ever. So a belief that was wrong ends. */
#ifndef SCHED_LIMIT_CHANCE_H
#define SCHED_LIMIT_CHANCE_H

#include "base/attr.h"
#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

#define CHANCE_MOST 0.05

/* All zero: nothing is suspected, and nothing believed. */
struct chance {
    double share;     /* believed; 0: none */
    double credit;    /* refusals that lower nothing */
    uint32_t company; /* lanes that may share the limit, itself among them; 0: it is alone */
    double accepted, refused; /* at the pace, those long ago less */
    /* Since the pace is lowered for what may be chance. */
    double from; /* the pace then; 0: nothing is suspected */
    uint32_t strikes;
    usec_t struck_at;
    usec_t next_test, test_pause; /* the latter: from one that failed to the next */
    bool has_failed;              /* the first test from `from` on */
    bool is_due;                  /* the next trial is to be a test */
    double gain;                  /* of the test */
    /* At the pace, since the share was last looked at. */
    double seen, seen_refused;
    usec_t seen_since;
    /* A dip: a train below the pace, where a limit refuses nothing, so that what is refused is chance. */
    bool is_dipping;
    double dip_size, dip_sent; /* size 0: no dip is under way, nor waits for verdicts */
    double dip_accepted, dip_refused;
    usec_t dip_begin, dip_end, next_dip;
    usec_t next_far;
};

#define CHANCE_DIP 0.9 /* of the pace goes in a dip */

/* n go now at the pace, of `rate` units a second, and no trial is on its way. */
void chance_take(struct chance *c, uint32_t n, double rate, usec_t round_trip, usec_t now);
void chance_accepted(struct chance *c, uint32_t n, usec_t sent_at, usec_t now);
/* Refused at the pace, not in a trial. Returns whether it lowers nothing. */
MUST_USE bool chance_covers(struct chance *c, uint32_t n, usec_t sent_at, usec_t now);
/* The pace was lowered from `before` to `rate`, when `refused_part` of the units were refused. */
void chance_struck(struct chance *c, double before, double rate, double refused_part, usec_t now);
/* A train that was no test passed at `rate`. */
void chance_raised(struct chance *c, double rate);
/* Whether it is time for a trial that is so fast that chance cannot hide its outcome. */
MUST_USE bool chance_looks_far(struct chance *c, usec_t now);
/* How many of a trial may be refused by chance.
 *
 * size  units of it; gain: of its rate over the pace */
MUST_USE uint32_t chance_tolerates(const struct chance *c, uint32_t size, double gain);
/* Whether so many refused of a test are a limit's.
 *
 * events  times that some were refused together; since: accepted behind the first one */
MUST_USE bool chance_is_limit(uint32_t refused, uint32_t events, uint32_t since);
/* All verdicts on a test are there: it passed, with so many accepted and refused; or it failed. */
void chance_proved(struct chance *c, uint32_t accepted, uint32_t refused, usec_t now);
void chance_disproved(struct chance *c, double rate, usec_t now);
/* There was too little mail for a test. */
void chance_untested(struct chance *c, usec_t now);
/* What was believed before a restart. errors: ERR_SYNTAX when the share cannot be; nothing changed */
MUST_USE int chance_recall(struct chance *c, double share, usec_t now);
/* Another pace, or none; what is believed stays. */
void chance_restart(struct chance *c);

#endif
