/* A receiver that allows so much and no more, as a sender cannot see it: buckets of tokens, fixed
 * windows, connections at a time, messages a connection. In virtual time; pure. */
#ifndef BENCH_SIM_RECEIVER_H
#define BENCH_SIM_RECEIVER_H

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

/* At most so many a second. What is refused costs nothing. */
struct sim_limit {
    double rate;   /* units a second; 0: no limit */
    double burst;  /* tokens it holds */
    usec_t window; /* > 0: rate x window in each window from 0 on, instead of a bucket */
    double tokens; /* what is left; of the present window */
    usec_t filled_at;
};

/* burst: 0: a tenth of a second's worth, at least 1 */
void sim_limit_init(struct sim_limit *l, double rate, double burst, usec_t now);
/* Another rate from now on; its burst follows. */
void sim_limit_change(struct sim_limit *l, double rate, usec_t now);
bool sim_limit_take(struct sim_limit *l, usec_t now);

#endif
