#include "net/smtp_text.h"
#include "tests/unit/unit.h"

#include <string.h>

#define LEN_MAX 43 /* blocks and a rest */

static size_t naive_span(struct slice s, bool *ret_8bit)
{
    size_t at = 0;
    *ret_8bit = false;
    while (at < s.len && memchr("\r\n", s.data[at], 3) == NULL) {
        *ret_8bit = *ret_8bit || (unsigned char)s.data[at] > 127;
        at++;
    }
    return at;
}

static size_t naive_printable(struct slice s)
{
    size_t at = 0;
    while (at < s.len && (unsigned char)s.data[at] >= 0x20 && (unsigned char)s.data[at] <= 0x7e) {
        at++;
    }
    return at;
}

static void assert_as_naive(struct slice s)
{
    bool has_8bit, naive_8bit;
    assert_int_equal(smtp_text_span(s, &has_8bit), naive_span(s, &naive_8bit));
    assert_int_equal(has_8bit, naive_8bit);
    assert_int_equal(smtp_text_printable(s), naive_printable(s));
}

static void finds_every_byte_at_every_place(void **state)
{
    char text[LEN_MAX];
    for (size_t len = 0; len <= LEN_MAX; len++) {
        memset(text, 'x', sizeof(text));
        assert_as_naive(slice_make(text, len));
        for (size_t at = 0; at < len; at++) {
            for (int c = 0; c < 256; c++) {
                text[at] = (char)c;
                assert_as_naive(slice_make(text, len));
            }
            text[at] = 'x';
        }
    }
}

/* What is borrowed or carried over by one byte must not hide or make up another. */
static void bytes_do_not_disturb_each_other(void **state)
{
    static const unsigned char values[] = {0x00, 0x01, 0x09, 0x0a, 0x0d, 0x0e, 0x1f,
                                           0x20, 0x7e, 0x7f, 0x80, 0x8d, 0xff};
    const size_t count = sizeof(values);
    char text[19] = "abcdefghijklmnopqrs";
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < count; k++) {
            for (size_t m = 0; m < count; m++) {
                for (size_t at = 0; at + 3 <= sizeof(text); at++) {
                    char set[sizeof(text)];
                    memcpy(set, text, sizeof(text));
                    set[at] = (char)values[i];
                    set[at + 1] = (char)values[k];
                    set[at + 2] = (char)values[m];
                    assert_as_naive(slice_make(set, sizeof(set)));
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_every_byte_at_every_place),
        cmocka_unit_test(bytes_do_not_disturb_each_other),
    };
    return cmocka_run_group_tests_name("smtp_text", tests, NULL, NULL);
}
