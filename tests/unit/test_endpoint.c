/* Addresses of the load tools. */
#include "base/error.h"
#include "bench/tool/endpoint.h"
#include "tests/unit/unit.h"

#include <string.h>

static void test_lists(void **state)
{
    struct endpoint_list list = {0};
    char text[ENDPOINT_TEXT_BYTES];
    (void)state;
    assert_int_equal(endpoint_list_add(&list, "127.0.0.254-127.0.1.1:25,[::1]:2525"), 0);
    assert_int_equal(endpoint_list_add(&list, "localhost:0"), 0);
    static const char *const expected[] = {"127.0.0.254:25", "127.0.0.255:25", "127.0.1.0:25",
                                           "127.0.1.1:25",   "[::1]:2525",     "127.0.0.1:0"};
    assert_int_equal(list.count, sizeof(expected) / sizeof(expected[0]));
    for (size_t i = 0; i < list.count; i++) {
        endpoint_text(&list.items[i].address, text);
        assert_string_equal(text, expected[i]);
    }
    endpoint_list_fini(&list);
}

static void test_wrong(void **state)
{
    struct endpoint_list list = {0};
    static const char *const wrong[] = {"",
                                        "127.0.0.1",
                                        "127.0.0.1:",
                                        ":25",
                                        "127.0.0.1:65536",
                                        "127.0.0.1:x",
                                        "host.test:25",
                                        "[::g]:25",
                                        "127.0.0.2-127.0.0.1:25",
                                        "127.0.0.1-:25"};
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(endpoint_list_add(&list, wrong[i]), ERR_SYNTAX);
    }
    assert_int_equal(endpoint_list_add(&list, "10.0.0.0-10.255.255.255:25"), ERR_LIMIT);
    endpoint_list_fini(&list);
}

static bool has(const char *range, const char *address)
{
    struct endpoint_range r;
    struct endpoint_list list = {0};
    assert_int_equal(endpoint_range_read(range, &r), 0);
    assert_int_equal(endpoint_list_add(&list, address), 0);
    bool is_in = endpoint_range_has(&r, &list.items[0].address);
    endpoint_list_fini(&list);
    return is_in;
}

static void test_ranges(void **state)
{
    struct endpoint_range r;
    static const char *const wrong[] = {"",           "127.0.1",      "127.0.0.2-127.0.0.1",
                                        "127.0.0.1:", "127.0.0.1:0",  "127.0.0.1:65536",
                                        "[::1]",      "::1-::2",      "127.0.0.1-127.0.0.300",
                                        "host.test",  "[127.0.0.1]:2"};
    (void)state;
    assert_true(has("127.0.0.1", "127.0.0.1:25"));
    assert_false(has("127.0.0.1", "127.0.0.2:25"));
    assert_true(has("127.0.0.250-127.0.1.4", "127.0.1.4:25"));
    assert_true(has("127.0.0.250-127.0.1.4", "127.0.0.250:25"));
    assert_false(has("127.0.0.250-127.0.1.4", "127.0.1.5:25"));
    assert_true(has("127.0.0.1:25", "127.0.0.1:25"));
    assert_false(has("127.0.0.1:25", "127.0.0.1:26"));
    assert_true(has("::1", "[::1]:25"));
    assert_true(has("[::1]:25", "[::1]:25"));
    assert_false(has("[::1]:25", "[::1]:26"));
    assert_false(has("0.0.0.0-255.255.255.255", "[1::1]:25"));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(endpoint_range_read(wrong[i], &r), ERR_SYNTAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
