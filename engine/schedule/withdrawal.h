/* When orders change, mail that waits in a scheduler and may be concerned is taken out of it again,
 * with the result that the orders give it. So is all that waits for a transport that is gone: it is
 * parked until now, which counts as no attempt, and becomes active again by another route. This also
 * makes a scheduler try destinations at once when an operator asks for it. On the scheduler's
 * thread. */
#ifndef ENGINE_WITHDRAWAL_H
#define ENGINE_WITHDRAWAL_H

#include "base/attr.h"
#include "base/clock.h"

#include <stdint.h>

struct dispatch;
struct engine;
struct message;
struct outbox;
struct sched;
struct sched_action;
struct sched_destination;
struct selector;
struct submission;

/* Withdraw every entry that waits and that some order may be about. */
void withdrawal_apply(struct engine *e, struct sched *core, uint16_t transport, usec_t now);
/* The same when the orders are newer than those that a submission was judged by: it waited for its
 * signatures, and LETTER_ORDERS may have overtaken it. */
void withdrawal_apply_newer(struct engine *e, struct sched *core, const struct submission *s,
                            usec_t now);
/* SCHED_DELIVER of an entry whose tenant or campaign waits at the site, as a reply there asked for: it
 * may not go. Orders know a site only where its destinations are known, so this counts for those that
 * join it later as well. Returns the id of its message; 0: it may go. The entry is to be reported as throttled; then withdrawal_at_site takes what
 * waits of its message for the destination out of the core. */
MUST_USE uint64_t withdrawal_is_due(const struct engine *e, const struct dispatch *p,
                                    const struct sched_action *a);
void withdrawal_at_site(struct sched *core, uint64_t message_id,
                        const struct sched_destination *destination, usec_t now);
/* Withdraw every entry that waits: the transport is gone. */
void withdrawal_give_back(struct sched *core, usec_t now);
/* A message gives its place in memory back, if nothing of it was selected; if it cannot, the
 * activator is told. The letter's reference is taken. */
void withdrawal_give_way(struct sched *core, struct outbox *to_activator, struct message *m,
                         usec_t now);
/* Give the recipients of a SCHED_DEFER with is_withdrawn the result that the orders want, or none
 * when their message gives its place back. One that no order concerns is parked until now, so that
 * it is tried again at once. */
void withdrawal_result(struct engine *e, struct outbox *to_writer, uint16_t transport,
                       const struct sched_action *a);
/* Try dead destinations at once.
 *
 * wanted   selects destinations by destination name, or by a domain that is the name; all of them
 *          when it has neither. The hosts of all destinations may be tried again in any case */
void withdrawal_revive(struct sched *core, const struct selector *wanted, usec_t now);

#endif
