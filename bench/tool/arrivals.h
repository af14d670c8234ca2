/* When the messages of an open load are due, whatever the server does. Owner: the load; pure. */
#ifndef BENCH_ARRIVALS_H
#define BENCH_ARRIVALS_H

#include "base/attr.h"
#include "base/clock.h"

#include <stdint.h>

enum arrivals_kind {
    ARRIVALS_POISSON, /* at random, exponential gaps */
    ARRIVALS_EVEN,    /* all gaps the same */
    ARRIVALS_BURST,   /* `burst` at once, even gaps between bursts */
};

struct arrivals {
    enum arrivals_kind kind;
    uint32_t burst; /* >= 1 */
    double rate;    /* a second, on average */
    uint64_t seed;
    uint64_t count; /* arrivals that were told */
    double gaps;    /* Poisson: usec up to the next one; whole ones would add up to a wrong rate */
};

/* "poisson", "even" or "burst:N" (N from 1). errors: ERR_SYNTAX */
MUST_USE int arrivals_parse(struct arrivals *a, const char *text);
/* When the next message is due, usec since the start; the first at 0. Never less than before. */
usec_t arrivals_next(struct arrivals *a);

#endif
