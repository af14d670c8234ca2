/* Cursors over a log that is written, rotated, moved, cut off and filled with garbage meanwhile:
 * each line once, in order, never a torn one. */
#include "base/buf.h"
#include "base/error.h"
#include "engine/event/event_cursor.h"
#include "engine/event/event_line.h"
#include "engine/event/event_log.h"
#include "engine/event/event_segment.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];
static char path[96];

static int set_up(void **state)
{
    (void)snprintf(folder, sizeof(folder), "/tmp/test_event_cursor.XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "%s/log", folder);
    return 0;
}

static int tear_down(void **state)
{
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

static void open_log(struct event_log *log, uint64_t rotate_size, unsigned keep)
{
    assert_int_equal(event_log_open(log, path), 0);
    assert_int_equal(event_log_segment(log, rotate_size, keep), 0);
}

/* Lines from..to-1 as one batch. */
static void put(struct event_log *log, unsigned from, unsigned to)
{
    struct buf batch;
    buf_init(&batch, 0);
    for (unsigned i = from; i < to; i++) {
        buf_printf(&batch, "{\"type\":\"Delivery\",\"n\":%u}\n", i);
    }
    assert_int_equal(event_log_append(log, buf_slice(&batch)), 0);
    buf_fini(&batch);
}

static unsigned number_of(struct slice line)
{
    unsigned n = 0;
    char text[64];
    assert_true(line.len < sizeof(text));
    memcpy(text, line.data, line.len);
    text[line.len] = '\0';
    assert_int_equal(sscanf(text, "{\"type\":\"Delivery\",\"n\":%u}", &n), 1);
    return n;
}

/* The next lines are from..to-1, and then there is none. */
static void check(struct event_cursor *c, unsigned from, unsigned to)
{
    struct slice line;
    for (unsigned i = from; i < to; i++) {
        assert_int_equal(event_cursor_next(c, &line), 0);
        assert_int_equal(number_of(line), i);
    }
    assert_int_equal(event_cursor_next(c, &line), ERR_AGAIN);
}

static void append(const char *name, const char *bytes, size_t len)
{
    int fd = open(name, O_WRONLY | O_APPEND | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), len);
    close(fd);
}

static void rename_segment(const char *from, const char *to)
{
    char a[128], b[128];
    (void)snprintf(a, sizeof(a), "%s%s", path, from);
    (void)snprintf(b, sizeof(b), "%s%s", path, to);
    assert_int_equal(rename(a, b), 0);
}

static bool has_file(const char *ending)
{
    char name[128];
    (void)snprintf(name, sizeof(name), "%s%s", path, ending);
    return access(name, F_OK) == 0;
}

static void positions_have_a_text(void **state)
{
    static const char *const wrong[] = {"",    ":",    "1",     "1:",   ":1",
                                        "1:x", "-1:0", "1:2:3", "1: 2", "9999999999999999999:0"};
    struct event_position at;
    char text[EVENT_POSITION_TEXT];
    assert_int_equal(event_position_parse(SLICE("12:345"), &at), 0);
    assert_int_equal(at.segment, 12);
    assert_int_equal(at.offset, 345);
    event_position_format(at, text);
    assert_string_equal(text, "12:345");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(event_position_parse(slice_of(wrong[i]), &at), ERR_SYNTAX);
    }
    event_position_format((struct event_position){UINT64_MAX, UINT64_MAX}, text);
    assert_string_equal(text, "18446744073709551615:18446744073709551615");
}

static void lines_come_across_rotations(void **state)
{
    struct event_log log;
    struct event_cursor c;
    struct event_position end;
    uint64_t behind;
    open_log(&log, 200, 0);
    assert_int_equal(event_cursor_init(&c, path, (struct event_position){0, 0}), 0);
    check(&c, 0, 0);
    for (unsigned i = 0; i < 100; i += 3) {
        put(&log, i, i + 3);
        if (i % 2 == 0) {
            check(&c, i >= 3 ? i - 3 : 0, i + 3);
        }
    }
    check(&c, 99, 102);
    assert_true(log.number > 10);
    assert_int_equal(event_position_end(path, &end), 0);
    assert_memory_equal(&end, &c.position, sizeof(end));
    assert_int_equal(event_position_behind(path, end, &behind), 0);
    assert_int_equal(behind, 0);
    assert_int_equal(c.skipped, 0);

    /* All of it again, and what a position in the middle leaves. */
    struct event_cursor all;
    struct event_position middle;
    struct slice line;
    assert_int_equal(event_cursor_init(&all, path, (struct event_position){0, 0}), 0);
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(event_cursor_next(&all, &line), 0);
        assert_int_equal(number_of(line), i);
    }
    middle = all.position;
    check(&all, 50, 102);
    event_cursor_seek(&all, middle);
    check(&all, 50, 102);
    assert_int_equal(event_position_behind(path, middle, &behind), 0);
    assert_true(behind > 52 * 28 && behind < 52 * 40);
    event_cursor_fini(&all);
    event_cursor_fini(&c);
    event_cursor_fini(&c);
    assert_int_equal(event_log_close(&log), 0);

    /* A restart goes on in the segment, and with the numbers. */
    uint64_t number = end.segment;
    open_log(&log, 200, 0);
    assert_int_equal(log.number, number);
    put(&log, 102, 110);
    assert_int_equal(event_cursor_init(&c, path, end), 0);
    check(&c, 102, 110);
    event_cursor_fini(&c);
    assert_int_equal(event_log_close(&log), 0);
}

static void a_part_of_a_line_is_not_given(void **state)
{
    static const char first[] = "{\"type\":\"Delivery\",\"n\":0}\n{\"type\":\"Del";
    static const char rest[] = "ivery\",\"n\":1}\n";
    struct event_cursor c;
    struct event_position end;
    append(path, first, sizeof(first) - 1);
    assert_int_equal(event_cursor_init(&c, path, (struct event_position){0, 0}), 0);
    check(&c, 0, 1);
    assert_int_equal(event_position_end(path, &end), 0);
    assert_memory_equal(&end, &c.position, sizeof(end));
    append(path, rest, sizeof(rest) - 1);
    check(&c, 1, 2);
    event_cursor_fini(&c);
}

/* What crashes, other writers and broken disks may leave. */
static void garbage_is_passed_over(void **state)
{
    static const struct slice garbage[] = {
        {"{\"type\":\"Delivery\",\"response\":{\"code\":250}\n", 43}, /* cut off after a brace */
        {"{\"type\":\"Delivery\",\"n\":7\n", 25},
        {"\n", 1},
        {"}\n", 2},
        {"{\"type\":\"Delivery\",\"n\":7}}\n", 27},
        {"{\"a\":\"\\\"}\n", 10},
        {"\0\0\0\0{\"n\":1}\n", 12},
        {"{\"n\":\0}\n", 8},
        {"[1]\n", 4},
    };
    struct event_log log;
    struct event_cursor c;
    size_t count = sizeof(garbage) / sizeof(garbage[0]);
    open_log(&log, 0, 0);
    for (unsigned i = 0; i < count; i++) {
        put(&log, i, i + 1);
        append(path, garbage[i].data, garbage[i].len);
    }
    put(&log, (unsigned)count, (unsigned)count + 1);
    assert_int_equal(event_log_close(&log), 0);
    assert_int_equal(event_cursor_init(&c, path, (struct event_position){0, 0}), 0);
    check(&c, 0, (unsigned)count + 1);
    assert_int_equal(c.skipped, count);

    /* A line without end is not kept in memory for ever. */
    char *block = malloc(1 << 20);
    assert_non_null(block);
    memset(block, 'x', 1 << 20);
    for (int i = 0; i < 9; i++) {
        append(path, block, 1 << 20);
    }
    append(path, "\n", 1);
    free(block);
    open_log(&log, 0, 0);
    put(&log, 100, 101);
    check(&c, 100, 101);
    assert_true(c.capacity <= 16 << 20);
    event_cursor_fini(&c);
    assert_int_equal(event_log_close(&log), 0);
}

/* A crash at any byte of a batch: what comes later is given, and no part. */
static void a_torn_end_is_ended(void **state)
{
    static const char batch[] =
        "{\"type\":\"Delivery\",\"n\":1}\n{\"type\":\"Delivery\",\"n\":2}\n";
    for (size_t cut = 0; cut < sizeof(batch); cut++) {
        struct event_log log;
        struct event_cursor c;
        struct slice line;
        unsigned wanted = 0;
        open_log(&log, 0, 0);
        put(&log, 0, 1);
        assert_int_equal(event_log_close(&log), 0);
        append(path, batch, cut);
        assert_int_equal(event_cursor_init(&c, path, (struct event_position){0, 0}), 0);
        while (event_cursor_next(&c, &line) == 0) {
            assert_int_equal(number_of(line), wanted++);
        }
        open_log(&log, 0, 0);
        put(&log, 3, 4);
        while (event_cursor_next(&c, &line) == 0) {
            /* A line that lacked nothing but its end has one now. */
            unsigned n = number_of(line);
            assert_true(n == 3 || n == wanted);
            wanted = n + 1;
        }
        assert_int_equal(wanted, 4);
        event_cursor_fini(&c);
        assert_int_equal(event_log_close(&log), 0);
        assert_int_equal(unlink(path), 0);
    }
}

static void somebody_else_may_rotate(void **state)
{
    struct event_log log;
    struct event_cursor c;
    open_log(&log, 0, 0);
    put(&log, 0, 2);
    assert_int_equal(event_cursor_init(&c, path, (struct event_position){0, 0}), 0);
    check(&c, 0, 2);
    /* Moved, but the writer does not know yet. */
    rename_segment("", "-20261122");
    check(&c, 2, 2);
    put(&log, 2, 4);
    check(&c, 2, 4);
    append(path, "", 0); /* logrotate's `create` */
    put(&log, 4, 6);
    check(&c, 4, 6);
    put(&log, 6, 8);
    assert_int_equal(event_log_reopen(&log), 0);
    assert_int_equal(log.number, 2);
    check(&c, 6, 8);
    put(&log, 8, 9);
    rename_segment("-20261122", "-20261122.old");
    check(&c, 8, 9);
    /* Reopened without being moved: the same segment. */
    assert_int_equal(event_log_reopen(&log), 0);
    assert_int_equal(log.number, 2);
    put(&log, 9, 10);
    check(&c, 9, 10);
    event_cursor_fini(&c);
    assert_int_equal(event_cursor_init(&c, path, (struct event_position){0, 0}), 0);
    check(&c, 0, 10);
    event_cursor_fini(&c);
    assert_int_equal(event_log_close(&log), 0);
}

/* Each renames between is a place where a kill may come. */
static void a_crash_in_a_rotation_keeps_order(void **state)
{
    struct event_log log;
    struct event_cursor c;
    open_log(&log, 0, 0);
    put(&log, 0, 3);
    assert_int_equal(event_log_close(&log), 0);
    rename_segment("", ".1"); /* and no new file */
    assert_int_equal(event_cursor_init(&c, path, (struct event_position){0, 0}), 0);
    check(&c, 0, 3);
    open_log(&log, 0, 0);
    assert_int_equal(log.number, 2);
    assert_int_equal(event_log_close(&log), 0); /* empty, without its head */
    check(&c, 3, 3);
    open_log(&log, 0, 0);
    assert_int_equal(log.number, 2);
    assert_int_equal(event_log_close(&log), 0);
    for (size_t cut = 1; cut < sizeof(EVENT_LINE_HEAD) + 3; cut++) {
        assert_int_equal(truncate(path, 0), 0);
        append(path, EVENT_LINE_HEAD "2,\"", cut);
        open_log(&log, 0, 0);
        assert_int_equal(log.number, 2);
        assert_true(log.needs_head);
        assert_int_equal(event_log_close(&log), 0);
    }
    open_log(&log, 0, 0);
    put(&log, 3, 5);
    check(&c, 3, 5);
    event_cursor_fini(&c);
    assert_int_equal(event_log_close(&log), 0);
}

static void what_is_gone_is_told(void **state)
{
    struct event_log log;
    struct event_cursor c;
    struct event_position old;
    struct slice line;
    open_log(&log, 110, 3); /* two batches a segment */
    assert_int_equal(event_cursor_init(&c, path, (struct event_position){0, 0}), 0);
    put(&log, 0, 2);
    check(&c, 0, 2);
    old = c.position;
    for (unsigned i = 2; i < 40; i += 2) {
        put(&log, i, i + 2);
    }
    assert_false(has_file(".1"));
    assert_true(has_file(".9"));
    /* The one that is open can be read to its end all the same. */
    assert_int_equal(event_cursor_next(&c, &line), 0);
    assert_int_equal(number_of(line), 2);
    assert_int_equal(event_cursor_next(&c, &line), 0);
    assert_int_equal(event_cursor_next(&c, &line), ERR_MISSING);
    assert_int_equal(c.position.offset, 0);
    unsigned from = 0;
    assert_int_equal(event_cursor_next(&c, &line), 0);
    from = number_of(line);
    assert_true(from > 20 && from < 40);
    check(&c, from + 1, 40);

    event_cursor_seek(&c, old);
    assert_int_equal(event_cursor_next(&c, &line), ERR_MISSING);
    check(&c, from, 40);
    /* A position in numbers that are to come is none of this log. */
    event_cursor_seek(&c, (struct event_position){1000, 5});
    assert_int_equal(event_cursor_next(&c, &line), ERR_MISSING);
    check(&c, from, 40);
    event_cursor_fini(&c);
    assert_int_equal(event_log_close(&log), 0);
}

/* Twice as many as are to be kept are, when somebody still reads them. */
static void what_is_needed_stays(void **state)
{
    struct event_log log;
    open_log(&log, 100, 3);
    atomic_store(&log.needed, 2);
    for (unsigned i = 0; i < 2 * 8; i += 2) {
        put(&log, i, i + 2);
    }
    assert_false(has_file(".1"));
    assert_true(has_file(".2"));
    for (unsigned i = 0; i < 2 * 8; i += 2) {
        put(&log, i, i + 2);
    }
    uint64_t last = log.number - 1;
    char ending[16];
    (void)snprintf(ending, sizeof(ending), ".%u", (unsigned)last - 5);
    assert_true(has_file(ending));
    (void)snprintf(ending, sizeof(ending), ".%u", (unsigned)last - 6);
    assert_false(has_file(ending));
    assert_int_equal(event_log_close(&log), 0);
}

/* A log from before there were segments. */
static void files_without_head_have_their_names(void **state)
{
    static const char old[] = "{\"type\":\"Delivery\",\"n\":0}\n";
    static const char now[] = "{\"type\":\"Delivery\",\"n\":1}\n";
    struct event_log log;
    struct event_cursor c;
    append(path, old, sizeof(old) - 1);
    rename_segment("", ".6");
    append(path, now, sizeof(now) - 1);
    open_log(&log, 40, 0);
    assert_int_equal(log.number, 7);
    put(&log, 2, 3); /* a batch goes whole into the segment that is not full yet */
    assert_int_equal(log.number, 7);
    put(&log, 3, 4);
    assert_int_equal(log.number, 8);
    assert_true(has_file(".7"));
    assert_int_equal(event_cursor_init(&c, path, (struct event_position){6, 0}), 0);
    check(&c, 0, 4);
    event_cursor_fini(&c);
    assert_int_equal(event_log_close(&log), 0);
}

/* A name that is taken, a folder that may not be written: the log goes on in the file there is. */
static void a_rotation_that_fails_loses_nothing(void **state)
{
    struct event_log log;
    struct event_cursor c;
    open_log(&log, 100, 0);
    append(path, "", 0);
    char taken[128];
    (void)snprintf(taken, sizeof(taken), "%s.1", path);
    append(taken, "x", 1);
    for (unsigned i = 0; i < 20; i++) {
        put(&log, i, i + 1);
    }
    assert_int_equal(log.number, 1);
    assert_int_equal(event_cursor_init(&c, path, (struct event_position){0, 0}), 0);
    check(&c, 0, 20);
    event_cursor_fini(&c);
    assert_int_equal(event_log_close(&log), 0);
}

/* A part of a batch that was seen and then taken back comes again. */
static void what_is_taken_back_comes_again(void **state)
{
    struct event_log log;
    struct event_cursor c;
    open_log(&log, 0, 0);
    put(&log, 0, 1);
    assert_int_equal(event_cursor_init(&c, path, (struct event_position){0, 0}), 0);
    check(&c, 0, 1);
    uint64_t before = log.size;
    put(&log, 1, 3);
    check(&c, 1, 3);
    assert_int_equal(truncate(path, (off_t)before), 0);
    check(&c, 3, 3);
    put(&log, 1, 4);
    check(&c, 1, 4);
    event_cursor_fini(&c);
    assert_int_equal(event_log_close(&log), 0);
}

enum { RACE_LINES = STRESS_ROUNDS(8000) }; /* a rename and a sync each eight */

static void *write_race(void *arg)
{
    struct event_log *log = arg;
    for (unsigned i = 0; i < RACE_LINES; i += 8) {
        put(log, i, i + 8);
    }
    return NULL;
}

static void rotations_race_with_readers(void **state)
{
    struct event_log log;
    struct event_cursor c;
    struct slice line;
    pthread_t writer;
    open_log(&log, 1000, 0);
    assert_int_equal(event_cursor_init(&c, path, (struct event_position){0, 0}), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_race, &log), 0);
    for (unsigned i = 0; i < RACE_LINES;) {
        int err = event_cursor_next(&c, &line);
        assert_true(err == 0 || err == ERR_AGAIN);
        if (err == 0) {
            assert_int_equal(number_of(line), i);
            i++;
        }
    }
    assert_int_equal(pthread_join(writer, NULL), 0);
    assert_int_equal(c.skipped, 0);
    event_cursor_fini(&c);
    assert_int_equal(event_log_close(&log), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(positions_have_a_text),
        TEST(lines_come_across_rotations),
        TEST(a_part_of_a_line_is_not_given),
        TEST(garbage_is_passed_over),
        TEST(a_torn_end_is_ended),
        TEST(somebody_else_may_rotate),
        TEST(a_crash_in_a_rotation_keeps_order),
        TEST(what_is_gone_is_told),
        TEST(what_is_needed_stays),
        TEST(files_without_head_have_their_names),
        TEST(a_rotation_that_fails_loses_nothing),
        TEST(what_is_taken_back_comes_again),
        TEST(rotations_race_with_readers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
