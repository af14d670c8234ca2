/* Mail of another node's log on its way into a spool that is in use: a transaction has a bounded piece of
 * it, also of a message of very many recipients, which is no message before all of it is there; and
 * what goes wrong with it is nothing to the mail of this node. */
#include "base/error.h"
#include "base/mailbox.h"
#include "base/rcu.h"
#include "engine/cluster/adoption.h"
#include "engine/config/config.h"
#include "engine/post/intake.h"
#include "engine/spool/spool_adopt.h"
#include "engine/spool/spool_record.h"
#include "engine/spool/spool_table.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/tally/tally.h"
#include "engine/writer/spool_writer_private.h"
#include "tests/unit/spool_fixture.h"

#include <string.h>

enum {
    SOURCE = 5,
    MANY = 20000, /* recipients */
    TEXT = 100,   /* bytes of a reply */
    /* Of a transaction: its piece, and the states of a batch of recipients that end it. */
    PIECE_MOST = (256 << 10) + SPOOL_BATCH_RECIPIENTS * (TEXT + 100),
};

static struct spool_store *other;
static struct spool_reader *from;
static char other_folder[160];
static struct engine *engine;
static struct config config;
static struct settings settings;
static struct spool_writer *writer;
static struct mailbox activator;
static struct outbox to_activator;
static struct adoption job;
static size_t told, messages_told;

static void wake_nobody(void *ctx)
{
}

static void count(void *ctx, const struct spool_change *change)
{
    told += change->bytes.len + sizeof(*change);
    messages_told += change->kind == SPOOL_CHANGE_MESSAGE;
}

static void up_writer(void)
{
    assert_int_equal(spool_writer_new(engine, &writer), 0);
    job = (struct adoption){.log = SOURCE, .reader = from, .wake = wake_nobody};
    atomic_store(&engine->adoption, &job);
}

static int set_up(void **state)
{
    char text[256] = "";
    static char hostname[] = "relay.example";
    if (setup(state) != 0) {
        return -1;
    }
    (void)snprintf(other_folder, sizeof(other_folder), "%s.other", folder);
    const struct spool_options options = {.path = other_folder, .map_size = MAP_BYTES};
    messages_told = 0;
    engine = aligned_alloc(CACHE_LINE, sizeof(*engine));
    if (engine == NULL || spool_store_open(&options, &other, text) != 0 ||
        spool_reader_new(other, &from) != 0) {
        return -1;
    }
    memset(engine, 0, sizeof(*engine));
    atomic_store(&engine->next_id, 1000);
    config = (struct config){.hostname = hostname};
    settings.config = &config;
    engine->config = &config;
    engine->settings = &settings;
    engine->store = store;
    engine->tally = tally_new(&config);
    rcu_start();
    rcu_join();
    if (mailbox_init(&activator, 64) != 0) {
        return -1;
    }
    outbox_init(&to_activator, &activator);
    up_writer();
    return 0;
}

static int tear_down(void **state)
{
    char command[200];
    spool_writer_free(writer);
    outbox_fini(&to_activator);
    mailbox_fini(&activator);
    spool_reader_free(from);
    spool_store_close(other);
    tally_free(engine->tally);
    free(engine);
    rcu_leave();
    rcu_drain();
    rcu_stop();
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", other_folder);
    return system(command) == 0 ? teardown(state) : -1;
}

/* A message of the other spool with so many recipients, most of whom were tried and have a reply. */
static void fill(uint64_t id, uint32_t recipients)
{
    struct spool_txn *t;
    struct spool_position at;
    char packed[SPOOL_BATCH_RECIPIENTS * 3], text[TEXT];
    const struct spool_envelope e = {
        .id = id, .recipient_count = recipients, .sender = SLICE("other@example.com")};
    memset(text, 'x', sizeof(text));
    for (size_t i = 0; i < SPOOL_BATCH_RECIPIENTS; i++) {
        memcpy(packed + 3 * i, "\0\1b", 3);
    }
    assert_int_equal(spool_begin(other, &t), 0);
    assert_int_equal(spool_stage(t, id), 0);
    for (uint32_t i = 0; i < recipients; i += SPOOL_BATCH_RECIPIENTS) {
        uint32_t n =
            recipients - i < SPOOL_BATCH_RECIPIENTS ? recipients - i : SPOOL_BATCH_RECIPIENTS;
        assert_int_equal(spool_put_recipients(t, id, i / SPOOL_BATCH_RECIPIENTS,
                                              slice_make(packed, 3 * (size_t)n)),
                         0);
    }
    assert_int_equal(spool_put_message(t, &e, SLICE(""), SLICE("body\r\n"), &at), 0);
    for (uint32_t i = 0; i < recipients; i++) {
        const struct spool_reason reason = {.time = 7,
                                            .state = SPOOL_RECIPIENT_DEFERRED,
                                            .code = 450,
                                            .text = slice_make(text, sizeof(text))};
        bool is_delivered = i % 10 == 0;
        assert_int_equal(
            spool_set_recipient(t, id, recipients, i,
                                is_delivered ? SPOOL_RECIPIENT_DELIVERED : SPOOL_RECIPIENT_DEFERRED,
                                is_delivered ? NULL : &reason),
            0);
    }
    assert_int_equal(spool_commit(t), 0);
}

/* One transaction with a piece. */
static void take_piece(void)
{
    struct adopter *a = &writer->adopter;
    struct spool_txn *t = begin();
    told = 0;
    spool_store_listen(store, count, NULL);
    adopter_begin(a);
    assert_int_equal(adopter_put(a, t), 0);
    spool_store_listen(store, NULL, NULL);
    assert_int_equal(spool_commit(t), 0);
    adopter_committed(a, &to_activator);
}

/* How often it is told of when all is told anew. */
static void count_told_anew(void *ctx, const struct spool_change *change)
{
    unsigned *as_staged = ctx;
    *as_staged += change->kind == SPOOL_CHANGE_MESSAGE && change->number == SOURCE;
    assert_true(change->kind != SPOOL_CHANGE_MESSAGE || change->number == SOURCE);
}

static unsigned times_told_as_staged(void)
{
    struct spool_retelling at = {.id = 0};
    unsigned as_staged = 0;
    size_t bytes;
    int err = 0;
    assert_int_equal(spool_reader_begin(reader), 0);
    while (err == 0) {
        err = spool_retell(reader, &at, 1 << 20, count_told_anew, &as_staged, &bytes);
    }
    spool_reader_end(reader);
    assert_int_equal(err, ERR_MISSING);
    return as_staged;
}

static void look_at_states(uint64_t id, uint32_t recipients)
{
    assert_int_equal(read_result(id), 0);
    assert_int_equal(spool_reader_begin(reader), 0);
    for (uint32_t i = 0; i < recipients; i++) {
        struct slice states;
        struct spool_reason reason;
        if (i % SPOOL_BATCH_RECIPIENTS == 0) {
            assert_int_equal(spool_read_states(reader, id, i / SPOOL_BATCH_RECIPIENTS, &states), 0);
        }
        if (i % 10 == 0) {
            assert_int_equal(states.data[i % SPOOL_BATCH_RECIPIENTS], SPOOL_RECIPIENT_DELIVERED);
        } else {
            assert_int_equal(spool_read_reason(reader, id, i, &reason), 0);
            assert_int_equal(reason.code, 450);
        }
    }
    spool_reader_end(reader);
}

static uint64_t records_of(enum spool_table table)
{
    uint64_t records = 0;
    struct spool_txn *t = begin();
    assert_int_equal(spool_table_count(t, table, &records), 0);
    spool_abort(t);
    return records;
}

static void a_large_message_comes_in_pieces(void **state)
{
    unsigned pieces = 0, as_staged = 0;
    fill(1, MANY);
    fill(2, 10);
    for (; atomic_load(&job.state) == ADOPTION_UNDER_WAY; pieces++) {
        assert_true(pieces < 100);
        take_piece();
        assert_true(told <= PIECE_MOST);
        if (messages_told == 1) { /* its record was told, but not all of its states */
            assert_int_equal(read_result(1), ERR_MISSING);
            as_staged += times_told_as_staged();
        }
    }
    assert_int_equal(atomic_load(&job.state), ADOPTION_ENDED);
    assert_true(pieces > 10 && as_staged > 5);
    look_at_states(1, MANY);
    look_at_states(2, 10);
    assert_int_equal(records_of(SPOOL_TABLE_STAGING), 0);
    assert_int_equal(atomic_load(&job.messages), 2);
}

/* Its id is of this node, so any mark makes who reads the log believe it. */
static void a_message_that_gets_a_new_id_comes_whole(void **state)
{
    const uint64_t as = 1000;
    atomic_store(&engine->next_id, as);
    (void)put_one(1);
    fill(1, MANY);
    while (messages_told == 0) {
        take_piece();
        assert_true(messages_told > 0 || told <= PIECE_MOST);
    }
    assert_int_equal(records_of(SPOOL_TABLE_STAGING), 0);
    look_at_states(as, MANY);
}

static void half_a_message_is_none_at_the_next_start(void **state)
{
    fill(1, MANY);
    while (messages_told == 0) {
        take_piece();
    }
    take_piece();
    assert_true(records_of(SPOOL_TABLE_STATE) > 0 && records_of(SPOOL_TABLE_STAGING) == 1);
    spool_writer_free(writer);
    down();
    up();
    engine->store = store;
    for (unsigned table = 0; table < SPOOL_TABLE_COUNT; table++) {
        bool is_of_mail = table == SPOOL_TABLE_MESSAGE || table == SPOOL_TABLE_RECIPIENTS ||
                          table == SPOOL_TABLE_STATE || table == SPOOL_TABLE_REASON ||
                          table == SPOOL_TABLE_STAGING;
        assert_true(!is_of_mail || records_of((enum spool_table)table) == 0);
    }
    up_writer();
    while (atomic_load(&job.state) == ADOPTION_UNDER_WAY) {
        take_piece();
    }
    look_at_states(1, MANY);
}

/* A result of a recipient that the message does not have. */
static void spoil(uint64_t id)
{
    struct spool_txn *t;
    void *at;
    const char states[] = {SPOOL_RECIPIENT_DELIVERED, SPOOL_RECIPIENT_DELIVERED};
    const struct spool_key key = spool_key_part(id, 0);
    assert_int_equal(spool_begin(other, &t), 0);
    assert_int_equal(
        spool_table_put(t, SPOOL_TABLE_STATE, &key, spool_blob_bytes(sizeof(states)), &at), 0);
    spool_blob_encode(slice_make(states, sizeof(states)), &key, at);
    assert_int_equal(spool_commit(t), 0);
}

static void an_error_of_it_leaves_own_mail_alone(void **state)
{
    struct intake *own = calloc(1, sizeof(*own));
    assert_non_null(own);
    fill(1, 1);
    fill(2, 1);
    spoil(2);
    own->envelope = (struct spool_envelope){.id = 7, .recipient_count = 1, .sender = SLICE("a@x")};
    buf_init(&own->body, 0);
    buf_init(&own->packed, 0);
    buf_append(&own->packed, "\0\1b", 3);
    buf_append(&own->body, "own\r\n", 5);
    spool_writer_take_part(writer, own, true);
    assert_int_equal(spool_writer_write_tables(writer), 0);
    assert_int_equal(own->error, 0);
    assert_int_equal(read_result(7), 0);
    assert_int_equal(read_result(1), ERR_MISSING);
    assert_int_equal(atomic_load(&job.state), ADOPTION_FAILED);
    assert_null(atomic_load(&engine->adoption));
    writer->part_count = 0;
    buf_fini(&own->body);
    buf_fini(&own->packed);
    free(own);
}

static void it_waits_while_the_disk_fails(void **state)
{
    static const uint32_t gates[] = {ENGINE_GATE_BROKEN, ENGINE_GATE_LOW_SPACE,
                                     ENGINE_GATE_LOG_FULL, ENGINE_GATE_STOPPING};
    for (size_t i = 0; i < sizeof(gates) / sizeof(gates[0]); i++) {
        atomic_store(&engine->gate, gates[i]);
        assert_false(adopter_is_due(&writer->adopter));
        atomic_store(&engine->gate, 0);
        assert_true(adopter_is_due(&writer->adopter));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_large_message_comes_in_pieces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_message_that_gets_a_new_id_comes_whole, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(half_a_message_is_none_at_the_next_start, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_error_of_it_leaves_own_mail_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_waits_while_the_disk_fails, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
