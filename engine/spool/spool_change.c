/* Owns what a change is made of, and how it is made elsewhere. Called by the files that change
 * messages, by who keeps a copy, and by who makes a spool from one; it must not know where a copy is. */
#include "engine/spool/spool_change.h"

#include "base/error.h"
#include "engine/spool/spool_adopt.h"
#include "engine/spool/spool_signing.h"
#include "engine/spool/spool_table.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

void spool_store_listen(struct spool_store *s, spool_listener *tell, void *ctx)
{
    s->listener = tell;
    s->listener_ctx = ctx;
}

void spool_tell_removed(struct spool_txn *t, uint64_t id)
{
    spool_tell(t->store, SPOOL_CHANGE_REMOVED, id, 0, SLICE(""));
}

/* --- making changes --------------------------------------------------------------------------- */

/* errors: ERR_MISSING: there is no such message; ERR_CORRUPT, storage */
static int find_message(struct spool_txn *t, uint64_t id, struct spool_message *ret)
{
    const struct spool_key key = spool_key_id(id);
    struct slice record;
    int r = spool_table_get(t, SPOOL_TABLE_MESSAGE, &key, &record);
    return r != 0 ? r : spool_message_decode(record, id, false, ret);
}

static int put_bytes(struct spool_txn *t, enum spool_table table, const struct spool_key *key,
                     struct slice bytes)
{
    void *at;
    int r = spool_table_put(t, table, key, bytes.len, &at);
    if (r == 0) {
        memcpy(at, bytes.data, bytes.len);
    }
    return r;
}

/* Pieces from this number on: an id that was given twice has those of another message. */
static int drop_pieces(struct spool_txn *t, enum spool_table table, uint64_t id, uint32_t from)
{
    const struct spool_key key = spool_key_part(id, from);
    struct slice found, record;
    int r = 0;
    while (r == 0) {
        uint64_t found_id = 0;
        uint32_t number;
        r = spool_table_seek(t, table, &key, &found, &record);
        if (r == 0 && (!spool_key_read_part(found, &found_id, &number) || found_id != id)) {
            r = ERR_MISSING;
        }
        r = r == 0 ? spool_table_del_here(t, table) : r;
    }
    return r == ERR_MISSING ? 0 : r;
}

static int apply_message(struct spool_txn *t, const struct spool_change *c)
{
    const struct spool_key key = spool_key_id(c->id);
    struct spool_message m;
    struct slice record;
    if (spool_message_decode(c->bytes, c->id, true, &m) != 0) {
        return ERR_CORRUPT;
    }
    int r = spool_table_get(t, SPOOL_TABLE_MESSAGE, &key, &record);
    if (r != ERR_MISSING) {
        return r; /* it never changes */
    }
    r = put_bytes(t, SPOOL_TABLE_MESSAGE, &key, c->bytes);
    r = r == 0 ? drop_pieces(t, SPOOL_TABLE_BODY, c->id, m.envelope.chunk_count) : r;
    r = r == 0 ? drop_pieces(t, SPOOL_TABLE_RECIPIENTS, c->id, m.batch_count) : r;
    return r == 0 ? spool_table_del(t, SPOOL_TABLE_STAGING, &key) : r;
}

/* A piece that comes before its message waits for it among the staged; one that the message does not have is of
 * another. */
static int apply_piece(struct spool_txn *t, enum spool_table table, const struct spool_change *c)
{
    uint32_t chunks, batches;
    const struct spool_key key = spool_key_part(c->id, c->number);
    const struct spool_key whole = spool_key_id(c->id);
    struct slice record;
    void *at;
    if (c->bytes.len > SPOOL_RECORD_BYTES_MAX) {
        return ERR_CORRUPT;
    }
    int r = spool_table_get(t, SPOOL_TABLE_MESSAGE, &whole, &record);
    if (r == 0 && spool_message_peek(record, &chunks, &batches) &&
        c->number >= (table == SPOOL_TABLE_BODY ? chunks : batches)) {
        return 0;
    }
    r = r == ERR_MISSING ? spool_stage(t, c->id) : r;
    r = r == 0 ? spool_table_put(t, table, &key, spool_blob_bytes(c->bytes.len), &at) : r;
    if (r == 0) {
        spool_blob_encode(c->bytes, &key, at);
    }
    return r;
}

/* reason: NULL: none */
static int apply_state(struct spool_txn *t, const struct spool_change *c, unsigned state,
                       const struct spool_reason *reason)
{
    struct spool_message m;
    int r = find_message(t, c->id, &m);
    if (r != 0) {
        return r;
    }
    if (c->number >= m.envelope.recipient_count || state > SPOOL_RECIPIENT_FAILED) {
        return ERR_CORRUPT;
    }
    return spool_set_recipient(t, c->id, m.envelope.recipient_count, c->number,
                               (enum spool_recipient_state)state, reason);
}

static int apply_reason(struct spool_txn *t, const struct spool_change *c)
{
    const struct spool_key key = spool_key_part(c->id, c->number);
    struct spool_reason reason;
    if (spool_reason_decode(c->bytes, &key, &reason) != 0) {
        return ERR_CORRUPT;
    }
    return apply_state(t, c, reason.state, &reason);
}

/* The record of a message that is there. */
static int apply_beside(struct spool_txn *t, enum spool_table table, const struct spool_key *key,
                        const struct spool_change *c)
{
    struct spool_message m;
    int r = find_message(t, c->id, &m);
    return r != 0 ? r : put_bytes(t, table, key, c->bytes);
}

static int apply_retry(struct spool_txn *t, const struct spool_change *c)
{
    const struct spool_key key = spool_key_part(c->id, SPOOL_RETRY_BATCH);
    struct spool_retry retry;
    return spool_retry_decode(c->bytes, c->id, &retry) != 0
               ? ERR_CORRUPT
               : apply_beside(t, SPOOL_TABLE_STATE, &key, c);
}

static int apply_signing(struct spool_txn *t, const struct spool_change *c)
{
    const struct spool_key key = spool_key_id(c->id);
    return !spool_signing_is_good(c->bytes, &key) ? ERR_CORRUPT
                                                  : apply_beside(t, SPOOL_TABLE_SIGNING, &key, c);
}

/* Pieces that came alone go too, and all reasons of very many: nobody waits for the copy's writer. */
static int apply_removal(struct spool_txn *t, uint64_t id)
{
    bool is_done = false;
    int r = spool_remove_records(t, id);
    while (r == 0 && !is_done) {
        r = spool_discard(t, id, &is_done);
    }
    return r;
}

int spool_apply_change(struct spool_txn *t, const struct spool_change *c)
{
    int r = ERR_CORRUPT;
    switch (c->kind) {
    case SPOOL_CHANGE_MESSAGE:
        r = apply_message(t, c);
        break;
    case SPOOL_CHANGE_BODY:
        r = apply_piece(t, SPOOL_TABLE_BODY, c);
        break;
    case SPOOL_CHANGE_RECIPIENTS:
        r = apply_piece(t, SPOOL_TABLE_RECIPIENTS, c);
        break;
    case SPOOL_CHANGE_RESULT:
        r = c->bytes.len != 1 ? ERR_CORRUPT
                              : apply_state(t, c, (unsigned char)c->bytes.data[0], NULL);
        break;
    case SPOOL_CHANGE_REASON:
        r = apply_reason(t, c);
        break;
    case SPOOL_CHANGE_NOTIFIED:
        r = spool_forget_failures(t, c->id);
        break;
    case SPOOL_CHANGE_RETRY:
        r = apply_retry(t, c);
        break;
    case SPOOL_CHANGE_SIGNING:
        r = apply_signing(t, c);
        break;
    case SPOOL_CHANGE_REMOVED:
        r = apply_removal(t, c->id);
        break;
    case SPOOL_CHANGE_BOUND:
        r = spool_store_bound(t, c->id);
        break;
    case SPOOL_CHANGE_ADOPTED:
        r = c->number == 0 || c->number > UINT16_MAX
                ? ERR_CORRUPT
                : spool_put_adopted(t, (uint16_t)c->number, c->id);
        break;
    case SPOOL_CHANGE_KIND_COUNT:
        break;
    }
    return r == ERR_MISSING ? 0 : r;
}

/* --- telling anew ----------------------------------------------------------------------------- */

enum stage {
    WHOLE_SPOOL, /* what is of no message: the bound */
    IDS,         /* and which ids may have been given */
    MARKS,       /* up to where logs were adopted */
    STAGED_NEXT, /* the next reception that is not complete */
    STAGED_BODY,
    STAGED_RECIPIENTS,
    STAGED_RECORD, /* of a message that is being adopted */
    STAGED_STATES,
    NEXT, /* the next message */
    BODY,
    RECIPIENTS,
    RECORD,
    STATES,
    SIGNING,
};

struct teller {
    struct spool_reader *reader;
    spool_listener *tell;
    void *ctx;
    size_t bytes;
};

static void tell_anew(struct teller *t, enum spool_change_kind kind, uint64_t id, uint32_t number,
                      struct slice bytes)
{
    const struct spool_change change = {kind, id, number, bytes};
    t->tell(t->ctx, &change);
    t->bytes += bytes.len + sizeof(change);
}

/* The first record at or behind the key. errors: ERR_MISSING at the table's end, storage */
static int seek(const struct teller *t, enum spool_table table, const struct spool_key *from,
                struct slice *ret_key, struct slice *ret_record)
{
    MDB_cursor *cursor;
    MDB_val k = spool_val(from), v = {0, NULL};
    int rc = mdb_cursor_open(t->reader->txn, t->reader->store->dbi[table], &cursor);
    if (rc != 0) {
        return spool_error(rc);
    }
    rc = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE);
    mdb_cursor_close(cursor);
    *ret_key = spool_slice(&k);
    *ret_record = spool_slice(&v);
    return spool_reader_result(t->reader, spool_error(rc), NULL);
}

/* The first part of the message from this number on. errors: ERR_MISSING, storage */
static int next_part(const struct teller *t, enum spool_table table, uint64_t id, uint32_t from,
                     uint32_t *ret_number, struct slice *ret_record)
{
    const struct spool_key key = spool_key_part(id, from);
    struct slice found;
    uint64_t found_id = 0;
    int r = seek(t, table, &key, &found, ret_record);
    if (r == 0 && (!spool_key_read_part(found, &found_id, ret_number) || found_id != id)) {
        r = ERR_MISSING; /* a key of another length is damage, which ends what can be told */
    }
    return r;
}

static int get(const struct teller *t, enum spool_table table, const struct spool_key *key,
               struct slice *ret)
{
    MDB_val k = spool_val(key), v;
    int rc = mdb_get(t->reader->txn, t->reader->store->dbi[table], &k, &v);
    if (rc == 0) {
        *ret = spool_slice(&v);
    }
    return spool_reader_result(t->reader, spool_error(rc), NULL);
}

static void go_to(struct spool_retelling *at, enum stage stage)
{
    at->stage = stage;
    at->next = 0;
}

/* One piece of a body or of a list of recipients; after the last one the next stage begins. */
static int tell_piece(struct teller *t, struct spool_retelling *at, enum spool_table table,
                      enum spool_change_kind kind, enum stage then)
{
    uint32_t number;
    struct slice record, bytes;
    int r = next_part(t, table, at->id, at->next, &number, &record);
    if (r == ERR_MISSING) {
        go_to(at, then);
        return 0;
    }
    if (r == 0) {
        const struct spool_key key = spool_key_part(at->id, number);
        int damage =
            spool_reader_result(t->reader, spool_blob_decode(record, &key, true, &bytes), &record);
        r = damage == ERR_CORRUPT ? 0 : damage;
        if (damage == 0) {
            tell_anew(t, kind, at->id, number, bytes);
        }
        at->next = r == 0 ? number + 1 : at->next;
    }
    return r;
}

/* errors: ERR_CORRUPT, storage */
static int tell_record(struct teller *t, struct spool_retelling *at)
{
    const struct spool_key key = spool_key_id(at->id);
    struct spool_message m;
    struct slice record;
    int r = get(t, SPOOL_TABLE_MESSAGE, &key, &record);
    if (r != 0) {
        return r;
    }
    r = spool_reader_result(t->reader, spool_message_decode(record, at->id, true, &m), &record);
    if (r == 0) {
        tell_anew(t, SPOOL_CHANGE_MESSAGE, at->id, 0, record);
        go_to(at, STATES);
    }
    return r;
}

static int tell_state(struct teller *t, uint64_t id, uint32_t index, char state)
{
    const struct spool_key key = spool_key_part(id, index);
    struct spool_reason reason;
    struct slice record;
    int r = ERR_MISSING;
    if (state == SPOOL_RECIPIENT_PENDING) {
        return 0;
    }
    if (state != SPOOL_RECIPIENT_DELIVERED) {
        r = get(t, SPOOL_TABLE_REASON, &key, &record);
        r = r == 0 && spool_reason_decode(record, &key, &reason) != 0 ? ERR_MISSING : r;
    }
    if (r == 0) {
        tell_anew(t, SPOOL_CHANGE_REASON, id, index, record);
    } else if (r == ERR_MISSING) {
        tell_anew(t, SPOOL_CHANGE_RESULT, id, index, slice_make(&state, 1));
        r = 0;
    }
    return r;
}

/* The states of a batch of recipients, or the retry record, behind which the next stage begins. */
static int tell_states(struct teller *t, struct spool_retelling *at, enum stage then)
{
    uint32_t batch;
    struct slice record, states;
    int r = next_part(t, SPOOL_TABLE_STATE, at->id, at->next, &batch, &record);
    if (r == ERR_MISSING) {
        go_to(at, then);
        return 0;
    }
    if (r == 0 && batch == SPOOL_RETRY_BATCH) { /* the last one */
        struct spool_retry retry;
        if (spool_retry_decode(record, at->id, &retry) == 0) {
            tell_anew(t, SPOOL_CHANGE_RETRY, at->id, 0, record);
        }
        go_to(at, then);
        return 0;
    }
    if (r == 0) {
        const struct spool_key key = spool_key_part(at->id, batch);
        r = spool_reader_result(t->reader, spool_blob_decode(record, &key, true, &states), &record);
    }
    for (size_t i = 0; r == 0 && i < states.len; i++) {
        r = tell_state(t, at->id, (uint32_t)(batch * SPOOL_BATCH_RECIPIENTS + i), states.data[i]);
    }
    at->next = r == 0 ? batch + 1 : at->next;
    return r;
}

static int tell_signing(struct teller *t, struct spool_retelling *at)
{
    const struct spool_key key = spool_key_id(at->id);
    struct slice record;
    int r = get(t, SPOOL_TABLE_SIGNING, &key, &record);
    if (r == 0 && spool_signing_is_good(record, &key)) {
        tell_anew(t, SPOOL_CHANGE_SIGNING, at->id, 0, record);
    }
    if (r == 0 || r == ERR_MISSING) {
        go_to(at, NEXT);
        r = 0;
    }
    return r;
}

static int next_staged(struct teller *t, struct spool_retelling *at)
{
    const struct spool_key from = spool_key_id(at->id + 1);
    struct slice key, record;
    int r = seek(t, SPOOL_TABLE_STAGING, &from, &key, &record);
    if (r == 0 && spool_key_read_id(key, &at->id)) {
        go_to(at, STAGED_BODY);
    } else if (r == 0 || r == ERR_MISSING) {
        *at = (struct spool_retelling){.stage = NEXT, .id = at->after, .after = at->after};
        r = 0;
    }
    return r;
}

/* As what it came: with the number of the log that it is adopted from, so that it needs a mark yet. */
static int tell_staged_record(struct teller *t, struct spool_retelling *at)
{
    const struct spool_key key = spool_key_id(at->id);
    struct slice staged, record;
    uint16_t log;
    int r = get(t, SPOOL_TABLE_STAGING, &key, &staged);
    if (r == 0 && spool_staged_message(staged, at->id, &log, &record)) {
        tell_anew(t, SPOOL_CHANGE_MESSAGE, at->id, log, record);
        go_to(at, STAGED_STATES);
    } else if (r == 0 || r == ERR_MISSING) {
        go_to(at, STAGED_NEXT);
        r = 0;
    }
    return r;
}

/* A number that the meta table has, if it does. */
static int tell_number(struct teller *t, struct spool_retelling *at, const char *name,
                       enum spool_change_kind kind, enum stage then)
{
    const struct spool_key key = spool_key_name(name);
    struct slice record;
    uint64_t number;
    int r = get(t, SPOOL_TABLE_META, &key, &record);
    if (r == 0 && spool_number_decode(record, &key, &number) == 0) {
        tell_anew(t, kind, number, 0, SLICE(""));
    }
    if (r == 0 || r == ERR_MISSING) {
        go_to(at, then);
        r = 0;
    }
    return r;
}

static int tell_mark(struct teller *t, struct spool_retelling *at)
{
    uint16_t log;
    uint64_t mark;
    int r = spool_next_adopted(t->reader, at->next, &log, &mark);
    if (r == ERR_MISSING) {
        go_to(at, STAGED_NEXT);
        return 0;
    }
    if (r == 0) {
        tell_anew(t, SPOOL_CHANGE_ADOPTED, mark, log, SLICE(""));
        at->next = log + 1U;
    }
    return r;
}

static int tell_step(struct teller *t, struct spool_retelling *at)
{
    int r = 0;
    switch ((enum stage)at->stage) {
    case WHOLE_SPOOL:
        return tell_number(t, at, SPOOL_META_BOUND, SPOOL_CHANGE_BOUND, IDS);
    case IDS:
        return tell_number(t, at, SPOOL_META_IDS, SPOOL_CHANGE_REMOVED, MARKS);
    case MARKS:
        return tell_mark(t, at);
    case STAGED_NEXT:
        return next_staged(t, at);
    case STAGED_BODY:
        return tell_piece(t, at, SPOOL_TABLE_BODY, SPOOL_CHANGE_BODY, STAGED_RECIPIENTS);
    case STAGED_RECIPIENTS:
        return tell_piece(t, at, SPOOL_TABLE_RECIPIENTS, SPOOL_CHANGE_RECIPIENTS, STAGED_RECORD);
    case STAGED_RECORD:
        return tell_staged_record(t, at);
    case STAGED_STATES:
        r = tell_states(t, at, STAGED_NEXT);
        if (r == ERR_CORRUPT) { /* it is damaged: it cannot become whole any more */
            go_to(at, STAGED_NEXT);
            r = 0;
        }
        return r;
    case NEXT:
        r = spool_next_message(t->reader, at->id, &at->id);
        if (r == 0) {
            go_to(at, BODY);
        }
        return r;
    case BODY:
        return tell_piece(t, at, SPOOL_TABLE_BODY, SPOOL_CHANGE_BODY, RECIPIENTS);
    case RECIPIENTS:
        return tell_piece(t, at, SPOOL_TABLE_RECIPIENTS, SPOOL_CHANGE_RECIPIENTS, RECORD);
    case RECORD:
        r = tell_record(t, at);
        break;
    case STATES:
        r = tell_states(t, at, SIGNING);
        break;
    case SIGNING:
        return tell_signing(t, at);
    }
    if (r == ERR_CORRUPT || r == ERR_MISSING) {
        go_to(at, NEXT); /* it is damaged, or was removed since its first piece was told of */
        r = 0;
    }
    return r;
}

int spool_retell(struct spool_reader *r, struct spool_retelling *at, size_t budget,
                 spool_listener *listener, void *ctx, size_t *ret_bytes)
{
    assert(spool_reader_is_active(r));
    struct teller t = {.reader = r, .tell = listener, .ctx = ctx};
    int err = 0;
    while (err == 0 && t.bytes < budget) {
        err = tell_step(&t, at);
        t.bytes += sizeof(struct spool_change); /* a step is work, also one that tells nothing */
    }
    *ret_bytes = t.bytes;
    return err;
}

uint64_t spool_retelling_done(const struct spool_retelling *at)
{
    if (at->stage < NEXT) {
        return at->after;
    }
    return at->stage == NEXT ? at->id : at->id - 1;
}

struct spool_retelling spool_retell_from(uint64_t id)
{
    return (struct spool_retelling){.id = id, .stage = BODY};
}

bool spool_retelling_has_record(const struct spool_retelling *at)
{
    return at->stage == STATES || at->stage == SIGNING;
}

bool spool_retelling_is_through(const struct spool_retelling *at)
{
    return at->stage == NEXT;
}

int spool_retell_one(struct spool_reader *r, struct spool_retelling *at, size_t budget,
                     spool_listener *listener, void *ctx, size_t *ret_bytes)
{
    assert(spool_reader_is_active(r));
    struct teller t = {.reader = r, .tell = listener, .ctx = ctx};
    int err = 0;
    while (err == 0 && at->stage != NEXT && t.bytes < budget) {
        err = tell_step(&t, at);
        t.bytes += sizeof(struct spool_change);
    }
    *ret_bytes = t.bytes;
    return err;
}

int spool_retelling_bytes(const struct spool_reader *r, uint64_t *ret)
{
    static const enum spool_table told[] = {SPOOL_TABLE_MESSAGE,    SPOOL_TABLE_BODY,
                                            SPOOL_TABLE_RECIPIENTS, SPOOL_TABLE_STATE,
                                            SPOOL_TABLE_REASON,     SPOOL_TABLE_SIGNING};
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
        MDB_stat stat;
        int rc = mdb_stat(r->txn, r->store->dbi[told[i]], &stat);
        if (rc != 0) {
            return spool_error(rc);
        }
        bytes += (stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages) *
                 (uint64_t)stat.ms_psize;
    }
    *ret = bytes;
    return 0;
}
