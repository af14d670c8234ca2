/* The journal on a real folder: what a start finds of it, whole, torn, damaged or out of date. */
#include "base/buf.h"
#include "base/error.h"
#include "engine/spool/spool_salvage.h"
#include "engine/spool/spool_store.h"
#include "engine/spool/spool_table.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096, JOURNAL_BYTES = 64 << 10, HEAD = 32 /* of the file */ };

static char folder[128], journal[160];
static struct spool_store *store;
static struct spool_reader *reader;

static void open_with(uint64_t bytes)
{
    char text[256] = "";
    const struct spool_options options = {.path = folder, .map_size = 64 << 20, .journal = bytes};
    if (spool_store_open(&options, &store, text) != 0) {
        fail_msg("%s", text);
    }
    assert_int_equal(spool_reader_new(store, &reader), 0);
}

static void shut(void)
{
    spool_reader_free(reader);
    spool_store_close(store);
}

/* A stop without a last transaction is what a crash is, seen from the spool. */
static void crash(void)
{
    shut();
    open_with(JOURNAL_BYTES);
}

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(folder, sizeof(folder), "%s/journal.XXXXXX", base == NULL ? "/tmp" : base);
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(journal, sizeof(journal), "%s/journal", folder);
    open_with(JOURNAL_BYTES);
    return 0;
}

static int tear_down(void **state)
{
    char command[160];
    shut();
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

static struct spool_position add(uint64_t id, struct slice body)
{
    struct spool_position at;
    const struct spool_envelope e = {
        .id = id, .size_bytes = body.len, .recipient_count = 1, .sender = SLICE("a@example.com")};
    assert_int_equal(spool_journal_message(store, &e, slice_make("\0\1b", 3), body, &at), 0);
    return at;
}

static struct spool_position add_alone(uint64_t id, struct slice body)
{
    struct spool_position at = add(id, body);
    assert_int_equal(spool_journal_commit(store), 0);
    return at;
}

static struct spool_txn *begin(void)
{
    struct spool_txn *t = NULL;
    assert_int_equal(spool_begin(store, &t), 0);
    return t;
}

static void absorb(void)
{
    struct spool_txn *t = begin();
    assert_int_equal(spool_absorb_journal(t), 0);
    assert_int_equal(spool_commit(t), 0);
}

/* The ids in the order of the queue, as "1 2 3". */
static const char *queue(void)
{
    static char text[256];
    struct spool_position at = {0};
    size_t len = 0;
    text[0] = '\0';
    assert_int_equal(spool_reader_begin(reader), 0);
    while (spool_scan(reader, SPOOL_INCOMING, &at, &at) == 0) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%llu", len == 0 ? "" : " ",
                                (unsigned long long)at.id);
    }
    spool_reader_end(reader);
    return text;
}

static void assert_body(uint64_t id, struct slice want)
{
    struct slice body;
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_read_chunk(reader, id, 0, &body), 0);
    assert_true(slice_eq(body, want));
    spool_reader_end(reader);
}

static void change_file(off_t at, const void *bytes, size_t len)
{
    int fd = open(journal, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, len, at), len);
    assert_int_equal(close(fd), 0);
}

static void flip(off_t at)
{
    unsigned char byte;
    int fd = open(journal, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    assert_int_equal(close(fd), 0);
    byte ^= 0x40;
    change_file(at, &byte, 1);
}

static void read_file(char contents[JOURNAL_BYTES])
{
    int fd = open(journal, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, contents, JOURNAL_BYTES, 0), JOURNAL_BYTES);
    assert_int_equal(close(fd), 0);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void what_was_acknowledged_is_in_the_tables_after_a_crash(void **state)
{
    add(1, SLICE("one\r\n"));
    add(2, SLICE("two\r\n"));
    assert_int_equal(spool_journal_commit(store), 0);
    add_alone(3, SLICE("three\r\n"));
    assert_string_equal(queue(), "");
    crash();
    assert_string_equal(queue(), "1 2 3");
    assert_body(1, SLICE("one\r\n"));
    assert_body(3, SLICE("three\r\n"));
    crash(); /* once */
    assert_string_equal(queue(), "1 2 3");
}

static void a_batch_that_was_not_committed_is_not_there(void **state)
{
    add_alone(1, SLICE("one\r\n"));
    add(2, SLICE("two\r\n"));
    spool_journal_abort(store);
    add_alone(3, SLICE("three\r\n"));
    add(4, SLICE("four\r\n"));
    crash();
    assert_string_equal(queue(), "1 3");
}

static void a_removal_counts(void **state)
{
    struct spool_position one = add_alone(1, SLICE("one\r\n"));
    add(2, SLICE("two\r\n"));
    assert_int_equal(spool_journal_removal(store, &one), 0);
    assert_int_equal(spool_journal_commit(store), 0);
    crash();
    assert_string_equal(queue(), "2");
}

static void places_go_on_behind_the_journal(void **state)
{
    struct spool_position one = add_alone(1, SLICE("one\r\n"));
    struct spool_txn *t = begin();
    struct spool_position two;
    const struct spool_envelope e = {.id = 2, .recipient_count = 1, .sender = SLICE("")};
    const struct spool_envelope first = {.id = 1, .recipient_count = 1, .sender = SLICE("")};
    assert_int_equal(spool_put_message(t, &e, slice_make("\0\1b", 3), SLICE("two\r\n"), &two), 0);
    assert_int_equal(spool_put_journaled(t, &first, slice_make("\0\1b", 3), SLICE("one\r\n"), &one),
                     0);
    assert_int_equal(spool_absorb_journal(t), 0);
    assert_int_equal(spool_commit(t), 0);
    assert_true(two.time > one.time);
    assert_string_equal(queue(), "1 2");
    struct spool_position three = add_alone(3, SLICE("three\r\n"));
    assert_true(three.time > two.time);
    crash();
    assert_string_equal(queue(), "1 2 3");
    assert_true(add_alone(4, SLICE("four\r\n")).time > three.time);
}

static void absorbed_is_forgotten(void **state)
{
    static char before[JOURNAL_BYTES];
    add_alone(1, SLICE("one\r\n"));
    add_alone(2, SLICE("two\r\n"));
    read_file(before);
    absorb(); /* both are gone by then, as if removed in the transaction */
    crash();
    assert_string_equal(queue(), "");
    change_file(0, before, sizeof(before)); /* an old generation in full */
    crash();
    assert_string_equal(queue(), "");
}

static void a_new_generation_overwrites_the_old_one(void **state)
{
    for (uint64_t id = 1; id <= 4; id++) {
        add_alone(id, SLICE("old\r\n"));
    }
    absorb();
    add_alone(5, SLICE("new\r\n"));
    crash();
    assert_string_equal(queue(), "5"); /* and not what still stands behind it in the file */
}

static void an_aborted_transaction_absorbs_nothing(void **state)
{
    add_alone(1, SLICE("one\r\n"));
    struct spool_txn *t = begin();
    assert_int_equal(spool_absorb_journal(t), 0);
    spool_abort(t);
    add_alone(2, SLICE("two\r\n"));
    crash();
    assert_string_equal(queue(), "1 2");
}

static void a_torn_batch_leaves_those_before_it(void **state)
{
    static char body[3 * PAGE];
    static const char zeros[PAGE];
    memset(body, 'x', sizeof(body));
    add_alone(1, SLICE("one\r\n"));
    add_alone(2, slice_make(body, sizeof(body)));
    change_file(2 * PAGE, zeros, sizeof(zeros)); /* a page of the second batch never came */
    crash();
    assert_string_equal(queue(), "1");
}

static void damage_costs_one_message(void **state)
{
    static char body[3 * PAGE];
    memset(body, 'x', sizeof(body));
    add(1, SLICE("one\r\n"));
    add(2, slice_make(body, sizeof(body)));
    add(3, SLICE("three\r\n"));
    assert_int_equal(spool_journal_commit(store), 0);
    add_alone(4, SLICE("four\r\n"));
    flip(2 * PAGE); /* inside the second */
    crash();
    assert_string_equal(queue(), "1 3 4");
}

static void damage_to_a_head_costs_the_rest_of_its_batch(void **state)
{
    add(1, SLICE("one\r\n"));
    add(2, SLICE("two\r\n"));
    assert_int_equal(spool_journal_commit(store), 0);
    add_alone(3, SLICE("three\r\n"));
    flip(HEAD + 8); /* the kind of the first */
    crash();
    assert_string_equal(queue(), "3");
}

/* A frame that somebody sent as the content of a message, so that it stands where a batch could
 * begin: it is one of a former generation, as nobody can make one of this. */
static void content_never_passes_for_a_frame(void **state)
{
    static char before[JOURNAL_BYTES], body[3 * PAGE];
    add_alone(7, SLICE("forged\r\n"));
    read_file(before);
    absorb();
    for (size_t at = 0; at + 256 <= sizeof(body); at += 256) {
        memcpy(body + at, before, 256); /* its record begins 8 bytes aligned, as frames do */
    }
    add_alone(1, slice_make(body, sizeof(body)));
    flip(HEAD); /* what follows is looked through for batches */
    crash();
    assert_string_equal(queue(), "");
}

static void a_full_journal_says_so(void **state)
{
    static char body[SPOOL_INLINE_BODY_BYTES + 1];
    const struct spool_envelope e = {.id = 9, .recipient_count = 1, .sender = SLICE("")};
    struct spool_position at;
    memset(body, 'x', sizeof(body));
    assert_int_equal(spool_journal_message(store, &e, slice_make("\0\1b", 3),
                                           slice_make(body, sizeof(body)), &at),
                     ERR_LIMIT); /* larger than a message record takes */
    add_alone(1, slice_make(body, SPOOL_INLINE_BODY_BYTES));
    assert_int_equal(spool_journal_message(store, &e, slice_make("\0\1b", 3),
                                           slice_make(body, SPOOL_INLINE_BODY_BYTES), &at),
                     ERR_LIMIT);
    spool_journal_abort(store);
    add_alone(2, SLICE("two\r\n"));
    crash();
    assert_string_equal(queue(), "1 2");
}

static void the_size_may_change_between_runs(void **state)
{
    struct stat st;
    add_alone(1, SLICE("one\r\n"));
    shut();
    open_with(2 * JOURNAL_BYTES);
    assert_string_equal(queue(), "1");
    assert_int_equal(stat(journal, &st), 0);
    assert_int_equal(st.st_size, 2 * JOURNAL_BYTES);
    add_alone(2, SLICE("two\r\n"));
    shut();
    open_with(0);
    assert_string_equal(queue(), "1 2");
    assert_false(spool_journal_is_open(store));
    assert_int_equal(stat(journal, &st), -1);
    shut();
    open_with(JOURNAL_BYTES);
    assert_string_equal(queue(), "1 2");
}

static void put_in_tables(uint64_t id, struct slice body)
{
    struct spool_txn *t = begin();
    struct spool_position at;
    const struct spool_envelope e = {
        .id = id, .size_bytes = body.len, .recipient_count = 1, .sender = SLICE("a@example.com")};
    assert_int_equal(spool_put_message(t, &e, slice_make("\0\1b", 3), body, &at), 0);
    assert_int_equal(spool_commit(t), 0);
}

/* As where tables and journal are copies of two times. */
static void who_meets_another_ones_id_gets_a_new_one(void **state)
{
    struct spool_position gone;
    put_in_tables(1, SLICE("theirs\r\n"));
    put_in_tables(2, SLICE("theirs\r\n"));
    add(1, SLICE("ours\r\n"));
    gone = add(2, SLICE("delivered\r\n"));
    add(3, SLICE("three\r\n"));
    assert_int_equal(spool_journal_removal(store, &gone), 0);
    assert_int_equal(spool_journal_commit(store), 0);
    crash();
    /* The first free one; whose id that was gets another one in turn. 4 was of what is gone. */
    assert_string_equal(queue(), "1 2 3 5");
    assert_body(1, SLICE("theirs\r\n"));
    assert_body(2, SLICE("theirs\r\n"));
    assert_body(3, SLICE("ours\r\n"));
    assert_body(5, SLICE("three\r\n"));
    assert_int_equal(spool_store_first_id(store), 6);
}

static void what_the_tables_have_is_not_put_again(void **state)
{
    put_in_tables(1, SLICE("one\r\n"));
    add_alone(1, SLICE("one\r\n"));
    crash();
    assert_string_equal(queue(), "1");
}

static void a_failed_write_leaves_what_was_there(void **state)
{
    add_alone(1, SLICE("one\r\n"));
    int kept = dup(store->journal.fd);
    int closed = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(kept >= 0 && closed >= 0);
    assert_true(dup2(closed, store->journal.fd) >= 0);
    add(2, SLICE("two\r\n"));
    assert_int_equal(spool_journal_commit(store), -EBADF);
    assert_true(dup2(kept, store->journal.fd) >= 0);
    assert_int_equal(close(kept) | close(closed), 0);
    add_alone(3, SLICE("three\r\n"));
    crash();
    assert_string_equal(queue(), "1 3");
}

static void a_spool_of_the_first_format_is_taken_over(void **state)
{
    struct spool_txn *t = begin();
    struct spool_position at;
    const struct spool_envelope e = {.id = 1, .recipient_count = 1, .sender = SLICE("")};
    uint64_t version;
    assert_int_equal(spool_put_message(t, &e, slice_make("\0\1b", 3), SLICE("one\r\n"), &at), 0);
    assert_int_equal(spool_put_number(t, SPOOL_TABLE_META, SPOOL_META_VERSION, 1), 0);
    assert_int_equal(spool_commit(t), 0);
    crash();
    assert_string_equal(queue(), "1");
    t = begin();
    assert_int_equal(spool_get_number(t, SPOOL_TABLE_META, SPOOL_META_VERSION, &version), 0);
    assert_int_equal(version, 5);
    spool_abort(t);
}

/* Damages what the tables say of the generation, as a bad sector under its record would. */
static void damage_number(enum spool_table table)
{
    const struct spool_key key = spool_key_name(SPOOL_META_JOURNAL);
    struct spool_txn *t = begin();
    struct slice record;
    void *at;
    char copy[SPOOL_NUMBER_BYTES];
    assert_int_equal(spool_table_get(t, table, &key, &record), 0);
    assert_int_equal(record.len, sizeof(copy));
    memcpy(copy, record.data, sizeof(copy));
    copy[4] ^= 0x10;
    assert_int_equal(spool_table_put(t, table, &key, sizeof(copy), &at), 0);
    memcpy(at, copy, sizeof(copy));
    assert_int_equal(spool_commit(t), 0);
}

static void either_record_of_the_generation_is_enough(void **state)
{
    static const enum spool_table tables[] = {SPOOL_TABLE_META, SPOOL_TABLE_TWIN};
    for (uint64_t i = 0; i < 2; i++) {
        add_alone(i + 1, SLICE("one\r\n"));
        damage_number(tables[i]);
        crash();
        assert_string_equal(queue(), i == 0 ? "1" : "1 2");
    }
    add_alone(3, SLICE("three\r\n"));
    absorb(); /* what it holds is removed in no table, and must not come back */
    damage_number(SPOOL_TABLE_META);
    crash();
    assert_string_equal(queue(), "1 2");
}

static void without_both_records_the_file_tells(void **state)
{
    add_alone(1, SLICE("one\r\n"));
    add_alone(2, SLICE("two\r\n"));
    damage_number(SPOOL_TABLE_META);
    damage_number(SPOOL_TABLE_TWIN);
    crash();
    assert_string_equal(queue(), "1 2");
    add_alone(3, SLICE("three\r\n"));
    flip(8); /* the head of the file: nothing is lost while the tables know */
    crash();
    assert_string_equal(queue(), "1 2 3");
}

static void without_any_number_nothing_is_invented(void **state)
{
    add_alone(1, SLICE("one\r\n"));
    damage_number(SPOOL_TABLE_META);
    damage_number(SPOOL_TABLE_TWIN);
    flip(8);
    crash();
    assert_string_equal(queue(), "");
    add_alone(2, SLICE("two\r\n"));
    crash();
    assert_string_equal(queue(), "2");
}

static void ignore_fate(void *ctx, enum spool_fate fate, uint64_t id)
{
    (void)ctx, (void)fate, (void)id; /* the queue tells */
}

/* The older root knows the generation before the one that the journal has. */
static void a_salvage_by_an_older_root_keeps_the_journal(void **state)
{
    static const char zeros[4096];
    struct spool_salvage salvage = {.on_message = ignore_fate};
    const struct spool_options options = {.path = folder, .map_size = 64 << 20};
    char path[160];
    uint64_t txnids[2];
    char text[256];
    (void)add_alone(1, SLICE("first"));
    absorb();
    (void)add_alone(2, SLICE("second"));
    shut();
    (void)snprintf(path, sizeof(path), "%s/data.mdb", folder);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pread(fd, &txnids[i], sizeof(txnids[i]), i * 4096 + 144),
                         sizeof(txnids[i]));
    }
    assert_int_equal(pwrite(fd, zeros, 4096, txnids[1] > txnids[0] ? 4096 : 0), 4096);
    assert_int_equal(close(fd), 0);
    assert_int_equal(spool_salvage(&options, &salvage, text), 0);
    assert_true(salvage.is_root_unsure);
    open_with(JOURNAL_BYTES);
    assert_string_equal(queue(), "2");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_was_acknowledged_is_in_the_tables_after_a_crash),
        TEST(a_batch_that_was_not_committed_is_not_there),
        TEST(a_removal_counts),
        TEST(places_go_on_behind_the_journal),
        TEST(absorbed_is_forgotten),
        TEST(a_new_generation_overwrites_the_old_one),
        TEST(an_aborted_transaction_absorbs_nothing),
        TEST(a_torn_batch_leaves_those_before_it),
        TEST(damage_costs_one_message),
        TEST(damage_to_a_head_costs_the_rest_of_its_batch),
        TEST(content_never_passes_for_a_frame),
        TEST(a_full_journal_says_so),
        TEST(the_size_may_change_between_runs),
        TEST(who_meets_another_ones_id_gets_a_new_one),
        TEST(what_the_tables_have_is_not_put_again),
        TEST(a_failed_write_leaves_what_was_there),
        TEST(a_spool_of_the_first_format_is_taken_over),
        TEST(either_record_of_the_generation_is_enough),
        TEST(without_both_records_the_file_tells),
        TEST(without_any_number_nothing_is_invented),
        TEST(a_salvage_by_an_older_root_keeps_the_journal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
