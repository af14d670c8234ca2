/* The tenants of one scheduler core whose rates or quotas are limited: which owner of the core a
 * message has, and what the core borrows for it from struct limits, which all transports share.
 *
 * A tenant is known from its first message on, by the settings of then, and by each reload's. Those that
 * have no mail in the core any more are forgotten when there are many. While no section of a tenant has a
 * limit none is known, and nothing of this costs anything.
 *
 * Owner: the scheduler thread that owns the core. */
#ifndef ENGINE_TENANTS_H
#define ENGINE_TENANTS_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct delivery;
struct engine;
struct limits_borrower;
struct sched;
struct sched_action;
struct sched_owner;
struct settings;
struct tenant;

struct tenants {
    struct engine *engine;
    struct sched *sched;
    struct limits_borrower *borrower; /* that of the core's lanes */
    bool are_limited;                 /* some section of a tenant has a limit */
    struct tenant **chains;           /* [chain_count], by the hash of the name */
    uint32_t chain_count, count;
    uint32_t sweep_at; /* as many are looked through for those that can be forgotten */
};

struct tenants_config {
    struct engine *engine;
    struct sched *sched;
    struct limits_borrower *borrower;
};
void tenants_init(struct tenants *t, const struct tenants_config *config,
                  const struct settings *settings);
void tenants_fini(struct tenants *t); /* before the core and the borrower; accepts a zeroed one */
/* Other settings: what waits goes by their limits at once. */
void tenants_set(struct tenants *t, const struct settings *s, usec_t now);
/* The owner of a message of that tenant. false: no memory, the message is to be deferred.
 *
 * ret  NULL: nothing limits it */
MUST_USE bool tenants_owner(struct tenants *t, struct slice name, usec_t now,
                            struct sched_owner **ret);
/* SCHED_OWNER_ASKS: what may go now is lent to the core, or when to ask again. */
void tenants_ask(struct tenants *t, const struct sched_action *a, usec_t now);
/* SCHED_OWNER_RETURNS */
void tenants_return(struct tenants *t, const struct sched_action *a);
/* A delivery waits again, or is over: what was taken for it goes back unless a MAIL was sent. */
void tenants_heard(struct tenants *t, struct delivery *d, usec_t now);

#endif
