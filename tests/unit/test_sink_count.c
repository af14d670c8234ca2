/* Counters by domain, and their sum over threads. */
#include "bench/sink/sink_count.h"
#include "tests/unit/unit.h"

#include <stdio.h>

static void test_domains(void **state)
{
    struct sink_count c;
    (void)state;
    assert_int_equal(sink_count_init(&c, 1), 0);
    struct sink_tally *t = sink_count_domain(&c, SLICE("\"a@b\"@Example.TEST"));
    assert_ptr_equal(sink_count_domain(&c, SLICE("x@example.test")), t);
    assert_ptr_equal(sink_count_domain(&c, SLICE("example.test")), t);
    assert_ptr_not_equal(sink_count_domain(&c, SLICE("x@other.test")), t);
    assert_int_equal(c.domain_count, 2);
    (void)sink_count_domain(&c, SLICE("x@"));
    assert_int_equal(c.domain_count, 3);
    sink_count_fini(&c);
}

/* Each of many keeps its own numbers. */
static void test_many_domains(void **state)
{
    struct sink_count c;
    char name[40];
    const int count = STRESS_ROUNDS(80000);
    (void)state;
    assert_int_equal(sink_count_init(&c, 1), 0);
    for (int i = 0; i < 3 * count; i++) {
        (void)snprintf(name, sizeof(name), "x@d%d.test", i % count);
        sink_tally_message(sink_count_domain(&c, slice_of(name)), 10, 1, i % count);
    }
    assert_int_equal(c.domain_count, count);
    for (int i = 0; i < count; i++) {
        const struct sink_domain *d = c.domains[i];
        (void)snprintf(name, sizeof(name), "d%d.test", i);
        assert_true(slice_eq(slice_make(d->name, d->name_len), slice_of(name)));
        assert_int_equal(d->tally.messages, 3);
        assert_int_equal(d->tally.latency.max, i);
    }
    sink_count_fini(&c);
}

static void test_merge(void **state)
{
    struct sink_count sum;
    struct sink_count parts[2];
    (void)state;
    assert_int_equal(sink_count_init(&sum, 2), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sink_count_init(&parts[i], 2), 0);
        sink_tally_message(&parts[i].listeners[i].tally, 100, 50 - i, 1000);
        sink_tally_message(sink_count_domain(&parts[i], SLICE("a@d1.test")), 100, 50 - i, -1);
        parts[i].listeners[1].connections = 3;
        parts[i].listeners[1].tally.recipients = 4;
        sink_count_merge(&sum, &parts[i]);
        sink_count_fini(&parts[i]);
    }
    const struct sink_tally *domain = sink_count_domain(&sum, SLICE("d1.test"));
    assert_int_equal(sum.total.messages, 2);
    assert_int_equal(sum.total.bytes, 200);
    assert_int_equal(sum.total.first, 49);
    assert_int_equal(sum.total.last, 50);
    assert_int_equal(sum.total.latency.count, 2);
    assert_int_equal(domain->messages, 2);
    assert_int_equal(domain->latency.count, 0);
    assert_int_equal(sum.listeners[1].connections, 6);
    assert_int_equal(sum.listeners[1].tally.recipients, 8);
    sink_count_fini(&sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_domains),
        cmocka_unit_test(test_many_domains),
        cmocka_unit_test(test_merge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
