/* How many recipients are in memory: loaded for an active message, and without a durable result.
 * message_recipient_limit is about them (scheduler-semantics 4.2).
 *
 * The total, engine.recipients_in_core, is an atomic counter that any thread may read. Each message
 * has its share of it: what the activator added and what the spool writer removed, each in a field
 * that only that thread writes. The total is the sum of the shares; a message that has settled has
 * none any more; and at the stop, when the messages that are still active are freed, the total is 0.
 * The last two are asserted. */
#ifndef ENGINE_IN_CORE_H
#define ENGINE_IN_CORE_H

#include <stdint.h>

struct engine;
struct message;

/* Recipients of m are in memory from now on; before the letter that hands them on. Activator. */
void in_core_add(struct engine *e, struct message *m, uint32_t recipients);
/* Their results are durable, or there will be none. Spool writer. */
void in_core_remove(struct engine *e, struct message *m, uint32_t recipients);
/* m has settled: it has no share left. Activator, once the writer's letter has said so. */
void in_core_settled(const struct message *m);
/* m is freed although it has not settled. At the stop, when no other thread is left. */
void in_core_abandon(struct engine *e, const struct message *m);

/* All together; any thread. */
uint64_t in_core_count(const struct engine *e);

#endif
