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

/* Something of the number is met now. Whether that began as long before `heard` (of member_ear) as a node takes to
 * be late: its entry may be on its way to us. Always false for those beyond UNSEEN_NUMBERS_MAX. */
MUST_USE bool unseen_numbers_meet(struct unseen_numbers *u, uint16_t number, usec_t heard,
                                  usec_t now);

#endif
