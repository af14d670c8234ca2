/* Mail of another node's log on its way into this spool: who read the log hands it over as a spool of
 * its own, and the spool writer takes it in, a piece with each transaction, message by message in the
 * order of their ids, with the mark that says how far it is (engine/cluster/adoption.h). What is
 * committed is told to the activator as mail that was queued.
 *
 * Concurrency: struct adoption is made by the thread that takes logs over and lent to the writer by
 * the pointer engine.adoption (release, acquire); the writer takes the pointer back to NULL when it
 * has ended with it. The figures are atomic. */
#ifndef ENGINE_ADOPTER_H
#define ENGINE_ADOPTER_H

#include "base/attr.h"
#include "engine/spool/spool_change.h"
#include "engine/spool/spool_store.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct engine;
struct outbox;

struct adoption {
    /* set by who hands it over */
    uint16_t log;                /* its number */
    uint64_t from;               /* mark from which it goes on; 0: from the start */
    struct spool_reader *reader; /* of the spool that was made of it; the writer's meanwhile */
    void (*wake)(void *ctx);     /* when it has ended */
    void *ctx;

    /* any thread, atomic */
    _Atomic int state;                     /* enum adoption_state; release, acquire */
    _Atomic uint64_t messages, renumbered; /* that were taken in */
};

enum adoption_state { ADOPTION_UNDER_WAY, ADOPTION_ENDED, ADOPTION_FAILED };

#define ADOPTER_PLACES 512 /* messages in a transaction at most */

struct adopter_point {
    uint64_t id;     /* of the message under way, or of the last one that is through */
    uint64_t as;     /* its id here; 0: it is here already */
    bool is_between; /* it is through */
    struct spool_retelling at;
};

/* The writer's. */
struct adopter {
    struct engine *engine;
    struct adoption *job;                         /* NULL: none; the one that the points are of */
    struct adopter_point is, will;                /* as committed; by the transaction under way */
    struct spool_position places[ADOPTER_PLACES]; /* [count]: of the transaction under way */
    uint32_t count;
    uint32_t renumbered;
    bool is_last; /* with it all is adopted */
    int error;    /* of the transaction under way */
};

/* Whether there is something to be taken in. */
bool adopter_is_due(const struct adopter *a);
/* A transaction begins. */
void adopter_begin(struct adopter *a);
/* Put the next piece into the transaction. The adoption fails with it. errors: of both stores: the
 * transaction must be aborted, and made again without the piece */
MUST_USE int adopter_put(struct adopter *a, struct spool_txn *txn);
/* In the transaction that began last. */
bool adopter_has_failed(const struct adopter *a);
void adopter_committed(struct adopter *a, struct outbox *to_activator);
/* The transaction failed: all of it is still to be done. */
void adopter_failed(struct adopter *a);

#endif
