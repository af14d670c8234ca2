/* Destinations that stand apart: their receiver throttles each for itself, at hosts that it shares with
 * others that are not (engine/limit/limits_alone.c). Such a one is a site of its own for an hour from
 * then on, so that its pace is its own and the others have none.
 *
 * Owner: the scheduler thread that owns the core. */
#ifndef ENGINE_APART_H
#define ENGINE_APART_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

enum { APART_MOST = 512 }; /* one more takes the place of the oldest */

struct apart {
    struct apart_destination {
        uint64_t name; /* hash; 0: none */
        usec_t until;
    } list[APART_MOST];
    uint32_t next;
    usec_t last_until; /* none stands apart any more then */
};

void apart_add(struct apart *a, struct slice destination, usec_t now);
MUST_USE bool apart_has(const struct apart *a, struct slice destination, usec_t now);

#endif
