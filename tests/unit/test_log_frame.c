/* Frames of a log: what was written is read, and nothing else is. */
#include "base/error.h"
#include "base/hash.h"
#include "engine/cluster/log_frame.h"
#include "tests/unit/unit.h"

#include <errno.h>

static const struct log_frame_id id = {.epoch = 7, .serial = 9};

static const struct log_item items[] = {
    {LOG_ITEM_RECEPTION, UINT64_C(0x0102030405060708), 0, {"record", 6}},
    {LOG_ITEM_BODY, 5, 4000000000U, {"\0piece", 6}},
    {LOG_ITEM_RECIPIENTS, 5, 0, {"packed", 6}},
    {LOG_ITEM_RESULT, 5, 17, {"D", 1}},
    {LOG_ITEM_RETRY, 5, 0, {"retry", 5}},
    {LOG_ITEM_SIGNING, 6, 0, {"record", 6}},
    {LOG_ITEM_DONE, 5, 0, {NULL, 0}},
    {LOG_ITEM_ADOPTED, UINT64_MAX, 65535, {NULL, 0}},
    {LOG_ITEM_REASON, 6, 8, {"record", 6}},
    {LOG_ITEM_NOTIFIED, 6, 0, {NULL, 0}},
    {LOG_ITEM_BOUND, 0, 0, {NULL, 0}},
};
#define ITEMS (sizeof(items) / sizeof(items[0]))

static void make(struct buf *out)
{
    buf_init(out, LOG_FRAME_BYTES_MAX);
    log_frame_begin(out, 300, &id);
    for (size_t i = 0; i < ITEMS; i++) {
        assert_true(log_frame_has_room(out, items[i].bytes.len));
        log_frame_add(out, &items[i]);
    }
    log_frame_end(out);
    assert_false(out->failed);
}

static void what_was_written_is_read(void **state)
{
    struct buf out;
    struct log_frame f;
    struct log_item item;
    make(&out);
    assert_int_equal(log_frame_read(buf_slice(&out), &f), 0);
    assert_int_equal(f.node, 300);
    assert_int_equal(f.id.epoch, 7);
    assert_int_equal(f.id.serial, 9);
    for (size_t i = 0; i < ITEMS; i++) {
        assert_true(log_frame_next(&f.items, &item));
        assert_int_equal(item.kind, items[i].kind);
        assert_true(item.id == items[i].id && item.number == items[i].number);
        assert_true(slice_eq(item.bytes, items[i].bytes));
    }
    assert_false(log_frame_next(&f.items, &item));
    buf_fini(&out);
}

static void every_flipped_bit_and_every_cut_is_seen(void **state)
{
    struct buf out;
    struct log_frame f;
    make(&out);
    for (size_t bit = 0; bit < out.len * 8; bit++) {
        out.data[bit / 8] = (char)(out.data[bit / 8] ^ 1 << bit % 8);
        assert_int_equal(log_frame_read(buf_slice(&out), &f), ERR_CORRUPT);
        out.data[bit / 8] = (char)(out.data[bit / 8] ^ 1 << bit % 8);
    }
    for (size_t len = 0; len < out.len; len++) {
        assert_int_equal(log_frame_read(slice_make(out.data, len), &f), ERR_CORRUPT);
    }
    buf_fini(&out);
}

/* Change a byte and mend the checksum. */
static int read_changed(size_t at, char value)
{
    struct buf out;
    struct log_frame f;
    make(&out);
    out.data[at] = value;
    uint64_t sum = hash_checksum(out.data, out.len - 8);
    for (size_t i = 0; i < 8; i++) {
        out.data[out.len - 8 + i] = (char)(sum >> (56 - 8 * i));
    }
    int err = log_frame_read(buf_slice(&out), &f);
    buf_fini(&out);
    return err;
}

static void what_no_writer_writes_is_refused(void **state)
{
    assert_int_equal(read_changed(2, 44), 0);               /* another node */
    assert_int_equal(read_changed(0, 2), -EPROTONOSUPPORT); /* a newer version */
    assert_int_equal(read_changed(0, 0), ERR_CORRUPT);      /* no version */
    assert_int_equal(read_changed(10, 0), ERR_CORRUPT);     /* epoch 0 */
    assert_int_equal(read_changed(18, 0), ERR_CORRUPT);     /* serial 0 without a fence */
    assert_int_equal(read_changed(22, 0), ERR_CORRUPT);     /* another length of the items */
    assert_int_equal(read_changed(23, 0), ERR_CORRUPT);     /* an item without a kind */
    assert_int_equal(read_changed(23, LOG_ITEM_FENCE), ERR_CORRUPT);
    assert_int_equal(read_changed(23, 99), ERR_CORRUPT); /* a kind that there is not */
    assert_int_equal(read_changed(36, 77), ERR_CORRUPT); /* an item longer than the frame */
}

/* A message's id that no spool gives: the next one would have the number of another node. */
static void an_id_leaves_room_for_the_next_one(void **state)
{
    static const struct {
        uint64_t id;
        bool is_right;
    } cases[] = {{1, true},
                 {(1ULL << 48) - 2, true},
                 {(1ULL << 48) - 1, false},
                 {(7ULL << 48) + 5, true},
                 {(8ULL << 48) - 1, false},
                 {UINT64_MAX - 1, true},
                 {UINT64_MAX, false},
                 {0, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf out;
        struct log_frame f;
        buf_init(&out, LOG_FRAME_BYTES_MAX);
        log_frame_begin(&out, 1, &id);
        log_frame_add(&out, &(const struct log_item){.kind = LOG_ITEM_DONE, .id = 1});
        log_frame_end(&out);
        for (size_t k = 0; k < 8; k++) {
            out.data[LOG_FRAME_HEAD + 1 + k] = (char)(cases[i].id >> (56 - 8 * k));
        }
        uint64_t sum = hash_checksum(out.data, out.len - 8);
        for (size_t k = 0; k < 8; k++) {
            out.data[out.len - 8 + k] = (char)(sum >> (56 - 8 * k));
        }
        assert_int_equal(log_frame_read(buf_slice(&out), &f), cases[i].is_right ? 0 : ERR_CORRUPT);
        buf_fini(&out);
    }
}

static void a_fence_stands_alone(void **state)
{
    struct buf out;
    struct log_frame f;
    const struct log_item fence = {.kind = LOG_ITEM_FENCE, .number = 2};
    buf_init(&out, LOG_FRAME_BYTES_MAX);
    log_frame_begin(&out, 1, &(struct log_frame_id){.epoch = 8});
    log_frame_add(&out, &fence);
    log_frame_end(&out);
    assert_int_equal(log_frame_read(buf_slice(&out), &f), 0);
    buf_clear(&out);
    log_frame_begin(&out, 1, &(struct log_frame_id){.epoch = 8});
    log_frame_add(&out, &fence);
    log_frame_add(&out, &items[0]);
    log_frame_end(&out);
    assert_int_equal(log_frame_read(buf_slice(&out), &f), ERR_CORRUPT);
    buf_fini(&out);
}

static void a_frame_has_an_end(void **state)
{
    struct buf out;
    buf_init(&out, LOG_FRAME_BYTES_MAX);
    log_frame_begin(&out, 1, &id);
    assert_true(log_frame_has_room(&out, LOG_FRAME_BYTES_MAX - LOG_FRAME_OVERHEAD - LOG_ITEM_HEAD));
    assert_false(
        log_frame_has_room(&out, LOG_FRAME_BYTES_MAX - LOG_FRAME_OVERHEAD - LOG_ITEM_HEAD + 1));
    assert_false(log_frame_has_room(&out, SIZE_MAX));
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(every_flipped_bit_and_every_cut_is_seen),
        cmocka_unit_test(what_no_writer_writes_is_refused),
        cmocka_unit_test(an_id_leaves_room_for_the_next_one),
        cmocka_unit_test(a_fence_stands_alone),
        cmocka_unit_test(a_frame_has_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
