/* Mail that is in a scheduler when orders change: taken out of it again, with the result that the
 * orders give it; and destinations that an operator wants tried at once. On the scheduler's thread.
 */
#ifndef ENGINE_WITHDRAWAL_H
#define ENGINE_WITHDRAWAL_H

#include "base/clock.h"

#include <stdint.h>

struct engine;
struct outbox;
struct sched;
struct sched_action;
struct selector;

/* Withdraw every entry that waits and that some order may be about. */
void withdrawal_apply(struct engine *e, struct sched *core, uint16_t transport, usec_t now);
/* What a SCHED_DEFER with is_withdrawn means for its recipients: what the orders say of each; one
 * that no order is about waits in the queue for no time at all. */
void withdrawal_result(struct engine *e, struct outbox *to_writer, uint16_t transport,
                       const struct sched_action *a);
/* Try dead destinations at once.
 *
 * wanted   by name, or by the domain that it is the name of; all when it names neither. All hosts
 *          may be tried in any case */
void withdrawal_revive(struct sched *core, const struct selector *wanted, usec_t now);

#endif
