/* JSON text: whatever goes in, what comes out is valid and harmless. */
#include "base/json_line.h"
#include "tests/unit/unit.h"

#include <jansson.h>
#include <string.h>

static void check(struct slice in, const char *expected)
{
    char out[512];
    assert_true(json_line_string_max(in.len) <= sizeof(out));
    size_t len = (size_t)(json_line_string(out, in) - out);
    assert_int_equal(len, strlen(expected));
    assert_memory_equal(out, expected, len);
    assert_true(len <= json_line_string_max(in.len));
}

static void strings_are_escaped(void **state)
{
    check(SLICE(""), "\"\"");
    check(SLICE("plain text"), "\"plain text\"");
    check(SLICE("\"a\\b\"\r\n\t"), "\"\\\"a\\\\b\\\"\\r\\n\\t\"");
    check(SLICE("\0\x1b[0m\x7f"), "\"\\u0000\\u001b[0m\\u007f\"");
    check(SLICE("\xc2\x9b\xc2\xa0"), "\"\\u009b\xc2\xa0\"");
    check(SLICE("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x93\xa7"),
          "\"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x93\xa7\"");
}

#define REPLACED "\xef\xbf\xbd"

static void bad_utf8_is_replaced(void **state)
{
    check(SLICE("a\xff"
                "b"),
          "\"a" REPLACED "b\"");
    check(SLICE("\xc0\x80"), "\"" REPLACED REPLACED "\"");
    check(SLICE("\xe0\x9f\xbf"), "\"" REPLACED REPLACED REPLACED "\"");
    check(SLICE("\xed\xa0\x80"), "\"" REPLACED REPLACED REPLACED "\"");
    check(SLICE("\xf4\x90\x80\x80"), "\"" REPLACED REPLACED REPLACED REPLACED "\"");
    check(SLICE("\xe2\x82"), "\"" REPLACED REPLACED "\"");
    check(SLICE("\xc3"), "\"" REPLACED "\"");
}

/* Every string of two bytes: a parser that nobody here wrote takes all of them. */
static void a_parser_takes_everything(void **state)
{
    char out[6 * 2 + 2];
    for (unsigned pair = 0; pair < 65536; pair++) {
        const char in[2] = {(char)(pair >> 8), (char)pair};
        size_t len = (size_t)(json_line_string(out, slice_make(in, 2)) - out);
        json_t *value = json_loadb(out, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        if (value == NULL) {
            fail_msg("%04x", pair);
        }
        if (pair >> 8 < 0x80 && (pair & 255) < 0x80) {
            assert_int_equal(json_string_length(value), 2);
            assert_memory_equal(json_string_value(value), in, 2);
        }
        json_decref(value);
    }
}

/* Plain bytes go eight at a time: every byte at every place of the eight, and behind each other. */
static void every_place_of_eight_is_looked_at(void **state)
{
    for (unsigned c = 0; c < 256; c++) {
        const char one[1] = {(char)c};
        char alone[8], out[256], expected[256];
        size_t alone_len = (size_t)(json_line_string(alone, slice_make(one, 1)) - alone) - 2;
        for (size_t place = 0; place < 20; place++) {
            char in[20];
            memset(in, 'x', sizeof(in));
            in[place] = (char)c;
            memset(expected, 'x', sizeof(expected));
            expected[0] = '"';
            memcpy(expected + 1 + place, alone + 1, alone_len);
            expected[sizeof(in) + alone_len] = '"';
            size_t len = (size_t)(json_line_string(out, slice_make(in, sizeof(in))) - out);
            assert_int_equal(len, sizeof(in) - 1 + alone_len + 2);
            assert_memory_equal(out, expected, len);
        }
    }
    check(SLICE("\"\"\"\"\"\"\"\"\"#!]["), "\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"#!][\"");
}

static void check_unsigned(uint64_t value, const char *expected)
{
    char out[JSON_LINE_NUMBER_MAX + 1];
    *json_line_unsigned(out, value) = '\0';
    assert_string_equal(out, expected);
}

static void check_signed(int64_t value, const char *expected)
{
    char out[JSON_LINE_NUMBER_MAX + 1];
    *json_line_signed(out, value) = '\0';
    assert_string_equal(out, expected);
}

static void numbers_are_whole(void **state)
{
    check_unsigned(0, "0");
    check_unsigned(UINT64_MAX, "18446744073709551615");
    check_signed(INT64_MIN, "-9223372036854775808");
    check_signed(7, "7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(bad_utf8_is_replaced),
        cmocka_unit_test(a_parser_takes_everything),
        cmocka_unit_test(every_place_of_eight_is_looked_at),
        cmocka_unit_test(numbers_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
