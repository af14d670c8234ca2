/* The value of a log's owner, both ways. */
#include "base/error.h"
#include "base/hash.h"
#include "engine/cluster/log_frame.h"
#include "engine/nodes/log_owner.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int read_text(const char *text, struct log_owner *ret)
{
    return log_owner_read(slice_of(text), ret);
}

static void what_is_written_is_read(void **state)
{
    static const struct {
        const char *text;
        struct log_owner is;
    } cases[] = {
        {"1 1 7", {.epoch = 1, .holder = 7}},
        {"1 1 7 unmade", {.epoch = 1, .holder = 7, .is_unmade = true}},
        {"1 9 7 adopted", {.epoch = 9, .holder = 7, .is_adopted = true}},
        {"1 9 7 given 0", {.epoch = 9, .holder = 7, .is_given = true}},
        {"1 9 7 given 281474976710656",
         {.epoch = 9, .holder = 7, .is_given = true, .from = 281474976710656}},
        {"1 9 8 from 12", {.epoch = 9, .holder = 8, .from = 12}},
        {"1 9 8 from 18446744073709551614 adopted",
         {.epoch = 9, .holder = 8, .from = UINT64_MAX - 1, .is_adopted = true}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct log_owner o;
        char text[LOG_OWNER_TEXT_SIZE];
        assert_int_equal(read_text(cases[i].text, &o), 0);
        assert_true(o.is_unmade == cases[i].is.is_unmade && o.epoch == cases[i].is.epoch &&
                    o.holder == cases[i].is.holder && o.is_adopted == cases[i].is.is_adopted &&
                    o.is_given == cases[i].is.is_given && o.from == cases[i].is.from);
        assert_int_equal(log_owner_write(&o, text), strlen(cases[i].text));
        assert_string_equal(text, cases[i].text);
    }
}

static void what_is_none_is_refused(void **state)
{
    static const char too_long[] = "1 1 7 given "
                                   "9999999999999999999999999999999999999999"
                                   "9999999999999999999999999999999999999999";
    static const char *const texts[] = {
        "",
        "1 1",
        "2 1 7",
        "1 0 7",
        "1 1 0",
        "1 1 65536",
        "1 1 7 taken",
        "1 1 7 given",
        "1 1 7 lost 9",
        "1 1 7 from 9 x",
        "1 1 7adopted",
        "1 1 7 adopted from 9",
        "1 1 7 from 9 from 9",
        "1 1 7 from -1",
        "1 01 7",
        "1 1 7 from 18446744073709551615",
        too_long,
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct log_owner o;
        if (read_text(texts[i], &o) != ERR_SYNTAX) {
            fail_msg("%s", texts[i]);
        }
    }
}

static char version;

static int read_place(struct cluster_log *l, uint64_t place, struct cluster_value *ret)
{
    struct buf frame;
    const struct log_frame_id id = {.epoch = 5};
    buf_init(&frame, LOG_FRAME_BYTES_MAX);
    log_frame_begin(&frame, 7, &id);
    log_frame_add(&frame, &(const struct log_item){.kind = LOG_ITEM_FENCE, .number = 7});
    log_frame_end(&frame);
    frame.data[0] = version;
    uint64_t sum = hash_checksum(frame.data, frame.len - 8);
    for (size_t i = 0; i < 8; i++) {
        frame.data[frame.len - 8 + i] = (char)(sum >> (56 - 8 * i));
    }
    ret->data = malloc(frame.len);
    ret->len = frame.len;
    assert_non_null(ret->data);
    memcpy(ret->data, frame.data, frame.len);
    buf_fini(&frame);
    return 0;
}

/* Behind it a lesser epoch might begin, and what is said there be void for a newer reader. */
static void a_newer_version_is_no_void_frame(void **state)
{
    const struct cluster_log_module module = {.read = read_place};
    const struct cluster_log_state log = {.first = 1, .last = 3};
    uint64_t epoch = 0;
    version = LOG_FRAME_VERSION;
    assert_int_equal(log_owner_last_epoch(&module, NULL, &log, &epoch), 0);
    assert_true(epoch == 5);
    version = LOG_FRAME_VERSION + 1;
    assert_int_equal(log_owner_last_epoch(&module, NULL, &log, &epoch), -EPROTONOSUPPORT);
}

static struct {
    struct cluster_log_state state;
    int look, remove; /* what they return */
    unsigned removed;
} stream;

static int look_at_stream(struct cluster_log *l, struct cluster_log_state *ret)
{
    *ret = stream.state;
    return stream.look;
}

static int remove_stream(struct cluster_log *l)
{
    stream.removed++;
    return stream.remove;
}

static void only_an_empty_stream_is_dropped(void **state)
{
    static const struct {
        struct cluster_log_state is;
        int look, remove, expected;
        unsigned removed;
    } cases[] = {
        {{.first = 1, .last = 0}, 0, 0, 0, 1},
        {{.first = 1, .last = 0}, 0, ERR_MISSING, 0, 1}, /* others were faster */
        {{.first = 1, .last = 0}, 0, -ETIMEDOUT, -ETIMEDOUT, 1},
        {{.first = 1, .last = 0}, -ETIMEDOUT, 0, -ETIMEDOUT, 0},
        {{.first = 1, .last = 0}, ERR_MISSING, 0, 0, 0},
        {{.first = 1, .last = 1}, 0, 0, 0, 0},
        {{.first = 9, .last = 8}, 0, 0, 0, 0}, /* it had frames, which were purged */
    };
    const struct cluster_log_module module = {.look = look_at_stream, .remove = remove_stream};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        stream.state = cases[i].is;
        stream.look = cases[i].look;
        stream.remove = cases[i].remove;
        stream.removed = 0;
        assert_int_equal(log_owner_drop_empty(&module, NULL), cases[i].expected);
        assert_int_equal(stream.removed, cases[i].removed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_is_none_is_refused),
        cmocka_unit_test(a_newer_version_is_no_void_frame),
        cmocka_unit_test(only_an_empty_stream_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
