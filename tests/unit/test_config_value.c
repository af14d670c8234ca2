#include "base/error.h"
#include "engine/config/config_value.h"
#include "tests/unit/config_sample.h"

#include <arpa/inet.h>
#include <limits.h>

static char why[CONFIG_WHY_BYTES];

static void times(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        char unit;
        int64_t seconds; /* -1: refused */
    } cases[] = {
        {"0", 's', 0},
        {"5", 's', 5},
        {"5", 'h', 18000},
        {"5s", 'h', 5},
        {"2m", 's', 120},
        {"3h", 's', 10800},
        {"5d", 's', 432000},
        {"1w", 's', 604800},
        {"", 's', -1},
        {"s", 's', -1},
        {"-1", 's', -1},
        {"5x", 's', -1},
        {"5ss", 's', -1},
        {"5 s", 's', -1},
        {"1.5h", 's', -1},
        {"9999999999999999999999", 's', -1},
        {"9223372036854775807w", 's', -1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config_option o = {
            .name = "t", .type = CONFIG_TYPE_TIME, .max = INT32_MAX, .unit = cases[i].unit};
        usec_t value = -1;
        int err = config_value_check(&o, cases[i].text, why);
        assert_int_equal(err, cases[i].seconds < 0 ? ERR_SYNTAX : 0);
        if (err == 0) {
            assert_int_equal(config_value_set(&o, &cases[i].text, 1, &value), 0);
            assert_int_equal(value, cases[i].seconds * USEC_PER_SEC);
        }
    }
}

/* As they are printed, and as a rate where the option is the pause between two. */
static void times_as_printed(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t msec;      /* -1: refused */
        int64_t rate_msec; /* of an option that is a pause */
    } cases[] = {
        {"2h30m", 9000000, 9000000},
        {"1d2h3m4s5ms", 93784005, 93784005},
        {"500ms", 500, 500},
        {"1s500ms", 1500, 1500},
        {"0ms", 0, 0},
        {"30m2h", -1, -1},
        {"1h1h", -1, -1},
        {"2h30", -1, -1},
        {"2h ", -1, -1},
        {"2hm", -1, -1},
        {"ms", -1, -1},
        {"5msms", -1, -1},
        {"5mss", -1, -1},
        {"100/m", -1, 600},
        {"3/s", -1, 334},
        {"1/d", -1, 86400000},
        {"1000/h", -1, 3600},
        {"9999/s", -1, 1},
        {"0/s", -1, -1},
        {"/s", -1, -1},
        {"5/", -1, -1},
        {"5/s5", -1, -1},
        {"5/x", -1, -1},
        {"5/ms", -1, -1},
        {"-5/s", -1, -1},
        {"99999999999999999999d1s", -1, -1},
        {"99999999999999999999h9223372036854775807ms", -1, -1},
    };
    for (size_t i = 0; i < 2 * (sizeof(cases) / sizeof(cases[0])); i++) {
        const char *text = cases[i / 2].text;
        int64_t expected = i % 2 == 0 ? cases[i / 2].msec : cases[i / 2].rate_msec;
        struct config_option o = {.name = i % 2 == 0 ? "queue_run_delay" : "transport_rate_delay",
                                  .type = CONFIG_TYPE_TIME,
                                  .max = INT32_MAX,
                                  .unit = 's'};
        usec_t value = -1;
        int err = config_value_check(&o, text, why);
        if (err != (expected < 0 ? ERR_SYNTAX : 0)) {
            fail_msg("%s = %s: %d", o.name, text, err);
        }
        if (err == 0) {
            assert_int_equal(config_value_set(&o, &text, 1, &value), 0);
            assert_int_equal(value, expected * USEC_PER_MSEC);
        }
    }
}

static void sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes;
    } cases[] = {
        {"0", 0},
        {"50000", 50000},
        {"1K", 1024},
        {"64M", 64 << 20},
        {"2G", 2LL << 30},
        {"1T", 1LL << 40},
        {"1k", -1},
        {"1KB", -1},
        {"M", -1},
        {"", -1},
        {"-5", -1},
        {"99999999T", -1},
        {"99999999999999999999", -1},
    };
    struct config_option o = {.name = "s", .type = CONFIG_TYPE_SIZE, .max = 1LL << 50};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t value = 0;
        int err = config_value_check(&o, cases[i].text, why);
        assert_int_equal(err, cases[i].bytes < 0 ? ERR_SYNTAX : 0);
        if (err == 0) {
            assert_int_equal(config_value_set(&o, &cases[i].text, 1, &value), 0);
            assert_int_equal(value, cases[i].bytes);
        }
    }
}

static void numbers_and_words(void **state)
{
    (void)state;
    static const char *const choices[] = {"none", "may", NULL};
    struct config_option n = {.name = "n", .type = CONFIG_TYPE_INT, .min = 1, .max = 100};
    struct config_option b = {.name = "b", .type = CONFIG_TYPE_BOOL};
    struct config_option c = {.name = "c", .type = CONFIG_TYPE_CHOICE, .choices = choices};
    struct config_option t = {.name = "t", .type = CONFIG_TYPE_TEXT, .min = 1, .max = 3};
    assert_int_equal(config_value_check(&n, "100", why), 0);
    assert_int_equal(config_value_check(&n, "0", why), ERR_SYNTAX);
    assert_int_equal(config_value_check(&n, "101", why), ERR_SYNTAX);
    assert_string_equal(why, "101 is out of range; write a number from 1 to 100");
    assert_int_equal(config_value_check(&n, "-1", why), ERR_SYNTAX);
    assert_int_equal(config_value_check(&n, "0x10", why), ERR_SYNTAX);
    assert_int_equal(config_value_check(&n, "-", why), ERR_SYNTAX);
    assert_int_equal(config_value_check(&b, "Yes", why), 0);
    assert_int_equal(config_value_check(&b, "2", why), ERR_SYNTAX);
    assert_int_equal(config_value_check(&c, "may", why), 0);
    assert_int_equal(config_value_check(&c, "May", why), ERR_SYNTAX);
    assert_string_equal(why, "\"May\" is not known; write one of none, may; did you mean \"may\"?");
    assert_int_equal(config_value_check(&t, "abc", why), 0);
    assert_int_equal(config_value_check(&t, "", why), ERR_SYNTAX);
    assert_int_equal(config_value_check(&t, "abcd", why), ERR_SYNTAX);
    assert_int_equal(config_value_check(&t, "a\n", why), ERR_SYNTAX);
}

static void networks(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int bits;
    } cases[] = {
        {"127.0.0.0/8", 104},   {"192.0.2.1", 128},
        {"0.0.0.0/0", 96},      {"::1", 128},
        {"2001:db8::/32", 32},  {"::/0", 0},
        {"127.0.0.1/8", -1},    {"127.0.0.0/33", -1},
        {"2001:db8::/129", -1}, {"2001:db8::1/32", -1},
        {"127.0.0.0/", -1},     {"/8", -1},
        {"localhost", -1},      {"", -1},
        {"127.0.0.0/8x", -1},   {"127.0.0/8", -1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config_network n = {.bits = -1};
        int err = config_network_parse(slice_of(cases[i].text), &n);
        assert_int_equal(err, cases[i].bits < 0 ? ERR_SYNTAX : 0);
        assert_int_equal(n.bits, cases[i].bits);
    }
}

static void addresses(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int default_port, port;
    } cases[] = {
        {"127.0.0.1:2525", 0, 2525},
        {"[::1]:25", 0, 25},
        {"127.0.0.1", 53, 53},
        {"::1", 53, 53},
        {"[::1]", 53, 53},
        {"0.0.0.0:1", 0, 1},
        {"127.0.0.1", 0, -1},
        {"127.0.0.1:0", 0, -1},
        {"127.0.0.1:65536", 0, -1},
        {"127.0.0.1:", 53, -1},
        {":25", 53, -1},
        {"localhost:25", 0, -1},
        {"[::1:25", 0, -1},
        {"[::1]x25", 0, -1},
        {"", 53, -1},
        {"[]", 53, -1},
        {"127.0.0.1:2a", 0, -1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config_address a = {.len = 0};
        int err = config_address_parse(slice_of(cases[i].text), cases[i].default_port, &a);
        assert_int_equal(err, cases[i].port < 0 ? ERR_SYNTAX : 0);
        if (err == 0) {
            struct sockaddr_in v4;
            memcpy(&v4, &a.address, sizeof(v4));
            assert_int_equal(ntohs(v4.sin_port), cases[i].port);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times),    cmocka_unit_test(times_as_printed),
        cmocka_unit_test(sizes),    cmocka_unit_test(numbers_and_words),
        cmocka_unit_test(networks), cmocka_unit_test(addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
