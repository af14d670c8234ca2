/* One active message in memory: its envelope, the recipients that are still undone, and the
 * account of this activation. A message that is not active has no object at all.
 *
 * Owners: "set at creation" is constant and read by every thread that holds a reference; the
 * account belongs to the spool writer from the moment the message is handed to a scheduler until
 * it settles. References: one of the activator's, which the writer sends back when the message has
 * settled, and one for each scheduler that has a part of it (dropped when it has finished). */
#ifndef ENGINE_MESSAGE_H
#define ENGINE_MESSAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/slice.h"
#include "engine/spool_store.h"

struct result;

struct message_recipient {
    struct slice address;
    uint32_t index; /* its number in the spool */
};

struct message {
    /* set at creation */
    struct spool_envelope envelope; /* slices point into this object's own block */
    uint32_t count;                 /* undone recipients, those below */
    struct message_recipient *recipients;
    char *strings_end;              /* where message_append continues */
    usec_t activated;               /* wall */
    struct spool_position position; /* its place in the queue table */
    struct spool_retry retry;       /* as stored before this activation */

    /* spool writer only */
    uint32_t pending;      /* recipients without a result */
    struct result *fresh;   /* results that are not durable yet */
    struct result *kept;    /* durable results with a deferred or failed recipient */
    struct list touched;    /* linked while `fresh` is not empty */
    bool is_settled;        /* the transaction being written ends this activation */
    bool is_expiry_logged;
    bool has_forgone;      /* some recipient's result could not be made: all of it is tried again */

    /* activator only */
    struct list active;    /* from activation until nobody else holds it */

    /* any thread, atomic */
    _Atomic uint32_t references;
};

/* A message with the first `count` recipients of a packed list (spool_store.h); strings are copied.
 * NULL when out of memory. The caller owns the one reference. */
struct message *message_new(const struct spool_envelope *envelope, struct slice packed,
                            uint32_t count);

/* For an envelope of many batches: reserve room, then append. errors: none after reserve */
struct message *message_reserve(const struct spool_envelope *envelope, uint32_t count,
                                size_t address_bytes);
void message_append(struct message *m, struct slice address, uint32_t index);

void message_get(struct message *m);
void message_put(struct message *m);
/* True when the caller's reference is the only one left. */
MUST_USE bool message_is_last(const struct message *m);
/* Free it and its results whatever the references say: at shutdown, when all holders are gone. */
void message_destroy(struct message *m);

/* 16 lower-case hexadecimal digits. */
#define MESSAGE_ID_TEXT 17
void message_id_format(uint64_t id, char ret[MESSAGE_ID_TEXT]);
MUST_USE bool message_id_parse(struct slice text, uint64_t *ret);

#endif
