/* An in-memory model of the spool: the same operations, and a text of everything in it that must
 * equal the text of the real one. Shared by the random test and the fault tests. */
#ifndef TESTS_SIM_SPOOL_MODEL_H
#define TESTS_SIM_SPOOL_MODEL_H

#include "base/buf.h"
#include "engine/spool/spool_store.h"
#include "tests/sim/suppress_model.h"

#include <stdbool.h>
#include <stdint.h>

#define MODEL_MESSAGES 64

struct model_message {
    uint64_t id;
    uint64_t seed; /* body and addresses follow from it */
    uint32_t body_bytes;
    uint32_t recipients;
    bool is_staged;      /* a reception that is not committed: not part of the text */
    bool is_journaled;   /* in the journal alone, until model_absorb */
    uint32_t chunks_put; /* of a staged reception */
    enum spool_class class;
    uint64_t order; /* within the class: number of the put, or the due time */
    bool has_retry;
    struct spool_retry retry;
    uint8_t *states;                /* [recipients], NULL until the first change */
    uint32_t *reason_numbers;       /* [recipients], 0 = none */
    struct spool_position position; /* in the real spool; meaningless without one */
};

struct model {
    uint64_t random; /* state of the generator of operations */
    uint64_t next_id, next_order, next_reason;
    uint64_t quarantined;
    uint32_t count;
    struct model_message messages[MODEL_MESSAGES];
    struct suppress_model suppressed;
};

void model_init(struct model *m, uint64_t seed);
void model_fini(struct model *m);
void model_copy(struct model *to, const struct model *from);
uint64_t model_random(struct model *m, uint64_t below);

/* One random operation, in the model and, when t is not NULL, in the spool. errors: the spool's */
MUST_USE int model_step(struct model *m, struct spool_txn *t);
/* The same for the journal: a small message, or the removal of one that is there; the batch is the
 * caller's to commit. Whatever it returns, the model has taken the step. errors: the spool's */
MUST_USE int model_journal_step(struct model *m, struct spool_store *store);
/* The tables take over what the journal holds. t NULL: in the model only. errors: the spool's */
MUST_USE int model_absorb(struct model *m, struct spool_txn *t);
/* What a start does: staged receptions are gone, journaled ones in the tables. */
void model_restart(struct model *m);
/* The positions of the messages as the real spool has them. */
void model_learn_positions(struct model *m, struct spool_reader *r);

/* Everything of the model, and of a spool's tables, as text. */
void model_text(const struct model *m, struct buf *out);
void spool_text(struct spool_reader *r, struct buf *out);

#endif
