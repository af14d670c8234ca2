/* A worker: one epoll loop with its connections in both directions, its resolver and its TLS
 * sessions. The loop is worker_thread.c; inbound.c and outbound.c are its two sides.
 *
 * A spool reader is opened at the first need of a pass of the loop and closed at its end, so no
 * slow peer ever pins pages of the spool. */
#ifndef ENGINE_WORKER_H
#define ENGINE_WORKER_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/post.h"
#include "net/poller.h"
#include "net/timeout.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct engine;
struct flight_recorder;
struct inbound;
struct listener_watch;
struct outbound;
struct reply_matcher;
struct resolver;
struct spool_reader;
struct tls_session_cache;
struct tls_tally;

#define WORKER_READ_BYTES 65536

/* Of one transport, by the scheduler's number; grows with process_limit. */
struct worker_connections {
    struct outbound **slots; /* [count], NULL where there is none */
    uint32_t count;
};

struct worker_dns_watch; /* descriptors of the resolver */

struct worker {
    /* set at creation */
    struct engine *engine;
    uint32_t index;
    struct post post;
    _Atomic bool is_draining; /* accept nothing new, finish what is half done */

    /* worker thread only */
    struct poller poller;
    struct timeout_queue timeouts;
    struct poller_watch box_watch;
    usec_t now; /* monotonic, of this pass */
    struct outbox *to_writer, *to_auth, *to_hearer, *to_sts, *to_tls_reporter; /* of the post */
    struct outbox *to_receptions; /* the writer as well: LETTER_STAGE and LETTER_STORE */
    struct outbox *to_scheds;     /* [engine->sched_count] */
    struct spool_reader *reader;
    bool reader_is_open;
    bool lacks_reader; /* somebody asked in this pass and got none */
    struct resolver *resolver;
    struct settings *resolver_settings; /* own reference: by which the resolver asks */
    struct worker_dns_watch *dns_watches;
    struct list resolving; /* struct resolution, given to the resolver */
    struct tls_session_cache *sessions;
    struct tls_tally *tls_tally;      /* sessions of one day; NULL: none since it was handed over */
    struct listener_watch *listeners; /* [listener_watches] */
    size_t listener_watches;
    struct list inbounds;
    struct list outbounds;
    struct reply_matcher *matcher;          /* for classifying replies */
    struct flight_recorder *recorder;       /* recording.h; NULL: nothing is recorded yet */
    struct list ready;                      /* links of connections that go on without an event */
    struct list paused;                     /* inbound: intake_memory is used up */
    struct list hearing;                    /* inbound: mail for us comes in, the oldest first */
    uint32_t hearings;                      /* these, and those that are being heard */
    struct worker_connections *connections; /* [config_transport_room] */
    char *input;                            /* WORKER_READ_BYTES, for one read at a time */
    usec_t accept_at; /* listeners rest until then for lack of descriptors; or never */
    bool was_draining;

    /* any thread, atomic */
    _Atomic uint32_t inbound_count, outbound_count;
};

struct mailbox *worker_box(struct worker *w);

/* The open reader of this pass, or NULL while the spool is being reopened: try in a later pass. */
struct spool_reader *worker_reader(struct worker *w);
/* At the end of a pass, and where what comes next needs to see more. */
void worker_end_reader(struct worker *w) ON_ROLE(w->post);

/* In the ready list a connection is called again in the next pass. */
struct worker_ready {
    struct list link;
    void (*run)(struct worker_ready *self);
};
void worker_run_again(struct worker *w, struct worker_ready *r);
/* Call those that were ready before: one that asks again waits for the next pass. */
void worker_run_ready(struct worker *w) ON_ROLE(w->post);

#endif
