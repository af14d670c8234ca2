/* The text format of metrics, byte for byte. */
#include "engine/tally/exposition.h"
#include "tests/unit/unit.h"

static struct buf out;

static int set_up(void **state)
{
    buf_init(&out, 0);
    return 0;
}

static int tear_down(void **state)
{
    buf_fini(&out);
    return 0;
}

static void check(const char *expected)
{
    if (!slice_eq(buf_slice(&out), slice_of(expected))) {
        print_error("gave\n%.*s\nexpected\n%s\n", (int)out.len, out.data, expected);
        fail();
    }
}

static void a_family_has_help_and_type(void **state)
{
    exposition_family(&out, "x_total", EXPOSITION_COUNTER, "What it is.");
    exposition_sample(&out, "x_total", NULL, 3);
    exposition_family(&out, "y", EXPOSITION_GAUGE, "Another.");
    exposition_sample(&out, "y", NULL, 0.25);
    exposition_sample(&out, "y", NULL, -1);
    exposition_sample(&out, "y", NULL, 123456789012345.0);
    exposition_sample(&out, "y", NULL, 1e300);
    check("# HELP x_total What it is.\n# TYPE x_total counter\nx_total 3\n"
          "# HELP y Another.\n# TYPE y gauge\ny 0.25\ny -1\ny 123456789012345\ny 1e+300\n");
}

static void labels_are_escaped(void **state)
{
    struct exposition_labels l = {{{"a", SLICE("q\"b\\n\nl")}, {"b", SLICE("")}}};
    exposition_sample(&out, "x", &l, 1);
    l.items[1].name = NULL;
    l.items[0].value = SLICE("\xc3\xbc \x01 \xff \xed\xa0\x80 \xf0\x9f\x93\xa7 \xe2\x82");
    exposition_sample(&out, "x", &l, 1);
    check("x{a=\"q\\\"b\\\\n\\nl\",b=\"\"} 1\n"
          "x{a=\"\xc3\xbc ? ? ??? \xf0\x9f\x93\xa7 ??\"} 1\n");
}

static void a_histogram_is_cumulative(void **state)
{
    const struct exposition_labels l = {{{"t", SLICE("smtp")}}};
    const double bounds[] = {0.001, 5, 604800};
    const uint64_t buckets[] = {2, 0, 1, 4};
    exposition_histogram(&out, "h", &l, &(struct exposition_buckets){bounds, 3, buckets, 17.5});
    check("h_bucket{t=\"smtp\",le=\"0.001\"} 2\nh_bucket{t=\"smtp\",le=\"5\"} 2\n"
          "h_bucket{t=\"smtp\",le=\"604800\"} 3\nh_bucket{t=\"smtp\",le=\"+Inf\"} 7\n"
          "h_sum{t=\"smtp\"} 17.5\nh_count{t=\"smtp\"} 7\n");
    buf_clear(&out);
    exposition_histogram(&out, "h", NULL, &(struct exposition_buckets){bounds, 1, buckets, 0});
    check("h_bucket{le=\"0.001\"} 2\nh_bucket{le=\"+Inf\"} 2\nh_sum 0\nh_count 2\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_family_has_help_and_type, set_up, tear_down),
        cmocka_unit_test_setup_teardown(labels_are_escaped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_histogram_is_cumulative, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
