/* The part of sched_check that is about sites: their lanes, parties and members, from the root. */
#ifndef SCHED_SITE_CHECK_H
#define SCHED_SITE_CHECK_H

#include "sched/sched.h"

/* What was counted of sites, to be compared with the counts of the whole. */
struct site_tally {
    uint64_t connections, idle;
    int now, slots, hosts, none; /* parties, or sites, as counted in sched.with_work */
    uint64_t lanes, parties, sites, dead, barred;
    int64_t excess; /* of all sets */
};

/* NULL, or what is wrong. */
const char *site_check(const struct sched *s, struct site_tally *t);

#endif
