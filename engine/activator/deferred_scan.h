/* The scan for deferred mail that is due, by a wall clock that may be set at any time: what was
 * deferred while the clock was wrong must not wait until the clock is there again.
 *
 * The queue is ordered by due time, so a scan sees what is due and stops. Mail of a wrong future
 * stands behind that. What is due later than any delay can be is looked for by every scan; what the
 * step of the clock put nearer only after one: it is seen against the monotonic clock, or at start
 * against the last time at which anything was deferred. Then all that waits is looked at, two scans
 * long, as the spool writer may have read the clock before the step and commits after it.
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
    bool is_running;
    struct spool_position at; /* last one passed */
    uint64_t until;           /* wall: due at or before this */
    usec_t longest;           /* that a delay can be */
    usec_t lowered;           /* wall: when that became less, or the daemon started */
    bool is_checking;         /* this scan looks at all that waits */
    unsigned checks;          /* scans to come that do */
    bool has_offset;
    usec_t offset; /* of the wall clock from the monotonic one: the largest since the last step */
};

/* noted: spool_store_clock; wall: now */
void deferred_scan_init(struct deferred_scan *s, usec_t noted, usec_t wall);
/* Begin at the front. longest: the longest delay that the configuration allows */
void deferred_scan_start(struct deferred_scan *s, usec_t wall, usec_t mono, usec_t longest);
/* The next one that is due; it comes again until deferred_scan_pass.
 *
 * budget   counted down by each record that has to be read
 * returns  0, ERR_AGAIN when the budget is used up, ERR_MISSING when the scan is over, which an
 *          error of the storage ends as well */
MUST_USE int deferred_scan_next(struct deferred_scan *s, struct spool_reader *reader, usec_t wall,
                                int *budget, struct spool_position *ret);
void deferred_scan_pass(struct deferred_scan *s, const struct spool_position *position);

#endif
