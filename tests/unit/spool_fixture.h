/* A spool in a folder of its own for each test, with one reader: setup, teardown, and what most
 * tests of it begin with. Included by one test program each. */
#ifndef TESTS_UNIT_SPOOL_FIXTURE_H
#define TESTS_UNIT_SPOOL_FIXTURE_H

#include "engine/spool/spool_store.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define MAP_BYTES (64u << 20)

static char folder[128];
static struct spool_store *store;
static struct spool_reader *reader;

static inline int try_open(uint64_t map_size, char text[256])
{
    struct spool_options options = {.path = folder, .map_size = map_size};
    return spool_store_open(&options, &store, text);
}

static inline void up(void)
{
    char text[256] = "";
    if (try_open(MAP_BYTES, text) != 0) {
        fail_msg("%s", text);
    }
    assert_int_equal(spool_reader_new(store, &reader), 0);
}

static inline void down(void)
{
    spool_reader_free(reader);
    spool_store_close(store);
    reader = NULL;
    store = NULL;
}

static inline int setup(void **state)
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(folder, sizeof(folder), "%s/spool.XXXXXX", base == NULL ? "/tmp" : base);
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    up();
    return 0;
}

static inline int teardown(void **state)
{
    down();
    char command[160];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

static inline struct spool_txn *begin(void)
{
    struct spool_txn *t = NULL;
    assert_int_equal(spool_begin(store, &t), 0);
    return t;
}

static inline struct spool_position put(struct spool_txn *t, uint64_t id, struct slice body)
{
    struct spool_position at;
    struct spool_envelope e = {
        .id = id, .size_bytes = body.len, .recipient_count = 1, .sender = SLICE("a@example.com")};
    assert_int_equal(spool_put_message(t, &e, slice_make("\0\1b", 3), body, &at), 0);
    return at;
}

static inline struct spool_position put_one(uint64_t id)
{
    struct spool_txn *t = begin();
    struct spool_position at = put(t, id, SLICE("body\r\n"));
    assert_int_equal(spool_commit(t), 0);
    return at;
}

static inline int read_result(uint64_t id)
{
    struct spool_envelope e;
    struct slice body;
    assert_int_equal(spool_reader_begin(reader), 0);
    int rc = spool_read_message(reader, id, &e, &body);
    spool_reader_end(reader);
    return rc;
}

#endif
