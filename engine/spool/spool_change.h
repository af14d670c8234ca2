/* What the writer changes about messages, told to whoever keeps a copy of them elsewhere, and the
 * same changes made in another spool. A change says all that the copy needs, so nothing is read
 * back; what it says is in the bytes of the spool's own records (spool_record.h), which have
 * checksums under their keys.
 *
 * Places in the queue are no changes: a spool whose messages have none gives them places when it is
 * opened (spool_repair.h), by their retry records and by when their senders want them. A message
 * that moves to quarantine tells of nothing, so the copy keeps it as it was. Lists of suppressed
 * addresses are not told of either. */
#ifndef ENGINE_SPOOL_CHANGE_H
#define ENGINE_SPOOL_CHANGE_H

#include "base/attr.h"
#include "engine/spool/spool_store.h"

#include <stdbool.h>
#include <stdint.h>

enum spool_change_kind {
    SPOOL_CHANGE_MESSAGE,    /* bytes: its record. All of it is there: what is outside came before;
                           * number: of the spool that it was adopted from; 0: none */
    SPOOL_CHANGE_BODY,       /* number: of the chunk; bytes: its payload */
    SPOOL_CHANGE_RECIPIENTS, /* number: of the batch; bytes: packed addresses */
    SPOOL_CHANGE_RESULT,   /* number: of the recipient; bytes: 1, its state, which has no reason */
    SPOOL_CHANGE_REASON,   /* number: of the recipient; bytes: its record, which has the state */
    SPOOL_CHANGE_NOTIFIED, /* the sender was told of the failures that it has reasons for */
    SPOOL_CHANGE_RETRY,    /* bytes: the record */
    SPOOL_CHANGE_SIGNING,  /* bytes: the record */
    SPOOL_CHANGE_REMOVED, /* nothing of the message is to be delivered any more. Also of the first id
                            * that is not reserved, which no message has yet */
    SPOOL_CHANGE_BOUND,   /* id: how many deliveries a crash may repeat from now on */
    SPOOL_CHANGE_ADOPTED, /* number: of a spool; id: up to which message its log was adopted; bytes:
                            * empty, or 2: of the spool whose mark this was (adoption.h) */
    SPOOL_CHANGE_KIND_COUNT
};

struct spool_change {
    enum spool_change_kind kind;
    uint64_t id;        /* of the message, or as the kind says */
    uint32_t number;    /* as the kind says, or 0 */
    struct slice bytes; /* as the kind says, or empty; valid during the call */
};

/* Called for each change while a transaction or a batch of the journal is made, in order. What is
 * told counts only when that is committed. */
typedef void spool_listener(void *ctx, const struct spool_change *change);

/* From now on the listener is told; NULL: nobody is. Thread: the writer. */
void spool_store_listen(struct spool_store *s, spool_listener *tell, void *ctx);

/* The listener is told that the message is gone: the transaction does not store this one of the journal that it
 * absorbs, as its delivery has ended, or nothing was ever stored. */
void spool_tell_removed(struct spool_txn *t, uint64_t id);

/* Make a change in this spool. Again is no error, and what is said of a message that is not there
 * does nothing.
 *
 * errors  ERR_CORRUPT: the change is none that the spool would have told of; storage */
MUST_USE int spool_apply_change(struct spool_txn *t, const struct spool_change *change);

/* Tell of a message as it is in the tables, a piece at a time, so that its copy is whole again where
 * all that was told before is gone. */
struct spool_retelling {
    uint64_t id;    /* of the message under way; all zero: begin with the first one */
    uint32_t stage; /* of this file */
    uint32_t next;  /* number of the next piece of that stage */
    uint64_t after; /* messages up to this one are passed over; set at the beginning */
};

/* Go on by about so many bytes, from the newest commit. Between begin and end of a reader of this
 * thread; the listener that is told may be another than the store's.
 *
 * ret_bytes  what was told, about
 * errors     ERR_MISSING: all messages have been told of, and so have pieces that wait for theirs;
 *            ERR_AGAIN: a page cannot be read for now; storage. A message that is damaged is passed over */
MUST_USE int spool_retell(struct spool_reader *r, struct spool_retelling *at, size_t budget,
                          spool_listener *tell, void *ctx, size_t *ret_bytes);

/* Up to which message all are told: one that begins with nothing but this as `after` tells the rest, with
 * the message under way from its first piece on, and what is of no message once more. */
uint64_t spool_retelling_done(const struct spool_retelling *at);

/* The same of one message alone, from its first piece on. */
struct spool_retelling spool_retell_from(uint64_t id);
/* Its record was told, and not yet all that stands beside it. */
bool spool_retelling_has_record(const struct spool_retelling *at);
/* The whole message was told. */
bool spool_retelling_is_through(const struct spool_retelling *at);
/* Errors as above, without ERR_MISSING. */
MUST_USE int spool_retell_one(struct spool_reader *r, struct spool_retelling *at, size_t budget,
                              spool_listener *tell, void *ctx, size_t *ret_bytes);

/* What telling of everything would take, about: pages of the tables that have what is told. Between
 * begin and end of a reader. errors: storage */
MUST_USE int spool_retelling_bytes(const struct spool_reader *r, uint64_t *ret);

#endif
