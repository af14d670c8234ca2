/* Messages that are durable in the journal alone: received moments ago, most of them delivered
 * before the tables have to know them. Each is held by a reference and keeps its content in memory.
 *
 * Owner: the spool writer. A message leaves by its removal (journaled_drop) or when a transaction
 * has taken all of them over (journaled_absorbed). */
#ifndef ENGINE_JOURNALED_H
#define ENGINE_JOURNALED_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct intake;
struct message;
struct spool_txn;

enum { JOURNALED_PLACES = 1 << 14 };

struct journaled {
    struct list messages; /* in the order of their places in the queue */
    size_t bytes;         /* contents of these messages */
    uint32_t unannounced; /* messages of the list that the activator does not have */
    uint32_t unannounced_of[JOURNALED_PLACES]; /* the same, by number of the flow */
    usec_t unannounced_since;                  /* monotonic: since when `unannounced` is above 0 */
};

void journaled_init(struct journaled *j);
/* Lets go of all of them, at shutdown. */
void journaled_fini(struct journaled *j);

/* A committed reception; takes over in->message's reference and the bytes of in->body.
 *
 * is_announced  the activator gets the message as well (with a reference of its own) */
void journaled_add(struct journaled *j, struct intake *in, bool is_announced, usec_t now);
/* The activator gave the message back: the message is announced to it again once the
 * tables have it. */
void journaled_take_back(struct journaled *j, struct message *m, usec_t now);
/* Whether the activator does not have some message of the flow, or of another whose number falls on the
 * same place. */
static inline bool journaled_has_unannounced(const struct journaled *j, uint32_t flow)
{
    return j->unannounced_of[flow % JOURNALED_PLACES] > 0;
}

/* The message's removal is durable. Does nothing for a message that is not in the list. */
void journaled_drop(struct journaled *j, struct message *m);

/* When the messages must be moved to the tables (monotonic); USEC_NEVER when there are none. */
usec_t journaled_due(const struct journaled *j);

/* The newest one; NULL: there is none. */
struct message *journaled_last(const struct journaled *j);
/* Put the messages behind one of them into a transaction, or all (NULL), except those whose recipients
 * are all delivered: these it removes. errors: of the store; -EEXIST: another message has the id of one */
MUST_USE int journaled_put(const struct journaled *j, struct spool_txn *txn,
                           const struct message *behind);
/* That transaction is durable: the list becomes empty, and each content is freed when nobody reads
 * it any more. announce(ctx, flow, place) is called for each flow with messages that the activator does
 * not have, at least for the newest of them. */
void journaled_absorbed(struct journaled *j,
                        void (*announce)(void *ctx, uint32_t flow, uint64_t place), void *ctx);

#endif
