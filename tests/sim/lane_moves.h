/* What the driver of the scheduler core does to sources, pools and lanes. */
#ifndef TESTS_SIM_LANE_MOVES_H
#define TESTS_SIM_LANE_MOVES_H

struct driver;

/* Other sources and pools, with memory for all of it, some or none. */
void lane_moves_set_sources(struct driver *d);
struct sched_action;
/* SCHED_ASK, which is answered now or later. */
void lane_moves_asked(struct driver *d, const struct sched_action *a);
void lane_moves_answer(struct driver *d);
/* One change at random. */
void lane_moves_step(struct driver *d);
/* One source that reaches everything, and is closed nowhere: what waits comes to an end. */
void lane_moves_end(struct driver *d);

#endif
