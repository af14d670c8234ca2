/* What is done about damage and leftovers: quarantine, receptions that never ended, messages that
 * no queue entry names. Called by the spool writer and when the spool is opened. */
#include "engine/spool/spool_repair.h"

#include "base/error.h"
#include "engine/spool/spool_signing.h"
#include "engine/spool/spool_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ids skipped when the reservation is unreadable: more than any run hands out. */
#define ID_GAP (1ULL << 40)

/* limit: records of this call; *ret_deleted counts on, below limit means that all are gone */
static int discard_some(struct spool_txn *t, uint64_t id, unsigned limit, unsigned *ret_deleted)
{
    int r = spool_parts_del(t, SPOOL_TABLE_BODY, id, limit, ret_deleted);
    if (r == 0) {
        r = spool_parts_del(t, SPOOL_TABLE_RECIPIENTS, id, limit, ret_deleted);
    }
    if (r == 0) {
        r = spool_parts_del(t, SPOOL_TABLE_STATE, id, limit, ret_deleted);
    }
    if (r == 0) {
        r = spool_parts_del(t, SPOOL_TABLE_REASON, id, limit, ret_deleted);
    }
    if (r == 0 && *ret_deleted < limit) {
        const struct spool_key key = spool_key_id(id);
        r = spool_table_del(t, SPOOL_TABLE_STAGING, &key);
    }
    return r;
}

int spool_clear_staging(struct spool_txn *t, unsigned limit, bool *ret_done)
{
    unsigned deleted = 0;
    *ret_done = false;
    while (deleted < limit) {
        struct slice key;
        struct slice record;
        const struct spool_key zero = spool_key_id(0);
        int r = spool_table_seek(t, SPOOL_TABLE_STAGING, &zero, &key, &record);
        if (r == ERR_MISSING) {
            *ret_done = true;
            return 0;
        }
        uint64_t id;
        if (r == 0 && !spool_key_read_id(key, &id)) {
            r = spool_table_del_here(t, SPOOL_TABLE_STAGING);
            deleted++;
        } else if (r == 0) {
            r = discard_some(t, id, limit, &deleted);
            deleted++;
        }
        if (r != 0) {
            return r;
        }
    }
    return 0;
}

int spool_last_number(struct spool_txn *t, enum spool_table table, uint64_t *ret)
{
    struct slice key;
    int r = spool_table_last(t, table, &key);
    if (r == ERR_MISSING) {
        *ret = 0;
        return 0;
    }
    if (r != 0) {
        return r;
    }
    *ret = 0;
    (void)(key.len >= 8 && spool_key_read_id(slice_to(key, 8), ret)); /* else not ours: 0 */
    return 0;
}

static bool has_lost(const struct spool_store *s, enum spool_table table)
{
    bool has_any = false;
    for (unsigned i = 0; i < s->lost_count; i++) {
        has_any = has_any || s->lost[i].table == (int)table;
    }
    return has_any;
}

int spool_read_node(struct spool_txn *t, uint16_t *ret)
{
    uint64_t node = 0;
    int r = spool_get_number(t, SPOOL_TABLE_META, SPOOL_META_NODE, &node);
    if (r == ERR_MISSING || r == ERR_CORRUPT) {
        r = spool_get_number(t, SPOOL_TABLE_TWIN, SPOOL_META_NODE, &node);
    }
    if (r == ERR_MISSING || r == ERR_CORRUPT) {
        node = 0;
        r = 0;
    }
    *ret = (uint16_t)node;
    return r;
}

int spool_set_node(struct spool_txn *t, uint16_t node)
{
    int r = spool_put_number(t, SPOOL_TABLE_META, SPOOL_META_NODE, node);
    return r != 0 ? r : spool_put_number(t, SPOOL_TABLE_TWIN, SPOOL_META_NODE, node);
}

static const uint64_t count_mask = (1ull << SPOOL_NODE_SHIFT) - 1;

/* The greatest count in the ids of a table, whatever nodes gave them: mail that was taken over has
 * the ids of its own node. A look-up for each node. */
static int last_count(struct spool_txn *t, enum spool_table table, uint64_t *ret)
{
    uint64_t id;
    int r = spool_last_number(t, table, &id);
    *ret = id & count_mask;
    while (r == 0 && id > count_mask) {
        const struct spool_key to = spool_key_id((id & ~count_mask) - 1);
        struct slice key;
        r = spool_table_seek_back(t, table, &to, &key);
        if (r == ERR_MISSING ||
            (r == 0 && (key.len < 8 || !spool_key_read_id(slice_to(key, 8), &id)))) {
            return 0;
        }
        *ret = r == 0 && (id & count_mask) > *ret ? id & count_mask : *ret;
    }
    return r;
}

uint64_t spool_id_at(usec_t wall)
{
    enum { USEC_BITS = 4 }; /* 16 us an id: 48 bits last until the year 2112 */
    const uint64_t most = count_mask - (1ull << 40);
    uint64_t id = wall < 0 ? 0 : (uint64_t)wall >> USEC_BITS;
    return id < most ? id : most;
}

int spool_read_first_id(struct spool_txn *t, uint64_t *ret)
{
    uint64_t ids;
    int r = spool_get_number(t, SPOOL_TABLE_META, SPOOL_META_IDS, &ids);
    if (r == ERR_MISSING) {
        ids = 1;
        r = 0;
    }
    uint64_t floor = r == ERR_CORRUPT || has_lost(t->store, SPOOL_TABLE_META) ? ID_GAP : 0;
    static const enum spool_table with_ids[] = {SPOOL_TABLE_MESSAGE, SPOOL_TABLE_BODY,
                                                SPOOL_TABLE_RECIPIENTS, SPOOL_TABLE_QUARANTINE};
    if (r == ERR_CORRUPT) {
        ids = 0;
        r = 0;
    }
    uint64_t count = ids & count_mask;
    for (size_t i = 0; r == 0 && i < sizeof(with_ids) / sizeof(with_ids[0]); i++) {
        uint64_t last;
        r = last_count(t, with_ids[i], &last);
        if (r == 0 && last + floor >= count) {
            count = last + floor + 1;
        }
    }
    *ret = (uint64_t)t->store->node << SPOOL_NODE_SHIFT | count;
    return r;
}

int spool_reserve_sequence(struct spool_txn *t)
{
    uint64_t ids;
    int r = spool_get_number(t, SPOOL_TABLE_META, SPOOL_META_IDS, &ids);
    if (r != 0 && r != ERR_MISSING && r != ERR_CORRUPT) {
        return r;
    }
    ids = r == 0 ? ids : 0;
    return ids >= t->store->next_sequence ? 0 : spool_reserve_ids(t, t->store->next_sequence);
}

/* A large record is read from the file, as the disk may not be able to give all of it: zeros stand
 * for the rest. */
static void copy_record(struct spool_txn *t, struct slice record, char *copy)
{
    const struct spool_guard *g = &t->store->guard;
    if (record.len == 0) {
        return;
    }
    if (!spool_is_large(t->store, record.data)) {
        memcpy(copy, record.data, record.len);
        return;
    }
    memset(copy, 0, record.len);
    size_t done = 0;
    size_t offset = (size_t)(record.data - g->base);
    while (done < record.len) {
        size_t some = g->page_bytes - (offset + done) % g->page_bytes;
        some = some < record.len - done ? some : record.len - done;
        (void)!pread(g->fd, copy + done, some, (off_t)(offset + done)); /* see above */
        done += some;
    }
}

/* Copies what is found before putting it: its page may move or be written out by the put. */
static int quarantine_put(struct spool_txn *t, uint64_t id, enum spool_table table, uint32_t number,
                          struct slice record)
{
    const struct spool_key key = spool_key_quarantine(id, (uint8_t)table, number);
    char *copy = malloc(record.len + 1);
    if (copy == NULL) {
        return spool_txn_fail(t, -ENOMEM);
    }
    copy_record(t, record, copy);
    void *at;
    int r = spool_table_put(t, SPOOL_TABLE_QUARANTINE, &key, record.len, &at);
    if (r == 0 && record.len > 0) {
        memcpy(at, copy, record.len);
    }
    free(copy);
    return r;
}

static int quarantine_parts(struct spool_txn *t, enum spool_table table, uint64_t id)
{
    for (;;) {
        uint32_t number;
        struct slice record;
        int r = spool_parts_first(t, table, id, &number, &record);
        if (r != 0) {
            return r == ERR_MISSING ? 0 : r;
        }
        r = quarantine_put(t, id, table, number, record);
        if (r == 0) {
            /* The put was in another table, so the cursor still stands on the record. */
            r = spool_table_del_here(t, table);
        }
        if (r != 0) {
            return r;
        }
    }
}

/* *ret_moved: set to true when the table had such a record, else untouched */
static int quarantine_one(struct spool_txn *t, uint64_t id, enum spool_table table,
                          const struct spool_key *key, bool *ret_moved)
{
    struct slice record;
    int r = spool_table_find(t, table, key, &record);
    if (r != 0) {
        return r == ERR_MISSING ? 0 : r;
    }
    *ret_moved = true;
    bool is_message = table == SPOOL_TABLE_MESSAGE;
    struct slice kept = is_message ? record : slice_make((const char *)key->bytes, key->len);
    r = quarantine_put(t, id, table, 0, kept);
    return r != 0 ? r : spool_table_del_here(t, table);
}

int spool_quarantine(struct spool_txn *t, const struct spool_position *position)
{
    const uint64_t id = position->id;
    const struct spool_key message = spool_key_id(id);
    const struct spool_key place = spool_key_queue(position->flow, position->time, id);
    static const enum spool_table with_parts[] = {SPOOL_TABLE_BODY, SPOOL_TABLE_RECIPIENTS,
                                                  SPOOL_TABLE_STATE, SPOOL_TABLE_REASON};
    bool moved = false;
    int r = quarantine_one(t, id, spool_queue_table(position->class), &place, &moved);
    if (r == 0) {
        r = quarantine_one(t, id, SPOOL_TABLE_MESSAGE, &message, &moved);
    }
    for (size_t i = 0; r == 0 && i < sizeof(with_parts) / sizeof(with_parts[0]); i++) {
        r = quarantine_parts(t, with_parts[i], id);
    }
    if (r == 0) {
        r = spool_forget_signing(t, id); /* it can be made again */
    }
    if (r != 0 || !moved) {
        return r;
    }
    uint64_t count;
    r = spool_get_number(t, SPOOL_TABLE_META, SPOOL_META_QUARANTINED, &count);
    if (r == ERR_MISSING || r == ERR_CORRUPT) {
        count = 0;
    } else if (r != 0) {
        return r;
    }
    return spool_put_number(t, SPOOL_TABLE_META, SPOOL_META_QUARANTINED, count + 1);
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t x;
    uint64_t y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

/* Ids of a queue table, appended at *at, never more than room. */
static int queued_ids(struct spool_txn *t, enum spool_table table, uint64_t *ids, uint64_t room,
                      uint64_t *at)
{
    const struct spool_key zero = spool_key_queue(0, 0, 0);
    struct slice key;
    struct slice record;
    int r = spool_table_seek(t, table, &zero, &key, &record);
    while (r == 0) {
        struct spool_position p;
        if (spool_key_read_queue(key, &p) && *at < room - 1) {
            ids[*at] = p.id;
            ++*at;
        }
        r = spool_table_next(t, table, &key, &record);
    }
    return r == ERR_MISSING ? 0 : r;
}

int spool_requeue_message(struct spool_txn *t, uint64_t id, struct slice record,
                          struct spool_position *ret)
{
    const struct spool_key key = spool_key_part(id, SPOOL_RETRY_BATCH);
    struct spool_message m;
    struct spool_retry retry;
    struct slice state;
    usec_t not_before = 0;
    uint32_t flow = 0;
    if (spool_message_decode(record, id, true, &m) == 0) {
        not_before = m.envelope.not_before;
        flow = spool_flow_of(t->store, &m.envelope);
    }
    int r = spool_table_get(t, SPOOL_TABLE_STATE, &key, &state);
    if (r == 0 && spool_retry_decode(state, id, &retry) == 0 && retry.due > 0) {
        *ret = (struct spool_position){SPOOL_DEFERRED, (uint64_t)retry.due, id, flow};
        return spool_queue_at(t, ret);
    }
    if (r != 0 && r != ERR_MISSING) {
        return r;
    }
    if (not_before > 0) {
        *ret = (struct spool_position){SPOOL_HELD, (uint64_t)not_before, id, flow};
        return spool_queue_at(t, ret);
    }
    return spool_queue_incoming(t, id, flow, ret);
}

/* Walks the messages beside the sorted ids of all queue entries. */
static int requeue_unnamed(struct spool_txn *t, const uint64_t *ids, uint64_t count,
                           uint64_t *ret_requeued)
{
    uint64_t next = 0;
    uint64_t at = 0;
    for (;;) {
        const struct spool_key from = spool_key_id(next);
        struct slice key;
        struct slice record;
        uint64_t id;
        int r = spool_table_seek(t, SPOOL_TABLE_MESSAGE, &from, &key, &record);
        if (r != 0) {
            return r == ERR_MISSING ? 0 : r;
        }
        while (r == 0 && !spool_key_read_id(key, &id)) {
            r = spool_table_next(t, SPOOL_TABLE_MESSAGE, &key, &record);
        }
        if (r != 0) {
            return r == ERR_MISSING ? 0 : r;
        }
        while (at < count && ids[at] < id) {
            at++;
        }
        if (at == count || ids[at] != id) {
            struct spool_position place;
            r = spool_requeue_message(t, id, record, &place);
            if (r != 0) {
                return r;
            }
            ++*ret_requeued;
        }
        if (id == UINT64_MAX) {
            return 0;
        }
        next = id + 1;
    }
}

int spool_requeue_lost(struct spool_txn *t, uint64_t *ret_requeued)
{
    uint64_t messages;
    uint64_t queued = 0;
    *ret_requeued = 0;
    int r = spool_table_count(t, SPOOL_TABLE_MESSAGE, &messages);
    for (uint8_t class = 0; r == 0 && class < SPOOL_CLASS_COUNT; class ++) {
        uint64_t entries = 0;
        r = spool_table_count(t, spool_queue_table(class), &entries);
        queued += entries;
    }
    if (r != 0 || (messages == queued && !t->store->counts_differ)) {
        return r;
    }
    uint64_t room = queued + 1;
    uint64_t *ids = malloc(room * sizeof(*ids));
    if (ids == NULL) {
        return spool_txn_fail(t, -ENOMEM);
    }
    uint64_t count = 0;
    for (uint8_t class = 0; r == 0 && class < SPOOL_CLASS_COUNT; class ++) {
        r = queued_ids(t, spool_queue_table(class), ids, room, &count);
    }
    if (r == 0) {
        qsort(ids, count, sizeof(*ids), compare_ids);
        r = requeue_unnamed(t, ids, count, ret_requeued);
    }
    free(ids);
    return r;
}

static bool is_lost(const struct spool_lost *lost, uint64_t id, uint32_t part)
{
    return (id > lost->from || part >= lost->from_part) && (id < lost->to || part < lost->to_part);
}

static int restore_reason(struct spool_txn *t, uint64_t id, uint32_t index)
{
    static const struct spool_reason unknown = {
        .state = SPOOL_RECIPIENT_FAILED,
        .status = SLICE("5.0.0"),
        .text = SLICE("it failed; why is lost, as the disk that had it was damaged"),
        .remote_mta = SLICE(""),
    };
    const struct spool_key key = spool_key_part(id, index);
    char record[SPOOL_REASON_BYTES_MAX];
    struct slice there;
    void *at;
    int r = spool_table_get(t, SPOOL_TABLE_REASON, &key, &there);
    if (r != ERR_MISSING) {
        return r;
    }
    size_t bytes = spool_reason_encode(&unknown, &key, record);
    r = spool_table_put(t, SPOOL_TABLE_REASON, &key, bytes, &at);
    if (r == 0) {
        memcpy(at, record, bytes);
    }
    return r;
}

/* The states are copied before anything is put, as their page may move then. */
static int restore_batch(struct spool_txn *t, uint64_t id, uint32_t batch,
                         const struct spool_lost *lost)
{
    const struct spool_key key = spool_key_part(id, batch);
    char states[SPOOL_BATCH_RECIPIENTS];
    struct slice record;
    struct slice stored;
    int r = spool_table_get(t, SPOOL_TABLE_STATE, &key, &record);
    if (r != 0) {
        return r == ERR_MISSING ? 0 : r;
    }
    if (spool_blob_decode(record, &key, true, &stored) != 0 || stored.len > sizeof(states)) {
        return 0; /* who reads the message finds out */
    }
    size_t count = stored.len;
    memcpy(states, stored.data, count);
    for (size_t i = 0; r == 0 && i < count; i++) {
        uint32_t index = batch * SPOOL_BATCH_RECIPIENTS + (uint32_t)i;
        if (states[i] == SPOOL_RECIPIENT_FAILED && is_lost(lost, id, index)) {
            r = restore_reason(t, id, index);
        }
    }
    return r;
}

static int restore_range(struct spool_txn *t, const struct spool_lost *lost)
{
    for (uint64_t next = lost->from;;) {
        const struct spool_key from = spool_key_id(next);
        struct slice key;
        struct slice record;
        struct spool_message m;
        uint64_t id = 0;
        int r = spool_table_seek(t, SPOOL_TABLE_MESSAGE, &from, &key, &record);
        while (r == 0 && !spool_key_read_id(key, &id)) {
            r = spool_table_next(t, SPOOL_TABLE_MESSAGE, &key, &record);
        }
        if (r != 0 || id > lost->to) {
            return r == ERR_MISSING ? 0 : r;
        }
        uint32_t recipients =
            spool_message_decode(record, id, true, &m) == 0 ? m.envelope.recipient_count : 0;
        for (uint32_t at = 0; r == 0 && at < recipients; at += SPOOL_BATCH_RECIPIENTS) {
            r = restore_batch(t, id, at / SPOOL_BATCH_RECIPIENTS, lost);
        }
        if (r != 0 || id == UINT64_MAX) {
            return r;
        }
        next = id + 1;
    }
}

int spool_restore_reasons(struct spool_txn *t)
{
    const struct spool_store *s = t->store;
    int r = 0;
    for (unsigned i = 0; r == 0 && i < s->lost_count; i++) {
        r = s->lost[i].table == SPOOL_TABLE_REASON ? restore_range(t, &s->lost[i]) : 0;
    }
    return r;
}
