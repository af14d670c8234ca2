/* Transactions and the plain operations on tables inside them: the only writing calls to LMDB. Used
 * by spool_txn.c and spool_repair.c; knows keys and bytes, not messages. */
#include "engine/spool/spool_table.h"

#include "base/error.h"
#include "engine/spool/spool_journal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

/* Faults in large values are dealt with by showing the file again: their records fail until
 * somebody removes them. Any other page needs to be looked at, and nobody may use the map
 * meanwhile. */
static void settle_faults(struct spool_store *s)
{
    uint64_t faults = spool_guard_faults(&s->guard);
    if (faults == atomic_load_explicit(&s->faults_settled, memory_order_relaxed)) {
        return;
    }
    if (spool_guard_has_tree_page(&s->guard)) {
        s->must_reopen = true;
        return;
    }
    spool_guard_uncover(&s->guard);
    atomic_store_explicit(&s->faults_settled, faults, memory_order_relaxed);
}

int spool_begin(struct spool_store *s, struct spool_txn **ret)
{
    struct spool_txn *t = &s->txn;
    assert(t->txn == NULL);
    settle_faults(s);
    if (spool_store_must_reopen(s)) {
        return -EIO;
    }
    t->faults = atomic_load_explicit(&s->faults_settled, memory_order_relaxed);
    int rc = mdb_txn_begin(s->env, NULL, 0, &t->txn);
    if (rc != 0) {
        t->txn = NULL;
        /* A panic that a commit did not show; whatever it was, only a new environment helps. */
        s->must_reopen = rc == MDB_PANIC;
        return spool_error(rc);
    }
    assert(s->flows.touched == NULL);
    memset(t->cursors, 0, sizeof(t->cursors));
    t->error = 0;
    t->generation = 0;
    s->suppress.is_changed = s->suppress.has_added = false;
    *ret = t;
    return 0;
}

void spool_abort(struct spool_txn *t)
{
    if (t != NULL && t->txn != NULL) {
        mdb_txn_abort(t->txn);
        t->txn = NULL;
        spool_flows_aborted(&t->store->flows);
    }
}

/* LMDB reports a write that was cut short as EIO; what cuts writes short is a full disk. */
static int write_error(const struct spool_store *s, int rc)
{
    enum { NEARLY_NOTHING = 1 << 20 };
    struct statvfs disk;
    if (rc == EIO && fstatvfs(s->folder_fd, &disk) == 0 &&
        (uint64_t)disk.f_bavail * disk.f_frsize < NEARLY_NOTHING) {
        return -ENOSPC;
    }
    return spool_error(rc);
}

int spool_commit(struct spool_txn *t)
{
    if (t->error != 0) {
        spool_abort(t);
        return t->error;
    }
    spool_guard_begin_commit(&t->store->guard);
    if (spool_guard_faults(&t->store->guard) != t->faults) {
        spool_guard_end_commit(&t->store->guard);
        spool_abort(t); /* the transaction may have used a covered page; see spool_guard.h */
        return -EIO;
    }
    int rc = mdb_txn_commit(t->txn);
    spool_guard_end_commit(&t->store->guard);
    t->txn = NULL;
    if (rc != 0) {
        /* A failed write or sync: what the page cache holds now need not be on the disk. */
        spool_flows_aborted(&t->store->flows);
        t->store->must_reopen = true;
        return write_error(t->store, rc);
    }
    spool_note_commit(t->store);
    spool_flows_committed(&t->store->flows);
    spool_suppress_committed(t->store);
    if (t->generation != 0) {
        spool_journal_restart(t->store, t->generation);
    }
    return 0;
}

int spool_txn_fail(struct spool_txn *t, int error)
{
    if (t->error == 0) {
        t->error = error;
    }
    return error;
}

int spool_table_result(struct spool_txn *t, int rc)
{
    if (rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND) {
        t->store->must_reopen = t->store->must_look = true;
    }
    return rc == 0 ? 0 : spool_txn_fail(t, write_error(t->store, rc));
}

MDB_cursor *spool_table_cursor(struct spool_txn *t, enum spool_table table)
{
    if (t->error == 0 && t->cursors[table] == NULL) {
        int rc = mdb_cursor_open(t->txn, t->store->dbi[table], &t->cursors[table]);
        if (rc != 0) {
            t->cursors[table] = NULL;
            (void)spool_txn_fail(t, spool_error(rc)); /* kept in t->error */
        }
    }
    return t->error == 0 ? t->cursors[table] : NULL;
}

int spool_table_append(struct spool_txn *t, enum spool_table table, const struct spool_key *key,
                       size_t bytes, void **ret)
{
    MDB_cursor *cursor = spool_table_cursor(t, table);
    if (cursor == NULL) {
        return t->error;
    }
    MDB_val k = spool_val(key);
    MDB_val v = {bytes, NULL};
    int rc = mdb_cursor_put(cursor, &k, &v, MDB_APPEND | MDB_RESERVE);
    if (rc == MDB_KEYEXIST) {
        v = (MDB_val){bytes, NULL};
        rc = mdb_cursor_put(cursor, &k, &v, MDB_NOOVERWRITE | MDB_RESERVE);
        if (rc == MDB_KEYEXIST) {
            return -EEXIST;
        }
    }
    if (rc != 0) {
        return spool_table_result(t, rc);
    }
    *ret = v.mv_data;
    return 0;
}

int spool_table_put(struct spool_txn *t, enum spool_table table, const struct spool_key *key,
                    size_t bytes, void **ret)
{
    MDB_cursor *cursor = spool_table_cursor(t, table);
    if (cursor == NULL) {
        return t->error;
    }
    MDB_val k = spool_val(key);
    MDB_val v = {bytes, NULL};
    int rc = mdb_cursor_put(cursor, &k, &v, MDB_RESERVE);
    if (rc != 0) {
        return spool_table_result(t, rc);
    }
    *ret = v.mv_data;
    return 0;
}

int spool_table_get(struct spool_txn *t, enum spool_table table, const struct spool_key *key,
                    struct slice *ret)
{
    if (t->error != 0) {
        return t->error;
    }
    MDB_val k = spool_val(key);
    MDB_val v;
    int rc = mdb_get(t->txn, t->store->dbi[table], &k, &v);
    if (rc == MDB_NOTFOUND) {
        return ERR_MISSING;
    }
    if (rc != 0) {
        return spool_table_result(t, rc);
    }
    *ret = spool_slice(&v);
    return 0;
}

static int cursor_get(struct spool_txn *t, enum spool_table table, const struct spool_key *key,
                      MDB_cursor_op op, struct slice *ret_key, struct slice *ret_record)
{
    MDB_cursor *cursor = spool_table_cursor(t, table);
    if (cursor == NULL) {
        return t->error;
    }
    MDB_val k = key == NULL ? (MDB_val){0, NULL} : spool_val(key);
    MDB_val v;
    int rc = mdb_cursor_get(cursor, &k, &v, op);
    if (rc == MDB_NOTFOUND) {
        return ERR_MISSING;
    }
    if (rc != 0) {
        return spool_table_result(t, rc);
    }
    *ret_key = spool_slice(&k);
    *ret_record = spool_slice(&v);
    return 0;
}

int spool_table_find(struct spool_txn *t, enum spool_table table, const struct spool_key *key,
                     struct slice *ret)
{
    struct slice found;
    return cursor_get(t, table, key, MDB_SET_KEY, &found, ret);
}

int spool_table_seek(struct spool_txn *t, enum spool_table table, const struct spool_key *from,
                     struct slice *ret_key, struct slice *ret_record)
{
    return cursor_get(t, table, from, MDB_SET_RANGE, ret_key, ret_record);
}

int spool_table_next(struct spool_txn *t, enum spool_table table, struct slice *ret_key,
                     struct slice *ret_record)
{
    return cursor_get(t, table, NULL, MDB_NEXT, ret_key, ret_record);
}

int spool_table_last(struct spool_txn *t, enum spool_table table, struct slice *ret_key)
{
    struct slice record;
    return cursor_get(t, table, NULL, MDB_LAST, ret_key, &record);
}

int spool_table_seek_back(struct spool_txn *t, enum spool_table table, const struct spool_key *to,
                          struct slice *ret_key)
{
    struct slice record;
    int r = cursor_get(t, table, to, MDB_SET_RANGE, ret_key, &record);
    if (r == ERR_MISSING) {
        return cursor_get(t, table, NULL, MDB_LAST, ret_key, &record);
    }
    bool is_it = r == 0 && slice_eq(*ret_key, slice_make((const char *)to->bytes, to->len));
    return r != 0 || is_it ? r : cursor_get(t, table, NULL, MDB_PREV, ret_key, &record);
}

/* LMDB frees the pages that the head of a large value names, whatever they are. */
static int look_at_head(struct spool_txn *t, const MDB_val *value)
{
    struct spool_store *s = t->store;
    if (!spool_is_large(s, value->mv_data)) {
        return 0;
    }
    const char *page = (const char *)value->mv_data - SPOOL_PAGE_HEAD;
    uint64_t number = (uint64_t)(page - s->guard.base) / s->guard.page_bytes;
    if (spool_large_is_sound(page, number,
                             spool_large_pages(value->mv_size, s->guard.page_bytes))) {
        return 0;
    }
    if (s->suspect_count < SPOOL_GUARD_PAGES) {
        s->suspects[s->suspect_count++] = number;
    }
    s->must_reopen = true;
    return spool_txn_fail(t, -EUCLEAN);
}

int spool_table_del_here(struct spool_txn *t, enum spool_table table)
{
    MDB_val k;
    MDB_val v;
    int r = spool_table_result(t, mdb_cursor_get(t->cursors[table], &k, &v, MDB_GET_CURRENT));
    if (r == 0) {
        r = look_at_head(t, &v);
    }
    if (r != 0) {
        return r;
    }
    return spool_table_result(t, mdb_cursor_del(t->cursors[table], 0));
}

int spool_table_del(struct spool_txn *t, enum spool_table table, const struct spool_key *key)
{
    struct slice record;
    int r = spool_table_find(t, table, key, &record);
    if (r != 0) {
        return r == ERR_MISSING ? 0 : r;
    }
    return spool_table_del_here(t, table);
}

int spool_table_count(struct spool_txn *t, enum spool_table table, uint64_t *ret)
{
    if (t->error != 0) {
        return t->error;
    }
    MDB_stat stat;
    int rc = mdb_stat(t->txn, t->store->dbi[table], &stat);
    if (rc != 0) {
        return spool_table_result(t, rc);
    }
    *ret = stat.ms_entries;
    return 0;
}

int spool_parts_first(struct spool_txn *t, enum spool_table table, uint64_t id,
                      uint32_t *ret_number, struct slice *ret_record)
{
    const struct spool_key from = spool_key_part(id, 0);
    struct slice key;
    int r = spool_table_seek(t, table, &from, &key, ret_record);
    if (r != 0) {
        return r;
    }
    uint64_t found;
    while (r == 0 && !spool_key_read_part(key, &found, ret_number)) {
        r = spool_table_next(t, table, &key, ret_record);
    }
    return r == 0 && found != id ? ERR_MISSING : r;
}

int spool_parts_del(struct spool_txn *t, enum spool_table table, uint64_t id, unsigned limit,
                    unsigned *ret_deleted)
{
    uint64_t count = 0;
    int r = spool_table_count(t, table, &count);
    if (r != 0 || count == 0) {
        return r;
    }
    while (*ret_deleted < limit) {
        uint32_t number;
        struct slice record;
        r = spool_parts_first(t, table, id, &number, &record);
        if (r != 0) {
            return r == ERR_MISSING ? 0 : r;
        }
        r = spool_table_del_here(t, table);
        if (r != 0) {
            return r;
        }
        ++*ret_deleted;
    }
    return 0;
}

int spool_get_number(struct spool_txn *t, enum spool_table table, const char *name, uint64_t *ret)
{
    const struct spool_key key = spool_key_name(name);
    struct slice record;
    int r = spool_table_get(t, table, &key, &record);
    return r != 0 ? r : spool_number_decode(record, &key, ret);
}

int spool_put_number(struct spool_txn *t, enum spool_table table, const char *name, uint64_t number)
{
    const struct spool_key key = spool_key_name(name);
    void *at = NULL;
    int r = spool_table_put(t, table, &key, SPOOL_NUMBER_BYTES, &at);
    if (r == 0) {
        spool_number_encode(number, &key, at);
    }
    return r;
}
