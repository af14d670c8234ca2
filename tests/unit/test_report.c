/* JSON of the load tools. */
#include "bench/tool/report.h"
#include "tests/unit/unit.h"

#include <jansson.h>

static void test_strings(void **state)
{
    struct buf out;
    (void)state;
    buf_init(&out, 0);
    report_string(&out,
                  SLICE("a\"b\\c\n\x01 \xc3\xa9 \xff \xc3 \xed\xa0\x80 \xf0\x9f\x93\xa7 \x7f"));
    assert_true(slice_eq(buf_slice(&out),
                         SLICE("\"a\\\"b\\\\c\\u000a\\u0001 \xc3\xa9 \xef\xbf\xbd \xef\xbf\xbd "
                               "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd \xf0\x9f\x93\xa7 \x7f\"")));
    buf_fini(&out);
}

static void test_latency_is_json(void **state)
{
    struct histogram h = {0};
    struct buf out;
    json_error_t error;
    (void)state;
    buf_init(&out, 0);
    for (uint64_t i = 1; i <= 100; i++) {
        histogram_add(&h, i * 1000);
    }
    buf_append_char(&out, '{');
    report_seconds(&out, "span", 1500000);
    buf_append_str(&out, ", ");
    report_latency(&out, &h);
    buf_append_char(&out, '}');
    json_t *read = json_loadb(out.data, out.len, 0, &error);
    assert_non_null(read);
    const json_t *latency = json_object_get(read, "latency");
    assert_int_equal(json_integer_value(json_object_get(latency, "count")), 100);
    assert_true(json_real_value(json_object_get(latency, "p50")) >= 0.05);
    assert_true(json_real_value(json_object_get(latency, "max")) == 0.1);
    assert_true(json_real_value(json_object_get(read, "span")) == 1.5);
    json_decref(read);
    buf_fini(&out);
}

static void test_quantiles_are_json(void **state)
{
    static const char *const names[] = {"p50", "p90", "p99", "p999", "max"};
    static const double least[] = {0.5, 0.9, 0.99, 0.999, 1};
    struct histogram h = {0};
    struct buf out;
    json_error_t error;
    (void)state;
    buf_init(&out, 0);
    for (uint64_t i = 1; i <= 1000; i++) {
        histogram_add(&h, i * 1000);
    }
    buf_append_char(&out, '{');
    report_quantiles(&out, "answer", &h);
    buf_append_char(&out, '}');
    json_t *read = json_loadb(out.data, out.len, 0, &error);
    assert_non_null(read);
    const json_t *answer = json_object_get(read, "answer");
    assert_int_equal(json_integer_value(json_object_get(answer, "count")), 1000);
    for (size_t i = 0; i < 5; i++) { /* at most 1/32 above */
        double value = json_real_value(json_object_get(answer, names[i]));
        assert_true(value >= least[i] && value <= least[i] * 33 / 32);
    }
    json_decref(read);
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_latency_is_json),
        cmocka_unit_test(test_quantiles_are_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
