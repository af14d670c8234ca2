/* The picture of a run: what happened in which interval, with holes. */
#include "bench/tool/timeline.h"
#include "tests/unit/unit.h"

#define SECOND USEC_PER_SEC

static void check(const struct timeline *t, uint32_t index, size_t *cursor,
                  const struct timeline_point *expected)
{
    struct timeline_point p;
    timeline_read(t, index, cursor, &p);
    assert_int_equal(p.index, index);
    assert_int_equal(p.messages, expected->messages);
    assert_int_equal(p.deferred, expected->deferred);
    assert_int_equal(p.open_max, expected->open_max);
    assert_int_equal(p.p50, expected->p50);
    assert_int_equal(p.p99, expected->p99);
}

static void test_intervals(void **state)
{
    struct timeline t;
    const usec_t start = 1000 * SECOND;
    static const struct timeline_point expected[] = {
        {.messages = 2, .open_max = 3, .p50 = 100, .p99 = 300},
        {.messages = 1, .open_max = 2, .p50 = -1, .p99 = -1},
        {.open_max = 2, .p50 = -1, .p99 = -1}, /* nothing but open connections */
        {.open_max = 2, .p50 = -1, .p99 = -1},
        {.messages = 1, .deferred = 1, .open_max = 2, .p50 = 7000, .p99 = 7000},
        {.open_max = 0, .p50 = -1, .p99 = -1}, /* behind everything */
    };
    (void)state;
    timeline_init(&t, start, SECOND);
    timeline_open(&t, start + 1, 1);
    timeline_open(&t, start + 2, 3);
    timeline_open(&t, start + 3, 2);
    timeline_message(&t, start + 4, 100);
    timeline_message(&t, start + SECOND - 1, 300);
    timeline_message(&t, start + SECOND, -1);
    timeline_message(&t, start + 4 * SECOND, 7000);
    timeline_deferred(&t, start + 4 * SECOND);
    timeline_open(&t, start + 5 * SECOND - 1, 0);
    size_t cursor = 0;
    for (uint32_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        const struct timeline_point *e = &expected[i];
        struct timeline_point p;
        timeline_read(&t, i, &cursor, &p);
        if (e->p50 > 0) { /* within the precision of the buckets */
            assert_true(p.p50 >= e->p50 && p.p50 <= e->p50 + e->p50 / 32 + 1);
            assert_true(p.p99 >= e->p99 && p.p99 <= e->p99 + e->p99 / 32 + 1);
            p.p50 = e->p50;
            p.p99 = e->p99;
        }
        assert_int_equal(p.messages, e->messages);
        assert_int_equal(p.deferred, e->deferred);
        assert_int_equal(p.open_max, e->open_max);
        assert_int_equal(p.p50, e->p50);
        assert_int_equal(p.p99, e->p99);
    }
    timeline_fini(&t);
}

/* Threads may be late, and clocks may start behind. */
static void test_late_ones_count_for_the_current_interval(void **state)
{
    struct timeline t;
    size_t cursor = 0;
    const struct timeline_point none = {.p50 = -1, .p99 = -1};
    const struct timeline_point two = {.messages = 2, .p50 = -1, .p99 = -1};
    (void)state;
    timeline_init(&t, 10 * SECOND, SECOND);
    timeline_message(&t, 12 * SECOND, -1);
    timeline_message(&t, 5 * SECOND, -1);
    check(&t, 0, &cursor, &none);
    check(&t, 1, &cursor, &none);
    check(&t, 2, &cursor, &two);
    check(&t, 3, &cursor, &none);
    timeline_fini(&t);
}

/* An hour of nothing takes no memory. */
static void test_quiet_intervals_are_not_kept(void **state)
{
    struct timeline t;
    (void)state;
    timeline_init(&t, 0, SECOND);
    timeline_open(&t, 0, 5);
    for (usec_t now = 0; now < 3600 * SECOND; now += SECOND) {
        timeline_advance(&t, now);
    }
    timeline_message(&t, 3600 * SECOND, 10);
    timeline_advance(&t, 3601 * SECOND);
    assert_int_equal(t.count, 2);
    size_t cursor = 0;
    const struct timeline_point open = {.open_max = 5, .p50 = -1, .p99 = -1};
    const struct timeline_point busy = {.messages = 1, .open_max = 5, .p50 = 10, .p99 = 10};
    for (uint32_t i = 0; i < 3600; i++) {
        check(&t, i, &cursor, &open);
    }
    check(&t, 3600, &cursor, &busy);
    check(&t, 3601, &cursor, &open);
    timeline_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_intervals),
        cmocka_unit_test(test_late_ones_count_for_the_current_interval),
        cmocka_unit_test(test_quiet_intervals_are_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
