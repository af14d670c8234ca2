/* The scan for deferred mail that is due, by a wall clock that may be set at any time: what was
 * deferred while the clock was wrong must not wait until the clock is there again.
 *
 * The queue is ordered by due time, so a scan reads the mail that is due and stops. Mail that was
 * deferred while the clock was ahead stands behind that place. Every scan also looks at mail that
 * is due later than the longest delay from now. Mail that is due sooner than that, and yet too late
 * because the clock was set back, is found only by scans that look at all waiting mail. Two such
 * scans follow each step back of the clock: two, as the spool writer may have read the clock before
 * the step and commits after it. A step is noticed by comparing the wall clock with the monotonic
 * clock, or at start with the last time at which anything was deferred.
 *
 * A scan goes through each flow by itself, in whatever order and however interleaved. A flow whose
 * first message is known not to be due is left out without a look at the spool. One that waits for room
 * when the next scan begins goes on where it is, as part of that one; if that looks at all waiting mail,
 * it begins again.
 *
 * Who calls: the activator. Pure but for the reader; times come from the caller. */
#ifndef ENGINE_DEFERRED_SCAN_H
#define ENGINE_DEFERRED_SCAN_H

#include "base/attr.h"
#include "base/clock.h"
#include "engine/spool/spool_store.h"

#include <stdbool.h>
#include <stdint.h>

struct deferred_scan {
    uint64_t until;   /* wall: messages due at or before this are tried */
    usec_t longest;   /* longest delay that the configuration allows */
    usec_t lowered;   /* wall: when `longest` became less, or the daemon started */
    bool is_checking; /* this scan looks at all waiting mail */
    bool is_thorough; /* this scan looks at all flows */
    unsigned checks;  /* how many of the scans to come look at all waiting mail */
    bool has_offset;
    usec_t offset; /* wall clock minus monotonic clock: the largest since the last step back */
};

/* How far the scan has come in a flow. */
struct deferred_place {
    uint64_t time, id; /* last message passed; 0: none */
    uint32_t flow;
    bool is_checking;  /* it looks at all waiting mail of the flow */
    uint64_t next_due; /* no message of the flow is due before this (wall); 0: not known. The caller
                        * sets it to 0 when a message may have been deferred */
};

/* noted: spool_store_clock; wall: now */
void deferred_scan_init(struct deferred_scan *s, usec_t noted, usec_t wall);
/* Begin a scan. longest: the longest delay that the configuration allows */
void deferred_scan_start(struct deferred_scan *s, usec_t wall, usec_t mono, usec_t longest);
/* Whether this scan has anything to look for in a flow. */
MUST_USE bool deferred_scan_wants(const struct deferred_scan *s, const struct deferred_place *at);
/* Begin at the front of a flow. */
void deferred_scan_enter(const struct deferred_scan *s, struct deferred_place *at, uint32_t flow);
/* The next message of the flow that is due; the same one comes again until deferred_scan_pass.
 *
 * budget   counted down by each record that has to be read
 * returns  0, ERR_AGAIN when the budget is used up, ERR_MISSING when the scan of this flow is over,
 *          which an error of the storage ends as well */
MUST_USE int deferred_scan_next(const struct deferred_scan *s, struct deferred_place *at,
                                struct spool_reader *reader, usec_t wall, int *budget,
                                struct spool_position *ret);
void deferred_scan_pass(struct deferred_place *at, const struct spool_position *position);

#endif
