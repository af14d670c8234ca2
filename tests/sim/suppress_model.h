/* An in-memory model of the spool's lists of suppressed recipients and of their strikes: the part of
 * spool_model.h that is about no mail. */
#ifndef TESTS_SIM_SUPPRESS_MODEL_H
#define TESTS_SIM_SUPPRESS_MODEL_H

#include "base/attr.h"
#include "base/buf.h"
#include "engine/spool/spool_store.h"

#include <stdint.h>

/* Half of them in the list for all, half in a tenant's; enough for branches above their leaves. */
#define SUPPRESS_MODEL_ENTRIES 120
#define SUPPRESS_MODEL_STRIKES 12

struct suppress_model {
    uint32_t versions[SUPPRESS_MODEL_ENTRIES]; /* what the entry says follows from it; 0: none */
    uint32_t strikes[SUPPRESS_MODEL_STRIKES];  /* that count, by recipient */
    uint32_t next_version;
};

/* What is done follows from `chance`: a run of entries comes or is replaced, one goes, or a recipient has
 * a strike. t NULL: in the model only. errors: the spool's; ERR_CORRUPT: it counted otherwise */
MUST_USE int suppress_model_step(struct suppress_model *m, struct spool_txn *t, uint64_t chance);
/* One more strike for each recipient counts what the model says; t is to be aborted.
 * errors: as above */
MUST_USE int suppress_model_check_strikes(const struct suppress_model *m, struct spool_txn *t);

/* All entries of the model, and of a spool: walked in order, and each looked up. */
void suppress_model_text(const struct suppress_model *m, struct buf *out);
void suppress_text(struct spool_reader *r, struct buf *out);

#endif
