/* A model of what is in flight: entries, the connections that carry them, the servers they have
 * tried. The driver of the scheduler core holds each DELIVER, EXHAUSTED and CLOSE against it;
 * aborts on the first contradiction. */
#ifndef TESTS_SIM_FLIGHT_MODEL_H
#define TESTS_SIM_FLIGHT_MODEL_H

#include "sched/sched.h"
#include "tests/sim/loan_model.h"

#define CONNECTIONS 16
#define HOSTS       5
#define FLIGHTS     2048
#define NO_HOST     HOSTS /* the server without a name */

/* What the hosts pointer of the core points to. */
struct flight_hosts {
    unsigned site, tls; /* site 0: of its own */
    uint32_t count;
    struct sched_server servers[SCHED_SERVERS_MAX]; /* key: one byte, below HOSTS */
};

struct flight_connection {
    bool is_open, is_closing;
    bool is_ending; /* its end has been promised, or asked for, and counts until it comes */
    int in_flight, carried, depth;
    unsigned host;
    usec_t opened;
    struct sched_destination *destination; /* that opened it */
    unsigned site, tls;
    uint32_t name, source;
};

enum flight_place { FLIGHT_CARRIED, FLIGHT_DISPLACED, FLIGHT_EXHAUSTED };

struct flight {
    struct sched_entry *entry; /* NULL: unused */
    struct sched_destination *destination;
    enum flight_place place;
    uint32_t connection;
    unsigned tried;         /* bit of each host */
    unsigned tried_sources; /* bit of each id; while the source stays there */
};

struct flight_model {
    struct sched_config config;
    struct sched *sched;
    uint32_t process_limit_max; /* of all configs so far */
    bool was_reconfigured;
    struct flight_connection connections[CONNECTIONS];
    struct flight flights[FLIGHTS];
    usec_t out_of_step[HOSTS + 1]; /* when it was last; 0 never */
    unsigned count;                /* entries in flight */
    unsigned used;                 /* flights from here on were never used */
    struct loan_model loans;
    uint32_t ceilings[SITES][SOURCES];   /* of connections; forgotten likewise; 0: none */
    usec_t closed_until[SITES][SOURCES]; /* of lanes; 0: not closed, or forgotten with its site */
    bool has_terms;  /* destinations have terms of their own: the core's check knows these */
    bool is_delayed; /* the last action was not a DELIVER: the next may have been decided before
                      * what happened since */
};

/* returns the entry's flight: a new one, or that of an entry that comes back */
struct flight *flight_deliver(struct flight_model *m, const struct sched_action *a, usec_t now,
                              bool *ret_is_back);
void flight_exhaust(struct flight_model *m, const struct sched_action *a);
void flight_close(struct flight_model *m, const struct sched_action *a);
/* The end of a connection, or the loss of an idle one; to the core as well. */
void flight_end(struct flight_model *m, uint32_t connection, usec_t now);
/* Report it to the core; and see what that does to its host's failures. */
void flight_report(struct flight_model *m, struct flight *f, const struct sched_outcome *o,
                   usec_t now);
/* The destination's servers are replaced; before sched_resolved. */
void flight_resolved(struct flight_model *m, const struct sched_destination *d,
                     const struct flight_hosts *hosts);
/* A site is called by that. */
struct slice flight_site(unsigned site);
/* What was said about lanes goes with their site or their source. */
void flight_forget_lanes(struct flight_model *m);
/* sched_pull had nothing: what could be placed must not wait. */
void flight_check_idle(const struct flight_model *m);

#endif
