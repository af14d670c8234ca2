#include "base/error.h"
#include "engine/heard/return_token.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

#define NOW  1000000
#define JANE SLICE("jane@example.net")

static struct return_keys keys;

static int setup(void **state)
{
    static const struct return_keys none;
    (void)state;
    return return_keys_rotate(&none, NOW, false, &keys);
}

static const struct return_token sample = {.message = 0xfedcba9876543210,
                                           .recipient = 1000000,
                                           .tenant = 3,
                                           .campaign = RETURN_TOKEN_NUMBER_MAX};

static void write(const struct return_token *token, char ret[static RETURN_TOKEN_LEN])
{
    assert_int_equal(return_token_write(token, &keys.keys[0], JANE, ret), 0);
}

static int read(struct slice text, struct return_token *ret)
{
    return return_token_read(text, &keys, NOW, ret);
}

static void what_was_written_is_read(void **state)
{
    char text[RETURN_TOKEN_LEN], again[RETURN_TOKEN_LEN];
    struct return_token token;
    write(&sample, text);
    write(&sample, again);
    assert_memory_equal(text, again, sizeof(text));
    assert_int_equal(read(slice_make(text, sizeof(text)), &token), 0);
    assert_int_equal(token.message, sample.message);
    assert_int_equal(token.recipient, sample.recipient);
    assert_int_equal(token.tenant, sample.tenant);
    assert_int_equal(token.campaign, sample.campaign);
    assert_true(return_token_is_for(&token, &keys, JANE));
    assert_true(return_token_is_for(&token, &keys, SLICE("Jane@EXAMPLE.net")));
    assert_false(return_token_is_for(&token, &keys, SLICE("jane@example.org")));
    assert_false(return_token_is_for(&token, &keys, SLICE("")));
}

static void case_does_not_matter(void **state)
{
    char text[RETURN_TOKEN_LEN];
    struct return_token token;
    write(&sample, text);
    for (size_t i = 0; i < sizeof(text); i++) {
        assert_true((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '2' && text[i] <= '7'));
        text[i] = (char)(text[i] >= 'a' && i % 2 == 0 ? text[i] - 32 : text[i]);
    }
    assert_int_equal(read(slice_make(text, sizeof(text)), &token), 0);
    assert_int_equal(token.message, sample.message);
}

/* Every character counts: whatever of it is changed, it is no token. */
static void a_changed_one_is_none(void **state)
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    char text[RETURN_TOKEN_LEN];
    struct return_token token;
    write(&sample, text);
    for (size_t i = 0; i < sizeof(text); i++) {
        char right = text[i];
        for (size_t d = 0; d < 32; d++) {
            text[i] = digits[d];
            assert_int_equal(read(slice_make(text, sizeof(text)), &token),
                             digits[d] == right ? 0 : ERR_SYNTAX);
        }
        text[i] = '1';
        assert_int_equal(read(slice_make(text, sizeof(text)), &token), ERR_SYNTAX);
        text[i] = right;
    }
    assert_int_equal(read(slice_make(text, sizeof(text) - 1), &token), ERR_SYNTAX);
    assert_int_equal(read(SLICE(""), &token), ERR_SYNTAX);
}

static void a_key_of_somebody_else_seals_nothing(void **state)
{
    static const struct return_keys none;
    struct return_keys other;
    char text[RETURN_TOKEN_LEN];
    struct return_token token;
    assert_int_equal(return_keys_rotate(&none, NOW, false, &other), 0);
    assert_int_equal(return_token_write(&sample, &other.keys[0], JANE, text), 0);
    assert_int_equal(read(slice_make(text, sizeof(text)), &token), ERR_SYNTAX);
}

static void numbers_that_do_not_fit(void **state)
{
    const struct return_token large = {
        .message = 1, .recipient = UINT32_MAX, .tenant = 1 << 24, .campaign = UINT32_MAX};
    char text[RETURN_TOKEN_LEN];
    struct return_token token;
    write(&large, text);
    assert_int_equal(read(slice_make(text, sizeof(text)), &token), 0);
    assert_int_equal(token.recipient, RETURN_TOKEN_NUMBER_MAX);
    assert_int_equal(token.tenant, RETURN_TOKEN_NUMBER_MAX);
    assert_int_equal(token.campaign, RETURN_TOKEN_NUMBER_MAX);
}

static void found_in_a_text(void **state)
{
    char text[RETURN_TOKEN_LEN], line[400];
    write(&sample, text);
    (void)snprintf(line, sizeof(line),
                   "a+b@c <SRS0=HHH=TT=b.example=bounces+%.48s@fwd.example> +%.48sa@x "
                   "prvs=1+%.48s",
                   text, text, text);
    struct slice rest = slice_of(line), found;
    for (int i = 0; i < 2; i++) {
        assert_true(return_token_find(&rest, &found));
        assert_memory_equal(found.data, text, sizeof(text));
        assert_int_equal(found.len, sizeof(text));
    }
    assert_false(return_token_find(&rest, &found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(case_does_not_matter),
        cmocka_unit_test(a_changed_one_is_none),
        cmocka_unit_test(a_key_of_somebody_else_seals_nothing),
        cmocka_unit_test(numbers_that_do_not_fit),
        cmocka_unit_test(found_in_a_text),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
