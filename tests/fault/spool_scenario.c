/* A scripted life of a spool for fault tests, and the check of what is left of it.
 *
 * usage: spool_scenario run FOLDER LEDGER TRANSACTIONS   the same operations each time
 *        spool_scenario verify FOLDER LEDGER             what is there must be what was
 * acknowledged
 *        spool_scenario age FOLDER                       make it one of format 4
 *        spool_scenario open FOLDER                      what a start does, and no more
 *
 * The ledger, a file outside of the spool, gets a line before each commit ("try 3") and after it
 * ("ok 3" or "fail 3"). A commit that fails must leave the spool as it was once it is reopened; the
 * transaction is then repeated until it succeeds. verify accepts the transactions that were
 * acknowledged, and the next one as well when it was in progress at the end; of a batch any part,
 * since what is in it was acknowledged neither together nor at all.
 *
 * Most of them are batches of the journal, the others transactions that take over what it holds. A
 * batch that failed may come back after a crash until a transaction has ended the journal's
 * generation; "fail" is said then. "absorb 5" says that one did so before number 5.
 *
 * resume checks that what is there is DONE transactions or one more, says "right N", and writes "ok
 * N" to standard output after each further commit. HISTORY lists, one a line, the numbers N of all
 * earlier resumptions: receptions that were not complete are gone after each.
 *
 * exit  0 right, 1 wrong, 2 usage, 3 the spool could not be opened, 4 it did not come back */
#include "base/error.h"
#include "engine/spool/spool_record.h"
#include "tests/sim/spool_model.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEED     7
#define ATTEMPTS 50
#define NUMBERS  1000        /* most transactions of a run */
#define JOURNAL  (128 << 10) /* never full: see is_batch and change */

enum { BATCH_STEPS = 4 }; /* at most */

static struct spool_store *store;
static struct spool_reader *reader;
static int ledger = -1;

static void note(const char *what, int number)
{
    if (ledger < 0) {
        return;
    }
    char line[32];
    int len = snprintf(line, sizeof(line), "%s %d\n", what, number);
    if (write(ledger, line, (size_t)len) != len) {
        abort();
    }
}

static void spool_up(const char *folder)
{
    char text[256];
    struct spool_options options = {.path = folder,
                                    .map_size = 64 << 20,
                                    .ballast = 1 << 16,
                                    .journal = JOURNAL,
                                    .takeover = 3};
    int rc = spool_store_open(&options, &store, text);
    if (rc == 0) {
        rc = spool_reader_new(store, &reader);
    }
    if (rc != 0) {
        (void)fprintf(stderr, "open: %s\n", text);
        exit(3);
    }
}

static void spool_down(void)
{
    spool_reader_free(reader);
    spool_store_close(store);
}

/* true when the tables say what the model says, all of which they must hold */
static bool equals(struct model *m, struct buf *got)
{
    struct buf want;
    buf_init(&want, 0);
    buf_clear(got);
    model_text(m, &want);
    int rc = spool_reader_begin(reader);
    if (rc != 0) {
        (void)fprintf(stderr, "reader: %s\n", err_str(rc));
        exit(1);
    }
    spool_text(reader, got);
    model_learn_positions(m, reader);
    spool_reader_end(reader);
    bool is_equal = slice_eq(buf_slice(&want), buf_slice(got));
    buf_fini(&want);
    return is_equal;
}

static void expect(struct model *m, const char *when, int number)
{
    struct buf got;
    buf_init(&got, 0);
    if (!equals(m, &got)) {
        struct buf want;
        buf_init(&want, 0);
        model_text(m, &want);
        (void)fprintf(stderr, "%s %d\n--- model\n%.*s--- spool\n%.*s", when, number, (int)want.len,
                      want.data, (int)got.len, got.data);
        exit(1);
    }
    buf_fini(&got);
}

static bool is_batch(int number)
{
    return number % 3 != 0;
}

/* t and journal NULL: in the model only */
static int change(struct model *m, int number, struct spool_txn *t, struct spool_store *journal)
{
    uint64_t steps = 1 + model_random(m, BATCH_STEPS);
    int rc = is_batch(number) ? 0 : model_absorb(m, t);
    for (uint64_t i = 0; rc == 0 && i < steps; i++) {
        rc = is_batch(number) ? model_journal_step(m, journal) : model_step(m, t);
    }
    return rc;
}

/* The model alone, one number further. */
static void pass_over(struct model *m, int number)
{
    int rc = change(m, number, NULL, NULL);
    if (rc != 0) {
        abort(); /* nothing can fail without a spool */
    }
}

static void model_absorb_alone(struct model *m)
{
    int rc = model_absorb(m, NULL);
    if (rc != 0) {
        abort(); /* as above */
    }
}

/* Take what the journal holds into the tables; nothing else changes. */
static int absorb(struct model *m)
{
    struct spool_txn *t;
    int rc = spool_begin(store, &t);
    if (rc != 0) {
        return rc;
    }
    static struct model after;
    model_copy(&after, m);
    rc = model_absorb(&after, t);
    if (rc != 0) {
        spool_abort(t);
    } else {
        rc = spool_commit(t);
    }
    if (rc != 0) {
        model_fini(&after);
        return rc;
    }
    model_fini(m);
    *m = after;
    return 0;
}

/* The same steps where the journal could not be made. */
static int batch_by_tables(struct model *m, int number)
{
    struct spool_txn *t;
    int rc = spool_begin(store, &t);
    if (rc != 0) {
        return rc;
    }
    pass_over(m, number);
    rc = model_absorb(m, t);
    if (rc != 0) {
        spool_abort(t);
        return rc;
    }
    note("try", number);
    note("absorb", number + 1);
    return spool_commit(t);
}

static int batch(struct model *m, int number)
{
    if (!spool_journal_is_open(store)) {
        return batch_by_tables(m, number);
    }
    int rc = change(m, number, NULL, store);
    if (rc != 0) {
        spool_journal_abort(store);
        return rc;
    }
    note("try", number);
    return spool_journal_commit(store);
}

static int transaction(struct model *m, int number)
{
    struct spool_txn *t;
    if (is_batch(number)) {
        return batch(m, number);
    }
    int rc = spool_begin(store, &t);
    if (rc != 0) {
        return rc;
    }
    rc = change(m, number, t, NULL);
    if (rc != 0) {
        spool_abort(t);
        return rc;
    }
    note("try", number);
    return spool_commit(t);
}

static void recover(struct model *m, int number, int rc)
{
    for (int i = 0; i < ATTEMPTS; i++) {
        bool is_open =
            !spool_store_must_reopen(store) || spool_store_reopen(store, NULL, NULL) == 0;
        if (is_open && absorb(m) == 0) {
            note("absorb", number);
            expect(m, "after a failed commit", number);
            return;
        }
    }
    (void)fprintf(stderr, "transaction %d: %s, and the spool did not come back\n", number,
                  err_str(rc));
    exit(4);
}

static int run(const char *folder, int transactions)
{
    static struct model m;
    static struct model before;
    model_init(&m, SEED);
    spool_up(folder);
    int failures = 0;
    for (int number = 1; number <= transactions;) {
        model_copy(&before, &m);
        int rc = transaction(&m, number);
        if (rc == 0) {
            note("ok", number);
            model_fini(&before);
            number++;
            continue;
        }
        model_fini(&m);
        m = before;
        if (++failures > ATTEMPTS) {
            return 4;
        }
        recover(&m, number, rc);
        note("fail", number);
    }
    recover(&m, transactions, 0);
    model_fini(&m);
    spool_down();
    return 0;
}

static struct model_message *find(struct model *m, uint64_t id)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->messages[i].id == id) {
            return &m->messages[i];
        }
    }
    return NULL;
}

/* A batch of which the power cut left the steps whose bits are set. The model passes all of them
 * over, so that the later ones are what they were, and is then put right. */
static void pass_over_part(struct model *m, int number, unsigned kept)
{
    struct model_message undone[BATCH_STEPS];
    bool is_added[BATCH_STEPS];
    uint32_t undone_count = 0;
    uint64_t steps = 1 + model_random(m, BATCH_STEPS);
    assert(is_batch(number));
    for (uint64_t i = 0; i < steps; i++) {
        static struct model before;
        model_copy(&before, m);
        if (model_journal_step(m, NULL) != 0) {
            abort(); /* nothing can fail without a spool */
        }
        const struct model *longer = m->count > before.count ? m : &before;
        struct model *shorter = m->count > before.count ? &before : m;
        for (uint32_t at = 0; (kept >> i & 1) == 0 && at < longer->count; at++) {
            if (find(shorter, longer->messages[at].id) == NULL) {
                is_added[undone_count] = m->count > before.count;
                undone[undone_count++] = longer->messages[at];
            }
        }
        model_fini(&before);
    }
    while (undone_count-- > 0) {
        struct model_message *there = find(m, undone[undone_count].id);
        if (is_added[undone_count] && there != NULL) {
            *there = m->messages[--m->count];
        } else if (!is_added[undone_count] && there == NULL) {
            m->messages[m->count++] = undone[undone_count];
        }
    }
}

/* Strikes cannot be read, only counted further. */
static bool has_strikes(const struct model *m)
{
    struct spool_txn *t;
    int rc = spool_begin(store, &t);
    if (rc == 0) {
        rc = suppress_model_check_strikes(&m->suppressed, t);
        spool_abort(t);
    }
    return rc == 0;
}

static bool equals_part(struct model *m, int number, struct buf *got)
{
    bool is_right = false;
    for (unsigned kept = 0; !is_right && kept < 1u << BATCH_STEPS; kept++) {
        static struct model part;
        model_copy(&part, m);
        pass_over_part(&part, number, kept);
        is_right = equals(&part, got) && has_strikes(&part);
        model_fini(&part);
    }
    return is_right;
}

/* Numbers of the last acknowledged transaction and of one in progress (or 0), and before which of
 * them the tables took over what the journal held. */
static void read_ledger(const char *path, int *ret_done, int *ret_open, bool absorbs[NUMBERS])
{
    FILE *f = fopen(path, "r");
    char what[16];
    int number;
    *ret_done = 0;
    *ret_open = 0;
    while (f != NULL && fscanf(f, "%15s %d", what, &number) == 2) {
        if (strcmp(what, "absorb") == 0) {
            absorbs[number % NUMBERS] = true;
            continue;
        }
        *ret_open = strcmp(what, "try") == 0 ? number : 0;
        if (strcmp(what, "ok") == 0) {
            *ret_done = number;
        }
    }
    if (f != NULL) {
        (void)fclose(f);
    }
}

/* The spool works: a message can be added and removed. */
static void expect_works(void)
{
    struct spool_txn *t;
    struct spool_position at;
    struct spool_envelope e = {.id = 1u << 30, .recipient_count = 1, .sender = SLICE("")};
    int rc = spool_begin(store, &t);
    if (rc == 0) {
        rc = spool_put_message(t, &e, slice_make("\0\1a", 3), SLICE("body"), &at);
        if (rc == 0) {
            rc = spool_remove(t, &at);
        }
        if (rc == 0) {
            rc = spool_commit(t);
        } else {
            spool_abort(t);
        }
    }
    if (rc != 0) {
        (void)fprintf(stderr, "recovered spool does not work: %s\n", err_str(rc));
        exit(1);
    }
}

static int verify(const char *folder, const char *ledger_path)
{
    static struct model m;
    struct buf got;
    int done;
    int in_progress;
    static bool absorbs[NUMBERS];
    read_ledger(ledger_path, &done, &in_progress, absorbs);
    model_init(&m, SEED);
    for (int number = 1; number <= done; number++) {
        if (absorbs[number % NUMBERS]) {
            model_absorb_alone(&m);
        }
        pass_over(&m, number);
    }
    if (absorbs[(done + 1) % NUMBERS]) {
        model_absorb_alone(&m);
    }
    spool_up(folder);
    buf_init(&got, 0);
    bool is_right = equals(&m, &got) && has_strikes(&m);
    if (!is_right && in_progress == done + 1 && is_batch(in_progress)) {
        is_right = equals_part(&m, in_progress, &got);
    }
    if (!is_right && in_progress == done + 1) {
        pass_over(&m, in_progress);
        is_right = equals(&m, &got) && has_strikes(&m);
    }
    if (!is_right) {
        expect(&m, "acknowledged", done);
        (void)fprintf(stderr, "acknowledged %d: other strikes\n", done);
        exit(1);
    }
    buf_fini(&got);
    expect_works();
    model_fini(&m);
    spool_down();
    return 0;
}

/* Steps the model to the end of a transaction, with the restarts before it. */
static void replay(struct model *m, int from, int to, const int *restarts, int count)
{
    for (int number = from; number < to; number++) {
        for (int i = 0; i < count; i++) {
            if (restarts[i] == number) {
                model_restart(m);
            }
        }
        pass_over(m, number + 1);
    }
}

static int resume(const char *folder, const char *history, int done)
{
    enum { RESTARTS_MAX = 100000 };
    static int restarts[RESTARTS_MAX];
    static struct model m;
    struct buf got;
    int count = 0;
    FILE *f = fopen(history, "r");
    while (f != NULL && count < RESTARTS_MAX && fscanf(f, "%d", &restarts[count]) == 1) {
        count++;
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    model_init(&m, SEED);
    replay(&m, 0, done, restarts, count);
    spool_up(folder);
    buf_init(&got, 0);
    if (!equals(&m, &got)) {
        replay(&m, done, done + 1, restarts, count);
        done++;
        if (!equals(&m, &got)) {
            (void)printf("wrong %d: %.*s\n", done - 1, (int)(got.len < 200 ? got.len : 200),
                         got.data);
            (void)fflush(stdout);
            return 1;
        }
    }
    buf_fini(&got);
    (void)printf("right %d\n", done);
    (void)fflush(stdout);
    model_restart(&m);
    for (;;) {
        int rc = transaction(&m, ++done);
        if (rc != 0) {
            (void)printf("failed %d: %s\n", done, err_str(rc));
            return 1;
        }
        (void)printf("ok %d\n", done);
        (void)fflush(stdout);
    }
}

/* Places lose their flows. */
static int age_queue(MDB_txn *txn, const char *table)
{
    MDB_dbi dbi;
    MDB_cursor *cursor = NULL;
    MDB_val k, v = {0, NULL};
    static struct spool_position places[NUMBERS];
    int count = 0;
    int rc = mdb_dbi_open(txn, table, 0, &dbi);
    rc = rc == 0 ? mdb_cursor_open(txn, dbi, &cursor) : rc;
    while (rc == 0 && mdb_cursor_get(cursor, &k, &v, MDB_NEXT) == 0 && count < NUMBERS) {
        count += spool_key_read_queue(slice_make(k.mv_data, k.mv_size), &places[count]);
    }
    rc = rc == 0 ? mdb_drop(txn, dbi, 0) : rc;
    for (int i = 0; rc == 0 && i < count; i++) {
        struct spool_key key = spool_key_old_queue(places[i].time, places[i].id);
        k = (MDB_val){key.len, key.bytes};
        v = (MDB_val){0, NULL};
        rc = mdb_put(txn, dbi, &k, &v, 0);
    }
    return rc;
}

/* As a daemon of format 4 leaves it, the journal included. */
static int age(const char *folder)
{
    const struct spool_key name = spool_key_name("version");
    char record[SPOOL_NUMBER_BYTES];
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi meta, flow;
    MDB_val k = {name.len, (void *)(uintptr_t)name.bytes}, v = {sizeof(record), record};
    spool_number_encode(4, &name, record);
    if (mdb_env_create(&env) != 0 || mdb_env_set_maxdbs(env, 20) != 0 ||
        mdb_env_set_mapsize(env, 64 << 20) != 0 || mdb_env_open(env, folder, 0, 0600) != 0 ||
        mdb_txn_begin(env, NULL, 0, &txn) != 0) {
        return 2;
    }
    bool is_done = age_queue(txn, "incoming") == 0 && age_queue(txn, "deferred") == 0 &&
                   age_queue(txn, "held") == 0 && mdb_dbi_open(txn, "flow", 0, &flow) == 0 &&
                   mdb_drop(txn, flow, 1) == 0 && mdb_dbi_open(txn, "meta", 0, &meta) == 0 &&
                   mdb_put(txn, meta, &k, &v, 0) == 0 && mdb_txn_commit(txn) == 0;
    mdb_env_close(env);
    return is_done ? 0 : 2;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "run") == 0) {
        ledger = open(argv[3], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        return ledger < 0 ? 2 : run(argv[2], atoi(argv[4]));
    }
    if (argc == 4 && strcmp(argv[1], "verify") == 0) {
        return verify(argv[2], argv[3]);
    }
    if (argc == 3 && strcmp(argv[1], "open") == 0) {
        spool_up(argv[2]);
        spool_down();
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "age") == 0) {
        return age(argv[2]);
    }
    if (argc == 5 && strcmp(argv[1], "resume") == 0) {
        return resume(argv[2], argv[3], atoi(argv[4]));
    }
    (void)fprintf(stderr, "usage: see the head of the source\n");
    return 2;
}
