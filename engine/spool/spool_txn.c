/* What the writer does with messages: put, stage, set states, requeue, remove. Called by the spool
 * writer, inside one transaction at a time; must not wait for anything but the disk. */
#include "base/error.h"
#include "engine/spool/spool_signing.h"
#include "engine/spool/spool_table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int spool_reserve_ids(struct spool_txn *t, uint64_t below)
{
    spool_tell_removed(t, below);
    return spool_put_number(t, SPOOL_TABLE_META, SPOOL_META_IDS, below);
}

int spool_store_bound(struct spool_txn *t, uint64_t duplicate_bound)
{
    spool_tell(t->store, SPOOL_CHANGE_BOUND, duplicate_bound, 0, SLICE(""));
    return spool_put_number(t, SPOOL_TABLE_META, SPOOL_META_BOUND, duplicate_bound);
}

int spool_note_clock(struct spool_txn *t, usec_t now)
{
    /* Should the commit fail, the number is still no lower than what is stored. */
    t->store->latest = (uint64_t)now > t->store->latest ? (uint64_t)now : t->store->latest;
    return spool_put_number(t, SPOOL_TABLE_META, SPOOL_META_CLOCK, t->store->latest);
}

int spool_stage(struct spool_txn *t, uint64_t id)
{
    const struct spool_key key = spool_key_id(id);
    void *at;
    return spool_table_put(t, SPOOL_TABLE_STAGING, &key, 0, &at);
}

static int put_blob(struct spool_txn *t, enum spool_table table, const struct spool_key *key,
                    struct slice bytes)
{
    void *at;
    int r = spool_table_append(t, table, key, spool_blob_bytes(bytes.len), &at);
    if (r == 0) {
        spool_blob_encode(bytes, key, at);
    }
    return r;
}

int spool_put_chunk(struct spool_txn *t, uint64_t id, uint32_t chunk, struct slice bytes)
{
    if (bytes.len > SPOOL_CHUNK_BYTES) {
        return ERR_LIMIT;
    }
    const struct spool_key key = spool_key_part(id, chunk);
    int r = put_blob(t, SPOOL_TABLE_BODY, &key, bytes);
    if (r == 0) {
        spool_tell(t->store, SPOOL_CHANGE_BODY, id, chunk, bytes);
    }
    return r;
}

int spool_put_recipients(struct spool_txn *t, uint64_t id, uint32_t batch, struct slice packed)
{
    const struct spool_key key = spool_key_part(id, batch);
    int r = put_blob(t, SPOOL_TABLE_RECIPIENTS, &key, packed);
    if (r == 0) {
        spool_tell(t->store, SPOOL_CHANGE_RECIPIENTS, id, batch, packed);
    }
    return r;
}

int spool_queue_at(struct spool_txn *t, const struct spool_position *p)
{
    const struct spool_key key = spool_key_queue(p->flow, p->time, p->id);
    void *at;
    int r = p->flow == 0 ? 0 : spool_flow_store(t, p->flow);
    if (r != 0) {
        return r;
    }
    if (p->class != SPOOL_INCOMING) {
        return spool_table_put(t, spool_queue_table(p->class), &key, 0, &at);
    }
    r = spool_table_append(t, SPOOL_TABLE_INCOMING, &key, 0, &at);
    return r == -EEXIST ? 0 : r;
}

int spool_queue_incoming(struct spool_txn *t, uint64_t id, uint32_t flow,
                         struct spool_position *ret_position)
{
    struct spool_position position = {SPOOL_INCOMING, t->store->next_sequence, id, flow};
    int r = spool_queue_at(t, &position);
    if (r == 0) {
        t->store->next_sequence++;
        *ret_position = position;
    }
    return r;
}

static int queue_del(struct spool_txn *t, const struct spool_position *p)
{
    const struct spool_key key = spool_key_queue(p->flow, p->time, p->id);
    return spool_table_del(t, spool_queue_table(p->class), &key);
}

static int parts_del_all(struct spool_txn *t, enum spool_table table, uint64_t id)
{
    unsigned deleted = 0;
    return spool_parts_del(t, table, id, UINT32_MAX, &deleted);
}

static int unstage(struct spool_txn *t, uint64_t id)
{
    uint64_t count;
    int r = spool_table_count(t, SPOOL_TABLE_STAGING, &count);
    if (r != 0 || count == 0) {
        return r;
    }
    const struct spool_key key = spool_key_id(id);
    return spool_table_del(t, SPOOL_TABLE_STAGING, &key);
}

static int put_records(struct spool_txn *t, const struct spool_envelope *envelope,
                       struct slice packed_recipients, struct slice body, bool is_told)
{
    struct spool_message m = {.envelope = *envelope};
    const uint64_t id = envelope->id;
    m.envelope.flags &= ~(uint32_t)SPOOL_FLAG_BODY_INLINE;
    if (envelope->chunk_count == 0) {
        m.envelope.flags |= SPOOL_FLAG_BODY_INLINE;
        m.body = body;
    }
    if (packed_recipients.len > 0 && packed_recipients.len <= SPOOL_INLINE_RECIPIENT_BYTES) {
        m.packed = packed_recipients;
    } else {
        m.batch_count = envelope->recipient_count / SPOOL_BATCH_RECIPIENTS +
                        (envelope->recipient_count % SPOOL_BATCH_RECIPIENTS != 0);
    }
    size_t bytes;
    void *at;
    const struct spool_key key = spool_key_id(id);
    int r = spool_message_bytes(&m, &bytes);
    if (r != 0) {
        return r;
    }
    r = spool_table_append(t, SPOOL_TABLE_MESSAGE, &key, bytes, &at);
    if (r != 0) {
        return r;
    }
    spool_message_encode(&m, at, bytes);
    if (!is_told && packed_recipients.len > SPOOL_INLINE_RECIPIENT_BYTES) {
        spool_tell(t->store, SPOOL_CHANGE_RECIPIENTS, id, 0, packed_recipients);
    }
    if (!is_told) {
        spool_tell(t->store, SPOOL_CHANGE_MESSAGE, id, 0, slice_make(at, bytes));
    }
    if (packed_recipients.len > SPOOL_INLINE_RECIPIENT_BYTES) {
        /* Put, not appended: replacing a leftover, it cannot fail half-way through the message. */
        const struct spool_key batch = spool_key_part(id, 0);
        r = spool_table_put(t, SPOOL_TABLE_RECIPIENTS, &batch,
                            spool_blob_bytes(packed_recipients.len), &at);
        if (r != 0) {
            return r;
        }
        spool_blob_encode(packed_recipients, &batch, at);
    }
    return 0;
}

int spool_put_message(struct spool_txn *t, const struct spool_envelope *envelope,
                      struct slice packed_recipients, struct slice body,
                      struct spool_position *ret_position)
{
    int r = put_records(t, envelope, packed_recipients, body, false);
    const uint32_t flow = spool_flow_of(t->store, envelope);
    if (r == 0 && envelope->not_before > 0) {
        *ret_position =
            (struct spool_position){SPOOL_HELD, (uint64_t)envelope->not_before, envelope->id, flow};
        r = spool_queue_at(t, ret_position);
    } else if (r == 0) {
        r = spool_queue_incoming(t, envelope->id, flow, ret_position);
    }
    return r == 0 ? unstage(t, envelope->id) : r;
}

/* Whether the tables have this very message, of inline body and recipients. */
static bool is_there(struct spool_txn *t, const struct spool_envelope *envelope,
                     struct slice packed_recipients, struct slice body)
{
    const struct spool_key key = spool_key_id(envelope->id);
    struct spool_message m = {.envelope = *envelope, .packed = packed_recipients, .body = body};
    struct slice record;
    size_t bytes;
    m.envelope.flags |= SPOOL_FLAG_BODY_INLINE;
    if (spool_message_bytes(&m, &bytes) != 0 ||
        spool_table_get(t, SPOOL_TABLE_MESSAGE, &key, &record) != 0 || record.len != bytes) {
        return false;
    }
    char *copy = malloc(bytes);
    if (copy == NULL) {
        return false;
    }
    spool_message_encode(&m, copy, bytes);
    bool is_same = memcmp(copy, record.data, bytes) == 0;
    free(copy);
    return is_same;
}

int spool_put_journaled(struct spool_txn *t, const struct spool_envelope *envelope,
                        struct slice packed_recipients, struct slice body,
                        const struct spool_position *position)
{
    int r = put_records(t, envelope, packed_recipients, body, true); /* as the journal had it */
    if (r == -EEXIST && is_there(t, envelope, packed_recipients, body)) {
        return 0; /* it has its place, which may be another one by now */
    }
    return r == 0 ? spool_queue_at(t, position) : r;
}

/* Some of the reasons: a transaction with a million of them would keep all others waiting. */
static int reasons_del(struct spool_txn *t, uint64_t id, bool *ret_done)
{
    unsigned deleted = 0;
    int r = spool_parts_del(t, SPOOL_TABLE_REASON, id, SPOOL_REASONS_AT_ONCE, &deleted);
    *ret_done = deleted < SPOOL_REASONS_AT_ONCE;
    return r;
}

int spool_discard(struct spool_txn *t, uint64_t id, bool *ret_done)
{
    *ret_done = true;
    /* A committed message has parts of the same keys: they go only when it is not one. */
    const struct spool_key key = spool_key_id(id);
    struct slice record;
    int r = spool_table_get(t, SPOOL_TABLE_STAGING, &key, &record);
    if (r != 0) {
        return r == ERR_MISSING ? 0 : r;
    }
    spool_tell(t->store, SPOOL_CHANGE_REMOVED, id, 0, SLICE(""));
    r = parts_del_all(t, SPOOL_TABLE_BODY, id);
    if (r == 0) {
        r = parts_del_all(t, SPOOL_TABLE_RECIPIENTS, id);
    }
    if (r == 0) {
        r = parts_del_all(t, SPOOL_TABLE_STATE, id); /* of one that is being adopted */
    }
    if (r == 0) {
        r = reasons_del(t, id, ret_done);
    }
    return r == 0 && *ret_done ? spool_table_del(t, SPOOL_TABLE_STAGING, &key) : r;
}

/* Reasons exist only beside a state record, so most messages need no look-up but one. What is left
 * of very many is staged: it goes bit by bit, or at the next start. */
static int states_del(struct spool_txn *t, uint64_t id)
{
    unsigned deleted = 0;
    bool is_done = true;
    int r = spool_parts_del(t, SPOOL_TABLE_STATE, id, UINT32_MAX, &deleted);
    if (r == 0 && deleted > 0) {
        r = reasons_del(t, id, &is_done);
    }
    return r == 0 && !is_done ? spool_stage(t, id) : r;
}

int spool_remove(struct spool_txn *t, const struct spool_position *position)
{
    spool_tell(t->store, SPOOL_CHANGE_REMOVED, position->id, 0, SLICE(""));
    int r = queue_del(t, position);
    return r != 0 ? r : spool_remove_records(t, position->id);
}

int spool_remove_records(struct spool_txn *t, uint64_t id)
{
    const struct spool_key key = spool_key_id(id);
    struct slice record;
    uint32_t chunks = UINT32_MAX;
    uint32_t batches = UINT32_MAX;
    int r = spool_table_find(t, SPOOL_TABLE_MESSAGE, &key, &record);
    if (r == 0) {
        if (!spool_message_peek(record, &chunks, &batches)) {
            chunks = batches = UINT32_MAX;
        }
        r = spool_table_del_here(t, SPOOL_TABLE_MESSAGE);
    } else if (r == ERR_MISSING) {
        r = 0;
    }
    if (r == 0 && chunks > 0) {
        r = parts_del_all(t, SPOOL_TABLE_BODY, id);
    }
    if (r == 0 && batches > 0) {
        r = parts_del_all(t, SPOOL_TABLE_RECIPIENTS, id);
    }
    if (r == 0) {
        r = spool_forget_signing(t, id);
    }
    return r == 0 ? states_del(t, id) : r;
}

/* The state bytes of a batch, all pending when there is no record. errors: ERR_CORRUPT, storage */
static int states_load(struct spool_txn *t, const struct spool_key *key, char *states, size_t count)
{
    struct slice record;
    struct slice stored;
    int r = spool_table_get(t, SPOOL_TABLE_STATE, key, &record);
    if (r == ERR_MISSING) {
        memset(states, SPOOL_RECIPIENT_PENDING, count);
        return 0;
    }
    if (r != 0) {
        return r;
    }
    r = spool_blob_decode(record, key, true, &stored);
    if (r != 0 || stored.len != count) {
        return ERR_CORRUPT;
    }
    memcpy(states, stored.data, count);
    return 0;
}

static int reason_set(struct spool_txn *t, uint64_t id, uint32_t index,
                      enum spool_recipient_state state, const struct spool_reason *reason)
{
    const struct spool_key key = spool_key_part(id, index);
    if (reason == NULL) {
        const char byte = (char)state;
        spool_tell(t->store, SPOOL_CHANGE_RESULT, id, index, slice_make(&byte, 1));
        uint64_t count;
        int r = spool_table_count(t, SPOOL_TABLE_REASON, &count);
        if (r != 0 || count == 0) {
            return r;
        }
        return spool_table_del(t, SPOOL_TABLE_REASON, &key);
    }
    char record[SPOOL_REASON_BYTES_MAX];
    size_t bytes = spool_reason_encode(reason, &key, record);
    void *at;
    int r = spool_table_put(t, SPOOL_TABLE_REASON, &key, bytes, &at);
    if (r == 0) {
        memcpy(at, record, bytes);
        spool_tell(t->store, SPOOL_CHANGE_REASON, id, index, slice_make(record, bytes));
    }
    return r;
}

int spool_set_recipient(struct spool_txn *t, uint64_t id, uint32_t recipient_count, uint32_t index,
                        enum spool_recipient_state state, const struct spool_reason *reason)
{
    assert(index < recipient_count);
    const uint32_t batch = index / SPOOL_BATCH_RECIPIENTS;
    const uint32_t first = batch * SPOOL_BATCH_RECIPIENTS;
    size_t count = recipient_count - first;
    if (count > SPOOL_BATCH_RECIPIENTS) {
        count = SPOOL_BATCH_RECIPIENTS;
    }
    const struct spool_key key = spool_key_part(id, batch);
    char states[SPOOL_BATCH_RECIPIENTS];
    void *at;
    int r = states_load(t, &key, states, count);
    if (r != 0) {
        return r;
    }
    states[index - first] = (char)state;
    r = spool_table_put(t, SPOOL_TABLE_STATE, &key, spool_blob_bytes(count), &at);
    if (r != 0) {
        return r;
    }
    spool_blob_encode(slice_make(states, count), &key, at);
    bool keeps_reason = state == SPOOL_RECIPIENT_DEFERRED || state == SPOOL_RECIPIENT_FAILED;
    return reason_set(t, id, index, state, keeps_reason ? reason : NULL);
}

int spool_forget_failures(struct spool_txn *t, uint64_t id)
{
    struct slice found, record;
    spool_tell(t->store, SPOOL_CHANGE_NOTIFIED, id, 0, SLICE(""));
    uint64_t found_id = id;
    uint32_t number = 0;
    int r = 0;
    for (uint64_t from = 0; r == 0 && from <= UINT32_MAX; from = (uint64_t)number + 1) {
        const struct spool_key key = spool_key_part(id, (uint32_t)from);
        struct spool_reason reason;
        r = spool_table_seek(t, SPOOL_TABLE_REASON, &key, &found, &record);
        while (r == 0 && !spool_key_read_part(found, &found_id, &number)) {
            r = spool_table_next(t, SPOOL_TABLE_REASON, &found, &record); /* see spool_inspect.h */
        }
        if (r != 0 || found_id != id) {
            break;
        }
        const struct spool_key here = spool_key_part(id, number);
        int damage = spool_reason_decode(record, &here, &reason);
        if (damage != 0 || reason.state == SPOOL_RECIPIENT_FAILED) {
            r = spool_table_del_here(t, SPOOL_TABLE_REASON);
        }
    }
    return r == ERR_MISSING ? 0 : r;
}

int spool_requeue(struct spool_txn *t, const struct spool_position *from,
                  const struct spool_position *to, const struct spool_retry *retry)
{
    assert(from->id == to->id);
    int r = queue_del(t, from);
    if (r == 0) {
        r = spool_queue_at(t, to);
    }
    if (r != 0 || retry == NULL) {
        return r;
    }
    const struct spool_key key = spool_key_part(to->id, SPOOL_RETRY_BATCH);
    void *at;
    r = spool_table_put(t, SPOOL_TABLE_STATE, &key, SPOOL_RETRY_BYTES, &at);
    if (r == 0) {
        spool_retry_encode(retry, to->id, at);
        spool_tell(t->store, SPOOL_CHANGE_RETRY, to->id, 0, slice_make(at, SPOOL_RETRY_BYTES));
    }
    return r;
}
