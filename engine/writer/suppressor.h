/* What fills the lists of suppressed recipients, inside the spool writer's transaction: refusals of a
 * recipient by the rules of `suppression`, what comes back from a recipient (a complaint, an
 * unsubscription), and requests. What commits with the transaction is in force from then on.
 *
 * Everything runs on the spool writer. Lines of the event log are gathered for the transaction under way
 * and taken by its owner before the commit; one that is repeated after a failure may repeat them. */
#ifndef ENGINE_SUPPRESSOR_H
#define ENGINE_SUPPRESSOR_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "engine/spool/spool_suppress.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct message;
struct outbox;
struct spool_txn;
struct suppress_batch;

/* Batches that one transaction takes: mail does not wait for more. */
#define SUPPRESSOR_BATCHES 4

struct suppressor {
    struct engine *engine;
    struct buf lines;                /* of the transaction under way */
    uint64_t added, removed;         /* by it */
    usec_t swept;                    /* monotonic */
    struct suppress_batch **waiting; /* [waiting_count], in the order of their letters */
    uint32_t waiting_count, waiting_capacity;
    uint32_t put_count; /* of these, in the transaction under way */
};

void suppressor_init(struct suppressor *s, struct engine *engine);
/* Drops what waits; at shutdown. */
void suppressor_fini(struct suppressor *s);

/* A transaction begins; what an earlier one that failed had gathered is forgotten. */
void suppressor_begin(struct suppressor *s);
/* What the message's fresh results mean for its recipients by the rules of its tenant. Refusals for the
 * sender's address, for content or policy mean nothing here. errors: storage */
MUST_USE int suppressor_results(struct suppressor *s, struct spool_txn *txn,
                                const struct message *m);

/* Something that was learned of a recipient otherwise. */
struct suppressor_cause {
    enum spool_suppress_reason reason; /* whose rule decides: complaint, unsubscribe, ... */
    struct slice tenant;  /* whose mail it was; "": nobody's, which is the list for all */
    struct slice address; /* local@domain */
    uint64_t message_id;  /* the mail that it is about: counts once for a rule */
    struct slice source;  /* for people, shown with the entry: "complaint by example.com" */
    usec_t now;           /* wall */
};
/* Apply the rule. ret_is_added: a new entry is in force with this transaction; may be NULL.
 * errors: storage. What is no address adds nothing. */
MUST_USE int suppressor_note(struct suppressor *s, struct spool_txn *txn,
                             const struct suppressor_cause *cause, bool *ret_is_added);

/* Takes the batch over until it is sent back (LETTER_SUPPRESSED). Out of memory: at once, with its
 * error. */
void suppressor_take(struct suppressor *s, struct suppress_batch *b, struct outbox *to_http);
/* Whether a batch waits for a transaction. */
bool suppressor_is_due(const struct suppressor *s);
/* Put the first of the waiting batches, and sweep now and then. errors: storage */
MUST_USE int suppressor_put(struct suppressor *s, struct spool_txn *txn);

/* The transaction is durable: what it had put is answered. */
void suppressor_committed(struct suppressor *s, struct outbox *to_http);
/* All that waits is refused. */
void suppressor_refuse(struct suppressor *s, int err, struct outbox *to_http);

#endif
