/* One reception on its way into the spool. Passed by ownership: the worker that receives (for
 * injected mail the http thread) fills it and sends it to the spool writer (LETTER_STAGE for a part
 * of a large message, LETTER_STORE for the last one); the writer sends it back when the part is
 * committed or refused, so at most one of them is under way for a message. */
#ifndef ENGINE_INTAKE_H
#define ENGINE_INTAKE_H

#include "base/attr.h"
#include "base/buf.h"
#include "engine/spool/spool_store.h"

#include <stdbool.h>
#include <stdint.h>

struct message;
struct signing;

struct intake {
    /* filled by the worker */
    struct spool_envelope envelope; /* slices into `strings` */
    struct buf strings;
    struct buf packed; /* recipients not yet staged, at most one batch */
    uint32_t packed_count;
    uint32_t batch;          /* number of the batch in `packed` */
    struct buf body;         /* bytes not yet staged, at most one chunk while staged */
    uint32_t chunk;          /* number of the chunk in `body` */
    bool is_staged;          /* some part is in the spool already */
    bool puts_recipients;    /* this STAGE letter carries `packed` */
    bool puts_body;          /* this STAGE letter carries `body` */
    bool is_class_lowered;   /* its tenant may not use the class that it would have */
    struct signing *signing; /* what is known of its signatures, until the message has it; NULL */
    struct message *message; /* in memory for activation at once; NULL when too large */

    /* where the answer goes */
    uint16_t worker;  /* engine.worker_count: the http thread; one more: who reports on TLS */
    void *connection; /* the receiving side, not looked into; kept alive until the answer */

    /* filled by the writer */
    bool is_last; /* came as LETTER_STORE, or is a notice */
    struct spool_position position;
    bool is_counted; /* in the number of messages that its tenant has queued */
    int error;       /* 0 or what refused it */
};

/* NULL when out of memory. */
struct intake *intake_new(void);
void intake_free(struct intake *in); /* accepts NULL */
/* Put what a STAGE or STORE letter brings, or a notice, into a transaction.
 * errors: of the store; ERR_LIMIT, -EEXIST, ERR_MISSING and ERR_CORRUPT concern this one alone */
MUST_USE int intake_put(struct intake *in, struct spool_txn *txn);
/* Whether it may go to the journal: whole, small, and in memory for its delivery. */
MUST_USE bool intake_fits_journal(const struct intake *in);
/* Put it into the journal's batch. errors: of spool_journal_message */
MUST_USE int intake_put_journal(struct intake *in, struct spool_store *store);
/* A message object that can be activated without reading the spool; NULL for large envelopes. It takes
 * over what is known of its signatures. */
struct message *intake_message(struct intake *in);

#endif
