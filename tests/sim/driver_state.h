/* What the parts of the driver of the scheduler core share: the core, the models of its mail and of what
 * is in flight, and where the next choice is read. */
#ifndef TESTS_SIM_DRIVER_STATE_H
#define TESTS_SIM_DRIVER_STATE_H

#include "sched/sched.h"
#include "tests/sim/choices.h"
#include "tests/sim/flight_model.h"
#include "tests/sim/mail_model.h"
#include "tests/sim/owner_moves.h"

struct question;

struct driver {
    struct choices choices;
    struct sched_config config;
    struct sched *sched;
    usec_t now;
    struct mail_model mail;
    struct flight_model flights;
    struct question *questions;
    struct loan_of_owner owners[OWNERS];
    bool has_owners;
    bool has_flows;
    bool has_riders; /* few windows of one site, deep connections to several hosts of it */
    bool is_ending;  /* owners have what they ask for */
    bool has_sites;
    bool is_kind; /* nothing fails any more: what waits must be selected */
    long objects, hosts;
    long fail_after; /* allocations; < 0: never */
    uint64_t digest; /* of all actions */
};

static inline unsigned take(struct driver *d, unsigned below)
{
    return choices_take(&d->choices, below);
}

/* Any config. */
void driver_configure(struct driver *d);
/* What is changed of it for worlds in which flows wait for a place at the lanes of a site while others ride at
 * its parties. */
void driver_configure_riders(struct driver *d);
/* Everything that can be checked at any time. */
void driver_check(struct driver *d);
/* Acts on what the core has decided already. */
void driver_pull_pending(struct driver *d);

#endif
