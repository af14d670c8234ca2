/* The activator: the thread that decides which message becomes active, loads it from the spool when
 * it is not in memory, routes its recipients and hands them to the schedulers.
 *
 * New mail that arrives while nothing waits goes straight from memory; once a limit is reached it
 * stays in the spool and is read back in order. Incoming and deferred mail alternate as
 * scheduler-semantics 8.1 says; deferred mail is scanned at start and every queue_run_delay. */
#ifndef ENGINE_ACTIVATOR_H
#define ENGINE_ACTIVATOR_H

#include "base/attr.h"
#include "base/mailbox.h"

struct activator;
struct engine;

/* errors: -ENOMEM, -errno */
MUST_USE int activator_new(struct engine *engine, struct activator **ret);
struct mailbox *activator_box(struct activator *a);
/* Any thread. */
struct flow_names *activator_flow_names(struct activator *a);
MUST_USE int activator_start(struct activator *a);
/* Ends the thread; letters that wait are for activator_free. */
void activator_stop(struct activator *a);
void activator_free(struct activator *a); /* accepts NULL */

#endif
