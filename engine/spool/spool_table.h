/* Plain operations on the spool's tables inside a write transaction. Inside the spool files only.
 *
 * All of them: writer thread; storage errors are kept in the transaction (see spool_store.h) and
 * every later call returns them. Slices point into pages and are valid until the next change. */
#ifndef ENGINE_SPOOL_TABLE_H
#define ENGINE_SPOOL_TABLE_H

#include "engine/spool/spool_env.h"

/* Dooms the transaction; returns error. */
int spool_txn_fail(struct spool_txn *t, int error);

/* The table's cursor; NULL when the transaction is doomed. For tables whose keys are no struct
 * spool_key. */
MDB_cursor *spool_table_cursor(struct spool_txn *t, enum spool_table table);
/* The result of an LMDB call whose failure can only be the storage's. */
MUST_USE int spool_table_result(struct spool_txn *t, int rc);

/* Room for a record under a key that is most likely the highest: a page that fills up stays full
 * instead of being split in halves. The caller writes all the bytes before anything else.
 * errors: -EEXIST, storage */
MUST_USE int spool_table_append(struct spool_txn *t, enum spool_table table,
                                const struct spool_key *key, size_t bytes, void **ret);
/* Room for a record under any key, replacing what is there. */
MUST_USE int spool_table_put(struct spool_txn *t, enum spool_table table,
                             const struct spool_key *key, size_t bytes, void **ret);
/* errors: ERR_MISSING, storage */
MUST_USE int spool_table_get(struct spool_txn *t, enum spool_table table,
                             const struct spool_key *key, struct slice *ret);
/* As spool_table_get, and the table's cursor stands on the record. */
MUST_USE int spool_table_find(struct spool_txn *t, enum spool_table table,
                              const struct spool_key *key, struct slice *ret);
/* The first record at or after the key; the table's cursor stands on it. errors: as get */
MUST_USE int spool_table_seek(struct spool_txn *t, enum spool_table table,
                              const struct spool_key *from, struct slice *ret_key,
                              struct slice *ret_record);
/* The record after the one the cursor stands on. errors: as get */
MUST_USE int spool_table_next(struct spool_txn *t, enum spool_table table, struct slice *ret_key,
                              struct slice *ret_record);
/* errors: as get */
MUST_USE int spool_table_last(struct spool_txn *t, enum spool_table table, struct slice *ret_key);
/* The last record at or before the key. errors: as get */
MUST_USE int spool_table_seek_back(struct spool_txn *t, enum spool_table table,
                                   const struct spool_key *to, struct slice *ret_key);
/* Delete what the table's cursor stands on. */
MUST_USE int spool_table_del_here(struct spool_txn *t, enum spool_table table);
/* Delete a record; it need not be there. */
MUST_USE int spool_table_del(struct spool_txn *t, enum spool_table table,
                             const struct spool_key *key);
/* Costs no look-up in the tree. */
MUST_USE int spool_table_count(struct spool_txn *t, enum spool_table table, uint64_t *ret);

/* The first record of a message in a table keyed by id and number; the cursor stands on it.
 * errors: ERR_MISSING, storage */
MUST_USE int spool_parts_first(struct spool_txn *t, enum spool_table table, uint64_t id,
                               uint32_t *ret_number, struct slice *ret_record);
/* Delete records of a message until none is left or *ret_deleted, which counts on, is limit. */
MUST_USE int spool_parts_del(struct spool_txn *t, enum spool_table table, uint64_t id,
                             unsigned limit, unsigned *ret_deleted);

/* A number of the meta or the twin table. errors: ERR_MISSING, ERR_CORRUPT, storage */
MUST_USE int spool_get_number(struct spool_txn *t, enum spool_table table, const char *name,
                              uint64_t *ret);
MUST_USE int spool_put_number(struct spool_txn *t, enum spool_table table, const char *name,
                              uint64_t number);

/* All records of a message but its place in the queue; in spool_txn.c. */
MUST_USE int spool_remove_records(struct spool_txn *t, uint64_t id);
/* The entry of a message that has none; in spool_txn.c. */
MUST_USE int spool_queue_at(struct spool_txn *t, const struct spool_position *position);
/* An INCOMING entry of the next sequence for a message that has none; in spool_txn.c. */
MUST_USE int spool_queue_incoming(struct spool_txn *t, uint64_t id, uint32_t flow,
                                  struct spool_position *ret_position);

#endif
