/* The clock by which nodes judge each other and themselves (member.h): it goes on while the machine
 * sleeps. Tests let it run faster than time, by SLUICE_CLUSTER_HASTE in the environment of all daemons
 * of a cluster: so many seconds of it a second. */
#ifndef ENGINE_CLUSTER_CLOCK_H
#define ENGINE_CLUSTER_CLOCK_H

#include "base/clock.h"

/* Before the threads start. */
void cluster_clock_init(void);
usec_t cluster_clock(void);
/* How long a span of it is by other clocks. */
usec_t cluster_clock_real(usec_t span);

#endif
