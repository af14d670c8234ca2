/* SOCKS dialogues, byte for byte: with and without login, each refusal, garbage, and answers cut in
 * every way. */
#include "net/socks5.h"
#include "tests/unit/unit.h"

#include <stdbool.h>
#include <string.h>

static const uint8_t v4[] = {192, 0, 2, 1};
static const struct socks5_login none;
static const struct socks5_login login = {{"user", 4}, {"secret", 6}};

#define BYTES(text) text, sizeof(text) - 1

static void expect_out(struct socks5 *s, const char *bytes, size_t len)
{
    assert_int_equal(socks5_want(s), 0);
    assert_int_equal(socks5_out(s).len, len);
    assert_memory_equal(socks5_out(s).data, bytes, len);
    socks5_written(s, 1); /* a socket may take any part of it */
    assert_int_equal(socks5_want(s), 0);
    socks5_written(s, len - 1);
    assert_int_equal(socks5_out(s).len, 0);
}

/* As much of the bytes as it wants, step at a time. returns what was taken */
static size_t feed(struct socks5 *s, const char *bytes, size_t len, size_t step)
{
    size_t done = 0;
    while (done < len && socks5_want(s) > 0) {
        size_t n = socks5_want(s) < step ? socks5_want(s) : step;
        n = n < len - done ? n : len - done;
        socks5_input(s, bytes + done, n);
        done += n;
    }
    return done;
}

static void begin(struct socks5 *s)
{
    socks5_init(s, &none, 4, v4, 25);
    expect_out(s, BYTES("\x05\x01\x00"));
}

static void without_login(void **state)
{
    (void)state;
    static const char reply[] = "\x05\x00\x00\x01\x0a\x00\x00\x01\x12\x34"
                                "220 greeting";
    for (size_t step = 1; step < sizeof(reply); step++) {
        struct socks5 s;
        begin(&s);
        assert_int_equal(feed(&s, BYTES("\x05\x00"), step), 2);
        expect_out(&s, BYTES("\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x19"));
        /* nothing of the target's greeting is taken */
        assert_int_equal(feed(&s, reply, sizeof(reply) - 1, step), 10);
        assert_int_equal(socks5_state(&s), SOCKS5_DONE);
        socks5_fini(&s);
    }
}

static void with_login(void **state)
{
    (void)state;
    struct socks5 s;
    socks5_init(&s, &login, 4, v4, 2525);
    expect_out(&s, BYTES("\x05\x02\x00\x02"));
    assert_int_equal(feed(&s, BYTES("\x05\x02"), 2), 2);
    expect_out(&s, BYTES("\x01\x04user\x06secret"));
    assert_int_equal(feed(&s, BYTES("\x01\x00"), 2), 2);
    expect_out(&s, BYTES("\x05\x01\x00\x01\xc0\x00\x02\x01\x09\xdd"));
    assert_int_equal(feed(&s, BYTES("\x05\x00\x00\x03\x02xy\x00\x00"), 9), 9);
    assert_int_equal(socks5_state(&s), SOCKS5_DONE);
    socks5_fini(&s);
    assert_int_equal(s.login.user.len, 0);
}

static void longest_login(void **state)
{
    (void)state;
    struct socks5 s;
    char name[SOCKS5_LOGIN_MAX];
    memset(name, 'n', sizeof(name));
    const struct socks5_login longest = {{name, sizeof(name)}, {name, sizeof(name)}};
    socks5_init(&s, &longest, 4, v4, 25);
    socks5_written(&s, 4);
    assert_int_equal(feed(&s, BYTES("\x05\x02"), 1), 2);
    assert_int_equal(socks5_out(&s).len, SOCKS5_OUT_MAX);
    assert_int_equal((uint8_t)socks5_out(&s).data[1], 255);
    assert_int_equal((uint8_t)socks5_out(&s).data[257], 255);
}

static void login_not_needed(void **state)
{
    (void)state;
    struct socks5 s;
    socks5_init(&s, &login, 4, v4, 25);
    expect_out(&s, BYTES("\x05\x02\x00\x02"));
    assert_int_equal(feed(&s, BYTES("\x05\x00"), 2), 2);
    expect_out(&s, BYTES("\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x19"));
}

static void ipv6(void **state)
{
    (void)state;
    struct socks5 s;
    const uint8_t address[16] = {0x20, 1, 0xd, 0xb8, [15] = 9};
    socks5_init(&s, &none, 6, address, 25);
    expect_out(&s, BYTES("\x05\x01\x00"));
    assert_int_equal(feed(&s, BYTES("\x05\x00"), 2), 2);
    assert_int_equal(socks5_out(&s).len, 22);
    assert_memory_equal(socks5_out(&s).data, "\x05\x01\x00\x04\x20\x01\x0d\xb8", 8);
    assert_memory_equal(socks5_out(&s).data + 19, "\x09\x00\x19", 3);
    socks5_written(&s, 22);
    char reply[22] = "\x05\x00\x00\x04";
    assert_int_equal(feed(&s, reply, sizeof(reply), 5), 22);
    assert_int_equal(socks5_state(&s), SOCKS5_DONE);
}

struct refusal {
    const char *method, *reply;
    size_t reply_len;
    enum socks5_state state;
    const char *error;
};

static const struct refusal refusals[] = {
    {"\x05\xff", "", 0, SOCKS5_FAILED_PROXY, "it accepts none of the offered ways to authenticate"},
    {"\x05\x02", "", 0, SOCKS5_FAILED_PROXY, "it wants a way to authenticate that was not offered"},
    {"\x05\x01", "", 0, SOCKS5_FAILED_PROXY, "it wants a way to authenticate that was not offered"},
    {"HT", "", 0, SOCKS5_FAILED_PROXY, "it does not speak SOCKS version 5"},
    {"\x04Z", "", 0, SOCKS5_FAILED_PROXY, "it does not speak SOCKS version 5"},
    {"\x05", BYTES("\x05\x01"), SOCKS5_FAILED_PROXY, "general SOCKS server failure"},
    {"\x05", BYTES("\x05\x02"), SOCKS5_FAILED_PROXY, "connection not allowed by ruleset"},
    {"\x05", BYTES("\x05\x03"), SOCKS5_FAILED_TARGET, "Network unreachable"},
    {"\x05", BYTES("\x05\x04"), SOCKS5_FAILED_TARGET, "Host unreachable"},
    {"\x05", BYTES("\x05\x05"), SOCKS5_FAILED_TARGET, "Connection refused"},
    {"\x05", BYTES("\x05\x06"), SOCKS5_FAILED_TARGET, "TTL expired"},
    {"\x05", BYTES("\x05\x07"), SOCKS5_FAILED_PROXY, "Command not supported"},
    {"\x05", BYTES("\x05\x08"), SOCKS5_FAILED_PROXY, "Address type not supported"},
    {"\x05", BYTES("\x05\x09"), SOCKS5_FAILED_PROXY, "it gave an unknown reply"},
    {"\x05", BYTES("\x05\xff"), SOCKS5_FAILED_PROXY, "it gave an unknown reply"},
    {"\x05", BYTES("2"), SOCKS5_FAILED_PROXY, "it does not speak SOCKS version 5"},
    {"\x05", BYTES("\x05\x00\x00\x02"), SOCKS5_FAILED_PROXY,
     "its reply has an address of unknown kind"},
};

static void each_refusal(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        const struct refusal *r = &refusals[i];
        struct socks5 s;
        begin(&s);
        (void)feed(&s, r->method, 2, 1); /* a NUL ends the literal: method 0 */
        socks5_written(&s, socks5_out(&s).len);
        (void)feed(&s, r->reply, r->reply_len, 1);
        assert_int_equal(socks5_state(&s), r->state);
        assert_string_equal(socks5_error(&s), r->error);
        assert_int_equal(socks5_want(&s), 0);
    }
}

static void refused_login(void **state)
{
    (void)state;
    struct socks5 s;
    socks5_init(&s, &login, 4, v4, 25);
    socks5_written(&s, 4);
    (void)feed(&s, BYTES("\x05\x02"), 2);
    socks5_written(&s, socks5_out(&s).len);
    (void)feed(&s, BYTES("\x01\x01"), 2);
    assert_int_equal(socks5_state(&s), SOCKS5_FAILED_PROXY);
    assert_string_equal(socks5_error(&s), "it refused user and password");
}

static void longest_reply(void **state)
{
    (void)state;
    struct socks5 s;
    char reply[SOCKS5_IN_MAX] = "\x05\x00\x00\x03\xff";
    begin(&s);
    (void)feed(&s, BYTES("\x05\x00"), 2);
    socks5_written(&s, socks5_out(&s).len);
    assert_int_equal(feed(&s, reply, sizeof(reply) - 1, 7), sizeof(reply) - 1);
    assert_int_equal(socks5_want(&s), 1);
    socks5_input(&s, "", 1);
    assert_int_equal(socks5_state(&s), SOCKS5_DONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_login), cmocka_unit_test(with_login),
        cmocka_unit_test(longest_login), cmocka_unit_test(login_not_needed),
        cmocka_unit_test(ipv6),          cmocka_unit_test(each_refusal),
        cmocka_unit_test(refused_login), cmocka_unit_test(longest_reply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
