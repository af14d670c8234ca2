/* One message for us on its way: the worker that received it fills it and sends it to the thread that
 * hears (LETTER_HEAR), which reads it and sends what it learned to the spool writer (LETTER_HEARD), which
 * makes that durable and sends it back to the worker (LETTER_HEARING_DONE). One owner at a time. */
#ifndef ENGINE_HEARING_H
#define ENGINE_HEARING_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "engine/config/label.h"
#include "engine/heard/heard.h"
#include "engine/spool/spool_suppress.h"

#include <stdbool.h>
#include <stdint.h>

/* Hearings that exist at a time, all workers together; engine/inbound/inbound_transaction.c says what becomes
 * of more. */
#define HEARINGS_MAX 128

/* A recipient who is to get no more mail, as far as the rules of `suppression` say so. */
struct hearing_cause {
    enum spool_suppress_reason reason;
    struct label tenant;
    char address[HEARD_ADDRESS_BYTES];
    uint64_t message_id; /* the mail that it is about */
    char source[SPOOL_SUPPRESS_SOURCE_MAX];
};

struct hearing {
    /* set by the worker */
    uint64_t id; /* of the reception */
    uint16_t worker;
    void *connection; /* not looked into by others */
    usec_t received;  /* wall */
    char recipient[HEARD_ADDRESS_BYTES];
    char peer[64];      /* who brought it */
    struct buf content; /* its first HEARD_BYTES_MAX bytes */
    bool is_cut;

    /* set by the thread that hears */
    struct buf lines; /* of the event log */
    uint32_t cause_count;
    struct hearing_cause causes[HEARD_RECIPIENT_MAX];

    /* set by who answers: 0, or why it is not durable */
    int error;
};

struct hearing *hearing_new(void);    /* NULL: out of memory */
void hearing_free(struct hearing *h); /* accepts NULL */

#endif
