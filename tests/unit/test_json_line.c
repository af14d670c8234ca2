/* JSON text: whatever goes in, what comes out is valid and harmless. */
#include "engine/json_line.h"
#include "tests/unit/unit.h"

#include <jansson.h>
#include <string.h>

static void check(struct slice in, const char *expected)
{
    struct buf out;
    buf_init(&out, 0);
    json_line_string(&out, in);
    assert_int_equal(out.len, strlen(expected));
    assert_memory_equal(out.data, expected, out.len);
    buf_fini(&out);
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
    struct buf out;
    buf_init(&out, 0);
    for (unsigned pair = 0; pair < 65536; pair++) {
        const char in[2] = {(char)(pair >> 8), (char)pair};
        buf_clear(&out);
        json_line_string(&out, slice_make(in, 2));
        json_t *value = json_loadb(out.data, out.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        if (value == NULL) {
            fail_msg("%04x", pair);
        }
        if (pair >> 8 < 0x80 && (pair & 255) < 0x80) {
            assert_int_equal(json_string_length(value), 2);
            assert_memory_equal(json_string_value(value), in, 2);
        }
        json_decref(value);
    }
    buf_fini(&out);
}

static void numbers_are_whole(void **state)
{
    struct buf out;
    buf_init(&out, 0);
    json_line_unsigned(&out, 0);
    buf_append_char(&out, ' ');
    json_line_unsigned(&out, UINT64_MAX);
    buf_append_char(&out, ' ');
    json_line_signed(&out, INT64_MIN);
    buf_append_char(&out, ' ');
    json_line_signed(&out, 7);
    buf_append_char(&out, '\0');
    assert_string_equal(out.data, "0 18446744073709551615 -9223372036854775808 7");
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(bad_utf8_is_replaced),
        cmocka_unit_test(a_parser_takes_everything),
        cmocka_unit_test(numbers_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
