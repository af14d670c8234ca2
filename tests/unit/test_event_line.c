/* What is seen of a line without parsing it. */
#include "engine/event/event_line.h"
#include "tests/unit/unit.h"

#include <string.h>

static void whole_lines(void **state)
{
    static const char *const whole[] = {
        "{}", "{\"a\":1}", "{\"a\":{\"b\":{}}}", "{\"a\":\"}{\\\"\"}", "{\"a\":\"\\\\\"}",
    };
    static const char *const torn[] = {
        "",           "{",   "}",           "{\"a\":1",       "{\"a\":{}", "{\"a\":1}x",
        "{\"a\":1}}", "x{}", "{\"a\":\"b}", "{\"a\":\"\\\"}", "{\t}",      "{\"a\\",
    };
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
        assert_true(event_line_is_whole(slice_of(whole[i])));
    }
    for (size_t i = 0; i < sizeof(torn) / sizeof(torn[0]); i++) {
        assert_false(event_line_is_whole(slice_of(torn[i])));
    }
}

static void types(void **state)
{
    assert_true(
        slice_eq(event_line_type(SLICE("{\"type\":\"Bounce\",\"id\":1}")), SLICE("Bounce")));
    assert_int_equal(event_line_type(SLICE("{\"id\":1,\"type\":\"Bounce\"}")).len, 0);
    assert_int_equal(event_line_type(SLICE("{\"type\":\"Boun")).len, 0);
    unsigned all = 0;
    static const char *const names[] = {
        "Reception",          "Delivery",  "TransientFailure", "Bounce",     "Expiration",
        "AdminBounce",        "AdminDrop", "Reaction",         "Suppressed", "SuppressionAdded",
        "SuppressionRemoved", "OOB",       "Feedback",         "AutoReply"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        unsigned bit = event_line_type_bit(slice_of(names[i]));
        assert_true(bit != 0 && (all & bit) == 0);
        all |= bit;
    }
    assert_int_equal(event_line_type_bit(SLICE("Segment")), 0);
    assert_int_equal(event_line_type_bit(SLICE("bounce")), 0);
    assert_int_equal(event_line_type_bit(SLICE("")), 0);
}

static void times(void **state)
{
    assert_int_equal(event_line_time(SLICE("{\"type\":\"x\",\"timestamp\":12,\"a\":1}")),
                     12 * USEC_PER_SEC);
    assert_int_equal(event_line_time(SLICE("{\"a\":\",\\\"timestamp\\\":5\",\"timestamp\":7}")),
                     7 * USEC_PER_SEC);
    assert_int_equal(event_line_time(SLICE("{\"type\":\"x\"}")), 0);
    assert_int_equal(event_line_time(SLICE("{\"a\":1,\"timestamp\":")), 0);
    assert_int_equal(event_line_time(SLICE("{\"a\":1,\"timestamp\":999999999999999999999}")), 0);
}

static void heads(void **state)
{
    char head[EVENT_LINE_HEAD_MAX];
    uint64_t number = 0;
    size_t len = event_line_head(999999999999999999, INT64_MAX, head);
    assert_true(len < sizeof(head) && head[len - 1] == '\n');
    assert_true(event_line_is_whole(slice_make(head, len - 1)));
    assert_true(event_line_head_number(slice_make(head, len), &number));
    assert_int_equal(number, 999999999999999999);
    assert_false(event_line_head_number(SLICE("{\"type\":\"Segment\",\"number\":"), &number));
    assert_false(event_line_head_number(SLICE("{\"type\":\"Segment\",\"number\":1"), &number));
    assert_false(event_line_head_number(SLICE("{\"type\":\"Segment\",\"number\":,"), &number));
    assert_false(event_line_head_number(SLICE("{\"type\":\"Delivery\",\"number\":1}"), &number));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_lines),
        cmocka_unit_test(types),
        cmocka_unit_test(times),
        cmocka_unit_test(heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
