/* A lane that always has mail, with the real pace, against a simulated receiver. In virtual time. */
#ifndef BENCH_SIM_LANE_H
#define BENCH_SIM_LANE_H

#include "base/list.h"
#include "bench/sim/sim_event.h"
#include "bench/sim/sim_receiver.h"
#include "sched/limit/pace.h"

struct sim_lane_config {
    enum pace_unit unit;
    usec_t delay;        /* from sending to the verdict; half of it to the receiver */
    usec_t jitter;       /* of the reply: up to so much more */
    usec_t drift;        /* of the way to the receiver: up to so much more */
    usec_t lateness;     /* of the sender: up to so much after the due time */
    double demand;       /* messages a second without a pace; 0: as many as fit in flight */
    double offered;      /* messages a second that come and wait for their turn; 0: always some */
    double chance;       /* part of all units that are refused, whatever the limit is */
    uint32_t in_flight;  /* at a time; 0: as many as ten times `delay` could need */
    uint32_t window;     /* in flight at first, one more with each accepted; 0: all at once */
    usec_t stays;        /* what is accepted is in flight for so much longer: a connection */
    uint32_t group;      /* units of a message that stand behind each other: recipients */
    uint32_t lost_group; /* a refusal takes up to so many more with it that are on their way */
    unsigned greylisted; /* of a hundred messages accepted, so many come back to be sent again */
};

struct sim_lane {
    struct sim_world *world;
    const struct sim_lane_config *config;
    struct sim_limit *limit;
    struct pace pace;
    struct sim_event turn;
    usec_t begun, last_sent;
    struct list flights; /* what is on its way */
    uint32_t flying, window;
    uint32_t doomed;  /* the next so many that arrive are lost with one that was refused */
    usec_t doomed_at; /* when that one was */
    uint64_t sent, accepted, refused, greylisted;
};

void sim_lane_init(struct sim_lane *l, struct sim_world *w, const struct sim_lane_config *c,
                   struct sim_limit *limit, uint64_t seed);
void sim_lane_fini(struct sim_lane *l);

#endif
