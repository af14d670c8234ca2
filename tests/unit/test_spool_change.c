/* What the writer changes, made again in a second spool: its tables have the same bytes after each
 * commit, whatever was done in which order. And so has a third spool, which hears of all only later,
 * by telling anew, a little at a time while the changes go on. */
#include "base/error.h"
#include "base/packed.h"
#include "engine/spool/spool_change.h"
#include "engine/spool/spool_env.h"
#include "engine/spool/spool_signing.h"
#include "tests/chance.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES = 24, RECIPIENTS_MAX = 2500, HEARD_MAX = 4096 };

struct box {
    struct spool_change changes[HEARD_MAX];
    size_t count;
};

struct side {
    char folder[128];
    struct spool_store *store;
    struct spool_reader *reader;
};

/* A message of the first spool. */
struct known {
    uint64_t id; /* 0: none */
    struct spool_position at;
    uint32_t recipients;
    uint32_t chunks; /* of a reception that is not complete; else 0 */
    bool is_staged, is_journaled;
    struct slice body; /* of one that only the journal has */
};

static struct side first, second, third;
static struct box heard, retold;
static struct known known[MESSAGES];
static uint64_t next_id, seed;
static bool has_journal;

static uint64_t pick(uint64_t below)
{
    return chance_next(&seed) % below;
}

static void keep(void *ctx, const struct spool_change *c)
{
    struct box *box = ctx;
    assert_true(box->count < HEARD_MAX);
    char *copy = malloc(c->bytes.len + 1);
    assert_non_null(copy);
    memcpy(copy, c->bytes.data, c->bytes.len);
    box->changes[box->count] = *c;
    box->changes[box->count++].bytes = slice_make(copy, c->bytes.len);
}

static void forget(struct box *box)
{
    for (size_t i = 0; i < box->count; i++) {
        free((void *)(uintptr_t)box->changes[i].bytes.data);
    }
    box->count = 0;
}

static void open_side(struct side *s, uint64_t journal)
{
    char text[256] = "";
    const struct spool_options options = {
        .path = s->folder, .map_size = 256U << 20, .journal = journal};
    if (spool_store_open(&options, &s->store, text) != 0) {
        fail_msg("%s", text);
    }
    assert_int_equal(spool_reader_new(s->store, &s->reader), 0);
}

static void make_side(struct side *s, uint64_t journal)
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(s->folder, sizeof(s->folder), "%s/change.XXXXXX", base == NULL ? "/tmp" : base);
    assert_non_null(mkdtemp(s->folder));
    open_side(s, journal);
}

static void close_side(struct side *s)
{
    spool_reader_free(s->reader);
    spool_store_close(s->store);
}

static void drop_side(struct side *s)
{
    char command[160];
    close_side(s);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", s->folder);
    assert_int_equal(system(command), 0);
}

static void apply_all(const struct side *s, struct box *box)
{
    struct spool_txn *t;
    assert_int_equal(spool_begin(s->store, &t), 0);
    for (size_t i = 0; i < box->count; i++) {
        assert_int_equal(spool_apply_change(t, &box->changes[i]), 0);
    }
    assert_int_equal(spool_commit(t), 0);
}

/* The tables of both have the same records. */
static void compare_table(const struct side *a, const struct side *b, enum spool_table table)
{
    MDB_cursor *ca, *cb;
    MDB_val ka, va, kb, vb;
    assert_int_equal(spool_reader_begin(a->reader), 0);
    assert_int_equal(spool_reader_begin(b->reader), 0);
    assert_int_equal(mdb_cursor_open(a->reader->txn, a->store->dbi[table], &ca), 0);
    assert_int_equal(mdb_cursor_open(b->reader->txn, b->store->dbi[table], &cb), 0);
    for (;;) {
        int ra = mdb_cursor_get(ca, &ka, &va, MDB_NEXT);
        int rb = mdb_cursor_get(cb, &kb, &vb, MDB_NEXT);
        if (ra != rb) {
            fail_msg("table %s: one has more records", spool_table_name(table));
        }
        if (ra != 0) {
            break;
        }
        if (ka.mv_size != kb.mv_size || memcmp(ka.mv_data, kb.mv_data, ka.mv_size) != 0 ||
            va.mv_size != vb.mv_size || memcmp(va.mv_data, vb.mv_data, va.mv_size) != 0) {
            fail_msg("table %s differs", spool_table_name(table));
        }
    }
    mdb_cursor_close(ca);
    mdb_cursor_close(cb);
    spool_reader_end(a->reader);
    spool_reader_end(b->reader);
}

static void compare(const struct side *a, const struct side *b)
{
    static const enum spool_table tables[] = {
        SPOOL_TABLE_MESSAGE, SPOOL_TABLE_BODY,    SPOOL_TABLE_RECIPIENTS, SPOOL_TABLE_STATE,
        SPOOL_TABLE_REASON,  SPOOL_TABLE_SIGNING, SPOOL_TABLE_STAGING};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        compare_table(a, b, tables[i]);
    }
}

/* --- what the writer does --------------------------------------------------------------------- */

static char letters[SPOOL_CHUNK_BYTES];

static size_t pack(uint32_t recipients, char *out)
{
    size_t len = 0;
    for (uint32_t i = 0; i < recipients; i++) {
        out[len++] = 0;
        out[len++] = 3;
        memcpy(out + len, "r@x", 3);
        len += 3;
    }
    return len;
}

static struct spool_envelope envelope_of(const struct known *k, uint32_t chunks, size_t bytes)
{
    return (struct spool_envelope){.id = k->id,
                                   .size_bytes = bytes,
                                   .recipient_count = k->recipients,
                                   .chunk_count = chunks,
                                   .sender = SLICE("s@example.com"),
                                   .tenant = pick(2) != 0 ? SLICE("acme") : SLICE(""),
                                   .not_before = pick(4) == 0 ? 1000 : 0};
}

static void receive_small(struct spool_txn *t, struct known *k)
{
    char packed[8 * 1000];
    k->recipients = 1 + (uint32_t)pick(pick(3) == 0 ? 1000 : 3);
    size_t bytes = pick(2000);
    const struct spool_envelope e = envelope_of(k, 0, bytes);
    assert_int_equal(spool_put_message(t, &e, slice_make(packed, pack(k->recipients, packed)),
                                       slice_make(letters, bytes), &k->at),
                     0);
}

/* One more step of a reception that takes several commits. */
static void receive_large(struct spool_txn *t, struct known *k)
{
    char packed[8 * SPOOL_BATCH_RECIPIENTS];
    if (!k->is_staged) {
        assert_int_equal(spool_stage(t, k->id), 0);
        k->is_staged = true;
        k->recipients = 1001 + (uint32_t)pick(RECIPIENTS_MAX - 1001);
    }
    if (k->chunks < 3) {
        assert_int_equal(
            spool_put_chunk(t, k->id, k->chunks++, slice_make(letters, 1 + pick(sizeof(letters)))),
            0);
        return;
    }
    for (uint32_t b = 0; b * SPOOL_BATCH_RECIPIENTS < k->recipients; b++) {
        uint32_t rest = k->recipients - b * SPOOL_BATCH_RECIPIENTS;
        uint32_t count = rest < SPOOL_BATCH_RECIPIENTS ? rest : SPOOL_BATCH_RECIPIENTS;
        assert_int_equal(spool_put_recipients(t, k->id, b, slice_make(packed, pack(count, packed))),
                         0);
    }
    const struct spool_envelope e = envelope_of(k, k->chunks, 3 * sizeof(letters));
    assert_int_equal(spool_put_message(t, &e, SLICE(""), SLICE(""), &k->at), 0);
    k->is_staged = false;
    k->chunks = 0;
}

static void give_results(struct spool_txn *t, const struct known *k)
{
    uint32_t tried = k->recipients < 5 ? k->recipients : 1 + (uint32_t)pick(40);
    for (uint32_t i = 0; i < tried; i++) {
        const struct spool_reason reason = {
            .time = 5,
            .state = (uint8_t)(pick(2) ? SPOOL_RECIPIENT_DEFERRED : SPOOL_RECIPIENT_FAILED),
            .code = 450,
            .status = SLICE("4.2.0"),
            .text = SLICE("later"),
            .remote_mta = SLICE("mx")};
        bool is_delivered = pick(3) == 0,
             is_told = reason.state == SPOOL_RECIPIENT_FAILED && pick(2);
        enum spool_recipient_state state =
            is_delivered ? SPOOL_RECIPIENT_DELIVERED : (enum spool_recipient_state)reason.state;
        assert_int_equal(spool_set_recipient(t, k->id, k->recipients, (uint32_t)pick(k->recipients),
                                             state, is_delivered || is_told ? NULL : &reason),
                         0);
    }
}

static void defer(struct spool_txn *t, struct known *k)
{
    const struct spool_retry retry = {.attempts = 3, .due = 100 + (usec_t)pick(1000)};
    const struct spool_position next = {SPOOL_DEFERRED, (uint64_t)retry.due, k->id, k->at.flow};
    assert_int_equal(spool_requeue(t, &k->at, &next, &retry), 0);
    k->at = next;
}

static void sign(struct spool_txn *t, const struct known *k)
{
    const struct spool_signing s = {
        .forms = 1, .mark = seed, .wanted = SLICE("k"), .fields = SLICE("DKIM-Signature: x\r\n")};
    assert_int_equal(spool_put_signing(t, k->id, &s), 0);
}

static void act(struct spool_txn *t, struct known *k)
{
    bool is_done;
    if (k->id == 0) {
        k->id = ++next_id;
        if (pick(3) != 0) {
            receive_small(t, k);
            return;
        }
    }
    if (k->is_staged || k->recipients == 0) {
        if (k->is_staged && pick(12) == 0) {
            assert_int_equal(spool_discard(t, k->id, &is_done), 0);
            *k = (struct known){.id = 0};
            return;
        }
        receive_large(t, k);
        return;
    }
    switch (pick(7)) {
    case 0:
    case 1:
        give_results(t, k);
        break;
    case 2:
        defer(t, k);
        break;
    case 3:
        sign(t, k);
        break;
    case 4:
        assert_int_equal(spool_forget_failures(t, k->id), 0);
        break;
    case 5:
        assert_int_equal(spool_remove(t, &k->at), 0);
        *k = (struct known){.id = 0};
        break;
    default:
        break;
    }
}

/* A commit of the journal: receptions that may be gone before the tables hear of them. */
static void journal_some(void)
{
    for (size_t i = 0; i < MESSAGES; i++) {
        struct known *k = &known[i];
        if (k->id == 0 && pick(4) == 0) {
            k->id = ++next_id;
            k->recipients = 1;
            k->is_journaled = true;
            k->body = slice_make(letters, pick(500));
            struct spool_envelope e = envelope_of(k, 0, k->body.len);
            e.not_before = 0;
            e.tenant = SLICE("");
            assert_int_equal(
                spool_journal_message(first.store, &e, slice_make("\0\3r@x", 5), k->body, &k->at),
                0);
        } else if (k->is_journaled && pick(2) == 0) {
            assert_int_equal(spool_journal_removal(first.store, &k->at), 0);
            *k = (struct known){.id = 0};
        }
    }
    assert_int_equal(spool_journal_commit(first.store), 0);
}

static void transact(void)
{
    struct spool_txn *t;
    struct known before[MESSAGES];
    memcpy(before, known, sizeof(known));
    assert_int_equal(spool_begin(first.store, &t), 0);
    for (size_t i = 0; i < MESSAGES; i++) {
        struct known *k = &known[i];
        if (!k->is_journaled) {
            continue;
        }
        if (pick(3) == 0) { /* it was delivered meanwhile: the tables never have it */
            spool_tell_removed(t, k->id);
            *k = (struct known){.id = 0};
            continue;
        }
        const struct spool_envelope e = {.id = k->id,
                                         .size_bytes = k->body.len,
                                         .recipient_count = 1,
                                         .sender = SLICE("s@example.com")};
        assert_int_equal(spool_put_journaled(t, &e, slice_make("\0\3r@x", 5), k->body, &k->at), 0);
        k->is_journaled = false;
    }
    assert_int_equal(spool_absorb_journal(t), 0);
    for (uint64_t steps = 1 + pick(8); steps > 0; steps--) {
        struct known *k = &known[pick(MESSAGES)];
        if (!k->is_journaled) {
            act(t, k);
        }
    }
    if (pick(10) == 0) {
        spool_abort(t); /* what was told counts for nothing */
        memcpy(known, before, sizeof(known));
        forget(&heard);
        return;
    }
    assert_int_equal(spool_commit(t), 0);
}

/* --- the tests -------------------------------------------------------------------------------- */

static int setup(void **state)
{
    memset(letters, 'x', sizeof(letters));
    memset(known, 0, sizeof(known));
    next_id = 0;
    make_side(&first, has_journal ? 8U << 20 : 0);
    make_side(&second, 0);
    make_side(&third, 0);
    spool_store_listen(first.store, keep, &heard);
    return 0;
}

static int teardown(void **state)
{
    forget(&heard);
    forget(&retold);
    drop_side(&first);
    drop_side(&second);
    drop_side(&third);
    return 0;
}

/* Journal and tables differ by what only the journal has: the copy has it already. */
static bool may_compare(void)
{
    for (size_t i = 0; i < MESSAGES; i++) {
        if (known[i].is_journaled) {
            return false;
        }
    }
    return true;
}

static void a_copy_has_the_same_bytes(void **state)
{
    unsigned compared = 0;
    for (seed = 88172645463325252; compared < 400;) {
        if (has_journal && pick(3) == 0) {
            journal_some();
        } else {
            transact();
        }
        apply_all(&second, &heard);
        if (pick(8) == 0) {
            apply_all(&second, &heard); /* again is the same */
        }
        forget(&heard);
        if (may_compare()) {
            compare(&first, &second);
            compared++;
        }
    }
}

/* The third spool heard nothing until then. What is told anew goes in front of the changes of the
 * commit that follows, as it is what was committed before. */
static void telling_anew_makes_a_copy_whole(void **state)
{
    unsigned rounds = 0;
    for (seed = 362436069362436069; rounds < 12; rounds++) {
        struct spool_retelling at = {.id = 0};
        int err = 0;
        for (int i = 0; i < 30; i++) {
            transact();
            forget(&heard);
        }
        drop_side(&third);
        make_side(&third, 0);
        for (int steps = 0; err == 0; steps++) {
            size_t bytes;
            unsigned unread = pick(4) == 0; /* a page cannot be read, this time */
            assert_int_equal(spool_reader_begin(first.reader), 0);
            atomic_fetch_add(&first.store->faults_settled, unread);
            err = spool_retell(first.reader, &at, 1 + pick(200000), keep, &retold, &bytes);
            atomic_fetch_sub(&first.store->faults_settled, unread);
            spool_reader_end(first.reader);
            err = err == ERR_AGAIN ? 0 : err;
            if (rounds % 2 == 0) {
                transact();
            }
            apply_all(&third, &retold);
            apply_all(&third, &heard);
            forget(&retold);
            forget(&heard);
            assert_true(steps < 100000);
        }
        assert_int_equal(err, ERR_MISSING);
        compare(&first, &third);
    }
}

/* Messages of a copy have no places: they get them when it is opened. */
static void a_copy_that_is_opened_has_places(void **state)
{
    seed = 521288629521288629;
    for (int i = 0; i < 200; i++) {
        transact();
        apply_all(&second, &heard);
        forget(&heard);
    }
    close_side(&second);
    open_side(&second, 0);
    struct spool_counts a, b;
    assert_int_equal(spool_reader_begin(first.reader), 0);
    assert_int_equal(spool_reader_begin(second.reader), 0);
    assert_int_equal(spool_read_counts(first.reader, &a), 0);
    assert_int_equal(spool_read_counts(second.reader, &b), 0);
    spool_reader_end(first.reader);
    spool_reader_end(second.reader);
    assert_true(a.messages > 5);
    assert_int_equal(b.messages, a.messages);
    assert_int_equal(b.incoming + b.deferred + b.held, a.messages);
    assert_int_equal(b.deferred, a.deferred);
    assert_int_equal(b.held, a.held);
}

/* The writer that removes very many reasons does it bit by bit; the copy is told once, it may be. */
static void a_removal_leaves_nothing(void **state)
{
    enum { RECIPIENTS = 2 * SPOOL_REASONS_AT_ONCE + 10 };
    const struct spool_reason reason = {.state = SPOOL_RECIPIENT_FAILED, .text = SLICE("no")};
    const struct spool_envelope e = {.id = 1, .recipient_count = RECIPIENTS, .sender = SLICE("")};
    const struct spool_change removal = {SPOOL_CHANGE_REMOVED, 1, 0, SLICE("")};
    struct spool_position at;
    struct spool_txn *t;
    assert_int_equal(spool_begin(second.store, &t), 0);
    assert_int_equal(spool_put_message(t, &e, SLICE(""), SLICE("x"), &at), 0);
    for (uint32_t i = 0; i < RECIPIENTS; i++) {
        assert_int_equal(spool_set_recipient(t, 1, RECIPIENTS, i, SPOOL_RECIPIENT_FAILED, &reason),
                         0);
    }
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(spool_begin(second.store, &t), 0);
    assert_int_equal(spool_apply_change(t, &removal), 0);
    assert_int_equal(spool_commit(t), 0);
    compare(&first, &second); /* which never had it */
}

static void what_no_spool_tells_is_refused(void **state)
{
    struct spool_txn *t;
    seed = 7;
    assert_int_equal(spool_begin(first.store, &t), 0);
    struct known k = {.id = 1};
    receive_small(t, &k);
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(heard.count >= 1, 1);
    apply_all(&second, &heard);
    assert_int_equal(spool_begin(second.store, &t), 0);
    const struct spool_change wrong[] = {
        {SPOOL_CHANGE_MESSAGE, 2, 0, heard.changes[heard.count - 1].bytes}, /* of another id */
        {SPOOL_CHANGE_MESSAGE, 1, 0, SLICE("")},
        {SPOOL_CHANGE_RESULT, 1, k.recipients, SLICE("\2")},
        {SPOOL_CHANGE_RESULT, 1, 0, SLICE("\4")},
        {SPOOL_CHANGE_RESULT, 1, 0, SLICE("")},
        {SPOOL_CHANGE_REASON, 1, 0, SLICE("xxxxxxxxxxxxxxxx")},
        {SPOOL_CHANGE_RETRY, 1, 0, SLICE("x")},
        {SPOOL_CHANGE_SIGNING, 1, 0, SLICE("x")},
        {SPOOL_CHANGE_KIND_COUNT, 1, 0, SLICE("")},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(spool_apply_change(t, &wrong[i]), ERR_CORRUPT);
    }
    const struct spool_change nobody[] = {
        {SPOOL_CHANGE_RESULT, 9, 0, SLICE("\2")},
        {SPOOL_CHANGE_NOTIFIED, 9, 0, SLICE("")},
        {SPOOL_CHANGE_REMOVED, 9, 0, SLICE("")},
    };
    for (size_t i = 0; i < sizeof(nobody) / sizeof(nobody[0]); i++) {
        assert_int_equal(spool_apply_change(t, &nobody[i]), 0);
    }
    assert_int_equal(spool_commit(t), 0);
    compare(&first, &second);
}

static bool says_removed(const struct box *box, uint64_t id)
{
    bool does = false;
    for (size_t i = 0; i < box->count; i++) {
        does = does || (box->changes[i].kind == SPOOL_CHANGE_REMOVED && box->changes[i].id == id);
    }
    return does;
}

static void which_ids_are_reserved_is_told(void **state)
{
    struct spool_txn *t;
    struct spool_retelling at = {.id = 0};
    size_t bytes;
    assert_int_equal(spool_begin(first.store, &t), 0);
    assert_int_equal(spool_reserve_ids(t, 7000), 0);
    assert_int_equal(spool_commit(t), 0);
    assert_true(says_removed(&heard, 7000));
    assert_int_equal(spool_reader_begin(first.reader), 0);
    assert_int_equal(spool_retell(first.reader, &at, 1 << 20, keep, &retold, &bytes), ERR_MISSING);
    spool_reader_end(first.reader);
    assert_true(says_removed(&retold, 7000));
    forget(&retold);
}

static int setup_with_journal(void **state)
{
    has_journal = true;
    int r = setup(state);
    has_journal = r == 0;
    return r;
}

static int teardown_with_journal(void **state)
{
    has_journal = false;
    return teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_copy_has_the_same_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_copy_has_the_same_bytes, setup_with_journal,
                                        teardown_with_journal),
        cmocka_unit_test_setup_teardown(telling_anew_makes_a_copy_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(a_copy_that_is_opened_has_places, setup, teardown),
        cmocka_unit_test_setup_teardown(a_removal_leaves_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(what_no_spool_tells_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(which_ids_are_reserved_is_told, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
