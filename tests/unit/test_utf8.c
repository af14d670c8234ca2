/* UTF-8: every character there is, and every kind of bytes that are none. */
#include "base/utf8.h"
#include "tests/unit/unit.h"

#include <stdbool.h>

/* RFC 3629 section 3, written the other way round than the code under test. */
static size_t encode(uint32_t c, char ret[static UTF8_LENGTH_MAX])
{
    if (c < 0x80) {
        ret[0] = (char)c;
        return 1;
    }
    size_t len = 2 + (size_t)(c >= 0x800) + (size_t)(c >= 0x10000);
    for (size_t i = len - 1; i > 0; i--) {
        ret[i] = (char)(0x80 | (c & 0x3f));
        c >>= 6;
    }
    ret[0] = (char)(0xf00 >> len | c);
    return len;
}

static void every_character_is_known(void **state)
{
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        char text[UTF8_LENGTH_MAX];
        size_t len = encode(c, text);
        bool is_surrogate = c >= 0xd800 && c <= 0xdfff;
        uint32_t found = 0xffffffff;
        assert_int_equal(utf8_decode(slice_make(text, len), &found), is_surrogate ? 0 : len);
        assert_int_equal(found, is_surrogate ? 0xffffffff : c);
        for (size_t cut = 0; cut < len; cut++) {
            assert_int_equal(utf8_length(slice_make(text, cut)), 0);
        }
    }
}

static void what_is_no_character_is_refused(void **state)
{
    static const char *const bad[] = {
        "\x80",             /* a continuation alone */
        "\xc0\x80",         /* NUL, too long */
        "\xc1\xbf",         /* DEL, too long */
        "\xe0\x9f\xbf",     /* U+07FF, too long */
        "\xf0\x8f\xbf\xbf", /* U+FFFF, too long */
        "\xf4\x90\x80\x80", /* U+110000 */
        "\xf5\x80\x80\x80",
        "\xff",
        "\xc3(",
        "\xe2\x82(",
        "\xf0\x9f\x98(",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint32_t found = 7;
        assert_int_equal(utf8_length(slice_of(bad[i])), 0);
        assert_int_equal(utf8_decode(slice_of(bad[i]), &found), 0);
        assert_int_equal(found, 7);
    }
}

static void only_the_first_character_is_looked_at(void **state)
{
    assert_int_equal(utf8_length(SLICE("a\xff")), 1);
    assert_int_equal(utf8_length(SLICE("\xc3\xa4\xff")), 2);
    assert_int_equal(utf8_length(SLICE("")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_character_is_known),
        cmocka_unit_test(what_is_no_character_is_refused),
        cmocka_unit_test(only_the_first_character_is_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
