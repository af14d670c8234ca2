/* Figures of lanes by provider and source: what is counted where, also while rows are added, and that
 * their number is bounded. */
#include "engine/limit/limits_figures.h"
#include "tests/unit/limits_bed.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static uint32_t lanes(const struct limits_figure *f, enum limits_figure_lanes which)
{
    return atomic_load(&f->lanes[which]);
}

static void lanes_are_counted_as_they_are_shown(void **state)
{
    struct bed b;
    make_bed(&b);
    struct limits_figure *x = limits_figure_of(b.limits, SLICE("x"), SLICE("ip1"));
    struct limits_figure *none = limits_figure_of(b.limits, SLICE(""), SLICE("ip1"));
    struct limits_hold *h = hold(&b, 0, "ip1", "provider:x", NULL);
    struct limits_hold *other = hold(&b, 0, "ip1", "mx.test", NULL);
    assert_int_equal(lanes(x, LIMIT_LANES_OPEN), 1);
    assert_int_equal(lanes(none, LIMIT_LANES_OPEN), 1);
    limits_connected(h, b.now, b.now);
    limits_connected(h, b.now, b.now);
    assert_int_equal(atomic_load(&x->connections), 2);
    limits_disconnected(h, b.now);
    assert_int_equal(atomic_load(&x->connections), 1);
    assert_int_equal(atomic_load(&x->connects), 2);
    struct limit_refusal r = throttled(&b, REPLY_MESSAGES);
    (void)refuse(&b, h, &r);
    assert_int_equal(lanes(x, LIMIT_LANES_OPEN), 0);
    assert_int_equal(lanes(x, LIMIT_LANES_PACED), 1);
    assert_int_equal(atomic_load(&x->reactions[LIMIT_REACTED_PACE]), 1);
    r = blocked(&b, "a.example", 1);
    r.text = SLICE("[192.0.2.2] blocked using a list");
    (void)refuse(&b, h, &r);
    assert_int_equal(lanes(x, LIMIT_LANES_PACED), 0);
    assert_int_equal(lanes(x, LIMIT_LANES_CLOSED), 1);
    assert_int_equal(atomic_load(&x->reactions[LIMIT_REACTED_CLOSED]), 1);
    assert_int_equal(lanes(none, LIMIT_LANES_OPEN), 1);
    limits_release(other, b.now);
    limits_release(h, b.now); /* what it had open is gone */
    assert_int_equal(atomic_load(&x->connections), 0);
    assert_int_equal(lanes(x, LIMIT_LANES_CLOSED), 1); /* remembered */
    pass(&b, 10 * DAY);
    for (int i = 0; i < 4; i++) {
        limits_release(hold(&b, 0, "ip2", "mx2.test", NULL), b.now); /* it looks at idle ones */
    }
    assert_int_equal(lanes(x, LIMIT_LANES_CLOSED), 0);
    assert_int_equal(lanes(none, LIMIT_LANES_OPEN), 0);
    assert_int_equal(atomic_load(&x->reactions[LIMIT_REACTED_CLOSED]), 1);
    end_bed(&b);
}

static void rows_are_bounded(void **state)
{
    struct bed b;
    char name[32];
    make_bed(&b);
    struct limits_figure *first = limits_figure_of(b.limits, SLICE("p0"), SLICE("s"));
    for (unsigned i = 0; i < 3000; i++) {
        int len = snprintf(name, sizeof(name), "p%u", i);
        limits_figure_refused(limits_figure_of(b.limits, slice_make(name, (size_t)len), SLICE("s")),
                              REPLY_FULL);
    }
    assert_ptr_equal(limits_figure_of(b.limits, SLICE("p0"), SLICE("s")), first);
    assert_int_equal(atomic_load(&first->refusals[REPLY_FULL]), 1);
    unsigned rows = 0;
    uint64_t sum = 0, others = 0;
    for (const struct limits_figure *f = limits_figure_first(b.limits); f != NULL; f = f->next) {
        rows++;
        sum += atomic_load(&f->refusals[REPLY_FULL]);
        if (slice_eq(limits_figure_provider(f), SLICE("other"))) {
            others = atomic_load(&f->refusals[REPLY_FULL]);
        }
    }
    assert_int_equal(rows, LIMITS_FIGURES_MAX);
    assert_int_equal(sum, 3000);
    assert_int_equal(others, 3000 - (LIMITS_FIGURES_MAX - 1));
    end_bed(&b);
}

/* --- several threads -------------------------------------------------------------------------- */

enum { THREADS = 4, NAMES = 50, ROUNDS = 200 };

static void *count(void *arg)
{
    struct limits *l = arg;
    char name[32];
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < NAMES; i++) {
            int len = snprintf(name, sizeof(name), "p%u", i);
            limits_figure_refused(limits_figure_of(l, slice_make(name, (size_t)len), SLICE("")),
                                  REPLY_THROTTLED);
        }
    }
    return NULL;
}

static void several_threads_share_rows(void **state)
{
    struct bed b;
    pthread_t threads[THREADS];
    unsigned rows = 0;
    make_bed(&b);
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count, b.limits), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (const struct limits_figure *f = limits_figure_first(b.limits); f != NULL; f = f->next) {
        uint64_t seen = atomic_load(&f->refusals[REPLY_THROTTLED]);
        rows += seen > 0;
        assert_true(seen == 0 || seen == (uint64_t)THREADS * ROUNDS);
    }
    assert_int_equal(rows, NAMES);
    end_bed(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_are_counted_as_they_are_shown),
        cmocka_unit_test(rows_are_bounded),
        cmocka_unit_test(several_threads_share_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
