/* Subscribers of the feed, with its thread: each line at least once and in order, over callbacks
 * that fail and over restarts. Consumers that plans bring, change and take away, while others look.
 * What webhooks and CSV files do with lines is the matter of the integration tests. */
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
    atomic_store(&settings.references, 1000000); /* of this test, which never frees them */
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

/* All references of settings have been given back. Consumers that a plan took away give theirs back
 * after a grace period. */
static void wait_until_unused(const struct settings *s)
{
    for (int i = 0; i < 20000 && atomic_load(&s->references) != 1000000; i++) {
        rcu_pass();
        (void)poll(NULL, 0, 1);
    }
    assert_int_equal(atomic_load(&s->references), 1000000);
}

static void end(struct event_feed *f)
{
    event_feed_stop(f);
    event_feed_free(f);
    wait_until_unused(&settings);
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
    wait_until_unused(&settings);
}

/* --- plans ------------------------------------------------------------------------------------ */

/* The CSV files of this test's configuration; their rows have the number of the Delivery. */
static void want(struct event_feed *f, struct settings *s, struct config *c,
                 struct config_csv *csvs, size_t count)
{
    struct feed_plan *plan = NULL;
    *c = config;
    c->csvs = csvs;
    c->csv_count = count;
    s->config = c;
    atomic_store(&s->references, 1000000); /* likewise */
    assert_int_equal(event_feed_plan(f, s, &plan), 0);
    rcu_publish(&engine.settings, s);
    event_feed_follow(f, plan);
}

struct seen {
    unsigned csvs;
    uint64_t events;
};

static void count_csvs(void *ctx, const struct event_feed_report *r)
{
    struct seen *seen = ctx;
    if (strcmp(r->kind, "csv") == 0) {
        seen->csvs++;
        seen->events = r->events;
    }
}

static struct seen look(struct event_feed *f)
{
    struct seen seen = {0, 0};
    event_feed_look(f, count_csvs, &seen);
    rcu_pass(); /* what was looked at may go */
    return seen;
}

static void wait_for_csvs(struct event_feed *f, unsigned count, uint64_t events)
{
    struct seen seen = look(f);
    for (int i = 0; i < 20000 && (seen.csvs != count || (count > 0 && seen.events != events));
         i++) {
        (void)poll(NULL, 0, 1);
        seen = look(f);
    }
    assert_int_equal(seen.csvs, count);
    assert_int_equal(seen.events, events);
}

static void plans_bring_change_and_take_away(void **state)
{
    static struct settings s[6];
    static struct config c[6];
    static struct taken t;
    char first[128], second[128];
    (void)snprintf(first, sizeof(first), "%s/first", folder);
    (void)snprintf(second, sizeof(second), "%s/second", folder);
    struct config_csv one = {.path = first}, other = {.path = first, .rotate_size = 65536},
                      both[] = {{.path = second}, {.path = first, .rotate_size = 65536}};
    struct event_feed *f = begin();
    assert_int_equal(event_feed_subscribe(f, "one", take, &t), 0);
    atomic_store(&t.count, 0);
    assert_int_equal(event_feed_start(f), 0);
    put(0, 10);
    want(f, &s[0], &c[0], &one, 1);
    put(10, 20);
    wait_for_csvs(f, 1, 10); /* what was there before is not its */
    /* By other options it goes on with its figures. */
    want(f, &s[1], &c[1], &other, 1);
    want(f, &s[2], &c[2], both, 2);
    put(20, 30);
    wait_for(&t, 30);
    wait_for_csvs(f, 2, 20); /* the one that was put in front last is looked at last */
    want(f, &s[3], &c[3], NULL, 0);
    put(30, 40);
    wait_for_csvs(f, 0, 0);
    wait_for(&t, 40);
    check(&t, 0, 0, 40);
    /* It comes back where it was. */
    want(f, &s[4], &c[4], &one, 1);
    wait_for_csvs(f, 1, 10);
    want(f, &s[5], &c[5], NULL, 0); /* perhaps not taken when the end comes */
    end(f);
    for (int i = 0; i < 6; i++) {
        wait_until_unused(&s[i]);
    }
}

static void a_plan_that_was_not_taken_goes_with_the_feed(void **state)
{
    static struct settings s;
    static struct config c;
    struct event_feed *f = begin();
    want(f, &s, &c, NULL, 0);
    event_feed_free(f);
    wait_until_unused(&s);
    wait_until_unused(&settings);
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
        TEST(every_line_comes_in_order),        TEST(a_restart_goes_on),
        TEST(a_log_that_lost_its_end_goes_on),  TEST(what_is_refused_comes_again),
        TEST(reports_say_how_far_behind),       TEST(names_are_checked),
        TEST(plans_bring_change_and_take_away), TEST(a_plan_that_was_not_taken_goes_with_the_feed),
    };
    return cmocka_run_group_tests(tests, join, leave);
}
