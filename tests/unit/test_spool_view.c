/* Readers of the spool: their snapshot, what they ask for ahead, and a reopen under them. */
#include "base/error.h"
#include "engine/spool/spool_env.h"
#include "tests/unit/spool_fixture.h"

#include <fcntl.h>
#include <lmdb.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

static void a_reader_sees_its_snapshot(void **state)
{
    struct spool_envelope e;
    struct slice body;
    struct spool_position at = put_one(1);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_true(spool_reader_is_active(reader));
    struct spool_txn *t = begin();
    assert_int_equal(spool_remove(t, &at), 0);
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(spool_read_message(reader, 1, &e, &body), 0);
    assert_memory_equal(body.data, "body\r\n", 6);
    spool_reader_end(reader);
    assert_int_equal(read_result(1), ERR_MISSING);
}

static void readers_come_and_go(void **state)
{
    put_one(1);
    for (int i = 0; i < 1000; i++) {
        struct spool_reader *guest;
        uint64_t id = 0;
        assert_int_equal(spool_reader_new(store, &guest), 0);
        assert_int_equal(spool_reader_begin(guest), 0);
        assert_int_equal(spool_next_message(guest, 0, &id), 0);
        assert_int_equal(id, 1);
        spool_reader_end(guest);
        spool_reader_free(guest);
    }
}

static void evict_file(void)
{
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/data.mdb", folder);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    assert_int_equal(close(fd), 0);
}

static bool is_resident(const void *at)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    unsigned char state = 0;
    void *start = (void *)((uintptr_t)at & ~(page - 1)); /* mincore looks at it only */
    assert_int_equal(mincore(start, 1, &state), 0);
    return (state & 1) != 0;
}

static void pages_are_asked_for_ahead(void **state)
{
    enum { COUNT = 60 };
    static char body[20000];
    struct spool_txn *t = begin();
    for (uint64_t id = 1; id <= COUNT; id++) {
        put(t, id, slice_make(body, id % 3 == 0 ? 100 : sizeof(body)));
    }
    struct spool_position late = {SPOOL_DEFERRED, 900, COUNT + 1, 0};
    struct spool_position moved = put(t, late.id, SLICE("x"));
    assert_int_equal(spool_requeue(t, &moved, &late, NULL), 0);
    assert_int_equal(spool_commit(t), 0);
    down();
    evict_file();
    up();

    struct spool_position at = {.class = SPOOL_INCOMING}, due = {.class = SPOOL_DEFERRED};
    assert_int_equal(spool_reader_begin(reader), 0);
    struct spool_position some[50];
    uint64_t ids[50];
    uint32_t count;
    assert_int_equal(spool_scan_some(reader, &at, some, 50, &count), 0);
    assert_int_equal(count, 50);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(some[i].id, i + 1);
        ids[i] = some[i].id;
    }
    spool_prefetch_messages(reader, ids, count);
    at = some[count - 1];
    assert_int_equal(spool_scan_some(reader, &at, some, 50, &count), 0);
    assert_int_equal(count, 10);
    assert_int_equal(spool_scan_some(reader, &some[9], some, 50, &count), ERR_MISSING);
    assert_int_equal(spool_prefetch(reader, &at, UINT64_MAX, 50, &at), 10);
    assert_int_equal(at.id, COUNT);
    assert_int_equal(spool_prefetch(reader, &at, UINT64_MAX, 50, &at), 0);
    assert_int_equal(at.id, COUNT);
    assert_int_equal(spool_prefetch(reader, &due, 899, 50, &due), 0);
    assert_int_equal(due.id, 0);
    assert_int_equal(spool_prefetch(reader, &due, 900, 50, &due), 1);
    assert_int_equal(due.id, late.id);
    spool_reader_end(reader);

    /* The last page of a record comes without anybody's touching it. */
    const struct spool_key key = spool_key_id(50);
    MDB_val k = spool_val(&key), record;
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(mdb_get(reader->txn, store->dbi[SPOOL_TABLE_MESSAGE], &k, &record), 0);
    assert_true(record.mv_size > sizeof(body));
    while (!is_resident((const char *)record.mv_data + record.mv_size - 1)) {
        assert_int_equal(sched_yield(), 0);
    }
    spool_reader_end(reader);
}

static const char *last_byte_of(uint64_t id)
{
    const struct spool_key key = spool_key_id(id);
    MDB_val k = spool_val(&key), record;
    assert_int_equal(mdb_get(reader->txn, store->dbi[SPOOL_TABLE_MESSAGE], &k, &record), 0);
    return (const char *)record.mv_data + record.mv_size - 1;
}

static void what_is_in_memory_is_not_asked_for(void **state)
{
    static char body[20000];
    const uint64_t first = 1,
                   second = 30; /* far from pages that are mapped, which cannot be evicted */
    struct spool_txn *t = begin();
    for (uint64_t id = 1; id <= 60; id++) {
        put(t, id, slice_make(body, sizeof(body)));
    }
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(spool_reader_begin(reader), 0);
    const char *end = last_byte_of(second);
    assert_true(is_resident(last_byte_of(first)));
    for (int i = 0; i < 8; i++) {
        spool_prefetch_messages(reader, &first, 1);
    }
    evict_file();
    assert_false(is_resident(end));
    for (int i = 0; i < 7; i++) {
        spool_prefetch_messages(reader, &second, 1);
        assert_int_equal(reader->unasked, i + 1);
    }
    spool_prefetch_messages(reader, &second, 1); /* this one is looked at */
    assert_int_equal(reader->resident, 0);
    while (!is_resident(end)) {
        assert_int_equal(sched_yield(), 0);
    }
    spool_reader_end(reader);
}

static void count_wake(void *ctx)
{
    ++*(int *)ctx;
}

static void reopen_waits_for_readers(void **state)
{
    int woken = 0;
    put_one(1);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_store_reopen(store, count_wake, &woken), ERR_AGAIN);
    assert_int_equal(woken, 1);
    struct spool_envelope e;
    struct slice body;
    assert_int_equal(spool_read_message(reader, 1, &e, &body), 0); /* its pass is untouched */
    spool_reader_end(reader);
    assert_int_equal(spool_reader_begin(reader), ERR_AGAIN);
    assert_false(spool_reader_is_active(reader));
    assert_int_equal(spool_store_reopen(store, count_wake, &woken), 0);
    assert_int_equal(woken, 1);
    assert_int_equal(read_result(1), 0);
    put_one(2);
    assert_int_equal(read_result(2), 0);
}

static _Atomic bool is_over;
static _Atomic unsigned passes;

/* Looks at everything in every pass; asserts by abort, cmocka's are for the main thread. */
static void *read_always(void *arg)
{
    struct spool_reader *r = arg;
    while (!atomic_load(&is_over)) {
        if (spool_reader_begin(r) != 0) {
            (void)sched_yield(); /* cannot fail */
            continue;
        }
        struct spool_position at = {0};
        unsigned found = 0;
        while (spool_scan(r, SPOOL_INCOMING, &at, &at) == 0) {
            struct spool_envelope e;
            struct slice body;
            if (spool_read_message(r, at.id, &e, &body) != 0 || body.len != 6) {
                abort();
            }
            found++;
        }
        spool_reader_end(r);
        if (found != 20) {
            abort();
        }
        atomic_fetch_add(&passes, 1);
    }
    return NULL;
}

static void readers_race_with_reopens(void **state)
{
    enum { READERS = 3 };
    pthread_t threads[READERS];
    struct spool_reader *readers[READERS];
    struct spool_txn *t = begin();
    for (uint64_t id = 1; id <= 20; id++) {
        put(t, id, SLICE("body\r\n"));
    }
    assert_int_equal(spool_commit(t), 0);
    atomic_store(&is_over, false);
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(spool_reader_new(store, &readers[i]), 0);
        assert_int_equal(pthread_create(&threads[i], NULL, read_always, readers[i]), 0);
    }
    for (int round = 0; round < STRESS_ROUNDS(80); round++) {
        int rc;
        unsigned before = atomic_load(&passes);
        while ((rc = spool_store_reopen(store, NULL, NULL)) == ERR_AGAIN) {
            (void)sched_yield(); /* cannot fail */
        }
        assert_int_equal(rc, 0);
        while (atomic_load(&passes) == before) {
            (void)sched_yield(); /* cannot fail */
        }
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        spool_reader_free(readers[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_reader_sees_its_snapshot, setup, teardown),
        cmocka_unit_test_setup_teardown(readers_come_and_go, setup, teardown),
        cmocka_unit_test_setup_teardown(pages_are_asked_for_ahead, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_in_memory_is_not_asked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(reopen_waits_for_readers, setup, teardown),
        cmocka_unit_test_setup_teardown(readers_race_with_reopens, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
