/* Owns the marks of adopted logs, and how a message comes from another spool. Called by the spool writer
 * and by who reads a log; must not know where the other spool comes from. */
#include "engine/spool/spool_adopt.h"

#include "base/buf.h"
#include "base/error.h"
#include "engine/spool/spool_repair.h"
#include "engine/spool/spool_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- marks ------------------------------------------------------------------------------------ */

#define MARK_PREFIX "adopted."

static struct spool_key mark_key(uint32_t log)
{
    char name[24];
    (void)snprintf(name, 20, MARK_PREFIX "%06u", (unsigned)log % 1000000U);
    return spool_key_name(name);
}

int spool_put_adopted(struct spool_txn *t, uint16_t log, uint64_t mark)
{
    const struct spool_key key = mark_key(log);
    struct slice record;
    uint64_t was;
    void *at;
    int r = spool_table_get(t, SPOOL_TABLE_META, &key, &record);
    if (r == 0 && spool_number_decode(record, &key, &was) == 0 && was >= mark) {
        return 0;
    }
    r = r == ERR_MISSING ? 0 : r;
    r = r == 0 ? spool_table_put(t, SPOOL_TABLE_META, &key, SPOOL_NUMBER_BYTES, &at) : r;
    if (r == 0) {
        spool_number_encode(mark, &key, at);
    }
    return r;
}

int spool_set_adopted(struct spool_txn *t, uint16_t log, uint64_t mark, uint16_t carried)
{
    const char bytes[] = {(char)(carried >> 8), (char)carried};
    spool_tell(t->store, SPOOL_CHANGE_ADOPTED, mark, log,
               slice_make(bytes, carried == 0 ? 0 : sizeof(bytes)));
    return spool_put_adopted(t, log, mark);
}

int spool_read_adopted(struct spool_reader *r, uint16_t log, uint64_t *ret_mark)
{
    uint16_t found;
    int err = spool_next_adopted(r, log, &found, ret_mark);
    if (err == ERR_MISSING || (err == 0 && found != log)) {
        *ret_mark = 0;
        err = 0;
    }
    return err;
}

int spool_next_adopted(struct spool_reader *r, uint32_t from, uint16_t *ret_log, uint64_t *ret_mark)
{
    const struct spool_key first = mark_key(from);
    const size_t prefix = sizeof(MARK_PREFIX) - 1;
    MDB_cursor *cursor;
    MDB_val k = spool_val(&first), v;
    int rc = mdb_cursor_open(r->txn, r->store->dbi[SPOOL_TABLE_META], &cursor);
    if (rc != 0) {
        return spool_error(rc);
    }
    int err = ERR_CORRUPT;
    /* A damaged mark is passed over: what it said is found out again, and repeated. */
    for (rc = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE); rc == 0 && err == ERR_CORRUPT;
         rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT)) {
        char name[24] = "";
        if (k.mv_size >= sizeof(name) || k.mv_size != first.len ||
            memcmp(k.mv_data, MARK_PREFIX, prefix) != 0) {
            err = ERR_MISSING;
            break;
        }
        memcpy(name, k.mv_data, k.mv_size);
        const struct spool_key key = spool_key_name(name);
        *ret_log = (uint16_t)strtoul(name + prefix, NULL, 10);
        err = spool_number_decode(spool_slice(&v), &key, ret_mark);
    }
    mdb_cursor_close(cursor);
    if (err == ERR_CORRUPT) {
        err = rc == 0 ? ERR_MISSING : spool_error(rc);
    }
    return spool_reader_result(r, err, NULL);
}

/* --- messages --------------------------------------------------------------------------------- */

int spool_find(struct spool_txn *t, uint64_t id)
{
    const struct spool_key key = spool_key_id(id);
    struct slice record;
    return spool_table_get(t, SPOOL_TABLE_MESSAGE, &key, &record);
}

int spool_meet(struct spool_txn *t, struct spool_reader *other, uint64_t id,
               enum spool_meeting *ret)
{
    const struct spool_key key = spool_key_id(id);
    struct slice here;
    MDB_val k = spool_val(&key), there;
    int rc = mdb_get(other->txn, other->store->dbi[SPOOL_TABLE_MESSAGE], &k, &there);
    int r = spool_reader_result(other, spool_error(rc), NULL);
    if (r != 0) {
        return r;
    }
    r = spool_table_get(t, SPOOL_TABLE_MESSAGE, &key, &here);
    if (r == 0) {
        *ret = slice_eq(here, spool_slice(&there)) ? SPOOL_MEETS_SAME : SPOOL_MEETS_OTHER;
    } else if (r == ERR_MISSING) {
        *ret = SPOOL_MEETS_NONE;
        r = 0;
    }
    return r;
}

static int make(struct spool_txn *t, const struct spool_change *c)
{
    bool is_told = c->kind == SPOOL_CHANGE_RESULT || c->kind == SPOOL_CHANGE_REASON;
    int r = spool_apply_change(t, c);
    if (r == 0 && !is_told) { /* a result is by whoever makes it here */
        spool_tell(t->store, c->kind, c->id, c->number, c->bytes);
    }
    return r;
}

/* A record has its key in its checksum, and the message's id in the key. */
static int adopt_record(struct spool_txn *t, struct spool_change *c, uint64_t was)
{
    struct spool_message m;
    size_t bytes = 0;
    int r = spool_message_decode(c->bytes, was, false, &m);
    m.envelope.id = c->id;
    r = r != 0 ? r : spool_message_bytes(&m, &bytes);
    char *copy = r == 0 ? malloc(bytes) : NULL;
    if (r == 0 && copy == NULL) {
        r = -ENOMEM;
    }
    if (r == 0) {
        spool_message_encode(&m, copy, bytes);
        c->bytes = slice_make(copy, bytes);
        r = make(t, c);
    }
    free(copy);
    return r;
}

static int adopt_reason(struct spool_txn *t, struct spool_change *c, uint64_t was)
{
    const struct spool_key from = spool_key_part(was, c->number);
    const struct spool_key to = spool_key_part(c->id, c->number);
    char copy[SPOOL_REASON_BYTES_MAX];
    struct spool_reason reason;
    int r = spool_reason_decode(c->bytes, &from, &reason);
    if (r == 0) {
        c->bytes = slice_make(copy, spool_reason_encode(&reason, &to, copy));
        r = make(t, c);
    }
    return r;
}

static int adopt_retry(struct spool_txn *t, struct spool_change *c, uint64_t was)
{
    char copy[SPOOL_RETRY_BYTES];
    struct spool_retry retry;
    int r = spool_retry_decode(c->bytes, was, &retry);
    if (r == 0) {
        spool_retry_encode(&retry, c->id, copy);
        c->bytes = slice_make(copy, sizeof(copy));
        r = make(t, c);
    }
    return r;
}

int spool_adopt_change(struct spool_txn *t, const struct spool_change *change, uint16_t log,
                       uint64_t as)
{
    struct spool_change c = *change;
    c.id = as;
    c.number = c.kind == SPOOL_CHANGE_MESSAGE ? log : c.number;
    if (as == change->id) {
        return make(t, &c);
    }
    if (c.kind == SPOOL_CHANGE_MESSAGE) {
        return adopt_record(t, &c, change->id);
    }
    if (c.kind == SPOOL_CHANGE_REASON) {
        return adopt_reason(t, &c, change->id);
    }
    if (c.kind == SPOOL_CHANGE_RETRY) {
        return adopt_retry(t, &c, change->id);
    }
    return c.kind == SPOOL_CHANGE_SIGNING ? 0 : make(t, &c);
}

/* --- a message whose states do not fit into one transaction ----------------------------------- */

enum { STAGED_HEAD = 2 }; /* bytes: number of the log */

bool spool_staged_message(struct slice staged, uint64_t id, uint16_t *ret_log, struct slice *ret)
{
    struct spool_message m;
    if (staged.len <= STAGED_HEAD) {
        return false;
    }
    const unsigned char *head = (const unsigned char *)staged.data;
    *ret_log = (uint16_t)(head[0] << 8 | head[1]);
    *ret = slice_from(staged, STAGED_HEAD);
    return spool_message_decode(*ret, id, true, &m) == 0;
}

int spool_adopt_pause(struct spool_txn *t, uint64_t id, uint16_t log)
{
    const struct spool_key key = spool_key_id(id);
    struct slice record;
    void *at;
    int r = spool_table_get(t, SPOOL_TABLE_MESSAGE, &key, &record);
    if (r != 0) {
        return r;
    }
    struct buf staged;
    buf_init(&staged, 0); /* the record need not stay where it is while another table is written */
    const char head[STAGED_HEAD] = {(char)(log >> 8), (char)log};
    buf_append(&staged, head, sizeof(head));
    buf_append_slice(&staged, record);
    r = staged.failed ? -ENOMEM : 0;
    r = r != 0 ? r : spool_table_put(t, SPOOL_TABLE_STAGING, &key, staged.len, &at);
    if (r == 0) {
        memcpy(at, staged.data, staged.len);
        r = spool_table_del(t, SPOOL_TABLE_MESSAGE, &key);
    }
    buf_fini(&staged);
    return r;
}

int spool_adopt_resume(struct spool_txn *t, uint64_t id)
{
    const struct spool_key key = spool_key_id(id);
    struct slice staged, record;
    uint16_t log;
    int r = spool_table_get(t, SPOOL_TABLE_STAGING, &key, &staged);
    if (r == 0 && !spool_staged_message(staged, id, &log, &record)) {
        r = ERR_CORRUPT;
    }
    if (r != 0) {
        return r;
    }
    struct buf copy;
    buf_init(&copy, 0);
    buf_append_slice(&copy, record);
    const struct spool_change c = {
        .kind = SPOOL_CHANGE_MESSAGE, .id = id, .bytes = buf_slice(&copy)};
    r = copy.failed ? -ENOMEM : spool_apply_change(t, &c); /* which unstages it */
    buf_fini(&copy);
    return r;
}

int spool_adopt_place(struct spool_txn *t, uint64_t id, struct spool_position *ret)
{
    const struct spool_key key = spool_key_id(id);
    struct slice record;
    int r = spool_table_get(t, SPOOL_TABLE_MESSAGE, &key, &record);
    return r != 0 ? r : spool_requeue_message(t, id, record, ret);
}
