/* The walk over a spool on a real folder: order, states beside messages, damage, passes. */
#include "base/error.h"
#include "base/packed.h"
#include "engine/spool/spool_env.h"
#include "engine/spool/spool_walk.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[128];
static struct spool_store *store;
static struct spool_reader *reader;

static void up(void)
{
    char text[256] = "";
    struct spool_options options = {.path = folder, .map_size = 64u << 20};
    if (spool_store_open(&options, &store, text) != 0) {
        fail_msg("%s", text);
    }
    assert_int_equal(spool_reader_new(store, &reader), 0);
}

static void down(void)
{
    spool_reader_free(reader);
    spool_store_close(store);
}

static int setup(void **state)
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(folder, sizeof(folder), "%s/spool.XXXXXX", base == NULL ? "/tmp" : base);
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    up();
    return 0;
}

static int teardown(void **state)
{
    char command[160];
    down();
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

static struct spool_txn *begin(void)
{
    struct spool_txn *t = NULL;
    assert_int_equal(spool_begin(store, &t), 0);
    return t;
}

/* `recipients` addresses "rN@example.com", and a body of so many bytes. */
static struct spool_position put(struct spool_txn *t, uint64_t id, uint32_t recipients,
                                 size_t body_bytes)
{
    static char body[SPOOL_INLINE_BODY_BYTES];
    char packed[8192], address[64];
    size_t len = 0;
    struct spool_position at;
    struct spool_envelope e = {.id = id,
                               .created = (usec_t)(1000 + id),
                               .size_bytes = body_bytes,
                               .recipient_count = recipients,
                               .sender = SLICE("a@example.com")};
    for (uint32_t i = 0; i < recipients; i++) {
        (void)snprintf(address, sizeof(address), "r%u@example.com", i);
        assert_true(packed_fill(packed, sizeof(packed), &len, slice_of(address)));
    }
    memset(body, 'x', sizeof(body));
    assert_int_equal(
        spool_put_message(t, &e, slice_make(packed, len), slice_make(body, body_bytes), &at), 0);
    return at;
}

static void defer(struct spool_txn *t, struct spool_position at, uint32_t recipients,
                  uint32_t index, enum spool_recipient_state state)
{
    const struct spool_reason reason = {.state = (uint8_t)state, .status = SLICE("4.0.0")};
    const struct spool_retry retry = {.attempts = 2, .due = 77};
    struct spool_position to = {SPOOL_DEFERRED, 77, at.id, 0};
    assert_int_equal(spool_set_recipient(t, at.id, recipients, index, state, &reason), 0);
    assert_int_equal(spool_requeue(t, &at, &to, &retry), 0);
}

static void test_nothing(void **state)
{
    struct spool_walk w = {0};
    struct spool_walked m;
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_walk_begin(&w, reader, 0), 0);
    spool_walk_prefetch(&w, 100);
    assert_int_equal(spool_walk_next(&w, &m), ERR_MISSING);
    assert_int_equal(spool_walk_begin(&w, reader, UINT64_MAX), 0);
    assert_int_equal(spool_walk_next(&w, &m), ERR_MISSING);
    spool_reader_end(reader);
}

static void test_order_and_states(void **state)
{
    struct spool_walk w = {0};
    struct spool_walked m;
    struct spool_txn *t = begin();
    (void)put(t, 30, 1, 9000);
    struct spool_position ten = put(t, 10, 3, 100);
    (void)put(t, 20, 2, 0);
    struct spool_position forty = put(t, 40, 1, 100);
    defer(t, ten, 3, 1, SPOOL_RECIPIENT_DELIVERED);
    defer(t, forty, 1, 0, SPOOL_RECIPIENT_DEFERRED);
    assert_int_equal(spool_commit(t), 0);

    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_walk_begin(&w, reader, 0), 0);
    spool_walk_prefetch(&w, 100);
    assert_int_equal(spool_walk_next(&w, &m), 0);
    assert_int_equal(m.envelope.id, 10);
    assert_int_equal(m.envelope.created, 1010);
    assert_int_equal(m.envelope.recipient_count, 3);
    assert_int_equal(m.states.len, 3);
    assert_memory_equal(m.states.data, "\0\2\0", 3);
    assert_int_equal(m.retry.attempts, 2);
    assert_int_equal(m.retry.due, 77);
    assert_int_equal(spool_walk_next(&w, &m), 0);
    assert_int_equal(m.envelope.id, 20);
    assert_int_equal(m.states.len, 0);
    assert_int_equal(m.retry.attempts, 0);
    spool_reader_end(reader);

    /* The next pass goes on behind the last one. */
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_walk_begin(&w, reader, 20), 0);
    assert_int_equal(spool_walk_next(&w, &m), 0);
    assert_int_equal(m.envelope.id, 30);
    assert_int_equal(m.envelope.size_bytes, 9000);
    struct slice address = SLICE(""), packed = m.packed;
    assert_true(packed_next(&packed, &address));
    assert_true(slice_eq(address, SLICE("r0@example.com")));
    assert_int_equal(spool_walk_next(&w, &m), 0);
    assert_int_equal(m.envelope.id, 40);
    assert_memory_equal(m.states.data, "\1", 1);
    assert_int_equal(spool_walk_next(&w, &m), ERR_MISSING);
    assert_int_equal(w.damaged, 0);
    spool_reader_end(reader);
}

/* Batches outside the record, and many states in front of a message that has none. */
static void test_batches(void **state)
{
    enum { RECIPIENTS = 40 * SPOOL_BATCH_RECIPIENTS + 1 };
    static char packed[SPOOL_BATCH_RECIPIENTS * 16];
    size_t len = 0;
    for (int i = 0; i < SPOOL_BATCH_RECIPIENTS; i++) {
        assert_true(packed_fill(packed, sizeof(packed), &len, SLICE("a@b.example")));
    }
    struct spool_txn *t = begin();
    struct spool_envelope e = {.id = 5, .recipient_count = RECIPIENTS, .sender = SLICE("")};
    struct spool_position at;
    for (uint32_t b = 0; b <= RECIPIENTS / SPOOL_BATCH_RECIPIENTS; b++) {
        assert_int_equal(spool_put_recipients(t, 5, b, slice_make(packed, b < 40 ? len : 13)), 0);
    }
    assert_int_equal(spool_put_message(t, &e, SLICE(""), SLICE("x"), &at), 0);
    for (uint32_t b = 0; b < 40; b++) {
        assert_int_equal(spool_set_recipient(t, 5, RECIPIENTS, b * SPOOL_BATCH_RECIPIENTS,
                                             SPOOL_RECIPIENT_DELIVERED, NULL),
                         0);
    }
    defer(t, put(t, 6, 1, 10), 1, 0, SPOOL_RECIPIENT_DEFERRED);
    assert_int_equal(spool_commit(t), 0);

    struct spool_walk w = {0};
    struct spool_walked m;
    struct slice addresses, states;
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_walk_begin(&w, reader, 0), 0);
    assert_int_equal(spool_walk_next(&w, &m), 0);
    assert_int_equal(m.batch_count, 41);
    assert_int_equal(m.packed.len, 0);
    assert_int_equal(spool_walk_batch(&w, 5, 39, &addresses, &states), 0);
    assert_int_equal(addresses.len, len);
    assert_int_equal(states.data[0], SPOOL_RECIPIENT_DELIVERED);
    assert_int_equal(states.data[1], SPOOL_RECIPIENT_PENDING);
    assert_int_equal(spool_walk_batch(&w, 5, 40, &addresses, &states), 0);
    assert_int_equal(addresses.len, 13);
    assert_int_equal(states.len, 0);
    assert_int_equal(spool_walk_batch(&w, 5, 41, &addresses, &states), ERR_MISSING);
    assert_int_equal(spool_walk_next(&w, &m), 0);
    assert_int_equal(m.envelope.id, 6);
    assert_int_equal(m.retry.attempts, 2);
    spool_reader_end(reader);
}

/* Changes records behind the store's back. */
static void tamper(const char *table, const struct spool_key *key, struct slice record)
{
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_val k = spool_val(key);
    MDB_val v = {record.len, (void *)(uintptr_t)record.data};
    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_set_maxdbs(env, 16), 0);
    assert_int_equal(mdb_env_set_mapsize(env, 64u << 20), 0);
    assert_int_equal(mdb_env_open(env, folder, 0, 0600), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, table, 0, &dbi), 0);
    assert_int_equal(mdb_put(txn, dbi, &k, &v, 0), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
}

/* Bytes of the content may be wrong; what is walked over must hold together. */
static void test_damage(void **state)
{
    struct spool_txn *t = begin();
    (void)put(t, 1, 1, 10);
    (void)put(t, 3, 1, 10);
    assert_int_equal(spool_commit(t), 0);
    down();
    const struct spool_key two = spool_key_id(2);
    const struct spool_key odd = {.len = 3, .bytes = "odd"};
    const struct spool_key one_state = spool_key_part(1, 0);
    const struct spool_key odd_state = {.len = 1, .bytes = {0}};
    tamper("message", &two, SLICE("\1 short"));
    tamper("message", &odd, SLICE("\1 short"));
    tamper("state", &one_state, SLICE("\1no checksum"));
    tamper("state", &odd_state, SLICE("\1no checksum"));
    up();
    struct spool_walk w = {0};
    struct spool_walked m;
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_walk_begin(&w, reader, 0), 0);
    assert_int_equal(spool_walk_next(&w, &m), 0);
    assert_int_equal(m.envelope.id, 1);
    assert_int_equal(m.states.len, 0);
    assert_int_equal(spool_walk_next(&w, &m), 0);
    assert_int_equal(m.envelope.id, 3);
    assert_int_equal(spool_walk_next(&w, &m), ERR_MISSING);
    assert_in_range(w.damaged, 1, 2); /* the start may have moved one to quarantine */
    spool_reader_end(reader);
}

/* The writer takes the environment away and gives it back between two passes. */
static void test_reopen(void **state)
{
    struct spool_walk w = {0};
    struct spool_walked m;
    struct spool_txn *t = begin();
    (void)put(t, 1, 1, 10);
    (void)put(t, 2, 1, 10);
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_walk_begin(&w, reader, 0), 0);
    assert_int_equal(spool_walk_next(&w, &m), 0);
    spool_reader_end(reader);
    assert_int_equal(spool_store_reopen(store, NULL, NULL), 0);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_walk_begin(&w, reader, m.envelope.id), 0);
    assert_int_equal(spool_walk_next(&w, &m), 0);
    assert_int_equal(m.envelope.id, 2);
    spool_reader_end(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_order_and_states, setup, teardown),
        cmocka_unit_test_setup_teardown(test_batches, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reopen, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
