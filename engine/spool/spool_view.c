/* Reading the spool: one struct spool_reader a thread, renewed each pass. Used by every thread that
 * looks at messages; changes nothing. How the writer takes the environment away: spool_env.h. */
#include "base/error.h"
#include "engine/spool/spool_env.h"
#include "engine/spool/spool_store.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int spool_reader_new(struct spool_store *s, struct spool_reader **ret)
{
    struct spool_reader *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        return -ENOMEM;
    }
    r->store = s;
    atomic_init(&r->state, SPOOL_READER_IDLE);
    pthread_mutex_lock(&s->readers_lock);
    list_push_back(&s->readers, &r->link);
    pthread_mutex_unlock(&s->readers_lock);
    *ret = r;
    return 0;
}

void spool_reader_detach(struct spool_reader *r)
{
    for (int i = 0; i < SPOOL_CLASS_COUNT; i++) {
        if (r->scan[i] != NULL) {
            mdb_cursor_close(r->scan[i]);
            r->scan[i] = NULL;
        }
    }
    for (int i = 0; i < SPOOL_WALK_CURSOR_COUNT; i++) {
        if (r->walk[i] != NULL) {
            mdb_cursor_close(r->walk[i]);
            r->walk[i] = NULL;
        }
    }
    if (r->txn != NULL) {
        mdb_txn_abort(r->txn);
        r->txn = NULL;
    }
    memset(r->verified, 0, sizeof(r->verified));
}

void spool_reader_free(struct spool_reader *r)
{
    if (r == NULL) {
        return;
    }
    assert(!spool_reader_is_active(r));
    /* The lock keeps a reopen from closing the environment in between. */
    pthread_mutex_lock(&r->store->readers_lock);
    list_remove(&r->link);
    spool_reader_detach(r);
    pthread_mutex_unlock(&r->store->readers_lock);
    free(r);
}

int spool_reader_begin(struct spool_reader *r)
{
    struct spool_store *s = r->store;
    assert(!spool_reader_is_active(r));
    /* The store of `state` and the load of `suspended` pair with those in spool_store_reopen. */
    atomic_store_explicit(&r->state, SPOOL_READER_ACTIVE, memory_order_seq_cst);
    if (atomic_load_explicit(&s->suspended, memory_order_seq_cst) != 0) {
        atomic_store_explicit(&r->state, SPOOL_READER_IDLE, memory_order_release);
        return ERR_AGAIN;
    }
    r->suppress_seen = spool_suppress_changes(s); /* what is added later has a higher number */
    int rc;
    if (r->txn != NULL) {
        rc = mdb_txn_renew(r->txn);
    } else {
        rc = mdb_txn_begin(s->env, NULL, MDB_RDONLY, &r->txn);
        if (rc != 0) {
            r->txn = NULL;
        }
    }
    memset(r->scan_is_renewed, 0, sizeof(r->scan_is_renewed));
    if (rc != 0) {
        atomic_store_explicit(&r->state, SPOOL_READER_IDLE, memory_order_release);
        /* After a panic the writer reopens. */
        return rc == MDB_PANIC ? ERR_AGAIN : spool_error(rc);
    }
    return 0;
}

void spool_reader_end(struct spool_reader *r)
{
    assert(spool_reader_is_active(r));
    struct spool_store *s = r->store;
    mdb_txn_reset(r->txn);
    atomic_store_explicit(&r->state, SPOOL_READER_IDLE, memory_order_release);
    if (spool_is_in_doubt(s) && s->on_damage != NULL) {
        s->on_damage(s->on_damage_ctx);
    }
}

int spool_reader_result(const struct spool_reader *r, int rc, const struct slice *record)
{
    struct spool_store *s = r->store;
    if (rc == 0 || !spool_is_in_doubt(s)) {
        return rc;
    }
    if (record != NULL && spool_is_large(s, record->data) &&
        spool_guard_covers(&s->guard, record->data, record->len)) {
        return ERR_CORRUPT;
    }
    return ERR_AGAIN;
}

bool spool_reader_is_active(const struct spool_reader *r)
{
    return atomic_load_explicit(&r->state, memory_order_relaxed) == SPOOL_READER_ACTIVE;
}

static int view_get(struct spool_reader *r, enum spool_table table, const struct spool_key *key,
                    struct slice *ret)
{
    assert(spool_reader_is_active(r));
    MDB_val k = spool_val(key);
    MDB_val v;
    int rc = mdb_get(r->txn, r->store->dbi[table], &k, &v);
    if (rc != 0) {
        return spool_reader_result(r, spool_error(rc), NULL);
    }
    if (v.mv_size > SPOOL_RECORD_BYTES_MAX) {
        return ERR_CORRUPT; /* a node whose size is damaged: reading it might never end */
    }
    *ret = spool_slice(&v);
    return 0;
}

/* Pages that are wanted soon, gathered while they lie next to each other. */
struct page_run {
    char *from, *to; /* page boundaries in the map; equal: empty */
};

static void page_run_ask(struct page_run *run)
{
    /* The kernel cuts what one call asks for at the device's readahead, 128 KB by default. */
    enum { ASK_BYTES = 128 << 10 };
    while (run->from < run->to) {
        size_t left = (size_t)(run->to - run->from);
        size_t part = left < ASK_BYTES ? left : ASK_BYTES;
        (void)madvise(run->from, part, MADV_WILLNEED); /* a wish: reading works without it */
        run->from += part;
    }
}

/* A record that shares its page with its key is in memory when it has been found. */
static void page_run_add(struct page_run *run, struct slice record)
{
    uintptr_t mask = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
    if (record.len <= mask / 2) {
        return;
    }
    char *from = (char *)((uintptr_t)record.data & ~mask);
    char *to = (char *)(((uintptr_t)record.data + record.len + mask) & ~mask);
    if (from != run->to) {
        page_run_ask(run);
        run->from = from;
    }
    run->to = to;
}

static size_t verified_slot(uint64_t id, uint64_t part)
{
    return (size_t)((id + part * 7) & (SPOOL_VERIFIED_SLOTS - 1));
}

static bool is_verified(const struct spool_reader *r, uint64_t id, uint64_t part)
{
    size_t slot = verified_slot(id, part);
    return r->verified[slot].id == id && r->verified[slot].part == part && id != 0;
}

static void set_verified(struct spool_reader *r, uint64_t id, uint64_t part)
{
    size_t slot = verified_slot(id, part);
    r->verified[slot].id = id;
    r->verified[slot].part = part;
}

static int view_message(struct spool_reader *r, uint64_t id, struct spool_message *ret)
{
    const struct spool_key key = spool_key_id(id);
    struct slice record;
    int rc = view_get(r, SPOOL_TABLE_MESSAGE, &key, &record);
    if (rc != 0) {
        return rc;
    }
    rc = spool_message_decode(record, id, !is_verified(r, id, 0), ret);
    if (rc == 0) {
        set_verified(r, id, 0);
    }
    return spool_reader_result(r, rc, &record);
}

int spool_read_message(struct spool_reader *r, uint64_t id, struct spool_envelope *ret,
                       struct slice *ret_body)
{
    struct spool_message m;
    int rc = view_message(r, id, &m);
    if (rc != 0) {
        return rc;
    }
    *ret = m.envelope;
    *ret_body = m.body;
    return 0;
}

/* The record says whether its content lies in it, so that pieces which some other message of this id left
 * are never taken for it. errors: ERR_MISSING: there is no such message, or its content is in pieces */
static int view_inline(struct spool_reader *r, uint64_t id, struct slice *ret)
{
    struct spool_message m;
    int rc = view_message(r, id, &m);
    if (rc == 0 && m.envelope.chunk_count > 0) {
        rc = ERR_MISSING;
    }
    if (rc == 0) {
        *ret = m.body;
    }
    return rc;
}

int spool_read_chunk(struct spool_reader *r, uint64_t id, uint32_t chunk, struct slice *ret)
{
    const struct spool_key key = spool_key_part(id, chunk);
    const uint64_t part = (uint64_t)chunk + 1;
    struct slice record;
    int rc = chunk == 0 ? view_inline(r, id, ret) : ERR_MISSING;
    if (rc != ERR_MISSING) {
        return rc;
    }
    rc = view_get(r, SPOOL_TABLE_BODY, &key, &record);
    if (rc != 0) {
        return rc;
    }
    bool is_new = !is_verified(r, id, part);
    if (is_new) {
        struct page_run run = {NULL, NULL};
        page_run_add(&run, record);
        page_run_ask(&run);
    }
    rc = spool_blob_decode(record, &key, is_new, ret);
    if (rc == 0) {
        set_verified(r, id, part);
    }
    return spool_reader_result(r, rc, &record);
}

int spool_read_recipients(struct spool_reader *r, uint64_t id, uint32_t batch,
                          struct slice *ret_packed)
{
    struct spool_message m;
    int rc = view_message(r, id, &m);
    if (rc != 0) {
        return rc;
    }
    if (m.batch_count == 0) {
        if (batch != 0) {
            return ERR_MISSING;
        }
        *ret_packed = m.packed;
        return 0;
    }
    const struct spool_key key = spool_key_part(id, batch);
    struct slice record;
    rc = view_get(r, SPOOL_TABLE_RECIPIENTS, &key, &record);
    return rc != 0
               ? rc
               : spool_reader_result(r, spool_blob_decode(record, &key, true, ret_packed), &record);
}

int spool_read_states(struct spool_reader *r, uint64_t id, uint32_t batch, struct slice *ret_states)
{
    const struct spool_key key = spool_key_part(id, batch);
    struct slice record;
    int rc = view_get(r, SPOOL_TABLE_STATE, &key, &record);
    return rc != 0
               ? rc
               : spool_reader_result(r, spool_blob_decode(record, &key, true, ret_states), &record);
}

int spool_read_retry(struct spool_reader *r, uint64_t id, struct spool_retry *ret)
{
    const struct spool_key key = spool_key_part(id, SPOOL_RETRY_BATCH);
    struct slice record;
    int rc = view_get(r, SPOOL_TABLE_STATE, &key, &record);
    if (rc == ERR_MISSING) {
        *ret = (struct spool_retry){0};
        return 0;
    }
    return rc != 0 ? rc : spool_retry_decode(record, id, ret);
}

int spool_read_reason(struct spool_reader *r, uint64_t id, uint32_t index, struct spool_reason *ret)
{
    const struct spool_key key = spool_key_part(id, index);
    struct slice record;
    int rc = view_get(r, SPOOL_TABLE_REASON, &key, &record);
    return rc != 0 ? rc : spool_reason_decode(record, &key, ret);
}

/* returns LMDB's result */
static int scan_cursor(struct spool_reader *r, enum spool_class class, MDB_cursor **ret)
{
    int rc = 0;
    if (r->scan[class] == NULL) {
        rc = mdb_cursor_open(r->txn, r->store->dbi[spool_queue_table((uint8_t) class)],
                             &r->scan[class]);
        if (rc != 0) {
            r->scan[class] = NULL;
        }
    } else if (!r->scan_is_renewed[class]) {
        rc = mdb_cursor_renew(r->txn, r->scan[class]);
    }
    if (rc == 0) {
        r->scan_is_renewed[class] = true;
        *ret = r->scan[class];
    }
    return rc;
}

int spool_scan(struct spool_reader *r, enum spool_class class, const struct spool_position *after,
               struct spool_position *ret)
{
    assert(spool_reader_is_active(r));
    assert(after == NULL || (after->id == 0 && after->flow == 0) || after->class == class);
    MDB_cursor *cursor;
    int rc = scan_cursor(r, class, &cursor);
    if (rc != 0) {
        return spool_error(rc);
    }
    const struct spool_position start = after == NULL ? (struct spool_position){0} : *after;
    const struct spool_key from = spool_key_queue(start.flow, start.time, start.id);
    MDB_val k = spool_val(&from);
    MDB_val v;
    rc = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE);
    while (rc == 0) {
        struct spool_position found = {.class = (uint8_t) class};
        if (spool_key_read_queue(spool_slice(&k), &found) &&
            (found.time != start.time || found.id != start.id || found.flow != start.flow)) {
            *ret = found;
            return 0;
        }
        rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT);
    }
    return spool_reader_result(r, spool_error(rc), NULL);
}

int spool_scan_flow(struct spool_reader *r, const struct spool_position *after,
                    struct spool_position *ret)
{
    struct spool_position found;
    int rc = spool_scan(r, (enum spool_class)after->class, after, &found);
    if (rc == 0 && found.flow != after->flow) {
        return ERR_MISSING;
    }
    if (rc == 0) {
        *ret = found;
    }
    return rc;
}

int spool_scan_some(struct spool_reader *r, const struct spool_position *after,
                    struct spool_position *ret, uint32_t most, uint32_t *ret_count)
{
    uint32_t count = 1;
    int rc = spool_scan_flow(r, after, &ret[0]);
    if (rc != 0) {
        return rc;
    }
    MDB_cursor *cursor = r->scan[after->class];
    MDB_val k, v;
    while (count < most && mdb_cursor_get(cursor, &k, &v, MDB_NEXT) == 0) {
        struct spool_position found = {.class = after->class};
        if (!spool_key_read_queue(spool_slice(&k), &found)) {
            continue; /* damaged: passed over */
        }
        if (found.flow != after->flow) {
            break;
        }
        ret[count++] = found;
    }
    *ret_count = count;
    return spool_reader_result(r, 0, NULL);
}

int spool_count_flows(struct spool_reader *r, enum spool_class class,
                      void (*note)(void *ctx, uint32_t flow, uint64_t messages), void *ctx)
{
    assert(spool_reader_is_active(r));
    MDB_cursor *cursor;
    MDB_val k, v;
    struct spool_position found;
    uint32_t flow = 0;
    uint64_t messages = 0;
    int rc = scan_cursor(r, class, &cursor);
    for (rc = rc == 0 ? mdb_cursor_get(cursor, &k, &v, MDB_FIRST) : rc; rc == 0;
         rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT)) {
        if (!spool_key_read_queue(spool_slice(&k), &found)) {
            continue;
        }
        if (found.flow != flow && messages > 0) {
            note(ctx, flow, messages);
            messages = 0;
        }
        flow = found.flow;
        messages++;
    }
    if (messages > 0) {
        note(ctx, flow, messages);
    }
    return rc == MDB_NOTFOUND ? 0 : spool_reader_result(r, spool_error(rc), NULL);
}

int spool_read_flow(struct spool_reader *r, uint32_t number, struct spool_flow *ret)
{
    const struct spool_key key = spool_key_flow(number);
    struct slice record;
    if (number == 0) {
        *ret =
            (struct spool_flow){.class = MAIL_NORMAL, .tenant = SLICE(""), .campaign = SLICE("")};
        return 0;
    }
    int rc = view_get(r, SPOOL_TABLE_FLOW, &key, &record);
    return rc != 0 ? rc : spool_flow_decode(record, number, ret);
}

int spool_next_flow(struct spool_reader *r, uint32_t after, struct spool_flow *ret)
{
    assert(spool_reader_is_active(r));
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(r->txn, r->store->dbi[SPOOL_TABLE_FLOW], &cursor);
    if (rc != 0) {
        return spool_error(rc);
    }
    const struct spool_key from = spool_key_flow(after);
    MDB_val k = spool_val(&from);
    MDB_val v;
    rc = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE);
    while (rc == 0) {
        uint32_t number;
        if (spool_key_read_flow(spool_slice(&k), &number) && number > after) {
            *ret = (struct spool_flow){
                .number = number, .class = MAIL_NORMAL, .tenant = SLICE(""), .campaign = SLICE("")};
            (void)!spool_flow_decode(spool_slice(&v), number, ret); /* damaged: it has no names */
            break;
        }
        rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    return spool_reader_result(r, spool_error(rc), NULL);
}

/* Finds where the record lies, without touching its bytes. */
static void ask_message(struct spool_reader *r, uint64_t id, struct page_run *run)
{
    const struct spool_key key = spool_key_id(id);
    struct slice record = SLICE("");
    if (view_get(r, SPOOL_TABLE_MESSAGE, &key, &record) == 0) {
        page_run_add(run, record);
    }
}

/* Whether the end of the message is in the page cache. One that cannot be looked up is not. */
static bool is_resident(struct spool_reader *r, uint64_t id)
{
    const struct spool_key key = spool_key_id(id);
    struct slice record = SLICE("");
    unsigned char state = 0;
    if (view_get(r, SPOOL_TABLE_MESSAGE, &key, &record) != 0 || record.len == 0) {
        return false;
    }
    uintptr_t page =
        ((uintptr_t)record.data + record.len - 1) & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    return mincore((void *)page, 1, &state) == 0 && (state & 1) != 0;
}

/* Finding a message and asking for it costs as much as reading it when it is in the page cache. While those
 * that were looked at lately all were, one in some is looked at. */
static bool is_worth_asking(struct spool_reader *r, uint64_t id)
{
    enum { ENOUGH = 8, LOOKS_EVERY = 8 };
    if (r->resident >= ENOUGH && ++r->unasked < LOOKS_EVERY) {
        return false;
    }
    r->unasked = 0;
    if (!is_resident(r, id)) {
        r->resident = 0;
        return true;
    }
    if (r->resident < ENOUGH) {
        r->resident++;
    }
    return r->resident < ENOUGH;
}

void spool_prefetch_messages(struct spool_reader *r, const uint64_t *ids, uint32_t count)
{
    struct page_run run = {NULL, NULL};
    if (count == 0 || !is_worth_asking(r, ids[0])) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        ask_message(r, ids[i], &run);
    }
    page_run_ask(&run);
}

uint32_t spool_prefetch(struct spool_reader *r, const struct spool_position *after, uint64_t until,
                        uint32_t limit, struct spool_position *ret_last)
{
    struct spool_position at = *after;
    struct page_run run = {NULL, NULL};
    uint32_t count = 0;
    while (count < limit && spool_scan_flow(r, &at, &at) == 0 && at.time <= until) {
        ask_message(r, at.id, &run);
        *ret_last = at;
        count++;
    }
    page_run_ask(&run);
    return count;
}

int spool_next_message(struct spool_reader *r, uint64_t after, uint64_t *ret_id)
{
    assert(spool_reader_is_active(r));
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(r->txn, r->store->dbi[SPOOL_TABLE_MESSAGE], &cursor);
    if (rc != 0) {
        return spool_error(rc);
    }
    const struct spool_key from = spool_key_id(after);
    MDB_val k = spool_val(&from);
    MDB_val v;
    rc = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE);
    while (rc == 0) {
        uint64_t found;
        if (spool_key_read_id(spool_slice(&k), &found) && found > after) {
            *ret_id = found;
            break;
        }
        rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    return spool_reader_result(r, spool_error(rc), NULL);
}

static int view_entries(struct spool_reader *r, enum spool_table table, uint64_t *ret)
{
    MDB_stat stat;
    int rc = mdb_stat(r->txn, r->store->dbi[table], &stat);
    if (rc == 0) {
        *ret = stat.ms_entries - (uint64_t)r->store->phantoms[table];
    }
    return spool_error(rc);
}

int spool_read_counts(struct spool_reader *r, struct spool_counts *ret)
{
    assert(spool_reader_is_active(r));
    struct spool_counts counts = {0};
    const struct spool_key name = spool_key_name(SPOOL_META_QUARANTINED);
    struct slice record;
    uint64_t pages;
    MDB_envinfo info;
    MDB_stat stat;
    int rc;
    if ((rc = view_entries(r, SPOOL_TABLE_MESSAGE, &counts.messages)) != 0 ||
        (rc = view_entries(r, SPOOL_TABLE_INCOMING, &counts.incoming)) != 0 ||
        (rc = view_entries(r, SPOOL_TABLE_DEFERRED, &counts.deferred)) != 0 ||
        (rc = view_entries(r, SPOOL_TABLE_HELD, &counts.held)) != 0 ||
        (rc = spool_tables_pages(r->store, r->txn, &pages)) != 0 ||
        (rc = spool_error(mdb_env_info(r->store->env, &info))) != 0 ||
        (rc = spool_error(mdb_env_stat(r->store->env, &stat))) != 0) {
        return rc;
    }
    rc = view_get(r, SPOOL_TABLE_META, &name, &record);
    if (rc == 0 && spool_number_decode(record, &name, &counts.quarantined) != 0) {
        counts.quarantined = 0;
    } else if (rc != 0 && rc != ERR_MISSING) {
        return rc;
    }
    counts.used_bytes = pages * stat.ms_psize;
    counts.map_bytes = info.me_mapsize;
    counts.free_bytes = spool_bytes_left(r->store, &info, &stat, pages, &counts.is_left_by_disk);
    *ret = counts;
    return 0;
}
