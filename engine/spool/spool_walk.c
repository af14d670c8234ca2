/* Reads the message and state tables side by side. Used by the counts and searches of the queue;
 * changes nothing. */
#include "engine/spool/spool_walk.h"

#include "base/error.h"
#include "engine/spool/spool_env.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* returns LMDB's result; the cursor's position is that of an earlier pass */
static int walk_cursor(struct spool_reader *r, enum spool_walk_cursor which, MDB_cursor **ret)
{
    int rc;
    if (r->walk[which] == NULL) {
        enum spool_table table =
            which == SPOOL_WALK_STATES ? SPOOL_TABLE_STATE : SPOOL_TABLE_MESSAGE;
        rc = mdb_cursor_open(r->txn, r->store->dbi[table], &r->walk[which]);
        if (rc != 0) {
            r->walk[which] = NULL;
        }
    } else {
        rc = mdb_cursor_renew(r->txn, r->walk[which]);
    }
    *ret = r->walk[which];
    return rc;
}

/* What the states' cursor found. returns an error of the storage; the end is none */
static int keep_state(struct spool_walk *w, int rc, const MDB_val *k, const MDB_val *v)
{
    w->has_states = rc == 0;
    if (rc != 0) {
        return rc == MDB_NOTFOUND ? 0 : spool_error(rc);
    }
    w->state_record = spool_slice(v);
    if (!spool_key_read_part(spool_slice(k), &w->state_id, &w->state_number)) {
        w->state_id = 0; /* a malformed key counts as below every message, and is passed over */
    }
    return 0;
}

static int seek_state(struct spool_walk *w, uint64_t id)
{
    const struct spool_key from = spool_key_part(id, 0);
    MDB_val k = spool_val(&from);
    MDB_val v;
    int rc = mdb_cursor_get(w->reader->walk[SPOOL_WALK_STATES], &k, &v, MDB_SET_RANGE);
    return keep_state(w, rc, &k, &v);
}

static int next_state(struct spool_walk *w)
{
    MDB_val k, v;
    int rc = mdb_cursor_get(w->reader->walk[SPOOL_WALK_STATES], &k, &v, MDB_NEXT);
    return keep_state(w, rc, &k, &v);
}

int spool_walk_begin(struct spool_walk *w, struct spool_reader *r, uint64_t after)
{
    assert(spool_reader_is_active(r));
    MDB_cursor *messages, *states;
    *w = (struct spool_walk){
        .reader = r, .last = after, .asked_from = w->asked_from, .asked_to = w->asked_to};
    int rc = walk_cursor(r, SPOOL_WALK_MESSAGES, &messages);
    if (rc == 0) {
        rc = walk_cursor(r, SPOOL_WALK_STATES, &states);
    }
    if (rc != 0) {
        return spool_error(rc);
    }
    return after == UINT64_MAX ? 0 : seek_state(w, after + 1);
}

/* Moves the states' cursor behind this message's records and takes what they say. A damaged one
 * counts as none, as for delivery before it is quarantined. */
static int take_recipient_states(struct spool_walk *w, uint64_t id, struct spool_walked *ret)
{
    enum { STEPS_MAX = 32 }; /* then a look-up is cheaper */
    int steps = 0;
    int rc = 0;
    while (rc == 0 && w->has_states && w->state_id <= id) {
        if (w->state_id < id && ++steps > STEPS_MAX) {
            rc = seek_state(w, id);
            steps = INT32_MIN;
            continue;
        }
        if (w->state_id == id) {
            const struct spool_key key = spool_key_part(id, w->state_number);
            if (w->state_number == 0) {
                if (spool_blob_decode(w->state_record, &key, true, &ret->states) != 0) {
                    ret->states = SLICE("");
                    w->damaged++;
                }
            } else if (w->state_number == SPOOL_RETRY_BATCH &&
                       spool_retry_decode(w->state_record, id, &ret->retry) != 0) {
                w->damaged++;
            }
        }
        rc = next_state(w);
    }
    return rc;
}

int spool_walk_next(struct spool_walk *w, struct spool_walked *ret)
{
    if (w->last == UINT64_MAX) {
        return ERR_MISSING;
    }
    MDB_cursor *messages = w->reader->walk[SPOOL_WALK_MESSAGES];
    const struct spool_key from = spool_key_id(w->last + 1);
    MDB_val k = spool_val(&from);
    MDB_val v;
    int rc = mdb_cursor_get(messages, &k, &v, w->is_placed ? MDB_NEXT : MDB_SET_RANGE);
    w->is_placed = true;
    for (; rc == 0; rc = mdb_cursor_get(messages, &k, &v, MDB_NEXT)) {
        struct spool_message m;
        uint64_t id;
        if (!spool_key_read_id(spool_slice(&k), &id) || id <= w->last) {
            continue;
        }
        w->last = id;
        if (spool_message_decode(spool_slice(&v), id, false, &m) != 0) {
            w->damaged++;
            continue;
        }
        ret->envelope = m.envelope;
        ret->batch_count = m.batch_count;
        ret->packed = m.packed;
        ret->states = SLICE("");
        ret->retry = (struct spool_retry){0};
        return take_recipient_states(w, id, ret);
    }
    return spool_reader_result(w->reader, spool_error(rc), NULL);
}

static int walk_get(struct spool_walk *w, enum spool_table table, const struct spool_key *key,
                    struct slice *ret)
{
    MDB_val k = spool_val(key);
    MDB_val v;
    int rc = mdb_get(w->reader->txn, w->reader->store->dbi[table], &k, &v);
    return rc != 0 ? spool_error(rc) : spool_blob_decode(spool_slice(&v), key, true, ret);
}

int spool_walk_batch(struct spool_walk *w, uint64_t id, uint32_t batch, struct slice *ret_packed,
                     struct slice *ret_states)
{
    const struct spool_key key = spool_key_part(id, batch);
    int rc = walk_get(w, SPOOL_TABLE_RECIPIENTS, &key, ret_packed);
    if (rc != 0) {
        return rc;
    }
    rc = walk_get(w, SPOOL_TABLE_STATE, &key, ret_states);
    if (rc == ERR_MISSING || rc == ERR_CORRUPT) {
        *ret_states = SLICE("");
        rc = 0;
    }
    return rc;
}

/* --- asking for pages ------------------------------------------------------------------------- */

/* Pages that lie near each other are asked for together: one system call for many messages. */
struct wish {
    uintptr_t from, to; /* page boundaries; equal: empty */
};

enum {
    WISH_BYTES = 128 << 10, /* the kernel reads at most the device's readahead for one call */
    WISH_GAP = 32 << 10,    /* reading so much in vain costs less than another request */
};

static void wish_ask(struct wish *wish)
{
    if (wish->from < wish->to) {
        (void)madvise((void *)wish->from, wish->to - wish->from, MADV_WILLNEED); /* only a wish */
    }
    wish->from = wish->to = 0;
}

static void wish_add(struct wish *wish, const void *at, size_t bytes)
{
    uintptr_t mask = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
    uintptr_t from = (uintptr_t)at & ~mask;
    uintptr_t to = ((uintptr_t)at + bytes + mask) & ~mask;
    if (from >= wish->from && to <= wish->to) {
        return;
    }
    if (wish->from == wish->to || from < wish->to || from - wish->to > WISH_GAP ||
        to - wish->from > WISH_BYTES) {
        wish_ask(wish);
        wish->from = from;
    }
    wish->to = to;
}

/* The tree's own pages are mostly in the order of the ids: read on behind this one, so far that
 * the disk is busy while the walk goes through what has come. */
static void ask_leaves(struct spool_walk *w, const void *key)
{
    enum { AHEAD_BYTES = 8 * WISH_BYTES };
    uintptr_t at = (uintptr_t)key & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    if (at < w->asked_from || at >= w->asked_to) {
        w->asked_from = w->asked_to = at;
    }
    if (w->asked_to - at > AHEAD_BYTES / 2) {
        return;
    }
    for (; w->asked_to - at < AHEAD_BYTES; w->asked_to += WISH_BYTES) {
        struct wish wish = {w->asked_to, w->asked_to + WISH_BYTES};
        wish_ask(&wish);
    }
}

void spool_walk_prefetch(struct spool_walk *w, uint32_t count)
{
    enum { HEAD_BYTES = 1024 }; /* of a record with pages of its own; most heads are shorter */
    MDB_cursor *ahead;
    if (w->last == UINT64_MAX || walk_cursor(w->reader, SPOOL_WALK_AHEAD, &ahead) != 0) {
        return;
    }
    const struct spool_key from = spool_key_id(w->last + 1);
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct wish records = {0, 0};
    MDB_val k = spool_val(&from);
    MDB_val v;
    int rc = mdb_cursor_get(ahead, &k, &v, MDB_SET_RANGE);
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        if ((uintptr_t)k.mv_data / page == (uintptr_t)v.mv_data / page) {
            ask_leaves(w, k.mv_data);
        } else {
            wish_add(&records, v.mv_data, v.mv_size < HEAD_BYTES ? v.mv_size : HEAD_BYTES);
        }
        rc = mdb_cursor_get(ahead, &k, &v, MDB_NEXT);
    }
    wish_ask(&records);
}
