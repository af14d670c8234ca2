#include "base/error.h"
#include "net/smtp_address.h"
#include "tests/unit/unit.h"

#include <string.h>

#define ALL (SMTP_ADDRESS_UTF8 | SMTP_ADDRESS_NULL | SMTP_ADDRESS_POSTMASTER)

/* Parses a path and whatever it prints, which must be equal. */
static void assert_path(struct slice path, const char *expected)
{
    struct smtp_address first, second;
    struct slice in = path;
    assert_int_equal(smtp_address_parse_path(&in, ALL, &first), ERR_OK);
    assert_int_equal(in.len, 0);
    assert_true(slice_eq(smtp_address_slice(&first), slice_of(expected)));
    assert_int_equal(smtp_address_parse(smtp_address_slice(&first), ALL, &second), ERR_OK);
    assert_true(smtp_address_eq(&first, &second));
    assert_true(slice_eq(first.local, second.local));
    assert_true(slice_eq(first.domain, second.domain));
    assert_int_equal(first.has_utf8, second.has_utf8);
}

static void test_accepts(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"<a@b>", "a@b"},
        {"<>", ""},
        {"<Local.Part@Example.COM>", "Local.Part@example.com"},
        {"<a@example.com.>", "a@example.com"},
        {"<!#$%&'*+-/=?^_`{|}~@x.test>", "!#$%&'*+-/=?^_`{|}~@x.test"},
        {"<user%dom@ours.test>", "user%dom@ours.test"},
        {"<dom!user@ours.test>", "dom!user@ours.test"},
        {"<\"a b\"@x.test>", "\"a b\"@x.test"},
        {"<\"plain\"@x.test>", "plain@x.test"},
        {"<\"a.b\"@x.test>", "a.b@x.test"},
        {"<\"a..b\"@x.test>", "\"a..b\"@x.test"},
        {"<\"\"@x.test>", "\"\"@x.test"},
        {"<\"a\\b\"@x.test>", "ab@x.test"},
        {"<\"a\\\"b\\\\\"@x.test>", "\"a\\\"b\\\\\"@x.test"},
        {"<\"user@dom\"@ours.test>", "\"user@dom\"@ours.test"},
        {"<\"<>\"@x.test>", "\"<>\"@x.test"},
        {"<@a.test,@b.test:user@c.test>", "user@c.test"},
        {"<a@[192.0.2.1]>", "a@[192.0.2.1]"},
        {"<a@[IPv6:2001:DB8::1]>", "a@[ipv6:2001:db8::1]"},
        {"<a@[IPv6:::]>", "a@[ipv6:::]"},
        {"<a@[IPv6:1:2:3:4:5:6:7:8]>", "a@[ipv6:1:2:3:4:5:6:7:8]"},
        {"<a@[IPv6:::ffff:192.0.2.1]>", "a@[ipv6:::ffff:192.0.2.1]"},
        {"<Postmaster>", "Postmaster"},
        {"<a_b@host_name.test>", "a_b@host_name.test"},
        {"<a@123.test>", "a@123.test"},
        {"<\xc3\xbc@d\xc3\xb6m.test>", "\xc3\xbc@d\xc3\xb6m.test"},
        {"<\"\xc3\xbc\"@x.test>", "\xc3\xbc@x.test"},
        {"<\xf0\x9f\x93\xa7@x.test>", "\xf0\x9f\x93\xa7@x.test"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        assert_path(slice_of(pairs[i][0]), pairs[i][1]);
    }
}

static const struct slice bad[] = {
    SLICE(""),
    SLICE("<"),
    SLICE(">"),
    SLICE("a@b"),
    SLICE("<a@b"),
    SLICE("<a>"),
    SLICE("<@>"),
    SLICE("<a@>"),
    SLICE("<@b>"),
    SLICE("<a@@b>"),
    SLICE("<a@b@c>"),
    SLICE("<<a@b>>"),
    SLICE("<a<b@c>"),
    SLICE("<a>b@c>"),
    SLICE("< a@b>"),
    SLICE("<a @b>"),
    SLICE("<a@b >"),
    SLICE("<a b@c>"),
    SLICE("<.a@b>"),
    SLICE("<a.@b>"),
    SLICE("<a..b@c>"),
    SLICE("<a@.b>"),
    SLICE("<a@b..c>"),
    SLICE("<a@b..>"),
    SLICE("<a@-b>"),
    SLICE("<a@b->"),
    SLICE("<a@b.-c>"),
    SLICE("<a@b c>"),
    SLICE("<a@192.0.2.1>"),
    SLICE("<a@1>"),
    SLICE("<a(comment)@b>"),
    SLICE("<\"a@b>"),
    SLICE("<\"a\"b@c>"),
    SLICE("<a\"b\"@c>"),
    SLICE("<\"a\\\"@b>"),
    SLICE("<\"a\r\nb\"@c>"),
    SLICE("<a\r\n@c>"),
    SLICE("<a\0@c>"),
    SLICE("<a@good.test\0.evil.test>"),
    SLICE("<\"a\0\"@c>"),
    SLICE("<\"\x7f\"@c>"),
    SLICE("<\"a\tb\"@c>"),
    SLICE("<a@[192.0.2]>"),
    SLICE("<a@[192.0.2.256]>"),
    SLICE("<a@[192.0.2.01]>"),
    SLICE("<a@[192.0.2.1>"),
    SLICE("<a@[192.0.2.1]x>"),
    SLICE("<a@[]>"),
    SLICE("<a@[IPv6:]>"),
    SLICE("<a@[IPv6::::]>"),
    SLICE("<a@[IPv6:1::2::3]>"),
    SLICE("<a@[IPv6:1:2:3:4:5:6:7]>"),
    SLICE("<a@[IPv6:1:2:3:4:5:6:7:8:9]>"),
    SLICE("<a@[IPv6:1:2:3:4:5:6:7::8:9]>"),
    SLICE("<a@[IPv6:12345::]>"),
    SLICE("<a@[IPv6:1:]>"),
    SLICE("<a@[IPv6:1:2:3:4:5:6:7:192.0.2.1]>"),
    SLICE("<a@[tag:x]>"),
    SLICE("<a@[2001:db8::1]>"),
    SLICE("<@a:>"),
    SLICE("<@a,@b>"),
    SLICE("<@a,b:u@c>"),
    SLICE("<@a@b:u@c>"),
    SLICE("<@:u@c>"),
    SLICE("<\xc3@x.test>"),
    SLICE("<\xc0\xaf@x.test>"),
    SLICE("<\xed\xa0\x80@x.test>"),
    SLICE("<\xff@x.test>"),
    SLICE("<\xf4\x90\x80\x80@x.test>"),
    SLICE("<\xc2\x85@x.test>"),
    SLICE("<\xe2\x80\xa8@x.test>"),
    SLICE("<\"\\\xc3\xbc\"@x.test>"),
    SLICE("<\xe0\x80\xaf@x.test>"),
    SLICE("<a@x\xc2\x80.test>"),
    SLICE("<root>"),
    SLICE("<user@>"),
};

static void test_refuses(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct smtp_address address;
        struct slice in = bad[i];
        if (smtp_address_parse_path(&in, ALL, &address) == ERR_OK && in.len == 0) {
            fail_msg("accepted case %zu: " SLICE_FMT, i, SLICE_ARG(bad[i]));
        }
    }
}

static void test_flags(void **state)
{
    (void)state;
    struct smtp_address address;
    struct slice in = SLICE("<>");
    assert_int_equal(smtp_address_parse_path(&in, 0, &address), ERR_SYNTAX);
    in = SLICE("<postmaster>");
    assert_int_equal(smtp_address_parse_path(&in, 0, &address), ERR_SYNTAX);
    assert_int_equal(in.len, 12);
    in = SLICE("<\xc3\xbc@x.test>");
    assert_int_equal(smtp_address_parse_path(&in, 0, &address), ERR_SYNTAX);
    assert_int_equal(smtp_address_parse(SLICE(""), 0, &address), ERR_SYNTAX);
    assert_int_equal(smtp_address_parse(SLICE("a@b "), ALL, &address), ERR_SYNTAX);
    assert_int_equal(smtp_address_parse(SLICE("@a:b@c"), ALL, &address), ERR_SYNTAX);
}

static void test_stops_behind_the_path(void **state)
{
    (void)state;
    struct smtp_address address, copy;
    struct slice in = SLICE("<a@b> SIZE=1");
    assert_int_equal(smtp_address_parse_path(&in, ALL, &address), ERR_OK);
    assert_true(slice_eq(in, SLICE(" SIZE=1")));
    smtp_address_copy(&copy, &address);
    assert_true(smtp_address_eq(&copy, &address));
    assert_ptr_equal(copy.domain.data, copy.text + 2);
}

static int parse_long(size_t local, size_t label, size_t labels)
{
    char text[1200];
    size_t len = 0;
    struct smtp_address address;
    memset(text, 'a', local);
    len = local;
    for (size_t i = 0; i < labels; i++) {
        text[len++] = i == 0 ? '@' : '.';
        memset(text + len, 'b', label);
        len += label;
    }
    return smtp_address_parse(slice_make(text, len), ALL, &address);
}

static void test_limits(void **state)
{
    (void)state;
    assert_int_equal(parse_long(256, 63, 1), ERR_OK);
    assert_int_equal(parse_long(257, 62, 1), ERR_LIMIT);
    assert_int_equal(parse_long(1, 64, 1), ERR_LIMIT);
    assert_int_equal(parse_long(64, 63, 4), ERR_OK); /* 64 + 1 + 255 = 320 */
    assert_int_equal(parse_long(65, 63, 4), ERR_LIMIT);
    assert_int_equal(parse_long(1, 63, 5), ERR_LIMIT);
    assert_int_equal(parse_long(1000, 1, 1), ERR_LIMIT);
}

/* Every prefix of a valid path, in a heap block of its exact size: no byte beyond is read. */
static void test_every_truncation(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "<@a.test,@b.test:\"x \\\" y\"@[IPv6:2001:db8::192.0.2.1]>",
        "<\xf0\x9f\x93\xa7.x@d\xc3\xb6m.test>",
    };
    for (size_t i = 0; i < 2; i++) {
        for (size_t len = 0; len < strlen(paths[i]); len++) {
            struct smtp_address address;
            char *exact = test_malloc(len + (len == 0));
            memcpy(exact, paths[i], len);
            struct slice in = {exact, len};
            assert_int_not_equal(smtp_address_parse_path(&in, ALL, &address), ERR_OK);
            test_free(exact);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts), cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_flags),   cmocka_unit_test(test_stops_behind_the_path),
        cmocka_unit_test(test_limits),  cmocka_unit_test(test_every_truncation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
