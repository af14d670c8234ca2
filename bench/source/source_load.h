/* The load: which message is offered next and when, what became of each, and the numbers.
 * One thread owns it with all its sessions. */
#ifndef BENCH_SOURCE_LOAD_H
#define BENCH_SOURCE_LOAD_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "base/list.h"
#include "bench/source/source_message.h"
#include "bench/source/source_options.h"
#include "bench/tool/arrivals.h"
#include "bench/tool/ledger.h"
#include "net/poller.h"
#include "net/timeout.h"

#include <stdbool.h>
#include <stdint.h>

/* One offer of one message; a message may be offered several times. */
struct source_offer {
    uint64_t number;
    usec_t due;   /* monotonic: when it was to be sent at first; latency counts from here */
    usec_t ready; /* monotonic: not before; later than due for what is offered again */
    usec_t begun; /* monotonic: when its first byte was written */
};

enum source_fate {
    SOURCE_ACKED,
    SOURCE_REFUSED,  /* 5xx, or 4xx that is not offered again */
    SOURCE_DEFERRED, /* 4xx */
    SOURCE_UNKNOWN,  /* the connection was lost before the answer */
    SOURCE_UNSENT,   /* the connection was lost before the end of data: surely not accepted */
    SOURCE_FATE_COUNT,
};

/* "acked" and so on; static. */
const char *source_fate_name(enum source_fate fate);

/* What became of the messages of a tenant, or of all. */
struct source_tally {
    uint64_t offered;
    uint64_t fates[SOURCE_FATE_COUNT];
};

struct source_tenant {
    struct source_tally tally;
    struct histogram *answer; /* heap, from the first accepted message on */
};

struct source_queue {
    struct source_offer *items; /* ring; heap */
    size_t first, count, capacity;
};

struct source_load {
    /* set at creation */
    const struct source_options *options;
    struct source_template template;
    struct ledger ledger;
    struct poller poller;
    struct timeout_queue timeouts;
    struct source_session *sessions;

    /* what is to be offered */
    usec_t now; /* monotonic; of the pass, or newer: for timers */
    uint64_t next_number;
    usec_t started, ends;    /* monotonic */
    struct arrivals arrival; /* open loop */
    usec_t next_arrival;     /* open loop; monotonic */
    struct timeout arrival_timer;
    struct source_queue arrivals; /* open loop: due and not yet taken */
    struct source_queue reoffers;
    struct list idle; /* sessions that wait for a message */
    bool is_stopping; /* offer nothing more */
    uint32_t alive;   /* sessions that are not given up */

    /* what became of the messages */
    struct source_tally tally;
    uint64_t reoffered, refused_recipients;
    uint64_t connections, failures; /* connects made; connects failed and connections lost */
    uint64_t under_way;             /* offered, no fate yet */
    usec_t first_offer, last_ack;   /* monotonic; 0 = none */
    struct histogram answer;        /* usec from due to the final 250 */
    struct histogram service;       /* usec from the first byte to it */
    struct source_tenant *tenants;  /* heap; as many as options.tenants */
    enum source_mode mode;          /* of the last connection that was greeted */
    char last_problem[200];
};

/* errors: -errno, -ENOMEM */
MUST_USE int source_load_init(struct source_load *l, const struct source_options *options);
void source_load_fini(struct source_load *l);
/* Connect and offer the first messages. */
MUST_USE int source_load_start(struct source_load *l);
/* true when everything has its fate, or nothing more can be done. */
bool source_load_is_done(const struct source_load *l);
/* Offer nothing more; what is under way still gets its fate. */
void source_load_stop(struct source_load *l);
/* The next offer that is due. returns: false when there is none now */
MUST_USE bool source_load_take(struct source_load *l, struct source_offer *ret);
/* Before the first byte of an offer: its time and the ledger. errors: -errno of the ledger */
MUST_USE int source_load_offered(struct source_load *l, struct source_offer *offer);
/* The fate of an offer; text: the reply or the reason. refused: its refused recipients, LF each */
void source_load_settle(struct source_load *l, const struct source_offer *offer,
                        enum source_fate fate, struct slice text, struct slice refused);
/* A line for the summary: why a connection failed. */
void source_load_problem(struct source_load *l, const char *what, struct slice why);

#endif
