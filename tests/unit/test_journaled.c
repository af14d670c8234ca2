/* Messages that only the journal has, on a real spool: delivered before the tables know them, taken
 * over by a transaction, waiting for the activator; and their content, which must be found by
 * everybody at any time. */
#include "base/rcu.h"
#include "engine/config/config.h"
#include "engine/post/intake.h"
#include "engine/post/message.h"
#include "engine/post/result.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/tally/tally.h"
#include "engine/writer/journaled.h"
#include "engine/writer/settle.h"
#include "engine/writer/suppressor.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BODY SLICE("hello\r\n")

static char folder[128];
static struct spool_store *store;
static struct spool_reader *reader;
static struct engine *engine;
static struct config config;
static struct settings settings;
static struct buf lines;
static struct settle settle;
static struct suppressor suppressor;
static struct journaled journaled;
static unsigned settled;
static uint64_t told, told_of_flow; /* place of the newest of nobody, of a tenant */
static struct slice tenant = SLICE("");

static int open_store(void)
{
    const struct spool_options options = {
        .path = folder, .map_size = 64u << 20, .journal = 256 << 10};
    char text[256];
    return spool_store_open(&options, &store, text) != 0 || spool_reader_new(store, &reader) != 0
               ? -1
               : 0;
}

static int set_up(void **state)
{
    static char hostname[] = "relay.example";
    const char *base = getenv("TMPDIR");
    (void)snprintf(folder, sizeof(folder), "%s/journaled.XXXXXX", base == NULL ? "/tmp" : base);
    engine = aligned_alloc(CACHE_LINE, sizeof(*engine));
    if (mkdtemp(folder) == NULL || engine == NULL || open_store() != 0) {
        return -1;
    }
    rcu_start();
    rcu_join();
    memset(engine, 0, sizeof(*engine));
    config = (struct config){.hostname = hostname,
                             .minimal_backoff_time = 10 * USEC_PER_SEC,
                             .maximal_backoff_time = 20 * USEC_PER_SEC,
                             .maximal_queue_lifetime = 500 * USEC_PER_SEC};
    buf_init(&lines, 0);
    settings.config = &config;
    engine->settings = &settings;
    engine->tally = tally_new(&config);
    assert_non_null(engine->tally);
    suppressor_init(&suppressor, engine);
    settle_init(&settle, engine, reader, &suppressor, &(const struct notice_log){.lines = &lines});
    journaled_init(&journaled);
    settled = 0;
    told = told_of_flow = 0;
    tenant = SLICE("");
    return 0;
}

static int tear_down(void **state)
{
    char command[160];
    journaled_fini(&journaled);
    settle_fini(&settle);
    suppressor_fini(&suppressor);
    rcu_leave();
    rcu_drain();
    rcu_stop();
    buf_fini(&lines);
    spool_reader_free(reader);
    spool_store_close(store);
    tally_free(engine->tally);
    free(engine);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

/* Message `id` to a@x and b@x, committed to the journal. The caller's reference is the activator's
 * when is_announced, else NULL is returned. */
static struct message *receive(uint64_t id, bool is_announced)
{
    struct intake *in = intake_new();
    assert_non_null(in);
    in->envelope = (struct spool_envelope){.id = id,
                                           .created = USEC_PER_SEC,
                                           .size_bytes = BODY.len,
                                           .recipient_count = 2,
                                           .tenant = tenant,
                                           .sender = SLICE("s@y")};
    buf_append(&in->packed, "\0\3a@x\0\3b@x", 10);
    buf_append_slice(&in->body, BODY);
    struct message *m = in->message = intake_message(in);
    assert_non_null(m);
    assert_int_equal(spool_journal_message(store, &in->envelope, buf_slice(&in->packed),
                                           buf_slice(&in->body), &in->position),
                     0);
    assert_int_equal(spool_journal_commit(store), 0);
    journaled_add(&journaled, in, is_announced, 1000);
    m->account.pending = 2;
    intake_free(in);
    return is_announced ? m : NULL;
}

static void collect(struct message *m, uint32_t index, enum result_kind kind)
{
    struct result *r = result_new(m, 1);
    assert_non_null(r);
    r->has_dispatch = true;
    result_add(r, index, kind, kind == RESULT_DELIVERED ? 250 : 450, "4.0.0", SLICE("so"));
    settle_collect(&settle, r);
}

static void done(void *ctx, struct message *m)
{
    journaled_drop(&journaled, m);
    settled++;
    message_put(m); /* the activator's */
}

static void tell(void *ctx, uint32_t flow, uint64_t place)
{
    if (flow != 0) {
        told_of_flow = place;
    } else {
        told = place;
    }
}

static void commit_journal(void)
{
    settle_log_delivered(&settle);
    assert_int_equal(settle_write_journal(&settle, store), 0);
    assert_int_equal(spool_journal_commit(store), 0);
    (void)settle_committed(&settle, done, NULL);
}

static void commit_tables(bool succeeds)
{
    struct spool_txn *t;
    assert_int_equal(spool_begin(store, &t), 0);
    assert_int_equal(journaled_put(&journaled, t, NULL), 0);
    const struct message *put = journaled_last(&journaled);
    assert_int_equal(settle_write(&settle, t, 2 * USEC_PER_SEC), 0);
    assert_int_equal(journaled_put(&journaled, t, put), 0);
    assert_int_equal(spool_absorb_journal(t), 0);
    if (!succeeds) {
        spool_abort(t);
        settle_failed(&settle);
        return;
    }
    assert_int_equal(spool_commit(t), 0);
    (void)settle_committed(&settle, done, NULL);
    journaled_absorbed(&journaled, tell, NULL);
}

static struct spool_counts counts(void)
{
    struct spool_counts c;
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_read_counts(reader, &c), 0);
    spool_reader_end(reader);
    return c;
}

/* Lets grace periods pass until the content is no longer in memory. */
static void wait_for_release(struct message *m)
{
    struct slice body;
    for (int i = 0; i < 100 && message_body(m, &body); i++) {
        rcu_pass();
        rcu_drain();
    }
    assert_false(message_body(m, &body));
}

static void delivered_at_once_it_never_reaches_the_tables(void **state)
{
    struct message *m = receive(1, true);
    collect(m, 0, RESULT_DELIVERED);
    assert_true(list_is_empty(&settle.delivered)); /* half of it */
    collect(m, 1, RESULT_DELIVERED);
    assert_false(list_is_empty(&settle.delivered));
    assert_true(list_is_empty(&settle.touched));
    commit_journal();
    assert_int_equal(settled, 1);
    assert_int_equal(journaled_due(&journaled), USEC_NEVER);
    assert_int_equal(counts().messages, 0);
    assert_int_equal(engine->delivered, 2);
}

static void a_transaction_leaves_delivered_ones_out(void **state)
{
    struct message *m = receive(1, true);
    struct message *other = receive(2, true);
    collect(m, 0, RESULT_DELIVERED);
    collect(m, 1, RESULT_DELIVERED);
    commit_tables(false);
    assert_int_equal(settled, 0);
    commit_tables(true);
    assert_int_equal(settled, 1);
    assert_int_equal(counts().messages, 1);
    assert_int_equal(counts().incoming, 1);
    message_put(other);
}

static void what_is_deferred_goes_to_the_tables(void **state)
{
    struct message *m = receive(1, true);
    collect(m, 0, RESULT_DELIVERED);
    collect(m, 1, RESULT_DEFERRED);
    assert_true(list_is_empty(&settle.delivered));
    commit_journal(); /* is not concerned */
    assert_int_equal(settled, 0);
    commit_tables(true);
    assert_int_equal(settled, 1);
    assert_int_equal(counts().deferred, 1);
    assert_int_equal(counts().incoming, 0);
}

static void the_content_is_found_at_any_time(void **state)
{
    struct message *m = receive(1, true);
    struct slice body;
    assert_true(message_body(m, &body));
    assert_true(slice_eq(body, BODY));
    commit_tables(true);
    assert_true(message_body(m, &body)); /* a pass may have begun before the commit */
    assert_true(slice_eq(body, BODY));
    wait_for_release(m);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_read_chunk(reader, 1, 0, &body), 0);
    assert_true(slice_eq(body, BODY));
    spool_reader_end(reader);
    message_put(m);
}

static void those_the_activator_lacks_are_told_once_they_are_in_the_tables(void **state)
{
    (void)receive(1, false);
    (void)receive(2, false);
    struct message *m = receive(3, true);
    uint64_t last = m->position.time - 1;
    assert_int_equal(journaled.unannounced, 2);
    assert_true(journaled_due(&journaled) < 1000 + 50 * USEC_PER_MSEC);
    commit_tables(true);
    assert_int_equal(told, last);
    assert_int_equal(journaled.unannounced, 0);
    assert_int_equal(counts().incoming, 3);
    message_put(m);
}

static void each_flow_is_told_of_its_newest(void **state)
{
    (void)receive(1, false);
    tenant = SLICE("acme");
    struct message *m = receive(2, true);
    uint32_t flow = m->position.flow;
    uint64_t first = m->position.time;
    assert_true(flow != 0);
    assert_true(journaled_has_unannounced(&journaled, 0));
    assert_false(journaled_has_unannounced(&journaled, flow));
    (void)receive(3, false);
    tenant = SLICE("");
    (void)receive(4, false);
    tenant = SLICE("ACME");
    (void)receive(5, false);
    assert_true(journaled_has_unannounced(&journaled, flow));
    commit_tables(true);
    assert_int_equal(told, first + 2);
    assert_int_equal(told_of_flow, first + 3);
    assert_false(journaled_has_unannounced(&journaled, 0) ||
                 journaled_has_unannounced(&journaled, flow));
    message_put(m);
}

static void one_that_was_given_back_is_told_again(void **state)
{
    struct message *m = receive(1, true);
    uint64_t position = m->position.time;
    assert_true(journaled_due(&journaled) > 1000 + 50 * USEC_PER_MSEC);
    journaled_take_back(&journaled, m, 1000);
    message_put(m);
    assert_true(journaled_due(&journaled) < 1000 + 50 * USEC_PER_MSEC);
    commit_tables(true);
    assert_int_equal(told, position);
}

/* Called by settle_write between two messages of the transaction. */
static void receive_meanwhile(void *ctx)
{
    unsigned *calls = ctx;
    (*calls)++;
    (void)receive(3, false);
}

/* Two messages of two recipients each, which have such results; and mail comes while a transaction takes these. */
static void end_two_meanwhile(enum result_kind kind, unsigned *calls)
{
    for (int i = 0; i < 2; i++) {
        struct message *m = receive(1 + i, true);
        collect(m, 0, kind);
        collect(m, 1, kind);
    }
    settle.between = receive_meanwhile;
    settle.between_ctx = calls;
}

/* What the journal gets while a transaction takes results is in the tables with that, and in the journal
 * without it. */
static void mail_that_comes_during_a_transaction(void **state)
{
    unsigned calls = 0;
    end_two_meanwhile(RESULT_DEFERRED, &calls);
    commit_tables(false);
    assert_int_equal(calls, 1);
    assert_int_equal(counts().messages, 0);
    settle.between = NULL;
    commit_tables(true);
    assert_int_equal(counts().deferred, 2);
    assert_int_equal(counts().incoming, 1);
    assert_true(spool_journal_is_empty(store));
}

/* Mail that comes while a transaction bounces other mail is told of before the notices, so its place is in front
 * of theirs. */
static void notices_are_behind_mail_that_comes_meanwhile(void **state)
{
    unsigned calls = 0;
    atomic_store(&engine->next_id, 100);
    end_two_meanwhile(RESULT_FAILED, &calls);
    commit_tables(true);
    assert_int_equal(calls, 1);
    assert_int_equal(counts().incoming, 3);
    assert_int_equal(settle.notice_count, 2);
    for (int i = 0; i < 2; i++) {
        assert_true(settle.notices[i]->position.time > told);
    }
    settle_failed(&settle); /* frees them; nobody is to hear of them here */
}

static void a_crash_in_it_leaves_that_mail_in_the_journal(void **state)
{
    for (int i = 0; i < 2; i++) {
        struct spool_txn *t;
        unsigned calls = 0;
        /* The second time the journal is empty when the transaction begins. */
        struct message *m = receive(1, true);
        if (i == 1) {
            commit_tables(true);
        }
        assert_int_equal(spool_begin(store, &t), 0);
        assert_int_equal(journaled_put(&journaled, t, NULL), 0);
        const struct message *put = journaled_last(&journaled);
        receive_meanwhile(&calls);
        assert_int_equal(journaled_put(&journaled, t, put), 0);
        assert_int_equal(spool_absorb_journal(t), 0);
        spool_abort(t);
        spool_reader_free(reader);
        spool_store_close(store);
        assert_int_equal(open_store(), 0);
        assert_int_equal(counts().incoming, 2);
        journaled_absorbed(&journaled, tell, NULL);
        message_put(m);
        assert_int_equal(spool_begin(store, &t), 0);
        for (uint64_t id = 1; id <= 3; id += 2) {
            const struct spool_position at = {SPOOL_INCOMING, told - (id == 1), id, 0};
            assert_int_equal(spool_remove(t, &at), 0);
        }
        assert_int_equal(spool_commit(t), 0);
        assert_int_equal(counts().messages, 0);
    }
}

/* It is not taken for one that is in the tables already. */
static void one_with_the_id_of_another_is_not_lost(void **state)
{
    struct spool_txn *t;
    struct spool_position at;
    const struct spool_envelope other = {
        .id = 1, .size_bytes = BODY.len, .recipient_count = 1, .sender = SLICE("other@y")};
    assert_int_equal(spool_begin(store, &t), 0);
    assert_int_equal(spool_put_message(t, &other, slice_make("\0\3c@x", 5), BODY, &at), 0);
    assert_int_equal(spool_commit(t), 0);
    message_put(receive(1, true));
    assert_int_equal(spool_begin(store, &t), 0);
    assert_int_equal(journaled_put(&journaled, t, NULL), -EEXIST);
    spool_abort(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(delivered_at_once_it_never_reaches_the_tables, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_transaction_leaves_delivered_ones_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_deferred_goes_to_the_tables, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_content_is_found_at_any_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            those_the_activator_lacks_are_told_once_they_are_in_the_tables, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_flow_is_told_of_its_newest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_was_given_back_is_told_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(mail_that_comes_during_a_transaction, set_up, tear_down),
        cmocka_unit_test_setup_teardown(notices_are_behind_mail_that_comes_meanwhile, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_crash_in_it_leaves_that_mail_in_the_journal, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(one_with_the_id_of_another_is_not_lost, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
