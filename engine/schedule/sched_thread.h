/* The shell of the scheduler cores: one thread for each transport, or for several when there are
 * more than scheduler_threads. It feeds them letters and time and turns their actions into letters;
 * all rules are in sched/. */
#ifndef ENGINE_SCHED_THREAD_H
#define ENGINE_SCHED_THREAD_H

#include "base/attr.h"
#include "base/mailbox.h"
#include "sched/sched.h"

#include <stdint.h>

struct engine;
struct history;
struct sched_thread;
struct settings;

/* Thread `index` of engine->sched_count owns the transports t with t % sched_count == index.
 * errors: -ENOMEM, -errno */
MUST_USE int sched_thread_new(struct engine *engine, uint32_t index, struct sched_thread **ret);
/* Make the cores of transports that are new in these settings. They are used from the first letter
 * about them on, which has to come behind this. Main. errors: -ENOMEM; nothing changes for who is
 * there */
MUST_USE int sched_thread_prepare(struct sched_thread *t, const struct settings *settings);
struct mailbox *sched_thread_box(struct sched_thread *t);
MUST_USE int sched_thread_start(struct sched_thread *t);
void sched_thread_stop(struct sched_thread *t);
/* After every thread that could report has ended. Accepts NULL. */
void sched_thread_free(struct sched_thread *t);

/* The core of a transport of the settings in force, for the reading functions of sched.h. Any
 * thread, online under RCU. */
const struct sched *sched_thread_core(const struct sched_thread *t, uint32_t transport);
/* The window of a destination changed, as a record of the history below. */
struct sched_thread_change {
    usec_t time; /* wall */
    uint64_t transport;
    struct sched_change change; /* its own time is monotonic */
};
/* The newest 4,096 changes, of all transports of the thread (base/history.h). Any thread. */
const struct history *sched_thread_changes(const struct sched_thread *t);
/* The newest 1,024 struct receiver_place (receiver.h), of all transports of the thread. Any thread. */
const struct history *sched_thread_places(const struct sched_thread *t);
/* Wall: since when engine_may_dispatch keeps the thread from selecting entries; 0: it does not. Any
 * thread. */
usec_t sched_thread_held_since(const struct sched_thread *t);
/* Entries handed to workers and not yet reported, all transports. Any thread. */
uint32_t sched_thread_in_flight(const struct sched_thread *t);

#endif
