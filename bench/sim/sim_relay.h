/* A relay in virtual time: the real core, and deliveries that take their time and succeed. Says which
 * message was selected when; knows nothing of where mail comes from. */
#ifndef BENCH_SIM_RELAY_H
#define BENCH_SIM_RELAY_H

#include "base/list.h"
#include "bench/sim/sim_event.h"
#include "sched/sched.h"

struct sim_flight;
struct sim_relay;

/* A message: its recipients are at as many destinations in a row, over and over. */
struct sim_mail {
    struct sched_flow_key flow;
    uint16_t weight;      /* of its tenant */
    uint16_t kind;        /* the caller's */
    uint32_t destination; /* of the first recipient */
    uint32_t spread;      /* 1: all are at that one; else at so many, those that follow */
    uint32_t recipients;
    usec_t queued; /* set by sim_relay_submit */
    /* The relay's. */
    uint64_t id;
    uint32_t read;
    struct list in_relay;
};

struct sim_relay_options {
    struct sched_config config;
    uint32_t destinations;
    const struct sim_range *delivery; /* how long one takes: [destinations] */
    /* An entry was selected. May submit nothing. */
    void (*selected)(struct sim_relay *r, const struct sim_mail *m, uint32_t destination);
    /* One was delivered; `m` is its message, which goes when all of it was. */
    void (*delivered)(struct sim_relay *r, const struct sim_mail *m, uint32_t destination);
    void *ctx;
};

struct sim_relay {
    struct sim_relay_options options;
    struct sim_world *world;
    struct sched *sched;
    struct sim_event wake;
    char (*names)[16];
    struct sim_flight *flights, *unused;
    struct list mail;
    uint64_t next_id;
    uint64_t selections, waiting; /* messages that the core has */
    bool is_working;
};

/* A core as it comes; connections and windows are the caller's to set. */
void sim_relay_defaults(struct sim_relay_options *o);
void sim_relay_init(struct sim_relay *r, struct sim_world *w, const struct sim_relay_options *o);
/* What is in flight is reported first. */
void sim_relay_fini(struct sim_relay *r);
/* A copy of it is queued now. */
void sim_relay_submit(struct sim_relay *r, const struct sim_mail *m);

#endif
