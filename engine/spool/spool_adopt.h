/* Mail of another spool in this one: a message at a time under its own id, and the marks that say up to
 * where the logs of other spools were adopted (engine/cluster/adoption.h has the rules). A mark
 * is a record of the meta table for each log, never removed.
 *
 * Thread: the writer, but for what takes a reader. */
#ifndef ENGINE_SPOOL_ADOPT_H
#define ENGINE_SPOOL_ADOPT_H

#include "base/attr.h"
#include "engine/spool/spool_change.h"
#include "engine/spool/spool_store.h"

#include <stdbool.h>
#include <stdint.h>

/* The log was adopted up to this message; a mark never goes back. The listener is told.
 *
 * carried  number of the spool whose own mark this was; 0: none */
MUST_USE int spool_set_adopted(struct spool_txn *t, uint16_t log, uint64_t mark, uint16_t carried);
/* The same, and nobody is told. */
MUST_USE int spool_put_adopted(struct spool_txn *t, uint16_t log, uint64_t mark);
/* 0: nothing of it. errors: storage */
MUST_USE int spool_read_adopted(struct spool_reader *r, uint16_t log, uint64_t *ret_mark);
/* The mark of the least number from `from` on. errors: ERR_MISSING: there is none; storage */
MUST_USE int spool_next_adopted(struct spool_reader *r, uint32_t from, uint16_t *ret_log,
                                uint64_t *ret_mark);

/* Whether there is such a message. errors: ERR_MISSING, storage */
MUST_USE int spool_find(struct spool_txn *t, uint64_t id);

enum spool_meeting {
    SPOOL_MEETS_NONE,  /* the id is free here */
    SPOOL_MEETS_SAME,  /* this very message is here */
    SPOOL_MEETS_OTHER, /* another one has its id */
};
/* What a message of another spool meets here. errors: ERR_MISSING: it is not there; storage */
MUST_USE int spool_meet(struct spool_txn *t, struct spool_reader *other, uint64_t id,
                        enum spool_meeting *ret);

/* Make a change that another spool tells of in this one; the listener is told.
 *
 * log  number of that spool
 * as   the id of the message here. With another one than it had, it loses its signatures, which are
 *      made anew */
MUST_USE int spool_adopt_change(struct spool_txn *t, const struct spool_change *change,
                                uint16_t log, uint64_t as);
/* A transaction ends behind the record of a message and not yet behind all of its states. Until the next
 * one begins the record is no message's: it waits among the staged, with the number of the log, and a
 * start that finds it there discards it. Nobody is told. errors: ERR_MISSING, of the first: there is no
 * such message; -ENOMEM, storage */
MUST_USE int spool_adopt_pause(struct spool_txn *t, uint64_t id, uint16_t log);
MUST_USE int spool_adopt_resume(struct spool_txn *t, uint64_t id);
/* false: what is staged is no such record. The slice lies in the value. */
bool spool_staged_message(struct slice staged, uint64_t id, uint16_t *ret_log, struct slice *ret);

/* Give a message its place in the queue, now that it is whole. The caller has burnt an id for the
 * place (spool_env.h: sequences stay below ids). errors: ERR_MISSING: there is no such message */
MUST_USE int spool_adopt_place(struct spool_txn *t, uint64_t id, struct spool_position *ret);

#endif
