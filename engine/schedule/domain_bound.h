/* The rates and the quota that a `domain` section gives a destination inside a provider's site: what goes to
 * it, by all transports and sources together, is counted in struct limits by the message. What goes beyond
 * them waits.
 *
 * Owner: the scheduler thread that owns the core. */
#ifndef ENGINE_DOMAIN_BOUND_H
#define ENGINE_DOMAIN_BOUND_H

#include "base/attr.h"
#include "base/clock.h"

struct core;
struct delivery;
struct dispatch;
struct engine;
struct sched;
struct sched_action;

enum domain_bound {
    DOMAIN_UNCOUNTED,
    DOMAIN_COUNTED, /* its delivery is to say so */
    DOMAIN_FULL,    /* it may not go: the core knows until when, and must get it back */
};

/* SCHED_DELIVER */
MUST_USE enum domain_bound domain_bound_take(const struct dispatch *p, const struct core *c,
                                             const struct sched_action *a, usec_t now);
/* A delivery waits again, or is over: it does not count unless a MAIL was sent and not throttled. Behind
 * tenants_heard, before the core is told. */
void domain_bound_heard(struct engine *e, struct sched *s, struct delivery *d, usec_t now);

#endif
