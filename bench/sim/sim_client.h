/* A sender in virtual time: the real scheduler core, and around it the SMTP client of the
 * measurement, with its timeouts and its connection cache. One message to one destination. Called
 * by bench/sim/sim_tables.c. */
#ifndef BENCH_SIM_CLIENT_H
#define BENCH_SIM_CLIENT_H

#include "bench/sim/sim_server.h"
#include "sched/sched.h"

struct sim_run {
    enum sched_feedback_rule rule;
    struct sched_feedback feedback; /* positive and negative */
    int initial, limit;             /* of the destination's concurrency */
    uint32_t recipients;
    uint32_t recipients_per_delivery;
    /* From the scheduler's choice to a packet on the wire: a request goes to another process, that
     * opens the queue file. */
    struct sim_range hand_off;
    bool is_caching;
    struct sim_server_config server;
    uint64_t seed;
};

struct sim_result {
    uint32_t recipients, deferred;
    uint32_t connect_timeouts, greeting_timeouts; /* recipients */
    uint32_t refused;                             /* recipients */
    uint32_t untried;                             /* recipients deferred without an attempt */
    uint32_t feedbacks;
    double average, deviation; /* of the window, after each feedback */
    usec_t duration;
};

/* Until every recipient was tried once. Aborts when out of memory. */
struct sim_result sim_client_run(const struct sim_run *r);

#endif
