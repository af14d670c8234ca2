/* Owns the record of how far a retelling is. Called by who keeps the log, for the spool writer, and at the
 * start of a process; must not know what a log is. */
#include "engine/spool/spool_retold.h"

#include "base/error.h"
#include "engine/spool/spool_table.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#define NAME "retold"
enum { FIELDS = sizeof(struct spool_retold) / sizeof(uint64_t) };

static_assert(FIELDS * sizeof(uint64_t) == sizeof(struct spool_retold), "numbers only");

int spool_put_retold(struct spool_txn *t, const struct spool_retold *retold)
{
    const struct spool_key key = spool_key_name(NAME);
    uint64_t fields[FIELDS];
    void *at;
    memcpy(fields, retold, sizeof(fields));
    for (size_t i = 0; i < FIELDS; i++) {
        fields[i] = htobe64(fields[i]);
    }
    int r = spool_table_put(t, SPOOL_TABLE_META, &key, spool_blob_bytes(sizeof(fields)), &at);
    if (r == 0) {
        spool_blob_encode(slice_make((const char *)fields, sizeof(fields)), &key, at);
    }
    return r;
}

int spool_forget_retold(struct spool_txn *t)
{
    const struct spool_key key = spool_key_name(NAME);
    return spool_table_del(t, SPOOL_TABLE_META, &key);
}

int spool_read_retold(struct spool_reader *r, struct spool_retold *ret)
{
    const struct spool_key key = spool_key_name(NAME);
    uint64_t fields[FIELDS];
    struct slice bytes;
    MDB_val k = spool_val(&key), v;
    int rc = mdb_get(r->txn, r->store->dbi[SPOOL_TABLE_META], &k, &v);
    int err = spool_error(rc);
    if (err == 0 && v.mv_size != spool_blob_bytes(sizeof(fields))) {
        err = ERR_CORRUPT;
    }
    err = err != 0 ? err : spool_blob_decode(spool_slice(&v), &key, true, &bytes);
    err = spool_reader_result(r, err, NULL);
    if (err == 0) {
        memcpy(fields, bytes.data, sizeof(fields));
        for (size_t i = 0; i < FIELDS; i++) {
            fields[i] = be64toh(fields[i]);
        }
        memcpy(ret, fields, sizeof(*ret));
    }
    return err;
}

int spool_store_without_log(struct spool_store *s)
{
    const struct spool_key key = spool_key_name(NAME);
    struct spool_txn *t;
    struct slice record;
    int r = spool_begin(s, &t);
    if (r != 0) {
        return r;
    }
    r = spool_table_get(t, SPOOL_TABLE_META, &key, &record);
    if (r == ERR_MISSING) {
        spool_abort(t);
        return 0;
    }
    r = r == 0 ? spool_forget_retold(t) : r;
    if (r == 0) {
        return spool_commit(t);
    }
    spool_abort(t);
    return r;
}
