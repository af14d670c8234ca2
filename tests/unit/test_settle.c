/* What results do to a message, on a real spool: commits that fail, expiry, results that were never
 * made. */
#include "base/error.h"
#include "base/packed.h"
#include "base/rcu.h"
#include "engine/config/config.h"
#include "engine/post/intake.h"
#include "engine/post/message.h"
#include "engine/post/result.h"
#include "engine/reply/reply.h"
#include "engine/spool/spool_env.h"
#include "engine/spool/spool_record.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/state/source_table.h"
#include "engine/tally/tally.h"
#include "engine/writer/bounce.h"
#include "engine/writer/settle.h"
#include "engine/writer/suppressor.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[128];
static struct spool_store *store;
static struct spool_reader *reader;
static struct engine *engine;
static struct config config;
static struct settings settings;
static struct buf lines;
static struct settle settle;
static struct suppressor suppressor;
static struct buf notice;       /* contents of the last commit's notices */
static struct message *settled; /* given back by the last commit */

static const usec_t created = 1000 * USEC_PER_SEC;

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(folder, sizeof(folder), "%s/settle.XXXXXX", base == NULL ? "/tmp" : base);
    const struct spool_options options = {.path = folder, .map_size = 64u << 20};
    char text[256];
    engine = aligned_alloc(CACHE_LINE, sizeof(*engine));
    if (mkdtemp(folder) == NULL || engine == NULL ||
        spool_store_open(&options, &store, text) != 0 || spool_reader_new(store, &reader) != 0) {
        return -1;
    }
    static char hostname[] = "relay.example";
    memset(engine, 0, sizeof(*engine));
    atomic_store(&engine->next_id, 100);
    config = (struct config){.hostname = hostname,
                             .minimal_backoff_time = 10 * USEC_PER_SEC,
                             .maximal_backoff_time = 20 * USEC_PER_SEC,
                             .maximal_queue_lifetime = 500 * USEC_PER_SEC,
                             .bounce_queue_lifetime = 500 * USEC_PER_SEC,
                             .bounce_size_limit = 1000};
    buf_init(&lines, 0);
    buf_init(&notice, 0);
    rcu_join(); /* as the spool writer is */
    settings.config = &config;
    engine->settings = &settings;
    engine->tally = tally_new(&config);
    assert_non_null(engine->tally);
    suppressor_init(&suppressor, engine);
    settle_init(&settle, engine, reader, &suppressor, &(const struct notice_log){.lines = &lines});
    settled = NULL;
    return 0;
}

static int tear_down(void **state)
{
    char command[160];
    settle_fini(&settle);
    suppressor_fini(&suppressor);
    rcu_leave();
    buf_fini(&lines);
    buf_fini(&notice);
    spool_reader_free(reader);
    spool_store_close(store);
    tally_free(engine->tally);
    free(engine);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

/* A message to a@x and b@x, stored and active. */
static struct message *activate_id(uint64_t id)
{
    const struct slice packed = SLICE("\0\3a@x\0\3b@x");
    const struct spool_envelope e = {.id = id,
                                     .created = created,
                                     .size_bytes = 4,
                                     .recipient_count = 2,
                                     .sender = SLICE("s@y")};
    struct message *m = message_new_whole(&e, packed);
    struct spool_txn *t;
    assert_non_null(m);
    assert_int_equal(spool_begin(store, &t), 0);
    assert_int_equal(spool_put_message(t, &e, packed, SLICE("hi\r\n"), &m->position), 0);
    assert_int_equal(spool_commit(t), 0);
    m->account.pending = 2;
    return m;
}

static struct message *activate(void)
{
    return activate_id(1);
}

static void collect(struct message *m, uint32_t position, enum result_kind kind)
{
    struct result *r = result_new(m, 1);
    assert_non_null(r);
    r->done = created;
    r->has_dispatch = true;
    result_add(r, position, kind, kind == RESULT_DELIVERED ? 250 : 450, "4.0.0", SLICE("so"));
    settle_collect(&settle, r);
}

static void done(void *ctx, struct message *m)
{
    assert_null(settled);
    settled = m;
}

/* A notice is in the spool as it was made, in chunks where it is long. */
static void expect_stored(const struct intake *in)
{
    struct spool_envelope e;
    struct slice part;
    struct buf body;
    buf_init(&body, 0);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_read_message(reader, in->envelope.id, &e, &part), 0);
    assert_int_equal(e.chunk_count, in->body.len > SPOOL_INLINE_BODY_BYTES
                                        ? (in->body.len - 1) / SPOOL_CHUNK_BYTES + 1
                                        : 0);
    for (uint32_t i = 0; i == 0 || i < e.chunk_count; i++) {
        assert_int_equal(spool_read_chunk(reader, in->envelope.id, i, &part), 0);
        buf_append_slice(&body, part);
    }
    spool_reader_end(reader);
    assert_true(slice_eq(buf_slice(&body), buf_slice(&in->body)));
    buf_fini(&body);
}

static void drop_notices(void)
{
    buf_clear(&notice);
    for (uint32_t i = 0; i < settle.notice_count; i++) {
        expect_stored(settle.notices[i]);
        buf_append_slice(&notice, buf_slice(&settle.notices[i]->body));
        intake_free(settle.notices[i]);
    }
    settle.notice_count = 0;
}

/* returns the recipients that the duplicate bound gets back */
static uint64_t commit(usec_t now)
{
    struct spool_txn *t;
    assert_int_equal(spool_begin(store, &t), 0);
    assert_int_equal(settle_write(&settle, t, now), 0);
    assert_int_equal(spool_commit(t), 0);
    drop_notices();
    return settle_committed(&settle, done, NULL);
}

static void fail_commit(usec_t now)
{
    struct spool_txn *t;
    assert_int_equal(spool_begin(store, &t), 0);
    assert_int_equal(settle_write(&settle, t, now), 0);
    spool_abort(t);
    settle_failed(&settle);
}

static unsigned count_lines(const char *type)
{
    char needle[64];
    unsigned count = 0;
    int len = snprintf(needle, sizeof(needle), "\"type\":\"%s\"", type);
    for (struct slice rest = buf_slice(&lines); rest.len > 0; count++) {
        const char *at = memmem(rest.data, rest.len, needle, (size_t)len);
        if (at == NULL) {
            break;
        }
        rest = slice_from(rest, (size_t)(at - rest.data) + (size_t)len);
    }
    return count;
}

static struct spool_counts counts(void)
{
    struct spool_counts c;
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_read_counts(reader, &c), 0);
    spool_reader_end(reader);
    return c;
}

static void each_expired_recipient_is_logged(void **state)
{
    struct message *m = activate();
    collect(m, 0, RESULT_DEFERRED);
    assert_int_equal(commit(created + USEC_PER_SEC), 1);
    assert_null(settled);
    collect(m, 1, RESULT_DEFERRED);
    assert_int_equal(commit(created + 600 * USEC_PER_SEC), 1);
    assert_ptr_equal(settled, m);
    assert_int_equal(count_lines("Expiration"), 2);
    assert_int_equal(atomic_load(&engine->expired), 2);
    struct spool_counts c = counts();
    assert_int_equal(c.deferred, 0);
    assert_int_equal(c.incoming, 1); /* the notice */
    message_put(m);
}

static void a_failed_commit_is_written_again_once(void **state)
{
    struct message *m = activate();
    collect(m, 0, RESULT_FAILED);
    collect(m, 1, RESULT_DELIVERED);
    fail_commit(created + USEC_PER_SEC);
    fail_commit(created + 2 * USEC_PER_SEC);
    assert_null(settled);
    assert_int_equal(counts().messages, 1);
    assert_int_equal(commit(created + 3 * USEC_PER_SEC), 2);
    assert_ptr_equal(settled, m);
    assert_int_equal(count_lines("Bounce"), 1);
    assert_int_equal(count_lines("Delivery"), 1);
    assert_int_equal(engine->delivered, 1);
    assert_int_equal(engine->failed, 1);
    assert_int_equal(counts().messages, 1); /* the notice alone */
    message_put(m);
}

static void what_has_no_result_is_tried_again(void **state)
{
    struct message *m = activate();
    collect(m, 0, RESULT_DELIVERED);
    settle_without_result(&settle, m, 1, RESULT_WAS_LOADED | RESULT_WAS_DISPATCHED);
    fail_commit(created + 600 * USEC_PER_SEC);
    assert_int_equal(commit(created + 600 * USEC_PER_SEC), 2);
    assert_ptr_equal(settled, m);
    assert_int_equal(counts().deferred, 1); /* not expired: nothing could be told */
    struct slice states;
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_read_states(reader, 1, 0, &states), 0);
    assert_int_equal(states.data[0], SPOOL_RECIPIENT_DELIVERED);
    assert_int_equal(states.data[1], SPOOL_RECIPIENT_PENDING);
    spool_reader_end(reader);
    message_put(m);
}

static void a_message_without_any_result_settles(void **state)
{
    struct message *m = activate();
    settle_without_result(&settle, m, 2, 0);
    assert_int_equal(commit(created), 0);
    assert_ptr_equal(settled, m);
    assert_int_equal(counts().deferred, 1);
    message_put(m);
}

/* --- what is durable is in the spool and not in memory ---------------------------------------- */

enum { MANY = 2500 };

static struct slice address_of(uint32_t index, char text[32])
{
    int len = snprintf(text, 32, "r%u@x", index);
    return slice_make(text, (size_t)len);
}

/* Message 1 to r0@x ... r2499@x, stored and active, no address loaded. */
static struct message *activate_many(void)
{
    static char packed[SPOOL_BATCH_RECIPIENTS * 16];
    const struct spool_envelope e = {.id = 1,
                                     .created = created,
                                     .size_bytes = 4,
                                     .recipient_count = MANY,
                                     .sender = SLICE("s@y")};
    struct message *m = message_new(&e);
    struct spool_txn *t;
    assert_non_null(m);
    assert_int_equal(spool_begin(store, &t), 0);
    assert_int_equal(spool_stage(t, 1), 0);
    for (uint32_t at = 0; at < MANY; at += SPOOL_BATCH_RECIPIENTS) {
        char text[32];
        size_t len = 0;
        for (uint32_t i = at; i < at + SPOOL_BATCH_RECIPIENTS && i < MANY; i++) {
            assert_true(packed_fill(packed, sizeof(packed), &len, address_of(i, text)));
        }
        assert_int_equal(
            spool_put_recipients(t, 1, at / SPOOL_BATCH_RECIPIENTS, slice_make(packed, len)), 0);
    }
    assert_int_equal(spool_put_message(t, &e, SLICE(""), SLICE("hi\r\n"), &m->position), 0);
    assert_int_equal(spool_commit(t), 0);
    m->account.pending = MANY;
    return m;
}

/* A reply of its own, as long as they come. */
static void collect_long(struct message *m, uint32_t index, enum result_kind kind)
{
    char text[32], reply[960];
    struct result *r = result_new(m, 1);
    assert_non_null(r);
    r->done = created;
    r->park_until = kind == RESULT_PARKED ? created + 300 * USEC_PER_SEC : 0;
    memset(reply, 'x', sizeof(reply));
    int len = snprintf(reply, 32, "reply-to-%u.", index);
    reply[len] = 'x';
    r->host_name = result_keep(r, SLICE("mx.x"));
    assert_int_equal(message_load(m, index, address_of(index, text)), 0);
    result_add(r, index, kind, 450, kind == RESULT_FAILED ? "5.1.1" : "4.2.0",
               slice_make(reply, sizeof(reply)));
    settle_collect(&settle, r);
}

static unsigned count_in(const struct buf *in, const char *needle)
{
    unsigned count = 0;
    size_t len = strlen(needle);
    for (struct slice rest = buf_slice(in); rest.len > 0; count++) {
        const char *at = memmem(rest.data, rest.len, needle, len);
        if (at == NULL) {
            break;
        }
        rest = slice_from(rest, (size_t)(at - rest.data) + len);
    }
    return count;
}

/* Nothing of it is in memory but numbers. */
static void expect_bare(const struct message *m)
{
    assert_null(m->account.fresh);
    for (uint32_t p = 0; p < (MANY + 63) / 64; p++) {
        for (uint32_t i = 0; m->pages[p] != NULL && i < (p == MANY / 64 ? MANY % 64 : 64); i++) {
            assert_null(m->pages[p]->addresses[i]);
        }
    }
}

static bool has_reason(uint32_t index)
{
    struct spool_reason reason;
    assert_int_equal(spool_reader_begin(reader), 0);
    int err = spool_read_reason(reader, 1, index, &reason);
    spool_reader_end(reader);
    return err == 0;
}

static void the_notice_of_durable_failures_comes_from_the_spool(void **state)
{
    struct message *m = activate_many();
    for (uint32_t i = 0; i + 1 < MANY; i++) {
        collect_long(m, i,
                     i % 5 == 0   ? RESULT_DEFERRED
                     : i % 5 == 1 ? RESULT_FAILED
                                  : RESULT_DELIVERED);
        if (i % 500 == 499) {
            assert_int_equal(commit(created + USEC_PER_SEC), 0);
            expect_bare(m);
        }
    }
    fail_commit(created + USEC_PER_SEC);
    collect_long(m, MANY - 1, RESULT_FAILED);
    fail_commit(created + USEC_PER_SEC);
    assert_int_equal(commit(created + USEC_PER_SEC), 0);
    assert_ptr_equal(settled, m);
    assert_int_equal(count_in(&notice, "Action: failed"), 501);
    assert_int_equal(count_in(&notice, "Remote-MTA: dns; mx.x"), 501);
    for (uint32_t i = 0; i < MANY; i++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "<r%u@x>:\r\n    host mx.x said:\r\n    reply-to-%u.x",
                       i, i);
        bool has_failed = i % 5 == 1 || i == MANY - 1;
        assert_int_equal(count_in(&notice, text), has_failed);
        assert_int_equal(has_reason(i), i % 5 == 0); /* a crash does not tell of it again */
    }
    message_put(m);
}

/* As after a crash between the last result and the notice: nothing but the spool knows it. */
static void what_a_crash_kept_from_the_sender_is_told(void **state)
{
    struct message *m = activate_many();
    for (uint32_t i = 0; i < 7; i++) {
        collect_long(m, i, RESULT_FAILED);
    }
    assert_int_equal(commit(created), 0);
    const struct spool_position position = m->position;
    struct message *again = message_new(&m->envelope);
    message_put(m);
    again->position = position;
    again->account.stored.failed = 7;
    again->account.pending = 1;
    collect_long(again, 7, RESULT_DEFERRED);
    assert_int_equal(commit(created + USEC_PER_SEC), 0);
    assert_ptr_equal(settled, again);
    assert_int_equal(count_in(&notice, "Action: failed"), 7);
    assert_int_equal(has_reason(6), false);
    assert_int_equal(has_reason(7), true);
    message_put(again);
}

static void durable_deferrals_expire(void **state)
{
    struct message *m = activate_many();
    for (uint32_t i = 0; i < MANY; i++) {
        collect_long(m, i,
                     i % 2 == 0   ? RESULT_DEFERRED
                     : i % 3 == 0 ? RESULT_FAILED
                                  : RESULT_PARKED);
        if (i % 600 == 599) {
            assert_int_equal(commit(created + USEC_PER_SEC), 0);
            expect_bare(m);
        }
    }
    assert_int_equal(commit(created + 600 * USEC_PER_SEC), 0);
    assert_ptr_equal(settled, m);
    unsigned failed = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        failed += i % 2 != 0 && i % 3 == 0;
    }
    assert_int_equal(count_lines("Expiration"), MANY - failed);
    assert_int_equal(atomic_load(&engine->expired), MANY - failed);
    /* so many long replies are not told each */
    unsigned told = count_in(&notice, "Action: failed");
    char more[32];
    (void)snprintf(more, sizeof(more), "... and %u more.", MANY - told);
    assert_int_equal(count_in(&notice, more), 1);
    assert_true(notice.len < BOUNCE_REPORT_BYTES + BOUNCE_REPORT_BYTES / 4);
    assert_int_equal(counts().messages, 1); /* the notice alone */
    message_put(m);
}

/* A million lines in one transaction would be seconds in which nothing else is stored. */
static void many_expirations_are_logged_bit_by_bit(void **state)
{
    struct message *m = activate_many();
    unsigned commits = 0;
    settle.expired_at_once = 600;
    for (uint32_t i = 0; i < MANY; i++) {
        collect_long(m, i, RESULT_DEFERRED);
        if (i == MANY - 2) {
            assert_int_equal(commit(created + USEC_PER_SEC), 0);
        }
    }
    for (unsigned logged = 1; settled == NULL; commits++) {
        if (commits == 1) {
            fail_commit(created + 600 * USEC_PER_SEC);
            logged += 600;
        }
        /* Once it has begun it goes on, whatever the clock says. */
        usec_t now = created + (commits < 2 ? 600 : 1) * USEC_PER_SEC;
        assert_int_equal(commit(now), 0);
        logged = logged + 600 < MANY ? logged + 600 : MANY;
        assert_int_equal(count_lines("Expiration"), logged);
        assert_int_equal(counts().messages, 1); /* it, or its notice */
        assert_int_equal(notice.len > 0, settled != NULL);
    }
    assert_int_equal(commits, 4);
    assert_ptr_equal(settled, m);
    assert_int_equal(atomic_load(&engine->expired), MANY);
    message_put(m);
}

/* New mail waits for a transaction, so one that has no time left leaves the rest of the messages, and at
 * least one is written. */
static void a_short_transaction_leaves_messages(void **state)
{
    struct message *all[3];
    settle.span = 0;
    for (uint64_t i = 0; i < 3; i++) {
        all[i] = activate_id(1 + i);
        collect(all[i], 0, RESULT_DELIVERED);
        collect(all[i], 1, RESULT_DELIVERED);
    }
    fail_commit(created); /* which leaves all of them */
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(counts().messages, 3 - i);
        struct spool_txn *t;
        assert_int_equal(spool_begin(store, &t), 0);
        assert_int_equal(settle_write(&settle, t, created), 0);
        assert_int_equal(settle_has_rest(&settle), i < 2);
        assert_int_equal(spool_commit(t), 0);
        assert_int_equal(settle_committed(&settle, done, NULL), 2);
        assert_false(settle_has_rest(&settle));
        assert_ptr_equal(settled, all[i]); /* in the order of their results */
        settled = NULL;
        message_put(all[i]);
    }
    assert_true(settle_is_idle(&settle));
    assert_int_equal(count_lines("Delivery"), 6);
    assert_int_equal(counts().messages, 0);
}

/* A page that the writer has to mend first fails the transaction; the next one goes on. */
static void expirations_are_logged_in_spite_of_a_page_in_doubt(void **state)
{
    struct message *m = activate_many();
    struct spool_txn *t;
    for (uint32_t i = 0; i < 100; i++) { /* stored: in the first batch, and in the last */
        collect_long(m, i < 50 ? i : MANY - 1 - i, RESULT_DEFERRED);
    }
    assert_int_equal(commit(created + USEC_PER_SEC), 0);
    for (uint32_t i = 50; i < MANY - 100; i++) {
        collect_long(m, i, RESULT_DEFERRED);
    }
    for (uint32_t i = MANY - 50; i < MANY; i++) {
        collect_long(m, i, RESULT_DEFERRED);
    }
    assert_int_equal(m->account.pending, 0);
    assert_int_equal(spool_begin(store, &t), 0);
    /* The second batch has no record of states, which is then not known for sure. */
    atomic_store(&store->faults_settled, spool_guard_faults(&store->guard) + 1);
    assert_int_equal(settle_write(&settle, t, created + 600 * USEC_PER_SEC), ERR_AGAIN);
    atomic_store(&store->faults_settled, spool_guard_faults(&store->guard));
    spool_abort(t);
    settle_failed(&settle);
    assert_int_equal(count_lines("Expiration"), MANY - 50);
    fail_commit(created + 600 * USEC_PER_SEC);
    assert_int_equal(commit(created + 600 * USEC_PER_SEC), 0);
    assert_ptr_equal(settled, m);
    assert_int_equal(count_lines("Expiration"), MANY);
    assert_int_equal(atomic_load(&engine->expired), MANY);
    for (uint32_t i = 0; i < MANY; i += 7) { /* each of them once, behind its TransientFailure */
        char address[32], needle[64];
        struct slice text = address_of(i, address);
        (void)snprintf(needle, sizeof(needle), "\"recipient\":\"" SLICE_FMT "\"", SLICE_ARG(text));
        assert_int_equal(count_in(&lines, needle), 2);
    }
    message_put(m);
}

static void what_is_parked_waits_for_the_first_end(void **state)
{
    struct message *m = activate_many();
    m->account.pending = 3;
    collect_long(m, 0, RESULT_PARKED);
    assert_int_equal(commit(created), 0);
    collect_long(m, 1, RESULT_PARKED);
    m->account.fresh->park_until += USEC_PER_SEC;
    assert_int_equal(commit(created), 0);
    collect_long(m, 2, RESULT_DELIVERED);
    assert_int_equal(commit(created), 0);
    assert_ptr_equal(settled, m);
    assert_int_equal(m->held_until, created + 300 * USEC_PER_SEC);
    assert_int_equal(counts().held, 1);
    message_put(m);
}

/* It is no attempt, and the message comes back at its turn, not by the schedule of retries. */
static void what_waits_for_a_pace_is_deferred_without_an_attempt(void **state)
{
    struct message *m = activate_many();
    struct spool_retry retry;
    m->retry.attempts = 3;
    m->account.pending = 3;
    collect_long(m, 0, RESULT_PARKED);
    m->account.fresh->is_paced = true;
    m->account.fresh->paced_by = 3;
    m->account.fresh->park_until = created + 15 * USEC_PER_SEC;
    assert_int_equal(commit(created), 0);
    collect_long(m, 1, RESULT_PARKED); /* an order, until later */
    assert_int_equal(commit(created), 0);
    collect_long(m, 2, RESULT_DELIVERED);
    assert_int_equal(commit(created + USEC_PER_SEC), 0);
    assert_ptr_equal(settled, m);
    assert_int_equal(m->held_until, 0);
    assert_int_equal(m->turn, created + 15 * USEC_PER_SEC); /* for the activator */
    assert_int_equal(m->turn_by, 3);
    assert_int_equal(counts().held, 0);
    assert_int_equal(counts().deferred, 1);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_read_retry(reader, m->envelope.id, &retry), 0);
    spool_reader_end(reader);
    assert_int_equal(retry.attempts, 3);
    assert_int_equal(retry.due, created + 15 * USEC_PER_SEC);
    assert_int_equal(count_lines("TransientFailure"), 0);
    message_put(m);
}

/* The address by which a receiver greylisted some recipient is kept until the receiver refuses it, or
 * it cannot be used. */
static void a_greylisted_message_keeps_its_source(void **state)
{
    static const struct {
        enum result_kind kind;
        enum reply_class class;
        const char *source;
        bool leaves, is_durable;
        uint16_t before;
        const char *after;
    } cases[] = {
        {RESULT_DEFERRED, REPLY_GREYLISTED, "ip1", false, false, 0, "ip1"},
        {RESULT_DEFERRED, REPLY_GREYLISTED, "ip1", false, true, 0, "ip1"},
        {RESULT_DEFERRED, REPLY_GREYLISTED, "ip1", false, false, 77, "ip1"},
        {RESULT_DEFERRED, REPLY_GREYLISTED, "", false, false, 0, ""},
        {RESULT_DEFERRED, REPLY_UNAVAILABLE, "ip1", false, false, 0xffc1, "ip1"},
        {RESULT_DEFERRED, REPLY_BLOCKED, "ip2", false, false, 0xffc1, "ip1"},
        {RESULT_DEFERRED, REPLY_BLOCKED, "ip1", false, true, 0xffc1, ""},
        {RESULT_PARKED, REPLY_CLASS_NONE, "", true, false, 0xffc1, ""},
        {RESULT_PARKED, REPLY_CLASS_NONE, "", true, true, 0xffc1, ""},
        {RESULT_PARKED, REPLY_CLASS_NONE, "", false, true, 0xffc1, "ip1"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(i == 0 || (tear_down(state) == 0 && set_up(state) == 0));
        struct message *m = activate_many();
        struct spool_retry retry;
        m->retry.source = cases[i].before;
        m->account.pending = 2;
        collect_long(m, 0, cases[i].kind);
        struct result *r = m->account.fresh;
        r->source = result_keep(r, slice_of(cases[i].source));
        r->recipients[0].class = (uint8_t)cases[i].class;
        r->leaves_source = cases[i].leaves;
        r->is_paced = cases[i].kind == RESULT_PARKED;
        if (cases[i].is_durable) {
            assert_int_equal(commit(created), 0);
        }
        collect_long(m, 1, RESULT_DELIVERED);
        assert_int_equal(commit(created + USEC_PER_SEC), 0);
        assert_ptr_equal(settled, m);
        assert_int_equal(spool_reader_begin(reader), 0);
        assert_int_equal(spool_read_retry(reader, m->envelope.id, &retry), 0);
        spool_reader_end(reader);
        assert_int_equal(retry.source, source_table_mark(slice_of(cases[i].after)));
        message_put(m);
    }
}

/* A rule can say when it is due; and the first time that our address was not wanted is kept. */
static void a_rule_says_when_it_is_due(void **state)
{
    struct message *m = activate_many();
    struct spool_retry retry;
    m->account.pending = 2;
    collect_long(m, 0, RESULT_DEFERRED);
    m->account.fresh->defer_until = created + 3600 * USEC_PER_SEC;
    m->account.fresh->blocked = created + 120 * USEC_PER_SEC;
    assert_int_equal(commit(created + 120 * USEC_PER_SEC), 0);
    collect_long(m, 1, RESULT_DEFERRED);
    m->account.fresh->blocked = created + 240 * USEC_PER_SEC;
    assert_int_equal(commit(created + 240 * USEC_PER_SEC), 0);
    assert_ptr_equal(settled, m);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_read_retry(reader, m->envelope.id, &retry), 0);
    spool_reader_end(reader);
    assert_int_equal(retry.attempts, 1);
    assert_int_equal(retry.due, created + 3600 * USEC_PER_SEC);
    assert_int_equal(retry.blocked, created + 120 * USEC_PER_SEC);
    message_put(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_notice_of_durable_failures_comes_from_the_spool, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_a_crash_kept_from_the_sender_is_told, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(durable_deferrals_expire, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_expirations_are_logged_bit_by_bit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_short_transaction_leaves_messages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(expirations_are_logged_in_spite_of_a_page_in_doubt, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_parked_waits_for_the_first_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_rule_says_when_it_is_due, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_waits_for_a_pace_is_deferred_without_an_attempt,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_greylisted_message_keeps_its_source, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_expired_recipient_is_logged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failed_commit_is_written_again_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_has_no_result_is_tried_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_message_without_any_result_settles, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
