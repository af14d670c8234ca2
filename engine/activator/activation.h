/* Making a message active: loading it from the spool, routing its recipients, and handing them to
 * the schedulers in portions that their recipient pools ask for (scheduler-semantics 6). Everything
 * here runs on the activator's thread. */
#ifndef ENGINE_ACTIVATION_H
#define ENGINE_ACTIVATION_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/mailbox.h"
#include "engine/spool/spool_store.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct flow_names;
struct message;
struct selector;

struct activation {
    struct engine *engine;
    struct flow_names *names;    /* of flows; the activator gives back what activation takes */
    struct spool_reader *reader; /* must be open for all functions but activation_fresh */
    struct outbox *to_writer;    /* of the activator's post, like the others */
    struct outbox *to_scheds;    /* [engine->sched_count] */
    struct outbox *to_signers;   /* [engine->signer_count] */
};

/* How many recipients the limits let a message bring into memory at first (scheduler-semantics
 * 4.2), at least message_recipient_minimum. */
uint32_t activation_limit(const struct activation *a);

/* Activate a message that arrived just now and has all its recipients in memory. errors: -ENOMEM;
 * nothing was handed over, the caller still owns the message. */
MUST_USE int activation_fresh(struct activation *a, struct message *m);
/* Read a message from the spool and activate it. *ret is active: results will be counted in it.
 * errors: ERR_CORRUPT, ERR_MISSING (its records are damaged), -ENOMEM, other errors of the store */
MUST_USE int activation_stored(struct activation *a, const struct spool_position *position,
                               struct message **ret);

/* Whether an order suspends a whole message that is not active, whoever its recipients are, so that
 * it need not be loaded. Cheap when there are no orders.
 *
 * ret_until   wall: when the suspension ends, or when the message expires if that is earlier */
MUST_USE bool activation_suspended(struct activation *a, const struct spool_position *position,
                                   usec_t *ret_until);
/* Whether the selector is about some recipient of a message that is not active.
 *
 * ret              false for a message that cannot be read
 * ret_not_before   set when the message could be read
 * errors           ERR_AGAIN: it cannot be read for now */
MUST_USE int activation_matches(struct activation *a, const struct spool_position *position,
                                const struct selector *wanted, bool *ret, usec_t *ret_not_before);
/* Whether a held message waits for longer than it has to: orders, as they are now and with the
 * settings in force, let some recipient go before the message's time. errors: as above */
MUST_USE int activation_is_free(struct activation *a, const struct spool_position *position,
                                bool *ret);
/* Whether some order in force may bounce or drop recipients of a message that is not active.
 * errors: as above */
MUST_USE int activation_may_end(struct activation *a, const struct spool_position *position,
                                bool *ret);

/* A scheduler's pool has room for more recipients of a message (SCHED_READ). */
struct read_request {
    struct message *message; /* held by the scheduler's reference until the answer */
    uint16_t transport;
    uint32_t wanted;
};
/* Answers with LETTER_MORE, even when nothing can be read. */
void activation_read(struct activation *a, const struct read_request *request);

#endif
