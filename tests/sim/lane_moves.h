/* What the driver of the scheduler core does to sources, pools and lanes. */
#ifndef TESTS_SIM_LANE_MOVES_H
#define TESTS_SIM_LANE_MOVES_H

struct driver;

/* Other sources and pools, with memory for all of it, some or none. */
void lane_moves_set_sources(struct driver *d);
/* One change at random. */
void lane_moves_step(struct driver *d);
/* One source that reaches everything, and is closed nowhere: what waits comes to an end. */
void lane_moves_end(struct driver *d);

#endif
