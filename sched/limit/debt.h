/* How many refusals a pace is ahead of what a receiver may be asked in vain: one for a hundred units
 * accepted, and five a minute. What the beginning took beyond that is paid for by fewer trials later.
 * Pure; a part of struct pace, whose law calls it. */
#ifndef SCHED_LIMIT_DEBT_H
#define SCHED_LIMIT_DEBT_H

#include "base/attr.h"
#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

/* All zero: nothing is owed. */
struct debt {
    double units; /* refused beyond what may be, when it was looked at last */
    usec_t at;
};

void debt_accepted(struct debt *d, uint32_t n);
void debt_refused(struct debt *d, uint32_t n, usec_t now);
/* So long until it is paid if nothing is refused meanwhile, and nothing accepted; never more than
 * some, as a receiver may have changed its mind. */
MUST_USE usec_t debt_span(struct debt *d, usec_t now);
/* Refusals are dear then, and time is not. */
MUST_USE bool debt_is_heavy(struct debt *d, usec_t now);

#endif
