/* Looking backwards through a log of several segments: the newest first, whatever the blocks'
 * bounds, and within its bounds. */
#include "base/buf.h"
#include "engine/event/event_line.h"
#include "engine/event/event_log.h"
#include "engine/event/event_search.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 30000 }; /* some 5 MB, 5 blocks */

static char folder[64];
static char path[96];

struct taken {
    unsigned numbers[EVENT_SEARCH_LINES_MAX];
    size_t count;
    unsigned blocks, blocks_max;
};

static void take(void *ctx, struct slice line)
{
    struct taken *t = ctx;
    char text[64];
    const char *at = memmem(line.data, line.len, ",\"n\":", 5);
    assert_non_null(at);
    assert_true(line.data[0] == '{' && line.data[line.len - 1] == '}');
    (void)snprintf(text, sizeof(text), "%.*s", 12, at + 5);
    t->numbers[t->count++] = (unsigned)strtoul(text, NULL, 10);
}

static bool between(void *ctx)
{
    struct taken *t = ctx;
    return t->blocks++ < t->blocks_max;
}

static int set_up(void **state)
{
    struct event_log log;
    struct buf batch;
    (void)snprintf(folder, sizeof(folder), "/tmp/test_event_search.XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "%s/log", folder);
    assert_int_equal(event_log_open(&log, path), 0);
    assert_int_equal(event_log_segment(&log, 2 << 20, 0), 0);
    for (unsigned i = 0; i < LINES;) {
        buf_init(&batch, 0);
        for (unsigned end = i + 500; i < end; i++) {
            buf_printf(&batch,
                       "{\"type\":\"%s\",\"id\":\"%u\",\"tenant\":\"t%u\",\"pad\":\"%0*u\""
                       ",\"timestamp\":%u,\"n\":%u}\n",
                       i % 2 == 0 ? "Delivery" : "Bounce", i / 100, i % 3, (int)(i % 200), 0,
                       1000 + i, i);
        }
        assert_int_equal(event_log_append(&log, buf_slice(&batch)), 0);
        buf_fini(&batch);
    }
    assert_int_equal(event_log_append(&log, SLICE("{\"type\":\"Delivery\",\"id\":\"7\",\"n\":1")),
                     0); /* torn */
    return event_log_close(&log);
}

static int tear_down(void **state)
{
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

static struct event_search search(struct taken *t, const char *text, unsigned types,
                                  uint32_t lines_max, uint64_t bytes_max)
{
    struct event_search s = {.texts = {slice_of(text)},
                             .types = types,
                             .lines_max = lines_max,
                             .bytes_max = bytes_max,
                             .take = take,
                             .between = between,
                             .ctx = t};
    t->count = 0;
    t->blocks = 0;
    assert_int_equal(event_search(&s, path), 0);
    assert_int_equal(s.lines, t->count);
    return s;
}

static void all_of_one_message(void **state)
{
    struct taken t = {.blocks_max = 1000};
    for (unsigned id = 0; id < LINES / 100; id += 13) {
        char text[32];
        (void)snprintf(text, sizeof(text), "\"id\":\"%u\"", id);
        struct event_search s = search(&t, text, 0, 200, UINT64_MAX);
        assert_int_equal(t.count, 100);
        assert_true(s.is_complete);
        for (unsigned i = 0; i < 100; i++) {
            assert_int_equal(t.numbers[i], id * 100 + 99 - i);
        }
    }
    assert_true(search(&t, "\"id\":\"x\"", 0, 1, UINT64_MAX).is_complete);
    assert_int_equal(t.count, 0);
}

static void the_newest_of_a_kind(void **state)
{
    struct taken t = {.blocks_max = 1000};
    unsigned bounce = event_line_type_bit(SLICE("Bounce"));
    struct event_search s = search(&t, "\"tenant\":\"t1\"", bounce, 5, UINT64_MAX);
    assert_int_equal(t.count, 5);
    assert_false(s.is_complete);
    for (unsigned i = 0, n = LINES - 1; i < 5; n--) {
        if (n % 2 == 1 && n % 3 == 1) {
            assert_int_equal(t.numbers[i++], n);
        }
    }
}

static void bounds_are_kept(void **state)
{
    struct taken t = {.blocks_max = 1000};
    struct event_search s = search(&t, "\"id\":\"0\"", 0, 5, 1 << 20);
    assert_int_equal(t.count, 0);
    assert_false(s.is_complete);
    assert_true(s.bytes <= 2 << 20 && s.oldest > 1000 * USEC_PER_SEC);
    t.blocks_max = 2;
    s = search(&t, "\"id\":\"0\"", 0, 5, UINT64_MAX);
    assert_false(s.is_complete);
    assert_int_equal(t.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_one_message),
        cmocka_unit_test(the_newest_of_a_kind),
        cmocka_unit_test(bounds_are_kept),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
