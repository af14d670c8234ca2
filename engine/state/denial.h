/* Requests and mail that were refused because of who asked: counted by why, and logged, but not so
 * often that whoever tries tokens fills the disk.
 *
 * Any thread: counters are atomic. Of two threads that would log at the same moment one does. */
#ifndef ENGINE_DENIAL_H
#define ENGINE_DENIAL_H

#include "base/attr.h"
#include "base/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum denial {
    DENIAL_NONE,
    DENIAL_TOKEN,  /* no token, or none that the door knows */
    DENIAL_RIGHT,  /* the token, or nobody's loopback, may not do this */
    DENIAL_TENANT, /* it would be another tenant's, or all tenants' */
    DENIAL_ORIGIN, /* a browser that somebody else's page sent */
    DENIAL_USER,   /* an SMTP user who named another tenant than theirs */
    DENIAL_COUNT
};

struct denials {
    _Atomic uint64_t counts[DENIAL_COUNT];
    _Atomic uint64_t told[DENIAL_COUNT];   /* how many there were when a line was logged last */
    _Atomic int64_t told_at[DENIAL_COUNT]; /* monotonic; 0: never */
};

#define DENIAL_LOG_INTERVAL (10 * USEC_PER_SEC)

/* "token", "right", ... as in metrics. */
const char *denial_text(enum denial kind) NONNULL_RET;
/* Count one. true: it is to be logged.
 *
 * ret_silent  how many of this kind were not logged since the last line */
MUST_USE bool denial_count(struct denials *d, enum denial kind, usec_t now, uint64_t *ret_silent);

#endif
