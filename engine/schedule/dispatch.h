/* What a scheduler thread has handed to workers: deliveries from SCHED_DELIVER to their report,
 * deliveries that came back to be placed again, and questions for hosts. Owned by the scheduler
 * thread; in_flight is an atomic counter that any thread may read. */
#ifndef ENGINE_DISPATCH_H
#define ENGINE_DISPATCH_H

#include "base/attr.h"
#include "base/list.h"
#include "base/mailbox.h"
#include "dns/ip.h"
#include "engine/outbound/resolution_reader.h"
#include "sched/sched.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct delivery;
struct engine;
struct limit_verdict;
struct reply_matcher;

struct dispatch {
    struct engine *engine;
    struct outbox *to_workers;      /* [engine->worker_count], of the thread's post */
    struct list out;                /* deliveries with workers */
    struct list displaced;          /* deliveries to be placed again, oldest first */
    struct reply_matcher *matcher;  /* NULL until the first entry without a server left */
    struct resolution_reader known; /* hosts that need not be asked for */
    uint32_t next_worker;
    _Atomic uint32_t in_flight; /* deliveries, displaced ones too */
};

void dispatch_init(struct dispatch *p, struct engine *e);
void dispatch_fini(struct dispatch *p); /* accepts a zeroed one */

/* SCHED_DELIVER of a core: hand the entry to the worker that holds the connection.
 *
 * generation  of the transport's settings by which the core found its hosts
 * workers  [process_limit] of the core; the slot of a new connection is written
 * has_others  as in struct delivery
 * returns  the delivery, which the worker has from now on, but for what is the scheduler's alone;
 *          NULL: out of memory, report the entry as deferred */
struct delivery *dispatch_deliver(struct dispatch *p, uint16_t transport, uint32_t generation,
                                  uint16_t *workers, const struct sched_action *a, bool has_others);
/* SCHED_DELIVER of an entry that may not go now: its delivery, which no worker has, with the report that
 * the core must get now: it waits again. NULL: out of memory */
struct delivery *dispatch_hold_back(struct dispatch *p, uint16_t transport,
                                    const struct sched_action *a);
/* It was with a worker already, and is placed once more. */
MUST_USE bool dispatch_is_displaced(const struct dispatch *p, const struct sched_entry *entry);
/* Ask for the hosts once more, as a reload made the answer in r invalid. */
void dispatch_resolve_again(struct dispatch *p, struct resolution *r);
/* SCHED_EXHAUSTED: the entry has no server left. What the servers said of its recipients goes to the
 * spool writer as their results.
 *
 * returns  its delivery, with the report that the core must get now */
struct delivery *dispatch_exhausted(struct dispatch *p, const struct sched_action *a,
                                    struct outbox *to_writer);
/* A worker reports a refusal that the scheduler thread has weighed: what becomes of the recipients
 * that were held for it. The delivery's report says then what the core must be told. */
void dispatch_settle_refusal(struct dispatch *p, struct delivery *d,
                             const struct limit_verdict *verdict, struct outbox *to_writer);
/* SCHED_CLOSE */
void dispatch_close(struct dispatch *p, uint16_t transport, const uint16_t *workers,
                    const struct sched_action *a);
/* SCHED_RESOLVE: find the hosts in the cache of answers, or ask a worker for them.
 *
 * ret_known  the answer if it was there, the caller's; NULL: it comes by a letter
 * returns    false: nobody can be asked, and the caller must answer the core itself */
MUST_USE bool dispatch_resolve(struct dispatch *p, uint16_t transport, const struct sched_action *a,
                               usec_t now, struct resolution **ret_known);
/* Read the cache by these settings from now on; before it is read it is done anyway. */
void dispatch_follow(struct dispatch *p, struct settings *s);

/* The report of a delivery, for the core of its transport; then dispatch_reported. */
void dispatch_outcome(const struct delivery *d, struct sched_outcome *ret);
/* The core has taken the report: d is freed, or kept until the entry is placed again. */
void dispatch_reported(struct dispatch *p, struct delivery *d);
/* A delivery without a report, made to look deferred, or NULL. Used at the end, when the workers
 * have ended and no further report can come. */
struct delivery *dispatch_take_left(struct dispatch *p);
void dispatch_free_delivery(struct delivery *d);

/* The servers of a resolution, for the core.
 *
 * ret      room for SCHED_SERVERS_MAX
 * returns  their number; 0 when it failed */
uint32_t dispatch_list_servers(const struct resolution *r, struct sched_server *ret);
/* The address and port in a key that dispatch_list_servers made. Any thread. */
void dispatch_read_server(const uint8_t *key, size_t len, struct ip *ret_ip, uint16_t *ret_port);

#endif
