/* The engine: what all threads share.
 *
 * Everything here is set before the first thread starts and constant afterwards, except the
 * settings, which main replaces (settings.h), and the atomics at the end. Each thread's own state
 * lives in its own file. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "base/attr.h"
#include "base/clock.h"
#include "engine/event/event_log.h"
#include "engine/spool/spool_store.h"
#include "engine/state/denial.h"
#include "engine/state/seal_result.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct activator;
struct adoption;
struct auth;
struct clerk;
struct config;
struct dispatch_bound;
struct event_feed;
struct event_log;
struct hearer;
struct http;
struct limits;
struct injector;
struct listener;
struct message;
struct mailbox;
struct gather;
struct nodes;
struct order_book;
struct suspensions;
struct queue_figures_keeper;
struct replica;
struct reloader;
struct return_book;
struct sched_thread;
struct sign_load;
struct signer;
struct series;
struct sts_fetcher;
struct tally;
struct tls_reporter;
struct spool_writer;
struct settings;
struct worker;

/* Numbers of flows fall on these places; those below it have one each. */
enum { ENGINE_BACKLOG_PLACES = 1 << 16 };

enum engine_gate {
    ENGINE_GATE_OPEN = 0,
    ENGINE_GATE_LOW_SPACE = 1, /* intake is refused: below spool_reserve */
    ENGINE_GATE_BROKEN = 2,    /* the last commit failed: no intake, no dispatch */
    ENGINE_GATE_STOPPING = 4,  /* shutting down: no intake, no dispatch */
    ENGINE_GATE_DRAINING = 8,  /* no intake: report/drain.h */
    ENGINE_GATE_LOG = 16,      /* no intake: the log does not acknowledge; docs/cluster.md */
    ENGINE_GATE_LOG_FULL = 32, /* no intake: it has no room */
    ENGINE_GATE_COUNT = 6,     /* bits */
};

/* The address book: where each thread takes its letters. Filled by main before the first thread
 * starts, so that a thread can write to another without knowing what it is. */
struct engine_boxes {
    struct mailbox *receptions; /* the writer's too: LETTER_STAGE and LETTER_STORE go there */
    struct mailbox *writer, *activator, *auth, *hearer, *sts, *http, *tls_reporter;
    struct mailbox *clerks[2];
    struct mailbox **scheds;  /* [sched_count]; NULL before they exist */
    struct mailbox **workers; /* [worker_count] */
    struct mailbox **signers; /* [signer_count] */
};

struct engine {
    /* set at start */
    const struct config *config; /* of the start; see settings.h */
    struct spool_store *store;
    struct order_book *orders;       /* order_book.h says who changes it */
    struct suspensions *suspensions; /* that replies ask for; suspension.h */
    struct event_log *events;        /* written by the spool writer only */
    struct event_feed *feed;         /* NULL: no event log that can be read */
    struct spool_writer *writer;
    struct series *series;
    struct nodes *nodes;                 /* NULL: no cluster; nodes.h */
    struct gather *gather;               /* likewise; gather.h */
    struct replica *replica;             /* NULL: no log; replica.h */
    _Atomic(struct adoption *) adoption; /* lent to the spool writer; adopter.h */
    struct limits *limits; /* what receivers allow, shared by all transports; limits.h */
    struct queue_figures_keeper *figures; /* queue_figures.h */
    struct tally *tally;                  /* counted by the spool writer; see tally.h */
    struct activator *activator;
    struct sched_thread **scheds; /* scheduler threads */
    uint32_t sched_count;
    struct worker **workers;
    uint32_t worker_count;
    struct auth *auth;
    struct hearer *hearer;
    struct signer **signers;
    uint32_t signer_count;
    struct sign_load *sign_loads; /* [signer_count], atomic: sign_load.h */
    struct sts_fetcher *sts;
    struct tls_reporter *tls_reporter;
    struct return_book *returns;     /* keys and names of return addresses; return_book.h */
    struct sockets *sockets;         /* main only; see sockets.h */
    struct listener **listeners;     /* [config->listener_count] */
    struct listener *local_listener; /* sessions over the control socket */
    struct clerk *clerks[2];         /* of fast routes, of slow ones */
    struct http *http;
    struct injector *injector;
    struct engine_boxes boxes;
    /* [sched_count]: recipients of the largest entry that each scheduler thread may hand out. It
     * holds for waiting entries as well, which are divided when a reload allows less. Written by
     * that thread; see engine_may_dispatch */
    _Atomic uint64_t *entry_limits;
    usec_t started; /* wall */

    /* any thread, by settings_of; main publishes */
    struct settings *settings;
    struct reloader *reloader;

    /* any thread, atomic */
    _Alignas(CACHE_LINE) _Atomic uint64_t next_id;
    _Atomic uint64_t id_limit;    /* ids below are reserved on disk */
    _Atomic uint16_t node_number; /* of this spool in its cluster; 0: none; spool_store_node */
    _Alignas(
        CACHE_LINE) _Atomic uint64_t undurable; /* recipients dispatched, result not committed */
    _Atomic uint64_t dispatch_limit, dispatch_entry;    /* recipients; see engine_may_dispatch */
    _Alignas(CACHE_LINE) _Atomic uint32_t gate;         /* bits of enum engine_gate */
    _Alignas(CACHE_LINE) _Atomic uint64_t intake_bytes; /* received and not yet committed */
    /* for answers to "why"; times are wall, 0: it is not so */
    _Atomic int64_t gate_since[ENGINE_GATE_COUNT]; /* by bit: when it was set the last time */
    _Atomic uint64_t free_bytes;                   /* of the spool, as its writer saw them last */
    _Atomic int broken_by;                         /* error of the commit that closed the gate */
    _Atomic int64_t full_of_messages, full_of_recipients; /* the activator: at its limits */
    /* for counters */
    _Atomic uint64_t received, delivered, deferred, failed, expired, ambiguous, dropped;
    _Atomic uint64_t notices_suppressed;
    _Atomic uint64_t suppressed;         /* recipients that ended as they are on a list */
    _Atomic uint64_t suppressed_refused; /* likewise, that intake refused */
    _Atomic uint64_t suppressions_added, suppressions_removed;
    _Atomic uint64_t seals[SEAL_RESULT_COUNT]; /* messages, by what became of their signatures */
    _Atomic uint32_t seals_again[SEAL_RESULT_COUNT]; /* of these, that left memory and come again:
                                                      * so many are not counted then */
    _Atomic uint64_t signatures;                     /* that keys made */
    _Atomic uint64_t heard[5];     /* messages for us by what they were; by enum heard_kind */
    _Atomic uint64_t tls_left_out; /* sessions in no report about TLS, for want of room */
    _Atomic uint64_t tls_unsent;   /* reports about TLS that were given up */
    _Atomic uint64_t given_back;   /* messages that left memory for others */
    _Atomic uint64_t odd_labels;   /* values of control headers that were ignored */
    struct denials denials;        /* refused because of who asked; denial.h */
    _Atomic uint64_t refused;      /* intake, for want of space, memory or a working spool */
    _Atomic uint32_t injections;   /* requests to inject mail that await their commits */
    _Atomic uint32_t sweeps;       /* asked for by operators, and not over */
    _Atomic int64_t lease_until;   /* see engine_set_lease */
    _Atomic uint16_t taken_by;     /* the spool that has our log now; 0: none; engine_run.c */
    _Atomic bool wants_restart;    /* main is to look: report/drain.h */
    usec_t restart_again;          /* main: when that is to be tried again; 0: not */
    _Atomic int64_t drain_until;   /* monotonic: while it drains, when it ends at the latest */
    _Atomic uint32_t empty_looks;  /* while it drains: looks in a row that found nothing to send */
    _Atomic uint64_t active_messages;
    _Atomic uint64_t active_of[SPOOL_CLASS_COUNT]; /* active messages by the class they came from,
                                                    * without those that were never loaded */
    _Atomic int64_t next_scan;     /* monotonic: when deferred mail is looked for again */
    _Atomic uint64_t next_held;    /* wall: when the next held message that is not active is due */
    _Atomic uint64_t next_session; /* number of an outbound session in a trace */
    _Atomic uint32_t backlogs;     /* flows that have one; changed by backlog.h alone */
    _Atomic uint8_t backlog_of[ENGINE_BACKLOG_PLACES]; /* the same, by number of the flow */
    _Atomic uint64_t recipients_in_core;               /* changed by in_core.h alone */
};

/* A message id that was never used and never will be again. Any thread.
 * The caller refuses the mail when the id is not below id_limit (the writer reserves far ahead). */
uint64_t engine_new_id(struct engine *e);
/* From now on ids have this number in front; once in the life of a spool. Thread: any. */
void engine_number_ids(struct engine *e, uint16_t node);
MUST_USE bool engine_id_is_reserved(const struct engine *e, uint64_t id);

/* Whether this node may deliver nothing, as others may have taken its mail over. Asked before each
 * MAIL; what it answers is not kept. Any thread. Without a cluster that takes over: false, for the price of
 * a load. */
MUST_USE bool engine_lease_is_over(const struct engine *e);
/* until: CLOCK_BOOTTIME, which goes on while the machine sleeps; 0: there is no lease. Wakes the
 * schedulers. Any thread. */
void engine_set_lease(struct engine *e, usec_t until);

static inline uint32_t engine_gate(const struct engine *e)
{
    return atomic_load_explicit(&e->gate, memory_order_acquire);
}

/* Wall: when the gate was closed the last time. */
usec_t engine_gate_since(const struct engine *e, enum engine_gate bit);
void engine_gate_set(struct engine *e, enum engine_gate bit);
void engine_gate_clear(struct engine *e, enum engine_gate bit);

/* Whether another entry may be handed out: dispatched recipients without a durable result stay
 * below the duplicate bound, which is what a crash can repeat. Scheduler threads.
 *
 * entry  recipients of the largest entry that the caller could hand out; false when that is more
 *        than the bound allows for. The caller has published it (entry_limits), or the bound could
 *        become smaller than it
 */
MUST_USE bool engine_may_dispatch(const struct engine *e, uint64_t entry);
void engine_dispatched(struct engine *e, uint32_t recipients);
/* The writer's side: results became durable; wakes scheduler threads that waited. */
void engine_durable(struct engine *e, uint64_t recipients);

/* Set the limits of dispatch: never more than the durable bound allows. Main at start, then the
 * spool writer. */
void engine_set_dispatch_bound(struct engine *e, const struct dispatch_bound *bound);
bool engine_is_bound_by(const struct engine *e, const struct dispatch_bound *bound);
/* The largest entry that some scheduler thread may hand out. Any thread. */
uint64_t engine_entry_limit(const struct engine *e);

/* Wake every thread that holds a spool reader or dispatches. */
void engine_wake_all(struct engine *e);

#endif
