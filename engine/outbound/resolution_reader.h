/* What the cache of DNS answers knows of a destination's hosts, without a worker's help.
 *
 * Owner: a scheduler thread, which is online under RCU during each call. Only the cache is shared, and
 * that is lock-free (dns/cache.h). Code: resolution.c.
 */
#ifndef ENGINE_RESOLUTION_READER_H
#define ENGINE_RESOLUTION_READER_H

#include "base/attr.h"
#include "base/clock.h"

#include <stdbool.h>

struct engine;
struct resolution;
struct resolver;
struct settings;

/* Zeroed before the first use. */
struct resolution_reader {
    struct resolver *resolver; /* NULL until the first question */
    struct settings *settings; /* own reference: by which it reads */
};

/* Find the hosts without asking anybody. The level mta-sts is for a worker.
 *
 * returns  true: r is complete, as from a worker; false: a worker must be asked */
MUST_USE bool resolution_reader_find(struct resolution_reader *d, const struct engine *e,
                                     struct resolution *r, usec_t now);
/* Read by these settings from now on. false: it cannot, and tries again when it is asked. */
bool resolution_reader_follow(struct resolution_reader *d, struct settings *now);
void resolution_reader_fini(struct resolution_reader *d); /* accepts a zeroed one */

#endif
