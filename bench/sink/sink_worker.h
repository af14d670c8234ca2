/* One thread of sluice-sink: an epoll loop with its sessions. All threads accept from the same
 * listening sockets, so whoever is idle takes the connection.
 *
 * Concurrency: `lock` is held during a pass and by the reporter between passes; it guards `count`.
 * Everything else of a worker belongs to its thread. */
#ifndef BENCH_SINK_WORKER_H
#define BENCH_SINK_WORKER_H

#include "base/attr.h"
#include "base/list.h"
#include "base/thread.h"
#include "bench/sink/sink_count.h"
#include "bench/sink/sink_course.h"
#include "bench/sink/sink_options.h"
#include "bench/sink/sink_rule.h"
#include "bench/tool/ledger.h"
#include "bench/tool/timeline.h"
#include "net/poller.h"
#include "net/timeout.h"
#include "net/tls.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A client with connections to one listening address. */
struct sink_peer {
    uint8_t address[16];
    uint32_t connections;
};

/* One listening address. The workers share it; `lock` guards its counters. */
struct sink_listener {
    int fd;
    char name[ENDPOINT_TEXT_BYTES];
    struct sink_rule rule;
    size_t destination; /* the section of the file it follows; their number = none */
    int *fillers;       /* heap; connections to itself that keep a silent one's backlog full */
    size_t filler_count;
    /* Taken once a connection begins and once it ends; with a timeline also for each message. */
    pthread_mutex_t lock;
    struct timeline timeline; /* filled where the options ask for a timeline */
    uint32_t open;
    uint32_t max_open;
    struct sink_peer *peers; /* heap */
    size_t peer_count, peer_capacity;
};

/* Shared by the workers of a process. */
struct sink {
    /* set at creation */
    const struct sink_options *options;
    struct tls_server *tls; /* NULL: no STARTTLS */
    struct sink_rules domains;
    struct sink_clients *receivers; /* heap; of each destination of the file, and of the others */
    size_t receiver_count;
    struct ledger ledger;
    struct sink_listener *listeners;
    size_t listener_count;
    struct sink_courses courses;
    usec_t started; /* wall */
    /* any thread, atomic */
    _Atomic uint64_t accepted;    /* messages, all workers; decides when --messages is reached */
    _Atomic uint64_t store_count; /* numbers the stored files */
    _Atomic bool is_stopping;     /* written by main before it kicks the workers */
    _Atomic bool is_holding;      /* no greetings yet; cleared by main before it kicks them */
    int done_fd;                  /* eventfd of main: --messages was reached */
};

struct sink_worker {
    struct sink *sink;
    struct thread thread;
    pthread_mutex_t lock;
    struct sink_count count; /* under lock */
    struct poller poller;
    struct timeout_queue timeouts;
    struct list sessions;
    struct sink_accept *accepts; /* one watch for each listener */
    struct poller_watch wake_watch;
    int wake_fd;     /* eventfd, written by main: is_stopping or is_holding has changed */
    uint64_t random; /* state of the generator */
    usec_t now;      /* monotonic, when the pass began: for what need not be exact */
};

/* errors: -errno; on success the thread runs */
MUST_USE int sink_worker_start(struct sink_worker *w, struct sink *sink, int index);
/* Have sessions greeted that wait since is_holding was set; called by main after it was cleared. */
void sink_worker_wake(struct sink_worker *w);
/* After is_stopping was set: ends the thread. Counters stay readable. */
void sink_worker_stop(struct sink_worker *w);
/* After all threads have ended, or another would accept who comes back: closes the sessions. */
void sink_worker_close(struct sink_worker *w);
void sink_worker_fini(struct sink_worker *w);
/* Uniform, 0 <= x < 1. Owner thread only. */
double sink_worker_random(struct sink_worker *w);
/* true with probability `share`. Owner thread only. */
bool sink_worker_draw(struct sink_worker *w, double share);

/* Bind and listen; a silent listener gets its backlog filled. `l` is zeroed. errors: -errno;
 * sink_listener_fini is due even then */
MUST_USE int sink_listener_open(struct sink_listener *l, const struct endpoint *at,
                                const struct sink_options *options, usec_t started);
void sink_listener_fini(struct sink_listener *l);
/* A connection of `address` begins. b: towards it. returns: false when it exceeds a limit */
MUST_USE bool sink_listener_enter(struct sink_listener *l, const struct behaviour *b,
                                  const uint8_t address[16]);
void sink_listener_leave(struct sink_listener *l, const uint8_t address[16]);
/* For the timeline, where there is one. latency: usec, < 0 = unknown */
void sink_listener_message(struct sink_listener *l, usec_t wall, usec_t latency);
void sink_listener_deferred(struct sink_listener *l);

#endif
