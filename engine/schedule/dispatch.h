/* What a scheduler thread has handed to workers: deliveries from DELIVER to their report, those
 * that came back to be placed again, and questions for hosts. Owned by the scheduler thread;
 * in_flight is an atomic counter that anybody may read. */
#ifndef ENGINE_DISPATCH_H
#define ENGINE_DISPATCH_H

#include "base/attr.h"
#include "base/list.h"
#include "base/mailbox.h"
#include "dns/ip.h"
#include "sched/sched.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct delivery;
struct engine;
struct resolution;

struct dispatch {
    struct engine *engine;
    struct outbox *to_workers; /* [engine->worker_count] */
    struct list out;           /* deliveries with workers */
    struct list displaced;     /* deliveries to be placed again, oldest first */
    uint32_t next_worker;
    _Atomic uint32_t in_flight; /* deliveries, displaced ones too */
};

void dispatch_init(struct dispatch *p, struct engine *e);
/* The workers exist now. errors: -ENOMEM */
MUST_USE int dispatch_start(struct dispatch *p);
void dispatch_fini(struct dispatch *p);  /* accepts one that was not started */
bool dispatch_flush(struct dispatch *p); /* as outbox_flush */

/* SCHED_DELIVER of a core: hand the entry to the worker that holds the connection.
 *
 * generation  of the settings that the core goes by
 * workers  [process_limit] of the core; the slot of a new connection is written
 * returns  false: out of memory, report the entry as deferred */
MUST_USE bool dispatch_deliver(struct dispatch *p, uint16_t transport, uint32_t generation,
                               uint16_t *workers, const struct sched_action *a);
/* Ask once more: what was found out does not hold any more. */
void dispatch_resolve_again(struct dispatch *p, struct resolution *r);
/* SCHED_EXHAUSTED: a worker puts together what became of its recipients, and reports. */
void dispatch_exhausted(struct dispatch *p, const struct sched_action *a);
/* SCHED_CLOSE */
void dispatch_close(struct dispatch *p, uint16_t transport, const uint16_t *workers,
                    const struct sched_action *a);
/* SCHED_RESOLVE. false: it cannot be asked, answer for it */
MUST_USE bool dispatch_resolve(struct dispatch *p, uint16_t transport,
                               const struct sched_action *a);

/* The report of a delivery, for the core of its transport; then dispatch_reported. */
void dispatch_outcome(const struct delivery *d, struct sched_outcome *ret);
/* The core has heard: d is freed, or kept until it is placed again. */
void dispatch_reported(struct dispatch *p, struct delivery *d);
/* A delivery that has not come back from a worker that ended, or NULL; for the end. */
struct delivery *dispatch_take_left(struct dispatch *p);
void dispatch_free_delivery(struct delivery *d);

/* The servers of a resolution, for the core.
 *
 * ret      room for SCHED_SERVERS_MAX
 * returns  their number; 0 when it failed */
uint32_t dispatch_list_servers(const struct resolution *r, struct sched_server *ret);
/* What a key made by it stands for. Any thread. */
void dispatch_read_server(const uint8_t *key, size_t len, struct ip *ret_ip, uint16_t *ret_port);

#endif
