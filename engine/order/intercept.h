/* Recipients that a standing order keeps from delivery, on their way to the spool writer: suspended
 * ones wait in the queue, bounced ones go back to their sender, dropped ones go without a word.
 * Recipients that are suppressed go as dropped ones do.
 * Mail that its sender scheduled for later counts as suspended until then, whatever woke it.
 *
 * Used where recipients are about to be handed to a scheduler (activator) and where they come back
 * from one unsent (scheduler threads); one at a time, inside one pass. */
#ifndef ENGINE_INTERCEPT_H
#define ENGINE_INTERCEPT_H

#include "base/attr.h"
#include "base/slice.h"
#include "engine/order/order_book.h"
#include "engine/post/result.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct message;
struct outbox;
struct spool_envelope;
struct spool_position;
struct spool_suppression;

/* Where a recipient's mail goes. */
struct intercept_way {
    struct slice domain;  /* of the recipient */
    struct slice nexthop; /* where its route leads */
    struct slice
        site; /* that the nexthop belongs to, as the cores name it; "": nobody knows yet, and a
                             scheduler judges again */
    size_t transport; /* index */
};

/* Judge one recipient. true: an order, or the time that its sender asked for, keeps it from
 * delivery; false, and cheap when there are no orders: it may be delivered.
 *
 * ret         its reason is valid until the end of the pass */
MUST_USE bool intercept_judge(const struct engine *e, const struct spool_envelope *envelope,
                              const struct intercept_way *way, struct order_verdict *ret);

/* Whether a whole message is suspended, whoever its recipients are, by orders or because it is
 * scheduled for later. false when an order may bounce or drop some recipient.
 *
 * ret         as of intercept_judge */
MUST_USE bool intercept_suspends(const struct engine *e, const struct spool_envelope *envelope,
                                 struct order_verdict *ret);
/* Whether the message's recipients are new to the order's count. Mail that was queued when a
 * suspension was given is counted then (order_report.c). Mail that came later counts when it is
 * first intercepted, and not again when it returns from the held class. */
MUST_USE bool intercept_is_first(const struct order_verdict *v,
                                 const struct spool_envelope *envelope,
                                 const struct spool_position *position);

/* Results gathered for one message; neighbours with the same verdict share one. */
struct intercept {
    struct engine *engine;
    struct outbox *to_writer;
    struct message *message;
    bool
        is_counted; /* its recipients are counted already (in_core.h); else by the activator here */
    struct result *result;
    uint64_t order;
    uint32_t met; /* recipients of `result` that the order had not met before */
    enum result_kind kind;
    uint32_t taken; /* recipients, all together */
};

void intercept_init(struct intercept *s, struct engine *engine, struct outbox *to_writer,
                    struct message *message, bool is_counted);
/* One recipient, whose address is loaded. */
void intercept_take(struct intercept *s, uint32_t index, const struct order_verdict *verdict);
/* One recipient that is on a list of suppressed ones: it ends, and nobody is told but the event log. */
void intercept_suppress(struct intercept *s, uint32_t index, const struct spool_suppression *found);
/* Sends what was gathered: the account of the message may end with it. */
void intercept_flush(struct intercept *s);

#endif
