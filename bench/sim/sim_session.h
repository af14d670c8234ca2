/* Connections of a lane with the real ceilings, against a receiver that allows so many at a time or
 * so many messages on each. In virtual time. */
#ifndef BENCH_SIM_SESSION_H
#define BENCH_SIM_SESSION_H

#include "base/clock.h"

#include <stdint.h>

struct sim_session_config {
    uint32_t wanted;          /* connections that the lane would like */
    uint32_t allowed;         /* at a time; 0: any number */
    uint32_t allowed_on_each; /* messages; 0: any number */
    uint32_t each;            /* messages that the lane would send on a connection */
    usec_t delay;             /* of a connect, and of a message */
    usec_t rest;              /* from the end of a connection to the next one, at most */
    usec_t noticed;           /* the receiver learns so late that a connection was closed */
    usec_t span;              /* how long it runs */
    uint64_t seed;
};

struct sim_session_result {
    uint64_t connects, connects_refused;
    uint64_t messages, messages_refused;
    double open; /* connections that were open, on average */
};

/* From `from` on is counted. */
struct sim_session_result sim_session_run(const struct sim_session_config *c, usec_t from);

#endif
