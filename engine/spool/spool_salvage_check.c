/* Called by spool_salvage.c, on the new spool, which nobody else has open. */
#include "engine/spool/spool_salvage_check.h"

#include "base/error.h"
#include "base/packed.h"
#include "engine/spool/spool_repair.h"
#include "engine/spool/spool_signing.h"
#include "engine/spool/spool_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TXN_STEPS = 5000 };

/* --- ids -------------------------------------------------------------------------------------- */

int spool_ids_add(struct spool_ids *ids, uint64_t id)
{
    if (ids->count == ids->room) {
        size_t room = ids->room == 0 ? 1024 : ids->room * 2;
        uint64_t *grown = realloc(ids->items, room * sizeof(*grown));
        if (grown == NULL) {
            return -ENOMEM;
        }
        ids->items = grown;
        ids->room = room;
    }
    ids->items[ids->count++] = id;
    return 0;
}

int spool_findings_add_range(struct spool_findings *f, uint64_t from, uint64_t to)
{
    int err = spool_ids_add(&f->from, from);
    return err != 0 ? err : spool_ids_add(&f->to, to);
}

void spool_findings_fini(struct spool_findings *f)
{
    free(f->bad.items);
    free(f->repeat.items);
    free(f->staged.items);
    free(f->from.items);
    free(f->to.items);
}

static int compare_items(const void *a, const void *b)
{
    uint64_t x;
    uint64_t y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

static void sort_ids(struct spool_ids *ids)
{
    if (ids->count > 1) {
        qsort(ids->items, ids->count, sizeof(*ids->items), compare_items);
    }
}

/* Find an id among sorted ones; NULL: it is none of them. */
static uint64_t *find_id(const struct spool_ids *ids, uint64_t id)
{
    return ids->count == 0
               ? NULL
               : bsearch(&id, ids->items, ids->count, sizeof(*ids->items), compare_items);
}

/* --- records ---------------------------------------------------------------------------------- */

bool spool_salvage_key(enum spool_table table, struct slice key, uint64_t *ret_id)
{
    struct spool_position place;
    uint32_t number;
    uint64_t time;
    *ret_id = 0;
    switch (table) {
    case SPOOL_TABLE_MESSAGE:
    case SPOOL_TABLE_STAGING:
    case SPOOL_TABLE_SIGNING:
        return spool_key_read_id(key, ret_id);
    case SPOOL_TABLE_BODY:
    case SPOOL_TABLE_RECIPIENTS:
    case SPOOL_TABLE_STATE:
    case SPOOL_TABLE_REASON:
        return spool_key_read_part(key, ret_id, &number);
    case SPOOL_TABLE_INCOMING:
    case SPOOL_TABLE_DEFERRED:
    case SPOOL_TABLE_HELD:
        if (spool_key_read_old_queue(key, &time, ret_id)) {
            return true; /* of a format before 5 */
        }
        *ret_id = spool_key_read_queue(key, &place) ? place.id : 0;
        return key.len == spool_key_queue(0, 0, 0).len;
    case SPOOL_TABLE_FLOW:
        return spool_key_read_flow(key, &number);
    case SPOOL_TABLE_QUARANTINE:
        return key.len == 13;
    case SPOOL_TABLE_STRIKES:
        return key.len == SPOOL_STRIKE_KEY_BYTES;
    case SPOOL_TABLE_META:
    case SPOOL_TABLE_TWIN:
        return key.len > 1;
    case SPOOL_TABLE_SUPPRESSED:
        return spool_suppress_is_key(key);
    case SPOOL_TABLE_COUNT:
        break;
    }
    return false;
}

static bool is_states(struct slice states)
{
    bool is_right = states.len > 0 && states.len <= SPOOL_BATCH_RECIPIENTS;
    for (size_t i = 0; is_right && i < states.len; i++) {
        is_right = states.data[i] >= 0 && states.data[i] <= SPOOL_RECIPIENT_FAILED;
    }
    return is_right;
}

bool spool_salvage_is_good(enum spool_table table, const struct spool_key *key, struct slice value)
{
    const struct slice name = slice_make((const char *)key->bytes, key->len);
    struct spool_message message;
    struct spool_retry retry;
    struct spool_reason reason;
    struct slice bytes;
    uint64_t id = 0;
    uint32_t number = 0;
    if (table == SPOOL_TABLE_MESSAGE) {
        return spool_key_read_id(name, &id) && spool_message_decode(value, id, true, &message) == 0;
    }
    if (table == SPOOL_TABLE_QUARANTINE) {
        return true; /* damaged records are kept in quarantine as they were found */
    }
    if (spool_queue_table(SPOOL_INCOMING) == table || spool_queue_table(SPOOL_DEFERRED) == table ||
        spool_queue_table(SPOOL_HELD) == table) {
        return value.len == 0;
    }
    if (table == SPOOL_TABLE_FLOW) {
        struct spool_flow flow;
        return spool_key_read_flow(name, &number) && spool_flow_decode(value, number, &flow) == 0;
    }
    if (table == SPOOL_TABLE_SIGNING) {
        return spool_signing_is_good(value, key);
    }
    if (table == SPOOL_TABLE_STRIKES) {
        return spool_blob_decode(value, key, true, &bytes) == 0;
    }
    if (!spool_key_read_part(name, &id, &number)) {
        return false;
    }
    if (table == SPOOL_TABLE_REASON) {
        return spool_reason_decode(value, key, &reason) == 0;
    }
    if (table == SPOOL_TABLE_STATE && number == SPOOL_RETRY_BATCH) {
        return spool_retry_decode(value, id, &retry) == 0;
    }
    return spool_blob_decode(value, key, true, &bytes) == 0 &&
           (table != SPOOL_TABLE_STATE || is_states(bytes));
}

/* Whether what is in a leaf could be a batch of recipients: addresses one behind the other. */
static bool is_packed(struct slice packed)
{
    struct slice address;
    bool has_any = false;
    while (packed_next(&packed, &address)) {
        has_any = true;
    }
    return has_any && packed.len == 0;
}

/* The value of a record that is not known to be whole; large ones are not looked at, as only bodies
 * and long lists have them. */
static bool fits_table(const struct spool_node *node, enum spool_table table)
{
    struct slice bytes;
    uint64_t id;
    if (table == SPOOL_TABLE_SUPPRESSED) {
        return !node->is_tree && !node->is_large && spool_suppress_is_good(node->key, node->value);
    }
    if (!spool_salvage_key(table, node->key, &id) || node->is_tree) {
        return false;
    }
    if (node->is_large) {
        return table == SPOOL_TABLE_MESSAGE || table == SPOOL_TABLE_BODY;
    }
    struct spool_key key = {.len = node->key.len};
    memcpy(key.bytes, node->key.data, node->key.len);
    if (!spool_salvage_is_good(table, &key, node->value)) {
        return false;
    }
    return table != SPOOL_TABLE_RECIPIENTS ||
           (spool_blob_decode(node->value, &key, true, &bytes) == 0 && is_packed(bytes));
}

/* Large records of a body and of recipients have the same look: the head of the value tells. */
static bool is_large_packed(const struct spool_file *file, const struct spool_node *node)
{
    char *record = malloc(SPOOL_PAGE_HEAD + node->bytes);
    struct slice bytes;
    struct spool_key key = {.len = node->key.len};
    memcpy(key.bytes, node->key.data, node->key.len);
    bool is_right = record != NULL &&
                    spool_file_read(file, node->page, record, SPOOL_PAGE_HEAD + node->bytes) == 0 &&
                    spool_blob_decode(slice_make(record + SPOOL_PAGE_HEAD, node->bytes), &key, true,
                                      &bytes) == 0 &&
                    is_packed(bytes);
    free(record);
    return is_right;
}

int spool_salvage_table(const struct spool_file *file, const char *bytes)
{
    static const enum spool_table tables[] = {SPOOL_TABLE_MESSAGE, SPOOL_TABLE_REASON,
                                              SPOOL_TABLE_STATE,   SPOOL_TABLE_RECIPIENTS,
                                              SPOOL_TABLE_BODY,    SPOOL_TABLE_SUPPRESSED};
    const size_t page_bytes = file->meta.page_bytes;
    unsigned best = 0;
    int found = -1;
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
        unsigned good = 0;
        for (unsigned i = 0; i < spool_page_nodes(bytes, page_bytes); i++) {
            struct spool_node node;
            if (!spool_page_node(bytes, page_bytes, SPOOL_PAGE_LEAF, i, &node)) {
                continue;
            }
            bool is_list = node.is_large && tables[t] == SPOOL_TABLE_RECIPIENTS &&
                           node.key.len == 12 && node.bytes <= SPOOL_RECORD_BYTES_MAX &&
                           is_large_packed(file, &node);
            good += is_list || fits_table(&node, tables[t]);
        }
        if (good > best) { /* the stricter ones come first */
            best = good;
            found = (int)tables[t];
        }
    }
    return found;
}

/* --- messages --------------------------------------------------------------------------------- */

struct settling {
    struct spool_store *store;
    struct spool_txn *txn;
    unsigned steps;
    struct spool_findings *findings;
    struct spool_salvage *report;
    struct spool_ids alive; /* whole messages, sorted */
    struct spool_ids lost;
    uint8_t *is_placed; /* a byte for each of the whole ones */
};

static int turn(struct settling *s)
{
    if (++s->steps % TXN_STEPS != 0) {
        return 0;
    }
    struct spool_txn *t = s->txn;
    s->txn = NULL;
    int err = spool_commit(t);
    return err != 0 ? err : spool_begin(s->store, &s->txn);
}

static void tell_fate(struct settling *s, enum spool_fate fate, uint64_t id)
{
    s->report->counts[fate]++;
    s->report->on_message(s->report->ctx, fate, id);
}

/* *ret_has: whether all parts from 0 on are there. errors: of the storage */
static int has_parts(struct settling *s, enum spool_table table, uint64_t id, uint32_t count,
                     bool *ret_has)
{
    int err = 0;
    for (uint32_t i = 0; err == 0 && i < count; i++) {
        const struct spool_key key = spool_key_part(id, i);
        struct slice record;
        err = spool_table_get(s->txn, table, &key, &record);
    }
    *ret_has = err == 0;
    return err == ERR_MISSING ? 0 : err;
}

static bool may_repeat(const struct settling *s, uint64_t id, uint32_t recipients)
{
    const struct spool_findings *f = s->findings;
    bool is_in_range = false;
    for (size_t i = 0; i < f->from.count && recipients > 1; i++) {
        is_in_range = is_in_range || (id >= f->from.items[i] && id <= f->to.items[i]);
    }
    return s->report->is_root_unsure || is_in_range || find_id(&f->repeat, id) != NULL;
}

static int settle_message(struct settling *s, uint64_t id, struct slice record)
{
    struct spool_message m;
    bool has_body = false;
    bool has_list = false;
    int err = spool_message_decode(record, id, true, &m);
    bool is_good = err == 0 && find_id(&s->findings->bad, id) == NULL;
    const uint32_t recipients = is_good ? m.envelope.recipient_count : 0;
    const uint32_t batches = is_good ? m.batch_count : 0;
    err = is_good ? has_parts(s, SPOOL_TABLE_BODY, id, m.envelope.chunk_count, &has_body) : 0;
    if (err == 0 && is_good) {
        err = has_parts(s, SPOOL_TABLE_RECIPIENTS, id, batches, &has_list);
    }
    if (err != 0) {
        return err;
    }
    if (is_good && has_body && has_list) {
        tell_fate(s, may_repeat(s, id, recipients) ? SPOOL_REPEAT : SPOOL_KEPT, id);
        return spool_ids_add(&s->alive, id);
    }
    const struct spool_position nowhere = {SPOOL_INCOMING, 0, id, 0};
    err = spool_quarantine(s->txn, &nowhere);
    return err != 0 ? err : spool_ids_add(&s->lost, id);
}

static int settle_messages(struct settling *s)
{
    uint64_t next = 0;
    for (;;) {
        const struct spool_key from = spool_key_id(next);
        struct slice key;
        struct slice record;
        uint64_t id = 0;
        int err = spool_table_seek(s->txn, SPOOL_TABLE_MESSAGE, &from, &key, &record);
        if (err != 0 || !spool_key_read_id(key, &id)) {
            return err == ERR_MISSING ? 0 : err; /* keys of another kind were not copied */
        }
        err = settle_message(s, id, record);
        if (err == 0) {
            err = turn(s);
        }
        if (err != 0 || id == UINT64_MAX) {
            return err;
        }
        next = id + 1;
    }
}

/* Places of what is not there, and second places, go. */
static int settle_queue(struct settling *s, enum spool_table table)
{
    struct spool_key from = spool_key_queue(0, 0, 0);
    for (;;) {
        struct slice key;
        struct slice record;
        struct spool_position p;
        int err = spool_table_seek(s->txn, table, &from, &key, &record);
        if (err != 0 || !spool_key_read_queue(key, &p)) {
            return err == ERR_MISSING ? 0 : err; /* keys of another kind were not copied */
        }
        const uint64_t id = p.id, time = p.time;
        const uint64_t *there = find_id(&s->alive, id);
        if (there != NULL && !s->is_placed[there - s->alive.items]) {
            s->is_placed[there - s->alive.items] = 1;
        } else {
            err = spool_table_del_here(s->txn, table);
            if (err == 0 && there == NULL) {
                err = spool_ids_add(&s->lost, id);
            }
        }
        if (err == 0) {
            err = turn(s);
        }
        if (err != 0) {
            return err;
        }
        from = spool_key_queue(p.flow, id == UINT64_MAX ? time + 1 : time, id + 1);
    }
}

/* Parts of no message: of one that is lost, or of a reception that never ended. */
static int settle_parts(struct settling *s, enum spool_table table)
{
    uint64_t next = 0;
    for (;;) {
        const struct spool_key from = spool_key_part(next, 0);
        struct slice key;
        struct slice record;
        uint64_t id = 0;
        uint32_t number;
        int err = spool_table_seek(s->txn, table, &from, &key, &record);
        if (err != 0 || !spool_key_read_part(key, &id, &number)) {
            return err == ERR_MISSING ? 0 : err;
        }
        if (find_id(&s->alive, id) == NULL) {
            unsigned deleted = 0;
            err = spool_parts_del(s->txn, table, id, UINT32_MAX, &deleted);
            if (err == 0 && find_id(&s->findings->staged, id) == NULL) {
                err = spool_ids_add(&s->lost, id);
            }
        }
        if (err == 0) {
            err = turn(s);
        }
        if (err != 0 || id == UINT64_MAX) {
            return err;
        }
        next = id + 1;
    }
}

static void tell_lost(struct settling *s)
{
    sort_ids(&s->lost);
    for (size_t i = 0; i < s->lost.count; i++) {
        uint64_t id = s->lost.items[i];
        if (i == 0 || id != s->lost.items[i - 1]) {
            tell_fate(s, SPOOL_LOST, id);
        }
    }
}

/* What was copied of the flow table, and numbers of places that have lost their names. */
static int load_flows(struct settling *s)
{
    s->store->counts_differ = true;
    s->store->flows.is_doubted = true;
    int err = spool_flows_load(s->txn);
    return err != 0 ? err : spool_flows_next_sequence(s->txn, &s->store->next_sequence);
}

static int settle_all(struct settling *s)
{
    static const enum spool_table parts[] = {SPOOL_TABLE_BODY, SPOOL_TABLE_RECIPIENTS,
                                             SPOOL_TABLE_STATE, SPOOL_TABLE_REASON};
    uint64_t requeued;
    int err = settle_messages(s);
    if (err == 0) {
        s->is_placed = calloc(1, s->alive.count + 1);
        err = s->is_placed == NULL ? -ENOMEM : 0;
    }
    for (uint8_t class = 0; err == 0 && class < SPOOL_CLASS_COUNT; class ++) {
        err = settle_queue(s, spool_queue_table(class));
    }
    for (size_t i = 0; err == 0 && i < sizeof(parts) / sizeof(parts[0]); i++) {
        err = settle_parts(s, parts[i]);
    }
    for (size_t i = 0; err == 0 && i < s->findings->bad.count; i++) {
        uint64_t id = s->findings->bad.items[i];
        bool is_lost = find_id(&s->alive, id) == NULL && find_id(&s->findings->staged, id) == NULL;
        err = is_lost ? spool_ids_add(&s->lost, id) : 0;
    }
    if (err == 0) {
        err = load_flows(s);
    }
    err = err != 0 ? err : spool_requeue_lost(s->txn, &requeued);
    err = err != 0 ? err : spool_reserve_sequence(s->txn);
    return err != 0 ? err : spool_restore_reasons(s->txn);
}

int spool_salvage_settle(struct spool_store *store, struct spool_findings *f,
                         struct spool_salvage *report)
{
    struct settling s = {.store = store, .findings = f, .report = report};
    sort_ids(&f->bad);
    sort_ids(&f->repeat);
    sort_ids(&f->staged);
    int err = spool_begin(store, &s.txn);
    if (err == 0) {
        err = settle_all(&s);
    }
    if (err == 0) {
        err = spool_commit(s.txn);
    } else {
        spool_abort(s.txn);
    }
    if (err == 0) {
        tell_lost(&s);
    }
    free(s.alive.items);
    free(s.lost.items);
    free(s.is_placed);
    return err;
}
