#include "base/error.h"
#include "net/base64.h"
#include "tests/unit/unit.h"

#include <string.h>

static int decode(const char *text, char *out, size_t size, size_t *len)
{
    return base64_decode(slice_of(text), out, size, len);
}

static void test_vectors(void **state)
{
    (void)state;
    /* RFC 4648 section 10 */
    static const char *const pairs[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        char out[32];
        size_t len = base64_encode(slice_of(pairs[i][0]), out);
        assert_int_equal(len, BASE64_ENCODED_LEN(strlen(pairs[i][0])));
        assert_true(slice_eq(slice_make(out, len), slice_of(pairs[i][1])));
        assert_int_equal(decode(pairs[i][1], out, sizeof(out), &len), ERR_OK);
        assert_true(slice_eq(slice_make(out, len), slice_of(pairs[i][0])));
    }
}

static void test_refuses_what_is_not_canonical(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "Z",      "Zg",    "Zg=",   "Zh==",  "Zm9=",     "====", "=AAA", "Z===", "Zg==Zg==",
        "Zm9v\n", "Zm 9v", "Zm9v ", "Zm9v=", "Zm9v====", "Zm9_", "Zm9-", "Zg=A", "\xc3\xa4zz",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char out[32];
        size_t len = 99;
        assert_int_equal(decode(bad[i], out, sizeof(out), &len), ERR_SYNTAX);
        assert_int_equal(len, 99);
    }
}

static void test_limit_of_the_output(void **state)
{
    (void)state;
    char out[6];
    size_t len;
    assert_int_equal(decode("Zm9vYmFy", out, 6, &len), ERR_OK);
    assert_int_equal(decode("Zm9vYmFy", out, 5, &len), ERR_LIMIT);
    assert_int_equal(decode("", out, 0, &len), ERR_OK);
    assert_int_equal(len, 0);
}

static void test_every_byte_value(void **state)
{
    (void)state;
    char all[256], text[BASE64_ENCODED_LEN(256)], back[256];
    for (int i = 0; i < 256; i++) {
        all[i] = (char)i;
    }
    for (size_t n = 0; n <= sizeof(all); n++) {
        size_t len = base64_encode(slice_make(all, n), text);
        assert_int_equal(base64_decode(slice_make(text, len), back, sizeof(back), &len), ERR_OK);
        assert_true(slice_eq(slice_make(back, len), slice_make(all, n)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_refuses_what_is_not_canonical),
        cmocka_unit_test(test_limit_of_the_output),
        cmocka_unit_test(test_every_byte_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
