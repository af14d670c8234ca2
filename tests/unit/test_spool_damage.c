/* Pages of data.mdb that are bad: before the spool is opened, and while it is used. */
#include "base/error.h"
#include "engine/spool/spool_salvage.h"
#include "engine/spool/spool_table.h"
#include "engine/spool/spool_tree.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, COUNT = 400, LARGE = 7 /* the id with a body of pages of its own */ };

static off_t bad_at = -1; /* offset of a page that no read() gives; none */

/* In front of the library's: a disk that cannot give one page gives nothing of a read over it. */
ssize_t pread(int fd, void *to, size_t bytes, off_t at)
{
    if (bad_at >= 0 && at < bad_at + PAGE && at + (off_t)bytes > bad_at) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_pread64, fd, to, bytes, at);
}

static char folder[128], data_file[160], text[256];
static struct spool_store *store;
static struct spool_reader *reader;
static struct sigaction guard; /* the store's; cmocka puts its own in front of each test */

static int open_spool(void)
{
    const struct spool_options options = {.path = folder, .map_size = 64 << 20};
    int err = spool_store_open(&options, &store, text);
    if (err == 0) {
        assert_int_equal(spool_reader_new(store, &reader), 0);
    }
    return err;
}

static void shut(void)
{
    spool_reader_free(reader);
    spool_store_close(store);
    reader = NULL;
    store = NULL;
}

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(folder, sizeof(folder), "%s/damage.XXXXXX", base == NULL ? "/tmp" : base);
    if (mkdtemp(folder) == NULL || open_spool() != 0) {
        return -1;
    }
    (void)snprintf(data_file, sizeof(data_file), "%s/data.mdb", folder);
    (void)sigaction(SIGBUS, NULL, &guard); /* only asks */
    static char body[20000];
    struct spool_txn *t;
    struct spool_position at;
    memset(body, 'x', sizeof(body));
    assert_int_equal(spool_begin(store, &t), 0);
    for (uint64_t id = 1; id <= COUNT; id++) {
        const struct spool_envelope e = {.id = id, .recipient_count = 1, .sender = SLICE("")};
        struct slice content = slice_make(body, id == LARGE ? sizeof(body) : 200);
        assert_int_equal(spool_put_message(t, &e, slice_make("\0\1b", 3), content, &at), 0);
    }
    assert_int_equal(spool_commit(t), 0);
    return 0;
}

static int tear_down(void **state)
{
    char command[160];
    if (store != NULL) {
        shut();
    }
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

/* Where LMDB has the record of a message, or the place of one in the queue. */
static uint64_t page_of(const struct spool_key *key, enum spool_table table)
{
    MDB_val k = spool_val(key);
    MDB_val v;
    MDB_cursor *cursor;
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(mdb_cursor_open(reader->txn, store->dbi[table], &cursor), 0);
    assert_int_equal(mdb_cursor_get(cursor, &k, &v, MDB_SET_KEY), 0);
    mdb_cursor_close(cursor);
    spool_reader_end(reader);
    /* An empty value may end where the page does: the byte before is the key's. */
    return (uint64_t)((const char *)v.mv_data - 1 - store->guard.base) / PAGE;
}

static uint64_t message_page(uint64_t id)
{
    const struct spool_key key = spool_key_id(id);
    return page_of(&key, SPOOL_TABLE_MESSAGE);
}

/* A hole in the map: whoever touches the page gets SIGBUS, until it is mapped again. */
static void break_page(uint64_t page)
{
    int nothing = memfd_create("nothing", MFD_CLOEXEC);
    assert_true(nothing >= 0);
    assert_true(mmap(store->guard.base + page * PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED,
                     nothing, 0) != MAP_FAILED);
    assert_int_equal(close(nothing), 0);
    assert_int_equal(sigaction(SIGBUS, &guard, NULL), 0);
}

static void write_page(uint64_t page, const char bytes[PAGE])
{
    int fd = open(data_file, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, PAGE, (off_t)(page * PAGE)), PAGE);
    assert_int_equal(close(fd), 0);
}

static int read_message(uint64_t id)
{
    struct spool_envelope e;
    struct slice body;
    int err = spool_reader_begin(reader);
    if (err == 0) {
        err = spool_read_message(reader, id, &e, &body);
        spool_reader_end(reader);
    }
    return err;
}

/* The spool as it is after a crash. */
static void crash(void)
{
    char lock[160];
    shut();
    (void)snprintf(lock, sizeof(lock), "%s/spool.lock", folder);
    FILE *f = fopen(lock, "w");
    assert_non_null(f);
    (void)fputs("1\n", f);
    assert_int_equal(fclose(f), 0);
}

static void a_page_that_cannot_be_read_is_asked_for_again(void **state)
{
    struct spool_txn *t;
    break_page(message_page(200));
    assert_int_equal(read_message(200), ERR_AGAIN);
    assert_true(spool_store_is_damaged(store));
    assert_int_equal(spool_begin(store, &t), -EIO); /* not before somebody has looked at it */
    assert_true(spool_store_must_reopen(store));
    assert_int_equal(spool_store_reopen(store, NULL, NULL), 0);
    assert_false(spool_store_is_damaged(store));
    assert_int_equal(read_message(200), 0); /* the file itself was good */
    assert_int_equal(spool_begin(store, &t), 0);
    assert_int_equal(spool_commit(t), 0);
}

static void a_bad_page_of_a_large_record_costs_that_message_alone(void **state)
{
    struct spool_txn *t;
    break_page(message_page(LARGE) + 1);
    assert_int_equal(read_message(LARGE), ERR_CORRUPT);
    assert_int_equal(spool_begin(store, &t), 0); /* no tree hangs on it: nobody has to wait */
    assert_int_equal(spool_commit(t), 0);
    assert_false(spool_store_must_reopen(store));
    assert_int_equal(read_message(LARGE - 1), 0);
}

static void what_used_a_bad_page_is_not_committed(void **state)
{
    struct spool_txn *t;
    uint64_t page = message_page(200);
    assert_int_equal(spool_begin(store, &t), 0);
    break_page(page);
    const struct spool_position at = {SPOOL_INCOMING, 200, 200, 0};
    (void)!spool_remove(t, &at); /* whatever it says */
    assert_int_not_equal(spool_commit(t), 0);
    assert_int_equal(spool_store_reopen(store, NULL, NULL), 0);
    assert_int_equal(read_message(200), 0);
}

static void a_damaged_leaf_costs_its_own_messages_after_a_crash(void **state)
{
    static const char zeros[PAGE];
    unsigned lost = 0;
    uint64_t page = message_page(200);
    crash();
    write_page(page, zeros);
    assert_int_equal(open_spool(), 0);
    for (uint64_t id = 1; id <= COUNT; id++) {
        int err = read_message(id);
        assert_true(err == 0 || err == ERR_MISSING);
        lost += err != 0;
    }
    assert_in_range(lost, 1, 20);
    assert_int_equal(read_message(200), ERR_MISSING);
    shut();
    assert_int_equal(open_spool(), 0);
}

/* A key with its first byte set is beyond those that its leaf may have. */
static void a_damaged_key_costs_its_own_message_after_a_crash(void **state)
{
    static char bytes[PAGE];
    uint64_t page = message_page(200);
    const struct spool_key key = spool_key_id(200);
    crash();
    int fd = open(data_file, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, bytes, PAGE, (off_t)(page * PAGE)), PAGE);
    assert_int_equal(close(fd), 0);
    char *at = memmem(bytes, PAGE, key.bytes, key.len);
    assert_non_null(at);
    *at = '\xff';
    write_page(page, bytes);
    assert_int_equal(open_spool(), 0);
    for (uint64_t id = 1; id <= COUNT; id++) {
        assert_int_equal(read_message(id), id == 200 ? ERR_MISSING : 0);
    }
}

/* Also after a stop in order, which has the next start read little else. */
static void what_is_lost_is_not_counted(void **state)
{
    static const char zeros[PAGE];
    const struct spool_key place = spool_key_queue(0, 150, 150);
    uint64_t pages[] = {message_page(200), page_of(&place, SPOOL_TABLE_INCOMING)};
    struct spool_counts counts;
    crash();
    write_page(pages[0], zeros);
    write_page(pages[1], zeros);
    for (int start = 0; start < 3; start++) {
        uint64_t there = 0;
        assert_int_equal(open_spool(), 0);
        for (uint64_t id = 1; id <= COUNT; id++) {
            there += read_message(id) == 0;
        }
        assert_in_range(there, 1, COUNT - 1);
        assert_int_equal(spool_reader_begin(reader), 0);
        struct spool_position at = {0};
        uint64_t places = 0;
        while (spool_scan(reader, SPOOL_INCOMING, &at, &at) == 0) {
            places++;
        }
        assert_int_equal(spool_read_counts(reader, &counts), 0);
        spool_reader_end(reader);
        assert_int_equal(counts.messages, there);
        assert_int_equal(counts.incoming, places);
        shut();
    }
}

static void places_in_the_queue_come_back(void **state)
{
    static const char zeros[PAGE];
    const struct spool_key place = spool_key_queue(0, 150, 150);
    struct spool_position at = {0};
    unsigned count = 0;
    uint64_t page = page_of(&place, SPOOL_TABLE_INCOMING);
    crash();
    write_page(page, zeros);
    assert_int_equal(open_spool(), 0);
    assert_int_equal(spool_reader_begin(reader), 0);
    while (spool_scan(reader, SPOOL_INCOMING, &at, &at) == 0) {
        count++;
    }
    spool_reader_end(reader);
    assert_int_equal(count, COUNT);
}

/* Also one whose time is the first there is. */
static void who_was_held_is_held_again(void **state)
{
    static const char zeros[PAGE];
    const struct spool_envelope e = {
        .id = COUNT + 1, .recipient_count = 1, .not_before = 1, .sender = SLICE("")};
    const struct spool_key place = spool_key_queue(0, 1, COUNT + 1);
    struct spool_position at;
    struct spool_txn *t;
    assert_int_equal(spool_begin(store, &t), 0);
    assert_int_equal(spool_put_message(t, &e, slice_make("\0\1b", 3), SLICE("body"), &at), 0);
    assert_int_equal(spool_commit(t), 0);
    uint64_t page = page_of(&place, SPOOL_TABLE_HELD);
    crash();
    write_page(page, zeros);
    assert_int_equal(open_spool(), 0);
    assert_int_equal(spool_reader_begin(reader), 0);
    int err = spool_scan(reader, SPOOL_HELD, NULL, &at);
    spool_reader_end(reader);
    assert_int_equal(err, 0);
    assert_int_equal(at.id, COUNT + 1);
    assert_int_equal(at.time, 1);
}

struct fates {
    unsigned counts[SPOOL_FATE_COUNT];
};

static void count_fate(void *ctx, enum spool_fate fate, uint64_t id)
{
    struct fates *f = ctx;
    (void)id; /* how many is enough here */
    f->counts[fate]++;
}

/* The page of the branch that all messages hang on. */
static uint64_t branch_page(void)
{
    MDB_stat stat;
    struct spool_file file;
    char page[PAGE];
    int fd = open(data_file, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(spool_file_metas(&file, fd), 0);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(mdb_stat(reader->txn, store->dbi[SPOOL_TABLE_MESSAGE], &stat), 0);
    spool_reader_end(reader);
    assert_int_equal(stat.ms_depth, 2);
    uint64_t child = message_page(200);
    uint64_t found = 0;
    for (uint64_t p = 2; p <= file.meta.last_page && found == 0; p++) {
        assert_int_equal(spool_file_read(&file, p, page, PAGE), 0);
        unsigned count = spool_page_is_sound(page, PAGE, p, SPOOL_PAGE_BRANCH)
                             ? spool_page_nodes(page, PAGE)
                             : 0;
        for (unsigned i = 0; i < count; i++) {
            struct spool_node node;
            bool is_it =
                spool_page_node(page, PAGE, SPOOL_PAGE_BRANCH, i, &node) && node.page == child;
            found = is_it ? p : found;
        }
    }
    assert_int_equal(close(fd), 0);
    assert_int_not_equal(found, 0);
    return found;
}

static void a_damaged_branch_is_refused_and_salvaged(void **state)
{
    static const char zeros[PAGE];
    struct fates fates = {{0}};
    struct spool_salvage salvage = {.on_message = count_fate, .ctx = &fates};
    const struct spool_options options = {.path = folder, .map_size = 64 << 20};
    uint64_t page = branch_page();
    shut(); /* in order: branches are looked at all the same */
    write_page(page, zeros);
    assert_int_equal(open_spool(), ERR_CORRUPT);
    assert_non_null(strstr(text, "sluice repair --salvage"));
    assert_int_equal(spool_salvage(&options, &salvage, text), 0);
    assert_int_equal(fates.counts[SPOOL_KEPT], COUNT);
    assert_int_equal(fates.counts[SPOOL_LOST] + fates.counts[SPOOL_REPEAT], 0);
    assert_int_equal(open_spool(), 0);
    for (uint64_t id = 1; id <= COUNT; id++) {
        assert_int_equal(read_message(id), 0);
    }
}

static void a_damaged_head_is_never_an_older_root(void **state)
{
    static const char zeros[PAGE];
    struct fates fates = {{0}};
    struct spool_salvage salvage = {.on_message = count_fate, .ctx = &fates};
    const struct spool_options options = {.path = folder, .map_size = 64 << 20};
    shut();
    write_page(0, zeros);
    assert_int_equal(open_spool(), ERR_CORRUPT);
    assert_int_equal(spool_salvage(&options, &salvage, text), 0);
    assert_true(salvage.is_root_unsure);
    assert_int_equal(fates.counts[SPOOL_REPEAT], COUNT);
    assert_int_equal(open_spool(), 0);
    assert_int_equal(read_message(COUNT), 0);
}

/* Nothing is written over what a head of zeros may belong to. */
static void a_file_without_a_head_is_not_new(void **state)
{
    static const char zeros[PAGE];
    struct fates fates = {{0}};
    struct spool_salvage salvage = {.on_message = count_fate, .ctx = &fates};
    const struct spool_options options = {.path = folder, .map_size = 64 << 20};
    crash();
    write_page(0, zeros);
    write_page(1, zeros);
    assert_int_equal(open_spool(), ERR_CORRUPT);
    assert_int_equal(spool_salvage(&options, &salvage, text), 0);
    assert_int_equal(fates.counts[SPOOL_REPEAT], COUNT);
    assert_int_equal(open_spool(), 0);
    assert_int_equal(read_message(1), 0);
}

enum { MANY = 600, TOLD = 100 /* the failures of those below were told */ };

/* A message whose recipients have all failed. */
static void put_failures(uint64_t id)
{
    static char packed[3 * MANY];
    const struct spool_envelope e = {.id = id, .recipient_count = MANY, .sender = SLICE("")};
    const struct spool_reason reason = {.state = SPOOL_RECIPIENT_FAILED,
                                        .code = 550,
                                        .status = SLICE("5.1.1"),
                                        .text = SLICE("no such user"),
                                        .remote_mta = SLICE("")};
    struct spool_txn *t;
    struct spool_position at;
    for (uint32_t i = 0; i < MANY; i++) {
        memcpy(packed + 3 * i, "\0\1b", 3);
    }
    assert_int_equal(spool_begin(store, &t), 0);
    assert_int_equal(
        spool_put_message(t, &e, slice_make(packed, sizeof(packed)), SLICE("body"), &at), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(
            spool_set_recipient(t, id, MANY, i, SPOOL_RECIPIENT_FAILED, i < TOLD ? NULL : &reason),
            0);
    }
    assert_int_equal(spool_commit(t), 0);
}

/* How many recipients of the message have a reason, so that their sender is told. */
static unsigned count_reasons(uint64_t id, unsigned *ret_unknown)
{
    unsigned count = 0;
    *ret_unknown = 0;
    assert_int_equal(spool_reader_begin(reader), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        struct spool_reason reason;
        int err = spool_read_reason(reader, id, i, &reason);
        assert_true(err == 0 || err == ERR_MISSING);
        count += err == 0;
        *ret_unknown += err == 0 && reason.code == 0;
    }
    spool_reader_end(reader);
    return count;
}

static uint64_t reason_page(uint64_t id, uint32_t index)
{
    const struct spool_key key = spool_key_part(id, index);
    return page_of(&key, SPOOL_TABLE_REASON);
}

static void forget_failures(uint64_t id)
{
    struct spool_txn *t;
    unsigned unknown;
    assert_int_equal(spool_begin(store, &t), 0);
    assert_int_equal(spool_forget_failures(t, id), 0);
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(count_reasons(id, &unknown), 0);
}

static void who_failed_is_told_though_the_reasons_are_lost(void **state)
{
    static const char zeros[PAGE];
    unsigned unknown;
    put_failures(COUNT + 1);
    assert_int_equal(count_reasons(COUNT + 1, &unknown), MANY - TOLD);
    assert_int_equal(unknown, 0);
    uint64_t page = reason_page(COUNT + 1, MANY / 2);
    crash();
    write_page(page, zeros);
    assert_int_equal(open_spool(), 0);
    assert_int_equal(count_reasons(COUNT + 1, &unknown), MANY - TOLD);
    assert_in_range(unknown, 1, 100);
    forget_failures(COUNT + 1);
    shut();
    assert_int_equal(open_spool(), 0);
    assert_int_equal(count_reasons(COUNT + 1, &unknown), 0);
}

static void who_failed_is_told_though_the_reasons_are_lost_meanwhile(void **state)
{
    struct spool_txn *t;
    unsigned unknown;
    put_failures(COUNT + 1);
    uint64_t page = reason_page(COUNT + 1, MANY / 2);
    static const char zeros[PAGE];
    write_page(page, zeros);
    break_page(page);
    assert_int_equal(spool_reader_begin(reader), 0);
    struct spool_reason reason;
    assert_int_equal(spool_read_reason(reader, COUNT + 1, MANY / 2, &reason), ERR_AGAIN);
    spool_reader_end(reader);
    assert_int_equal(spool_begin(store, &t), -EIO);
    assert_int_equal(spool_store_reopen(store, NULL, NULL), 0);
    assert_int_equal(count_reasons(COUNT + 1, &unknown), MANY - TOLD);
    assert_in_range(unknown, 1, 100);
}

static void a_salvage_tells_who_failed_as_well(void **state)
{
    static const char zeros[PAGE];
    struct fates fates = {{0}};
    struct spool_salvage salvage = {.on_message = count_fate, .ctx = &fates};
    const struct spool_options options = {.path = folder, .map_size = 64 << 20};
    unsigned unknown;
    put_failures(COUNT + 1);
    uint64_t page = reason_page(COUNT + 1, MANY / 2);
    shut();
    write_page(page, zeros);
    assert_int_equal(spool_salvage(&options, &salvage, text), 0);
    assert_false(salvage.is_queue_guess);
    assert_int_equal(open_spool(), 0);
    assert_int_equal(count_reasons(COUNT + 1, &unknown), MANY - TOLD);
    assert_in_range(unknown, 1, 100);
}

static void a_salvage_says_that_a_queue_is_a_guess(void **state)
{
    static const char zeros[PAGE];
    struct fates fates = {{0}};
    struct spool_salvage salvage = {.on_message = count_fate, .ctx = &fates};
    const struct spool_options options = {.path = folder, .map_size = 64 << 20};
    const struct spool_key place = spool_key_queue(0, 150, 150);
    uint64_t page = page_of(&place, SPOOL_TABLE_INCOMING);
    shut();
    write_page(page, zeros);
    assert_int_equal(spool_salvage(&options, &salvage, text), 0);
    assert_true(salvage.is_queue_guess);
    assert_int_equal(fates.counts[SPOOL_KEPT], COUNT);
}

/* The one reason whose bytes are wrong is made up for; the recipient behind it was told. */
static void a_salvage_tells_of_a_bad_reason_alone(void **state)
{
    struct fates fates = {{0}};
    struct spool_salvage salvage = {.on_message = count_fate, .ctx = &fates};
    const struct spool_options options = {.path = folder, .map_size = 64 << 20};
    const struct spool_key bad = spool_key_part(COUNT + 1, MANY / 2);
    const struct spool_key told = spool_key_part(COUNT + 1, MANY / 2 + 1);
    struct spool_txn *t;
    struct slice record;
    unsigned unknown;
    put_failures(COUNT + 1);
    assert_int_equal(spool_begin(store, &t), 0);
    assert_int_equal(spool_table_del(t, SPOOL_TABLE_REASON, &told), 0);
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(spool_begin(store, &t), 0);
    assert_int_equal(spool_table_get(t, SPOOL_TABLE_REASON, &bad, &record), 0);
    const off_t last = record.data + record.len - 1 - store->guard.base;
    const char other = (char)(record.data[record.len - 1] ^ 1);
    spool_abort(t);
    shut();
    int fd = open(data_file, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &other, 1, last), 1);
    assert_int_equal(close(fd), 0);
    assert_int_equal(spool_salvage(&options, &salvage, text), 0);
    assert_int_equal(open_spool(), 0);
    assert_int_equal(count_reasons(COUNT + 1, &unknown), MANY - TOLD - 1);
    assert_int_equal(unknown, 1);
}

/* Leaves that hold nothing but references to large records, of bodies and of recipients, are told
 * apart by what is in these. */
static void large_records_without_a_tree_are_found(void **state)
{
    enum { MESSAGES = 300, BATCHES = 2, RECIPIENTS = BATCHES * SPOOL_BATCH_RECIPIENTS };
    static const char zeros[PAGE];
    static char body[5000], packed[3 * SPOOL_BATCH_RECIPIENTS];
    struct fates fates = {{0}};
    struct spool_salvage salvage = {.on_message = count_fate, .ctx = &fates};
    const struct spool_options options = {.path = folder, .map_size = 64 << 20};
    struct spool_txn *t;
    struct spool_position at;
    memset(body, 'x', sizeof(body));
    for (size_t i = 0; i < SPOOL_BATCH_RECIPIENTS; i++) {
        memcpy(packed + 3 * i, "\0\1b", 3);
    }
    assert_int_equal(spool_begin(store, &t), 0);
    for (uint64_t id = COUNT + 1; id <= COUNT + MESSAGES; id++) {
        const struct spool_envelope e = {
            .id = id, .recipient_count = RECIPIENTS, .chunk_count = 1, .sender = SLICE("")};
        assert_int_equal(spool_put_chunk(t, id, 0, slice_make(body, sizeof(body))), 0);
        for (uint32_t batch = 0; batch < BATCHES; batch++) {
            assert_int_equal(spool_put_recipients(t, id, batch, slice_make(packed, sizeof(packed))),
                             0);
        }
        assert_int_equal(spool_put_message(t, &e, SLICE(""), SLICE(""), &at), 0);
    }
    assert_int_equal(spool_commit(t), 0);
    crash();
    write_page(0, zeros);
    write_page(1, zeros);
    assert_int_equal(spool_salvage(&options, &salvage, text), 0);
    assert_int_equal(fates.counts[SPOOL_REPEAT], COUNT + MESSAGES);
    assert_int_equal(fates.counts[SPOOL_KEPT] + fates.counts[SPOOL_LOST], 0);
    assert_int_equal(open_spool(), 0);
    assert_int_equal(read_message(COUNT + MESSAGES), 0);
}

/* Nothing is left but four pages without meaning. */
static void a_salvage_of_a_stump_is_an_empty_spool(void **state)
{
    static char page[PAGE];
    struct fates fates = {{0}};
    struct spool_salvage salvage = {.on_message = count_fate, .ctx = &fates};
    const struct spool_options options = {.path = folder, .map_size = 64 << 20};
    memset(page, 'x', sizeof(page));
    crash();
    assert_int_equal(truncate(data_file, 0), 0);
    for (uint64_t i = 0; i < 4; i++) {
        write_page(i, page);
    }
    assert_int_equal(open_spool(), ERR_CORRUPT);
    assert_int_equal(spool_salvage(&options, &salvage, text), 0);
    assert_int_equal(fates.counts[SPOOL_KEPT] + fates.counts[SPOOL_REPEAT], 0);
    assert_int_equal(open_spool(), 0);
    assert_int_equal(read_message(1), ERR_MISSING);
}

/* Zeros stand for the page that cannot be read, and for nothing else. */
static void quarantine_has_what_can_be_read(void **state)
{
    enum { HEAD = 16, BAD = 1 /* the page of the record */ };
    static char before[6 * PAGE];
    const struct spool_key id = spool_key_id(LARGE);
    const struct spool_key moved = spool_key_quarantine(LARGE, SPOOL_TABLE_MESSAGE, 0);
    const struct spool_position at = {SPOOL_INCOMING, LARGE, LARGE, 0};
    uint64_t page = message_page(LARGE);
    struct spool_txn *t;
    struct slice record;
    assert_int_equal(spool_begin(store, &t), 0);
    assert_int_equal(spool_table_get(t, SPOOL_TABLE_MESSAGE, &id, &record), 0);
    const size_t len = record.len;
    assert_in_range(len, 3 * PAGE, sizeof(before));
    memcpy(before, record.data, len);
    bad_at = (off_t)((page + BAD) * PAGE);
    int err = spool_quarantine(t, &at);
    bad_at = -1;
    assert_int_equal(err, 0);
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(spool_begin(store, &t), 0);
    err = spool_table_get(t, SPOOL_TABLE_QUARANTINE, &moved, &record);
    size_t wrong = 0;
    for (size_t i = 0; err == 0 && i < len && i < record.len; i++) {
        bool is_bad = (HEAD + i) / PAGE == BAD;
        wrong += record.data[i] != (is_bad ? 0 : before[i]);
    }
    spool_abort(t);
    assert_int_equal(err, 0);
    assert_int_equal(record.len, len);
    assert_int_equal(wrong, 0);
}

/* Its second chunk is nowhere: nothing is wrong with the storage, but the message is. */
static void a_salvage_loses_what_lacks_a_part(void **state)
{
    struct fates fates = {{0}};
    struct spool_salvage salvage = {.on_message = count_fate, .ctx = &fates};
    const struct spool_options options = {.path = folder, .map_size = 64 << 20};
    const struct spool_envelope e = {
        .id = COUNT + 1, .recipient_count = 1, .chunk_count = 2, .sender = SLICE("")};
    struct spool_txn *t;
    struct spool_position at;
    assert_int_equal(spool_begin(store, &t), 0);
    assert_int_equal(spool_put_chunk(t, e.id, 0, SLICE("one")), 0);
    assert_int_equal(spool_put_message(t, &e, slice_make("\0\1b", 3), SLICE(""), &at), 0);
    assert_int_equal(spool_commit(t), 0);
    shut();
    assert_int_equal(spool_salvage(&options, &salvage, text), 0);
    assert_int_equal(fates.counts[SPOOL_KEPT], COUNT);
    assert_int_equal(fates.counts[SPOOL_LOST], 1);
    assert_int_equal(open_spool(), 0);
    assert_int_equal(read_message(COUNT + 1), ERR_MISSING);
    assert_int_equal(read_message(COUNT), 0);
}

/* A page of one node whose key would reach beyond the page's end. */
static void a_node_ends_in_its_page(void **state)
{
    enum { NODE = PAGE - 40, ROOM = 32 }; /* bytes behind the node's head */
    static char page[PAGE];
    struct spool_node node;
    const uint16_t lower = 18, at = NODE;
    memcpy(page + 12, &lower, sizeof(lower));
    memcpy(page + 16, &at, sizeof(at));
    for (uint16_t key_bytes = ROOM - 1; key_bytes <= ROOM + 1; key_bytes++) {
        memcpy(page + NODE + 6, &key_bytes, sizeof(key_bytes));
        assert_int_equal(spool_page_node(page, PAGE, SPOOL_PAGE_LEAF, 0, &node), key_bytes <= ROOM);
    }
}

static void a_salvage_of_a_spool_in_use_is_refused(void **state)
{
    struct spool_salvage salvage = {.on_message = count_fate};
    const struct spool_options options = {.path = folder, .map_size = 64 << 20};
    assert_int_equal(spool_salvage(&options, &salvage, text), ERR_LOCKED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_page_that_cannot_be_read_is_asked_for_again),
        TEST(a_bad_page_of_a_large_record_costs_that_message_alone),
        TEST(what_used_a_bad_page_is_not_committed),
        TEST(a_damaged_leaf_costs_its_own_messages_after_a_crash),
        TEST(a_damaged_key_costs_its_own_message_after_a_crash),
        TEST(what_is_lost_is_not_counted),
        TEST(places_in_the_queue_come_back),
        TEST(a_damaged_branch_is_refused_and_salvaged),
        TEST(a_damaged_head_is_never_an_older_root),
        TEST(a_file_without_a_head_is_not_new),
        TEST(who_failed_is_told_though_the_reasons_are_lost),
        TEST(who_failed_is_told_though_the_reasons_are_lost_meanwhile),
        TEST(a_salvage_tells_who_failed_as_well),
        TEST(who_was_held_is_held_again),
        TEST(a_salvage_says_that_a_queue_is_a_guess),
        TEST(a_salvage_tells_of_a_bad_reason_alone),
        TEST(large_records_without_a_tree_are_found),
        TEST(a_salvage_of_a_stump_is_an_empty_spool),
        TEST(quarantine_has_what_can_be_read),
        TEST(a_salvage_loses_what_lacks_a_part),
        TEST(a_salvage_of_a_spool_in_use_is_refused),
        cmocka_unit_test(a_node_ends_in_its_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
