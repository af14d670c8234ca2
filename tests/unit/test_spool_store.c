/* The spool on a real folder: lock, staging, damage, repair, limits. */
#include "base/error.h"
#include "engine/spool/spool_env.h"
#include "tests/unit/spool_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct spool_counts counts(void)
{
    struct spool_counts c = {0};
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_read_counts(reader, &c), 0);
    spool_reader_end(reader);
    return c;
}

/* Changes records behind the store's back, which must be closed. */
struct tampering {
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
};

static struct tampering tamper_begin(const char *table)
{
    struct tampering t = {0};
    assert_int_equal(mdb_env_create(&t.env), 0);
    assert_int_equal(mdb_env_set_maxdbs(t.env, 16), 0);
    assert_int_equal(mdb_env_set_mapsize(t.env, MAP_BYTES), 0);
    assert_int_equal(mdb_env_open(t.env, folder, 0, 0600), 0);
    assert_int_equal(mdb_txn_begin(t.env, NULL, 0, &t.txn), 0);
    assert_int_equal(mdb_dbi_open(t.txn, table, 0, &t.dbi), 0);
    return t;
}

static void tamper_put(struct tampering *t, const struct spool_key *key, struct slice record)
{
    MDB_val k = spool_val(key);
    MDB_val v = {record.len, (void *)(uintptr_t)record.data};
    assert_int_equal(mdb_put(t->txn, t->dbi, &k, &v, 0), 0);
}

static void tamper_del(struct tampering *t, const struct spool_key *key)
{
    MDB_val k = spool_val(key);
    assert_int_equal(mdb_del(t->txn, t->dbi, &k, NULL), 0);
}

static void tamper_end(struct tampering *t)
{
    assert_int_equal(mdb_txn_commit(t->txn), 0);
    mdb_env_close(t->env);
}

static void tamper(const char *table, const struct spool_key *key, struct slice record)
{
    struct tampering t = tamper_begin(table);
    tamper_put(&t, key, record);
    tamper_end(&t);
}

static void folder_is_private(void **state)
{
    char inner[160];
    struct stat st;
    down();
    size_t len = strlen(folder);
    (void)snprintf(inner, sizeof(inner), "%s/new", folder);
    memcpy(folder, inner, sizeof(folder));
    up();
    assert_int_equal(stat(folder, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    (void)snprintf(inner, sizeof(inner), "%s/data.mdb", folder);
    assert_int_equal(stat(inner, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    down();
    folder[len] = '\0';
    up();
}

static void second_process_is_refused(void **state)
{
    char want[64];
    (void)snprintf(want, sizeof(want), "in use by process %ld", (long)getpid());
    pid_t child = fork();
    if (child == 0) {
        char text[256] = "";
        int rc = try_open(MAP_BYTES, text);
        _exit(rc == ERR_LOCKED && strstr(text, want) != NULL ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void unknown_format_is_refused(void **state)
{
    char text[256] = "";
    char record[SPOOL_NUMBER_BYTES];
    const struct spool_key key = spool_key_name(SPOOL_META_VERSION);
    down();
    spool_number_encode(99, &key, record);
    tamper("meta", &key, slice_make(record, sizeof(record)));
    assert_int_equal(try_open(MAP_BYTES, text), ERR_CORRUPT);
    assert_non_null(strstr(text, "format 99"));
    spool_number_encode(1, &key, record);
    tamper("meta", &key, slice_make(record, sizeof(record)));
    up();
}

static void ids_are_reserved(void **state)
{
    assert_int_equal(spool_store_first_id(store), 1);
    assert_int_equal(spool_store_duplicate_bound(store), 0);
    assert_true(spool_store_is_new(store));
    struct spool_txn *t = begin();
    assert_int_equal(spool_reserve_ids(t, 5000), 0);
    assert_int_equal(spool_store_bound(t, 123), 0);
    assert_int_equal(spool_commit(t), 0);
    down();
    up();
    assert_int_equal(spool_store_first_id(store), 5000);
    assert_int_equal(spool_store_duplicate_bound(store), 123);
    assert_false(spool_store_is_new(store));
    down();
    const struct spool_key bound = spool_key_name(SPOOL_META_BOUND);
    tamper("meta", &bound, SLICE("nonsense"));
    up();
    assert_true(spool_store_duplicate_bound(store) == SPOOL_BOUND_UNKNOWN);
    put_one(7000);
    down();
    const struct spool_key key = spool_key_name(SPOOL_META_IDS);
    tamper("meta", &key, SLICE("nonsense"));
    up();
    assert_true(spool_store_first_id(store) > 7000 + (1ull << 32));
}

/* Ids have the number of their spool in front once it has one, whatever others it has taken over. */
static void ids_have_a_number(void **state)
{
    const uint64_t node = 7ull << SPOOL_NODE_SHIFT;
    assert_int_equal(spool_store_node(store), 0);
    struct spool_txn *t = begin();
    assert_int_equal(spool_reserve_ids(t, 5000), 0);
    assert_int_equal(spool_set_node(t, 7), 0);
    assert_int_equal(spool_commit(t), 0);
    down();
    up();
    assert_int_equal(spool_store_node(store), 7);
    assert_true(spool_store_first_id(store) == (node | 5000));
    put_one(65535ull << SPOOL_NODE_SHIFT | 300);
    put_one(9ull << SPOOL_NODE_SHIFT | 6000);
    put_one(8000);
    put_one(node | 5001);
    put_one(3ull << SPOOL_NODE_SHIFT | 40);
    down();
    const struct spool_key key = spool_key_name(SPOOL_META_NODE);
    tamper("meta", &key, SLICE("nonsense"));
    up();
    assert_int_equal(spool_store_node(store), 7);
    assert_true(spool_store_first_id(store) == (node | 8001));
}

static void order_of_the_queue(void **state)
{
    struct spool_txn *t = begin();
    struct spool_position third = put(t, 30, SLICE(""));
    struct spool_position first = put(t, 10, SLICE(""));
    struct spool_position second = put(t, 20, SLICE(""));
    struct spool_position late = {SPOOL_DEFERRED, 900, 10, 0};
    struct spool_position soon = {SPOOL_DEFERRED, 800, 20, 0};
    struct spool_retry retry = {.attempts = 2, .warned = true};
    assert_int_equal(spool_requeue(t, &first, &late, &retry), 0);
    assert_int_equal(spool_requeue(t, &second, &soon, NULL), 0);
    assert_int_equal(spool_commit(t), 0);

    struct spool_position at;
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_scan(reader, SPOOL_INCOMING, NULL, &at), 0);
    assert_int_equal(at.id, 30);
    assert_int_equal(at.time, third.time);
    assert_int_equal(spool_scan(reader, SPOOL_INCOMING, &at, &at), ERR_MISSING);
    assert_int_equal(spool_scan(reader, SPOOL_DEFERRED, NULL, &at), 0);
    assert_int_equal(at.id, 20);
    assert_int_equal(spool_scan(reader, SPOOL_DEFERRED, &at, &at), 0);
    assert_int_equal(at.id, 10);
    assert_int_equal(spool_scan(reader, SPOOL_DEFERRED, &at, &at), ERR_MISSING);
    assert_int_equal(spool_read_retry(reader, 10, &retry), 0);
    assert_int_equal(retry.attempts, 2);
    assert_true(retry.warned);
    assert_int_equal(spool_read_retry(reader, 20, &retry), 0);
    assert_int_equal(retry.attempts, 0);
    spool_reader_end(reader);
}

static void held_until_its_time(void **state)
{
    struct spool_txn *t = begin();
    struct spool_position now = put(t, 10, SLICE("")), at, gone;
    const struct spool_envelope later = {
        .id = 20, .recipient_count = 1, .not_before = 5000, .tenant = SLICE("acme")};
    assert_int_equal(spool_put_message(t, &later, slice_make("\0\1b", 3), SLICE("x\r\n"), &at), 0);
    assert_int_equal(at.class, SPOOL_HELD);
    assert_int_equal(at.time, 5000);
    const struct spool_position parked = {SPOOL_HELD, 4000, 10, 0};
    assert_int_equal(spool_requeue(t, &now, &parked, NULL), 0);
    assert_int_equal(spool_commit(t), 0);
    down();
    up(); /* both have an entry, so nothing is queued again */

    struct spool_envelope e;
    struct slice body;
    struct spool_counts counts;
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_read_counts(reader, &counts), 0);
    assert_int_equal(counts.messages, 2);
    assert_int_equal(counts.held, 2);
    assert_int_equal(counts.incoming, 0);
    assert_int_equal(spool_scan(reader, SPOOL_HELD, NULL, &at), 0);
    assert_int_equal(at.id, 10);
    assert_int_equal(spool_scan(reader, SPOOL_HELD, &at, &gone), 0);
    assert_int_equal(gone.id, 20);
    assert_int_equal(spool_read_message(reader, 20, &e, &body), 0);
    assert_int_equal(e.not_before, 5000);
    assert_true(slice_eq(e.tenant, SLICE("acme")));
    spool_reader_end(reader);

    t = begin();
    assert_int_equal(spool_remove(t, &gone), 0);
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_scan(reader, SPOOL_HELD, &at, &at), ERR_MISSING);
    spool_reader_end(reader);
}

/* Out of the page cache, where the file system can do that. */
static void sequence_goes_on_after_a_restart(void **state)
{
    struct spool_position before = put_one(1);
    down();
    up();
    struct spool_position after = put_one(2);
    assert_true(after.time > before.time);
}

static void removing_twice_is_fine(void **state)
{
    struct spool_position at = put_one(1);
    for (int i = 0; i < 2; i++) {
        struct spool_txn *t = begin();
        assert_int_equal(spool_remove(t, &at), 0);
        assert_int_equal(spool_commit(t), 0);
    }
    assert_int_equal(counts().messages, 0);
}

static void ids_by_the_clock(void **state)
{
    const usec_t day = 86400 * USEC_PER_SEC;
    assert_int_equal(spool_id_at(-day), 0);
    assert_int_equal(spool_id_at(32), 2);
    /* In 2026, and an hour later. */
    assert_int_equal(spool_id_at(1800000000 * USEC_PER_SEC), 112500000000000);
    assert_int_equal(spool_id_at(1800003600 * USEC_PER_SEC), 112500225000000);
    /* Whatever the clock says, there are ids left below the node's number. */
    assert_int_equal(spool_id_at(200 * 366 * day), (1ULL << SPOOL_NODE_SHIFT) - 1 - (1ULL << 40));
}

static void same_id_twice_is_refused(void **state)
{
    struct spool_position at;
    struct spool_envelope e = {.id = 1, .recipient_count = 1, .sender = SLICE("")};
    put_one(1);
    struct spool_txn *t = begin();
    assert_int_equal(spool_put_message(t, &e, slice_make("\0\1b", 3), SLICE("other"), &at),
                     -EEXIST);
    e.id = 2;
    e.sender = slice_make(folder, 70000);
    assert_int_equal(spool_put_message(t, &e, slice_make("\0\1b", 3), SLICE(""), &at), ERR_LIMIT);
    put(t, 3, SLICE("")); /* the transaction goes on */
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(counts().messages, 2);
    assert_int_equal(counts().incoming, 2);
}

static void discard_spares_committed_messages(void **state)
{
    struct spool_position at;
    struct slice chunk;
    struct spool_txn *t = begin();
    assert_int_equal(spool_stage(t, 1), 0);
    assert_int_equal(spool_put_chunk(t, 1, 0, SLICE("a chunk")), 0);
    assert_int_equal(spool_put_chunk(t, 1, 0, slice_make(folder, SPOOL_CHUNK_BYTES + 1)),
                     ERR_LIMIT);
    struct spool_envelope e = {
        .id = 1, .recipient_count = 1, .chunk_count = 1, .sender = SLICE("")};
    assert_int_equal(spool_put_message(t, &e, slice_make("\0\1b", 3), SLICE(""), &at), 0);
    bool is_done = false;
    assert_int_equal(spool_discard(t, 1, &is_done), 0);
    assert_true(is_done);
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_read_chunk(reader, 1, 0, &chunk), 0);
    assert_int_equal(chunk.len, 7);
    assert_int_equal(spool_read_chunk(reader, 1, 1, &chunk), ERR_MISSING);
    spool_reader_end(reader);
}

static void the_record_says_where_the_content_is(void **state)
{
    struct slice body;
    struct spool_txn *t = begin();
    assert_int_equal(spool_stage(t, 1), 0);
    assert_int_equal(spool_put_chunk(t, 1, 0, SLICE("of another message")), 0);
    (void)put(t, 1, SLICE("body\r\n"));
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_read_chunk(reader, 1, 0, &body), 0);
    assert_true(slice_eq(body, SLICE("body\r\n")));
    spool_reader_end(reader);
}

static void staging_is_cleared_at_start(void **state)
{
    static char body[SPOOL_CHUNK_BYTES];
    uint64_t used = counts().used_bytes;
    struct spool_txn *t = begin();
    assert_int_equal(spool_stage(t, 9), 0);
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(spool_put_chunk(t, 9, i, slice_make(body, sizeof(body))), 0);
    }
    assert_int_equal(spool_put_recipients(t, 9, 0, slice_make("\0\1b", 3)), 0);
    assert_int_equal(spool_commit(t), 0);
    assert_true(counts().used_bytes > used + 20ull * SPOOL_CHUNK_BYTES);
    down();
    up();
    assert_true(counts().used_bytes <= used + 8ull * 4096);
}

/* A million reasons in one transaction would be a second in which nothing else is stored. */
static void many_reasons_go_bit_by_bit(void **state)
{
    enum { RECIPIENTS = 2 * SPOOL_REASONS_AT_ONCE + 10 };
    struct spool_reason reason = {.state = SPOOL_RECIPIENT_FAILED, .text = SLICE("no")}, got;
    struct spool_txn *t = begin();
    struct spool_position at;
    struct spool_envelope e = {.id = 1, .recipient_count = RECIPIENTS, .sender = SLICE("")};
    assert_int_equal(spool_put_message(t, &e, SLICE(""), SLICE("x"), &at), 0);
    for (uint32_t i = 0; i < RECIPIENTS; i++) {
        assert_int_equal(spool_set_recipient(t, 1, RECIPIENTS, i, SPOOL_RECIPIENT_FAILED, &reason),
                         0);
    }
    assert_int_equal(spool_commit(t), 0);
    for (uint32_t gone = SPOOL_REASONS_AT_ONCE; gone < RECIPIENTS; gone += SPOOL_REASONS_AT_ONCE) {
        bool is_done = false;
        bool is_first = gone == SPOOL_REASONS_AT_ONCE;
        t = begin();
        assert_int_equal(is_first ? spool_remove(t, &at) : spool_discard(t, 1, &is_done), 0);
        assert_false(is_done);
        assert_int_equal(spool_commit(t), 0);
        assert_int_equal(counts().messages, 0);
        assert_int_equal(spool_reader_begin(reader), 0);
        assert_int_equal(spool_read_reason(reader, 1, gone - 1, &got), ERR_MISSING);
        assert_int_equal(spool_read_reason(reader, 1, gone, &got), 0);
        spool_reader_end(reader);
    }
    down(); /* what is left goes at the next start */
    up();
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_read_reason(reader, 1, RECIPIENTS - 1, &got), ERR_MISSING);
    spool_reader_end(reader);
}

static void states_and_reasons_go_with_the_message(void **state)
{
    struct spool_reason reason = {.state = SPOOL_RECIPIENT_DEFERRED, .text = SLICE("later")};
    struct spool_reason got;
    struct slice states;
    struct spool_position at = put_one(1);
    struct spool_txn *t = begin();
    assert_int_equal(spool_set_recipient(t, 1, 1, 0, SPOOL_RECIPIENT_DEFERRED, &reason), 0);
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_read_reason(reader, 1, 0, &got), 0);
    assert_int_equal(spool_read_states(reader, 1, 0, &states), 0);
    assert_int_equal(states.data[0], SPOOL_RECIPIENT_DEFERRED);
    spool_reader_end(reader);

    t = begin();
    assert_int_equal(spool_set_recipient(t, 1, 1, 0, SPOOL_RECIPIENT_DELIVERED, &reason), 0);
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_read_reason(reader, 1, 0, &got), ERR_MISSING);
    spool_reader_end(reader);

    t = begin();
    assert_int_equal(spool_set_recipient(t, 1, 1, 0, SPOOL_RECIPIENT_FAILED, &reason), 0);
    assert_int_equal(spool_remove(t, &at), 0);
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_read_reason(reader, 1, 0, &got), ERR_MISSING);
    assert_int_equal(spool_read_states(reader, 1, 0, &states), ERR_MISSING);
    spool_reader_end(reader);
}

/* The message record that put() makes of an id, as it lies in the spool. */
static struct slice stored_record(uint64_t id, char *copy, size_t capacity)
{
    struct spool_message m = {
        .envelope = {.id = id,
                     .size_bytes = 6,
                     .recipient_count = 1,
                     .flags = SPOOL_FLAG_BODY_INLINE,
                     .sender = SLICE("a@example.com")},
        .packed = slice_make("\0\1b", 3),
        .body = SLICE("body\r\n"),
    };
    size_t bytes = 0;
    assert_int_equal(spool_message_bytes(&m, &bytes), 0);
    assert_true(bytes <= capacity);
    spool_message_encode(&m, copy, bytes);
    return slice_make(copy, bytes);
}

static void every_damaged_byte_is_found_and_quarantined(void **state)
{
    char record[512];
    struct spool_position places[512];
    size_t len = stored_record(1, record, sizeof(record)).len;
    struct spool_txn *t = begin();
    for (uint64_t id = 1; id <= len + 1; id++) {
        places[id] = put(t, id, SLICE("body\r\n"));
    }
    assert_int_equal(spool_commit(t), 0);
    down();
    struct tampering raw = tamper_begin("message");
    for (uint64_t id = 1; id <= len; id++) {
        const struct spool_key key = spool_key_id(id);
        struct slice whole = stored_record(id, record, sizeof(record));
        record[id - 1] = (char)~record[id - 1];
        tamper_put(&raw, &key, whole);
    }
    tamper_end(&raw);
    up();
    t = begin();
    for (uint64_t id = 1; id <= len; id++) {
        assert_int_equal(read_result(id), ERR_CORRUPT);
        assert_int_equal(spool_quarantine(t, &places[id]), 0);
    }
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(read_result(1), ERR_MISSING);
    assert_int_equal(read_result(len + 1), 0);
    struct spool_counts c = counts();
    assert_int_equal(c.messages, 1);
    assert_int_equal(c.incoming, 1);
    assert_int_equal(c.quarantined, len);
}

static void damaged_parts_are_found(void **state)
{
    struct slice piece;
    struct spool_position at;
    struct spool_txn *t = begin();
    struct spool_envelope e = {
        .id = 1, .recipient_count = 1, .chunk_count = 2, .sender = SLICE("")};
    assert_int_equal(spool_put_chunk(t, 1, 0, SLICE("one")), 0);
    assert_int_equal(spool_put_chunk(t, 1, 1, SLICE("two")), 0);
    assert_int_equal(spool_put_recipients(t, 1, 0, slice_make("\0\1b", 3)), 0);
    assert_int_equal(spool_put_message(t, &e, SLICE(""), SLICE(""), &at), 0);
    assert_int_equal(spool_set_recipient(t, 1, 1, 0, SPOOL_RECIPIENT_DEFERRED, NULL), 0);
    assert_int_equal(spool_commit(t), 0);
    down();
    struct spool_key key = spool_key_part(1, 1);
    tamper("body", &key, SLICE("twisted"));
    key = spool_key_part(1, 0);
    tamper("recipients", &key, SLICE(""));
    tamper("state", &key, SLICE("nothing like a state"));
    up();
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_read_chunk(reader, 1, 0, &piece), 0);
    assert_int_equal(spool_read_chunk(reader, 1, 1, &piece), ERR_CORRUPT);
    assert_int_equal(spool_read_recipients(reader, 1, 0, &piece), ERR_CORRUPT);
    assert_int_equal(spool_read_states(reader, 1, 0, &piece), ERR_CORRUPT);
    spool_reader_end(reader);
    t = begin();
    assert_int_equal(spool_set_recipient(t, 1, 1, 0, SPOOL_RECIPIENT_FAILED, NULL), ERR_CORRUPT);
    assert_int_equal(spool_quarantine(t, &at), 0);
    assert_int_equal(spool_quarantine(t, &at), 0); /* again: nothing to move */
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_read_states(reader, 1, 0, &piece),
                     ERR_MISSING); /* every table's parts */
    spool_reader_end(reader);
    assert_int_equal(counts().messages, 0);
    assert_int_equal(counts().quarantined, 1);
    assert_int_equal(counts().incoming, 0);
}

static void a_lost_queue_entry_is_made_again(void **state)
{
    struct spool_position at = put_one(1);
    put_one(2);
    down();
    const struct spool_key key = spool_key_queue(0, at.time, 1);
    const struct spool_key strange = spool_key_queue(0, 77, 4711);
    const struct spool_key malformed = spool_key_id(0);
    struct tampering raw = tamper_begin("incoming");
    tamper_del(&raw, &key);
    tamper_end(&raw);
    up();
    struct spool_position found;
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_scan(reader, SPOOL_INCOMING, NULL, &found), 0);
    assert_int_equal(found.id, 2);
    assert_int_equal(spool_scan(reader, SPOOL_INCOMING, &found, &found), 0);
    assert_int_equal(found.id, 1);
    spool_reader_end(reader);

    /* An entry that points nowhere, and one that is none. */
    down();
    tamper("deferred", &strange, SLICE(""));
    tamper("deferred", &malformed, SLICE(""));
    up();
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_scan(reader, SPOOL_DEFERRED, NULL, &found), 0);
    assert_int_equal(found.id, 4711);
    spool_reader_end(reader);
    assert_int_equal(read_result(found.id), ERR_MISSING);
    struct spool_txn *t = begin();
    assert_int_equal(spool_remove(t, &found), 0);
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_scan(reader, SPOOL_DEFERRED, NULL, &found), ERR_MISSING);
    spool_reader_end(reader);
}

/* LMDB has places for so many readers at a time; one that is gone leaves its place. */
static void a_full_map_refuses_and_drains(void **state)
{
    static char body[30000];
    char text[256] = "";
    down();
    assert_int_equal(try_open(4 << 20, text), 0);
    assert_int_equal(spool_reader_new(store, &reader), 0);
    struct spool_position places[200];
    uint64_t id = 0;
    int rc = 0;
    uint64_t before = spool_store_free_bytes(store);
    assert_true(before > (3 << 20) && before <= (4 << 20));
    while (rc == 0) {
        struct spool_txn *t = begin();
        struct spool_envelope e = {.id = id + 1, .recipient_count = 1, .sender = SLICE("")};
        rc = spool_put_message(t, &e, slice_make("\0\1b", 3), slice_make(body, sizeof(body)),
                               &places[id]);
        if (rc == 0) {
            rc = spool_commit(t);
        } else {
            assert_int_equal(spool_stage(t, 5), rc); /* doomed */
            assert_int_equal(spool_commit(t), rc);
        }
        if (rc == 0) {
            id++;
        }
        assert_true(id < 200);
    }
    assert_int_equal(rc, -ENOSPC);
    assert_false(spool_store_must_reopen(store));
    assert_true(id > 100);
    assert_true(spool_store_free_bytes(store) < (256 << 10));
    assert_int_equal(counts().messages, id);
    for (uint64_t i = 0; i < id; i++) {
        struct spool_txn *t = begin();
        assert_int_equal(spool_remove(t, &places[i]), 0);
        assert_int_equal(spool_commit(t), 0);
    }
    assert_int_equal(counts().messages, 0);
    /* The file does not shrink; what is free inside it counts. */
    assert_true(spool_store_free_bytes(store) + (256 << 10) > before);
    put_one(1000);
}

static void ballast_comes_and_goes(void **state)
{
    char path[160];
    struct stat st;
    char text[256];
    (void)snprintf(path, sizeof(path), "%s/ballast", folder);
    down();
    struct spool_options options = {.path = folder, .map_size = MAP_BYTES, .ballast = 1 << 20};
    assert_int_equal(spool_store_open(&options, &store, text), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 1 << 20);
    spool_store_drop_ballast(store);
    assert_int_equal(stat(path, &st), -1);
    spool_store_restore_ballast(store);
    assert_int_equal(stat(path, &st), 0);
    spool_store_close(store);
    up(); /* without: it goes */
    assert_int_equal(stat(path, &st), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(folder_is_private, setup, teardown),
        cmocka_unit_test_setup_teardown(second_process_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(unknown_format_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(ids_are_reserved, setup, teardown),
        cmocka_unit_test_setup_teardown(ids_have_a_number, setup, teardown),
        cmocka_unit_test_setup_teardown(order_of_the_queue, setup, teardown),
        cmocka_unit_test_setup_teardown(held_until_its_time, setup, teardown),
        cmocka_unit_test_setup_teardown(sequence_goes_on_after_a_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(removing_twice_is_fine, setup, teardown),
        cmocka_unit_test(ids_by_the_clock),
        cmocka_unit_test_setup_teardown(same_id_twice_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(discard_spares_committed_messages, setup, teardown),
        cmocka_unit_test_setup_teardown(the_record_says_where_the_content_is, setup, teardown),
        cmocka_unit_test_setup_teardown(staging_is_cleared_at_start, setup, teardown),
        cmocka_unit_test_setup_teardown(many_reasons_go_bit_by_bit, setup, teardown),
        cmocka_unit_test_setup_teardown(states_and_reasons_go_with_the_message, setup, teardown),
        cmocka_unit_test_setup_teardown(every_damaged_byte_is_found_and_quarantined, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(damaged_parts_are_found, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_queue_entry_is_made_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_map_refuses_and_drains, setup, teardown),
        cmocka_unit_test_setup_teardown(ballast_comes_and_goes, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
