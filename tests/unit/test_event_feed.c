/* Subscribers of the feed, with its thread: each line at least once and in order, over callbacks
 * that fail and over restarts. Webhooks and CSV files are the matter of the integration tests. */
#include "base/error.h"
#include "base/rcu.h"
#include "engine/config/config.h"
#include "engine/event/event_log.h"
#include "engine/feed/event_feed.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINES_MAX = 4096 };

static char folder[64];
static char path[96];
static struct config config;
static struct settings settings;
static struct engine engine;
static struct event_log event_log;

/* What a subscriber got: numbers of lines; the feed thread writes, the test reads behind `count`.
 */
struct taken {
    unsigned numbers[LINES_MAX];
    _Atomic unsigned count;
    _Atomic int refusals; /* calls to refuse yet */
};

static int take(void *ctx, struct slice line)
{
    struct taken *t = ctx;
    char text[64];
    unsigned n = 0;
    if (atomic_load(&t->refusals) > 0) {
        atomic_fetch_sub(&t->refusals, 1);
        return -1;
    }
    (void)snprintf(text, sizeof(text), "%.*s", (int)line.len, line.data);
    unsigned count = atomic_load(&t->count);
    if (sscanf(text, "{\"type\":\"Delivery\",\"n\":%u}", &n) == 1 && count < LINES_MAX) {
        t->numbers[count] = n;
        atomic_store(&t->count, count + 1);
    }
    return 0;
}

static void put(unsigned from, unsigned to)
{
    struct buf batch;
    buf_init(&batch, 0);
    for (unsigned i = from; i < to; i++) {
        buf_printf(&batch, "{\"type\":\"Delivery\",\"n\":%u}\n", i);
    }
    assert_int_equal(event_log_append(&event_log, buf_slice(&batch)), 0);
    buf_fini(&batch);
}

static void wait_for(const struct taken *t, unsigned count)
{
    for (int i = 0; i < 20000 && atomic_load(&t->count) < count; i++) {
        (void)poll(NULL, 0, 1); /* what is waited for wakes nobody here */
    }
    assert_int_equal(atomic_load(&t->count), count);
}

static void check(const struct taken *t, unsigned at, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        assert_int_equal(t->numbers[at + i - from], i);
    }
}

static int set_up(void **state)
{
    (void)snprintf(folder, sizeof(folder), "/tmp/test_event_feed.XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "%s/log", folder);
    config.spool.path = folder;
    config.event_log_path = path;
    engine.config = &config;
    engine.events = &event_log;
    settings.config = &config;
    rcu_publish(&engine.settings, &settings);
    return event_log_open(&event_log, path) != 0 || event_log_segment(&event_log, 2000, 0) != 0;
}

static int tear_down(void **state)
{
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return event_log_close(&event_log) != 0 || system(command) != 0;
}

static struct event_feed *begin(void)
{
    struct event_feed *f = NULL;
    assert_int_equal(event_feed_new(&engine, &f), 0);
    assert_non_null(f);
    return f;
}

static void end(struct event_feed *f)
{
    event_feed_stop(f);
    event_feed_free(f);
}

static void every_line_comes_in_order(void **state)
{
    static struct taken early, late;
    struct event_feed *f = begin();
    atomic_store(&early.count, 0);
    atomic_store(&late.count, 0);
    assert_int_equal(event_feed_subscribe(f, "early", take, &early), 0);
    put(0, 10);
    assert_int_equal(event_feed_start(f), 0);
    wait_for(&early, 10);
    /* One that comes later gets what comes later. */
    assert_int_equal(event_feed_subscribe(f, "late", take, &late), 0);
    for (unsigned i = 10; i < 2000; i += 10) {
        put(i, i + 10);
    }
    wait_for(&early, 2000);
    wait_for(&late, 1990);
    check(&early, 0, 0, 2000);
    check(&late, 0, 10, 2000);
    put(2000, 2005); /* what is written before a stop is handed on */
    end(f);
    assert_int_equal(atomic_load(&early.count), 2005);
    check(&late, 1990, 2000, 2005);
}

static void a_restart_goes_on(void **state)
{
    static struct taken t;
    struct event_feed *f = begin();
    atomic_store(&t.count, 0);
    assert_int_equal(event_feed_subscribe(f, "one", take, &t), 0);
    assert_int_equal(event_feed_start(f), 0);
    put(0, 100);
    wait_for(&t, 100);
    end(f);
    put(100, 300);
    f = begin();
    assert_int_equal(event_feed_subscribe(f, "one", take, &t), 0);
    put(300, 310);
    assert_int_equal(event_feed_start(f), 0);
    wait_for(&t, 310);
    check(&t, 0, 0, 310);
    end(f);
}

/* As after a power cut: lines that were handed on are no longer in the log. */
static void a_log_that_lost_its_end_goes_on(void **state)
{
    static struct taken t;
    struct event_feed *f = begin();
    atomic_store(&t.count, 0);
    assert_int_equal(event_feed_subscribe(f, "one", take, &t), 0);
    assert_int_equal(event_feed_start(f), 0);
    put(0, 5);
    uint64_t kept = event_log.size;
    put(5, 10);
    wait_for(&t, 10);
    end(f);
    assert_int_equal(event_log_close(&event_log), 0);
    assert_int_equal(truncate(path, (off_t)kept), 0);
    assert_int_equal(event_log_open(&event_log, path), 0);
    assert_int_equal(event_log_segment(&event_log, 0, 0), 0);
    f = begin();
    assert_int_equal(event_feed_subscribe(f, "one", take, &t), 0);
    put(20, 60);
    assert_int_equal(event_feed_start(f), 0);
    wait_for(&t, 50);
    check(&t, 10, 20, 60);
    end(f);
}

static void what_is_refused_comes_again(void **state)
{
    static struct taken t;
    struct event_feed *f = begin();
    atomic_store(&t.count, 0);
    atomic_store(&t.refusals, 1);
    assert_int_equal(event_feed_subscribe(f, "one", take, &t), 0);
    put(0, 50);
    assert_int_equal(event_feed_start(f), 0);
    wait_for(&t, 50);
    check(&t, 0, 0, 50);
    assert_int_equal(atomic_load(&t.refusals), 0);
    end(f);
}

static void see(void *ctx, const struct event_feed_report *r)
{
    struct event_feed_report *copy = ctx;
    *copy = *r;
    assert_string_equal(r->kind, "subscriber");
    assert_string_equal(r->title, "one");
}

static void reports_say_how_far_behind(void **state)
{
    static struct taken t;
    struct event_feed_report r = {.kind = NULL};
    struct event_feed *f = begin();
    event_feed_look(f, see, &r);
    assert_null(r.kind);
    event_feed_look(NULL, see, &r);
    assert_null(r.kind);
    atomic_store(&t.count, 0);
    atomic_store(&t.refusals, 1000000);
    assert_int_equal(event_feed_subscribe(f, "one", take, &t), 0);
    put(0, 50);
    event_feed_look(f, see, &r);
    assert_true(r.behind_bytes > 50 * 20);
    assert_int_equal(event_feed_start(f), 0);
    while (r.failures == 0) {
        (void)poll(NULL, 0, 1);
        event_feed_look(f, see, &r);
    }
    assert_true(r.failing_since > 0 && r.why[0] != '\0');
    assert_int_equal(r.events, 0);
    end(f);
}

static void names_are_checked(void **state)
{
    static struct taken t;
    static const char *const wrong[] = {"", "a/b", "..", ".a", "a b", "\xc3\xa4"};
    struct event_feed *f = begin();
    assert_int_equal(event_feed_subscribe(NULL, "one", take, &t), ERR_MISSING);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(event_feed_subscribe(f, wrong[i], take, &t), -EINVAL);
    }
    assert_int_equal(event_feed_subscribe(f, "one", take, &t), 0);
    assert_int_equal(event_feed_subscribe(f, "one", take, &t), -EEXIST);
    event_feed_free(f);
}

static int join(void **state)
{
    rcu_start();
    rcu_join();
    return 0;
}

static int leave(void **state)
{
    rcu_leave();
    rcu_stop();
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_line_comes_in_order),       TEST(a_restart_goes_on),
        TEST(a_log_that_lost_its_end_goes_on), TEST(what_is_refused_comes_again),
        TEST(reports_say_how_far_behind),      TEST(names_are_checked),
    };
    return cmocka_run_group_tests(tests, join, leave);
}
