/* Virtual time: events that happen in the order of their times, and the seeded chance that spreads
 * them. One owner; nothing here knows what is simulated. */
#ifndef BENCH_SIM_EVENT_H
#define BENCH_SIM_EVENT_H

#include "base/clock.h"
#include "base/heap.h"

#include <stdbool.h>

/* An event is embedded in what it happens to, and zeroed before its first use. */
struct sim_event {
    struct heap_node node;
    void (*happen)(struct sim_event *);
};

struct sim_world {
    struct heap events;
    usec_t now;
    uint64_t chance;
};

void sim_world_init(struct sim_world *w, uint64_t seed);
void sim_world_fini(struct sim_world *w);
/* At an absolute time, or some time from now; an event that is planned already is moved. Aborts
 * when out of memory. */
void sim_at(struct sim_world *w, struct sim_event *e, usec_t at);
void sim_after(struct sim_world *w, struct sim_event *e, usec_t delay);
void sim_cancel(struct sim_world *w, struct sim_event *e); /* no-op when not planned */
/* Let the next event happen; false when there is none. */
bool sim_step(struct sim_world *w);
/* Evenly from low to high, both included; the same sequence for the same seed. */
struct sim_range {
    usec_t low, high;
};
usec_t sim_between(struct sim_world *w, struct sim_range r);

#endif
