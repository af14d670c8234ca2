/* Addresses of the load tools. */
#include "base/error.h"
#include "bench/endpoint.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
