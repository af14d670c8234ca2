/* Mail of another spool: what a log says of mail that its writer took over from others is believed only
 * with the marks behind it, and messages come into a spool under their own ids, or new ones. */
#include "base/error.h"
#include "engine/cluster/adoption.h"
#include "engine/cluster/log_frame.h"
#include "engine/replica/replay.h"
#include "engine/spool/spool_adopt.h"
#include "engine/spool/spool_change.h"
#include "engine/spool/spool_repair.h"
#include "engine/spool/spool_table.h"
#include "tests/unit/spool_fixture.h"

#include <string.h>

enum { WRITER = 7, SOURCE = 5, OTHER = 4 };

static struct replay replay;
static uint64_t serial;

static void keep_record(void *ctx, const struct spool_change *change)
{
    struct buf *record = ctx;
    if (change->kind == SPOOL_CHANGE_MESSAGE) {
        buf_append_slice(record, change->bytes);
    }
}

/* What the log says of a new message. The caller frees it. */
static struct buf record_of(uint64_t id)
{
    struct buf record;
    struct spool_txn *t = begin();
    buf_init(&record, 0);
    spool_store_listen(store, keep_record, &record);
    (void)put(t, id, SLICE("body\r\n"));
    spool_store_listen(store, NULL, NULL);
    spool_abort(t);
    return record;
}

/* One frame of the writer. */
static void read_items(const struct log_item *items, size_t count)
{
    struct buf frame;
    const struct log_frame_id id = {.epoch = 1, .serial = ++serial};
    buf_init(&frame, LOG_FRAME_BYTES_MAX);
    log_frame_begin(&frame, WRITER, &id);
    for (size_t i = 0; i < count; i++) {
        log_frame_add(&frame, &items[i]);
    }
    log_frame_end(&frame);
    assert_false(frame.failed);
    assert_int_equal(replay_frame(&replay, buf_slice(&frame)), 0);
    buf_fini(&frame);
}

static void read_message(const struct buf *record, uint64_t id, uint16_t from)
{
    const struct log_item item = {LOG_ITEM_RECEPTION, id, from, buf_slice(record)};
    read_items(&item, 1);
}

static void read_mark(uint16_t log, uint64_t mark, uint16_t carried)
{
    const char bytes[] = {(char)(carried >> 8), (char)carried};
    const struct log_item item = {LOG_ITEM_ADOPTED, mark, log,
                                  slice_make(bytes, carried == 0 ? 0 : sizeof(bytes))};
    read_items(&item, 1);
}

static uint64_t mark_of(uint16_t log)
{
    uint64_t mark = 1;
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_read_adopted(reader, log, &mark), 0);
    spool_reader_end(reader);
    return mark;
}

static void begin_replay(void)
{
    replay = (struct replay){.store = store};
    serial = 0;
}

static void messages_need_their_mark(void **state)
{
    const uint64_t renumbered = (uint64_t)WRITER << SPOOL_NODE_SHIFT | 9;
    struct buf records[5];
    const uint64_t ids[] = {1, 2, 3, 4, renumbered};
    for (size_t i = 0; i < 5; i++) {
        records[i] = record_of(ids[i]);
    }
    begin_replay();
    read_message(&records[0], 1, 0);
    read_message(&records[1], 2, SOURCE);
    read_message(&records[4], renumbered, SOURCE);
    read_mark(SOURCE, 2, 0);
    read_message(&records[1], 2, SOURCE); /* again: it is believed already */
    read_message(&records[2], 3, SOURCE);
    read_message(&records[3], 4, SOURCE);
    read_message(&records[3], 4, 0); /* told anew, so it was committed */
    assert_int_equal(replay_end(&replay), 0);
    assert_int_equal(replay.dropped, 1);
    assert_int_equal(read_result(1), 0);
    assert_int_equal(read_result(2), 0);
    assert_int_equal(read_result(3), ERR_MISSING);
    assert_int_equal(read_result(4), 0);
    assert_int_equal(read_result(renumbered), 0);
    assert_true(mark_of(SOURCE) == 2);
    for (size_t i = 0; i < 5; i++) {
        buf_fini(&records[i]);
    }
}

static void marks_need_theirs(void **state)
{
    begin_replay();
    read_mark(OTHER, 77, SOURCE);
    read_mark(SOURCE, 100, 0);
    assert_int_equal(replay_end(&replay), 0);
    assert_true(mark_of(OTHER) == 0 && mark_of(SOURCE) == 100);
    begin_replay();
    read_mark(OTHER, 77, SOURCE);
    read_mark(SOURCE, ADOPTION_DONE, 0);
    read_mark(SOURCE, 50, 0); /* never back */
    assert_int_equal(replay_end(&replay), 0);
    assert_true(mark_of(OTHER) == 77 && mark_of(SOURCE) == ADOPTION_DONE);
}

static uint64_t first_id_behind(const struct log_item *item)
{
    uint64_t first;
    begin_replay();
    read_items(item, 1);
    assert_int_equal(replay_end(&replay), 0);
    struct spool_txn *t = begin();
    assert_int_equal(spool_read_first_id(t, &first), 0);
    spool_abort(t);
    return first;
}

static void ids_of_mail_that_is_gone_are_left_out(void **state)
{
    const struct log_item gone = {.kind = LOG_ITEM_DONE, .id = 5000};
    assert_true(first_id_behind(&gone) > 5000);
}

/* The writer died in the middle of a large reception, whose pieces wait to be discarded: a message with
 * its id would have been sent with that content. */
static void ids_of_mail_that_never_became_whole_are_left_out(void **state)
{
    const struct log_item piece = {
        .kind = LOG_ITEM_BODY, .id = 7000, .bytes = SLICE("half a body")};
    assert_true(first_id_behind(&piece) > 7000);
}

/* Of a reception that was under way when the disk was lost the log has pieces; of another message, to which its
 * id was given then, it has all. */
static void pieces_of_another_message_are_no_content(void **state)
{
    struct buf record = record_of(1);
    struct slice body;
    const struct log_item items[] = {{LOG_ITEM_BODY, 1, 0, SLICE("another")},
                                     {LOG_ITEM_RECIPIENTS, 1, 0, SLICE("\0\1c")},
                                     {LOG_ITEM_RECEPTION, 1, 0, buf_slice(&record)},
                                     {LOG_ITEM_BODY, 1, 1, SLICE("another")}};
    begin_replay();
    read_items(items, 4);
    assert_int_equal(replay_end(&replay), 0);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_read_chunk(reader, 1, 0, &body), 0);
    assert_true(slice_eq(body, SLICE("body\r\n")));
    spool_reader_end(reader);
    struct spool_txn *t = begin();
    uint64_t chunks, batches;
    assert_int_equal(spool_table_count(t, SPOOL_TABLE_BODY, &chunks), 0);
    assert_int_equal(spool_table_count(t, SPOOL_TABLE_RECIPIENTS, &batches), 0);
    assert_true(chunks == 0 && batches == 0);
    spool_abort(t);
    buf_fini(&record);
}

/* --- from one spool into another -------------------------------------------------------------- */

struct copying {
    struct spool_txn *txn;
    uint64_t as;
};

static void copy_change(void *ctx, const struct spool_change *change)
{
    const struct copying *c = ctx;
    assert_int_equal(spool_adopt_change(c->txn, change, SOURCE, c->as), 0);
}

static struct spool_position adopt(struct spool_reader *from, uint64_t id, uint64_t as)
{
    struct spool_position at;
    struct copying c = {begin(), as};
    struct spool_retelling place = spool_retell_from(id);
    size_t bytes;
    while (!spool_retelling_is_through(&place)) {
        assert_int_equal(spool_retell_one(from, &place, 1000, copy_change, &c, &bytes), 0);
    }
    assert_int_equal(spool_adopt_place(c.txn, as, &at), 0);
    assert_int_equal(spool_commit(c.txn), 0);
    return at;
}

static enum spool_meeting meeting_of(struct spool_reader *from, uint64_t id)
{
    enum spool_meeting meeting = SPOOL_MEETS_NONE;
    struct spool_txn *t = begin();
    assert_int_equal(spool_meet(t, from, id, &meeting), 0);
    spool_abort(t);
    return meeting;
}

/* Of the other spool: message 1 of two recipients, one of which failed, deferred until 5,000,000; in
 * chunks. */
static void fill(struct spool_store *other)
{
    struct spool_txn *t;
    struct spool_position at, to;
    const struct spool_envelope e = {
        .id = 1, .chunk_count = 2, .recipient_count = 2, .sender = SLICE("other@example.com")};
    const struct spool_reason reason = {
        .time = 7, .state = SPOOL_RECIPIENT_FAILED, .code = 550, .text = SLICE("no")};
    const struct spool_retry retry = {.attempts = 3, .due = 5000000, .deferred = 9};
    assert_int_equal(spool_begin(other, &t), 0);
    assert_int_equal(spool_stage(t, 1), 0);
    assert_int_equal(spool_put_chunk(t, 1, 0, SLICE("first")), 0);
    assert_int_equal(spool_put_chunk(t, 1, 1, SLICE("second")), 0);
    assert_int_equal(spool_put_message(t, &e, slice_make("\0\1b\0\1c", 6), SLICE(""), &at), 0);
    assert_int_equal(spool_set_recipient(t, 1, 2, 1, SPOOL_RECIPIENT_FAILED, &reason), 0);
    to = (struct spool_position){SPOOL_DEFERRED, 5000000, 1, at.flow};
    assert_int_equal(spool_requeue(t, &at, &to, &retry), 0);
    assert_int_equal(spool_commit(t), 0);
}

static void look_at_copy(uint64_t id)
{
    struct spool_envelope e;
    struct slice body, states, chunk;
    struct spool_reason reason;
    struct spool_retry retry;
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_read_message(reader, id, &e, &body), 0);
    assert_true(e.id == id && e.recipient_count == 2);
    assert_true(slice_eq(e.sender, SLICE("other@example.com")));
    assert_int_equal(spool_read_chunk(reader, id, 1, &chunk), 0);
    assert_true(slice_eq(chunk, SLICE("second")));
    assert_int_equal(spool_read_states(reader, id, 0, &states), 0);
    assert_int_equal(states.data[1], SPOOL_RECIPIENT_FAILED);
    assert_int_equal(spool_read_reason(reader, id, 1, &reason), 0);
    assert_true(reason.code == 550 && slice_eq(reason.text, SLICE("no")));
    assert_int_equal(spool_read_retry(reader, id, &retry), 0);
    assert_true(retry.attempts == 3 && retry.due == 5000000);
    spool_reader_end(reader);
}

static void messages_come_over(void **state)
{
    char path[160], text[256] = "", command[200];
    struct spool_store *other;
    struct spool_reader *from;
    (void)snprintf(path, sizeof(path), "%s.other", folder);
    const struct spool_options options = {.path = path, .map_size = MAP_BYTES};
    assert_int_equal(spool_store_open(&options, &other, text), 0);
    fill(other);
    assert_int_equal(spool_reader_new(other, &from), 0);
    assert_int_equal(spool_reader_begin(from), 0);
    assert_int_equal(meeting_of(from, 1), SPOOL_MEETS_NONE);
    struct spool_position at = adopt(from, 1, 1);
    assert_true(at.class == SPOOL_DEFERRED && at.time == 5000000 && at.id == 1);
    look_at_copy(1);
    assert_int_equal(meeting_of(from, 1), SPOOL_MEETS_SAME);
    struct spool_txn *t = begin();
    assert_int_equal(spool_remove(t, &at), 0);
    assert_int_equal(spool_commit(t), 0);
    (void)put_one(1);
    assert_int_equal(meeting_of(from, 1), SPOOL_MEETS_OTHER);
    at = adopt(from, 1, 300);
    assert_true(at.class == SPOOL_DEFERRED && at.id == 300);
    look_at_copy(300);
    spool_reader_end(from);
    spool_reader_free(from);
    spool_store_close(other);
    down();
    up(); /* it is whole: nothing is found wrong */
    look_at_copy(300);
    assert_int_equal(read_result(1), 0);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_need_their_mark, setup, teardown),
        cmocka_unit_test_setup_teardown(marks_need_theirs, setup, teardown),
        cmocka_unit_test_setup_teardown(pieces_of_another_message_are_no_content, setup, teardown),
        cmocka_unit_test_setup_teardown(ids_of_mail_that_is_gone_are_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(ids_of_mail_that_never_became_whole_are_left_out, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(messages_come_over, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
