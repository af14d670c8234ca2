/* What a core knows of sources and pools, kept in step with the settings and the standing orders by
 * its thread: which sources it has, and which of them take nothing because an order closes them.
 * Owner of the core only. */
#ifndef ENGINE_CORE_SOURCES_H
#define ENGINE_CORE_SOURCES_H

#include "base/attr.h"
#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct resolution;
struct sched;
struct sched_destination;
struct settings;

/* Zeroed: the core has the one source that it began with, and needs no other; with is_behind it needs
 * to be told at the first pass. */
struct core_sources {
    uint64_t serial;     /* of the settings that it has; 0: none told it anything */
    uint64_t *filled;    /* [pool_count / 64, up] bits of pools that have a source, open or not */
    uint32_t pool_count; /* numbers from here on are not known */
    uint64_t closed;     /* bits of sources that orders closed */
    uint64_t orders;     /* order_book_changes by then */
    usec_t
        check_at;   /* monotonic: what it has may not be right any more; with serial or is_behind */
    bool is_behind; /* what it should have has not been set yet */
};

/* Tell the core what the settings have for its transport, less what orders close now. What waits in a
 * pool that has gone is withdrawn, to be routed anew. Where it cannot be done now core_sources_tick
 * tries it again.
 *
 * s        in force, or newer ones: the transport is among them
 * thread   online under RCU */
void core_sources_set(struct core_sources *c, struct sched *core, const struct engine *e,
                      const struct settings *s, uint16_t transport, usec_t now);
/* Before recipients of this pool are submitted: settings that have it may be in force, or an order that
 * closed its sources be lifted, without the thread having heard of it. false: the core cannot have
 * the pool yet. */
MUST_USE bool core_sources_have(struct core_sources *c, struct sched *core, const struct engine *e,
                                uint16_t transport, uint16_t pool, usec_t now);
/* At each pass: what could not be set, and what orders do not close any more. */
void core_sources_tick(struct core_sources *c, struct sched *core, const struct engine *e,
                       uint16_t transport, usec_t now);
/* When that must be called at the latest; or USEC_NEVER. */
usec_t core_sources_wake_at(const struct core_sources *c);
/* A new core of the transport needs to be told: it begins with is_behind. */
bool core_sources_are_told(const struct settings *s, uint32_t transport);
/* The answer for a destination becomes a failure that says so where no source of its pool has a family
 * in which the hosts have an address. */
void core_sources_check_reach(const struct settings *s, struct resolution *r);
/* The destination has a single source, to which its message keeps. When that takes nothing the message
 * comes back at once, and goes by the others of its pool. destination: NULL: none */
bool core_sources_is_one(const struct engine *e, const struct sched_destination *destination);
void core_sources_fini(struct core_sources *c);

#endif
