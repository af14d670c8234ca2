/* A receiver that takes few connections at a time, with the kernel in front of it: a process limit,
 * the queue of connections that wait for a process, what the kernel does when that queue is full,
 * and a limiter that answers 421. In virtual time; called by bench/sim/sim_client.c. */
#ifndef BENCH_SIM_SERVER_H
#define BENCH_SIM_SERVER_H

#include "base/list.h"
#include "bench/sim/sim_event.h"

#include <stdint.h>

#define SIM_PROCESSES_MAX 16

/* What happens to a connection request while the queue is full. */
enum sim_full_queue {
    /* FreeBSD 6: the SYN is dropped; the client sends it again and gives up in the end. */
    SIM_SYN_DROPPED,
    /* Linux 2.6: the client is told that it is connected, but the end of the handshake is dropped.
     * The server repeats its part some times and forgets the connection; the client, who waits for
     * a greeting, never learns. While more than one request is younger than the first repetition,
     * further SYNs are dropped. */
    SIM_ACK_DROPPED,
};

struct sim_server_config {
    int process_limit; /* also the backlog argument of listen, as in Postfix */
    int client_limit;  /* connections a client may have, further ones are refused; 0 = any */
    enum sim_full_queue full_queue;
    usec_t per_recipient;      /* the receiver sleeps so long */
    struct sim_range greeting; /* from accept to 220 or 421 */
    struct sim_range message;  /* how long a transaction takes, its recipients apart */
};

enum sim_news {
    SIM_CONNECTED, /* at the TCP level */
    SIM_GREETED,   /* 220, and the server is ready for a transaction */
    SIM_REFUSED,   /* 421; the link is gone */
    SIM_DELIVERED, /* the end of a transaction */
};

struct sim_server;
struct sim_link; /* one connection, which the client owns until sim_link_close or SIM_REFUSED */

struct sim_process {
    struct sim_event event;
    struct sim_server *server;
    struct sim_link *link; /* NULL: the process waits for a connection, or is about to */
    enum sim_news news;    /* what the process says next to its client */
    bool is_free, is_leaving;
};

struct sim_server {
    struct sim_server_config config;
    struct sim_world *world;
    struct list queue; /* of links that wait for a process */
    int queued, young; /* young: half open and not repeated yet */
    struct sim_process processes[SIM_PROCESSES_MAX];
};

void sim_server_init(struct sim_server *s, struct sim_world *w, const struct sim_server_config *c);
/* Frees what clients left in the queue. */
void sim_server_fini(struct sim_server *s);

/* Begin to connect; `tell` hears what happens. Aborts when out of memory. */
struct sim_link *sim_link_open(struct sim_server *s, void (*tell)(void *ctx, enum sim_news),
                               void *ctx);
/* Redirect the news: the link serves another delivery. */
void sim_link_pass(struct sim_link *l, void *ctx);
/* Give the server one message; due after SIM_GREETED or SIM_DELIVERED. */
void sim_link_deliver(struct sim_link *l, uint32_t recipients);
/* The client lets go, at any time; accepts NULL. What is in the queue stays there, as a dead
 * connection does, until a process takes it. */
void sim_link_close(struct sim_link *l);

#endif
