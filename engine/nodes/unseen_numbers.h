/* Numbers of nodes whose entries were not seen, though something of theirs was: parts of limits. Owner: the
 * thread `cluster`. */
#ifndef ENGINE_UNSEEN_NUMBERS_H
#define ENGINE_UNSEEN_NUMBERS_H

#include "base/attr.h"
#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNSEEN_NUMBERS_MAX 64U /* as many as a limit has parts */

/* All zero at first. */
struct unseen_numbers {
    struct unseen_number {
        uint16_t number;
        usec_t since; /* CLOCK_BOOTTIME: when something of it was met first */
    } all[UNSEEN_NUMBERS_MAX]; /* [count] */
    size_t count;
};

/* Something of the number is met now. Whether its node counts as late: since it was met first, its entry may have been
 * on its way to us, and a node that was overlooked may have that number. Always false for those beyond
 * UNSEEN_NUMBERS_MAX.
 *
 * overlooked  when an entry was told last that cannot be read, or has no room; 0: never
 * heard       of member_ear */
MUST_USE bool unseen_numbers_meet(struct unseen_numbers *u, uint16_t number, usec_t overlooked,
                                  usec_t heard, usec_t now);

#endif
