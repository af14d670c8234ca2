#include "base/error.h"
#include "dns/nexthop.h"
#include "tests/unit/unit.h"

static void test_forms(void **state)
{
    static const struct {
        const char *text;
        const char *name; /* "" for a literal */
        bool wants_mx;
        uint16_t port;
    } cases[] = {
        {"example.com", "example.com", true, 25},
        {"Example.COM.", "example.com", true, 25},
        {"example.com:2525", "example.com", true, 2525},
        {"[mail.example.com]", "mail.example.com", false, 25},
        {"[mail.example.com]:587", "mail.example.com", false, 587},
        {"[192.0.2.1]", "", false, 25},
        {"[192.0.2.1]:2626", "", false, 2626},
        {"[IPv6:2001:db8::1]:65535", "", false, 65535},
        {"[::1]:25", "", false, 25},
        {"b\xc3\xbc"
         "cher.example",
         "xn--bcher-kva.example", true, 25},
        {"B\xc3\x9c"
         "CHER.example:26",
         "xn--bcher-kva.example", true, 26},
    };
    struct nexthop hop;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(nexthop_parse(slice_of(cases[i].text), 25, &hop), 0);
        assert_string_equal(hop.name.text, cases[i].name);
        assert_int_equal(hop.wants_mx, cases[i].wants_mx);
        assert_int_equal(hop.port, cases[i].port);
        assert_int_equal(hop.ip.family != 0, cases[i].name[0] == '\0');
        uint16_t port = 25;
        assert_int_equal(nexthop_wants_mx(slice_of(cases[i].text), &port), hop.wants_mx);
        assert_int_equal(port, hop.port);
    }
}

static void test_refused(void **state)
{
    static const char *const syntax[] = {"",         "[",       "[]",      "[a",        "a]",
                                         "[a]x",     "[a]:",    "[a]:0",   "[a]:65536", "a:",
                                         "a:b",      "a:-1",    "::1",     "a:1:2",     "a b.test",
                                         "[1.2.3.4", "a..test", "[a]:+25", "a:000025",  "a@b.test"};
    struct nexthop hop;

    for (size_t i = 0; i < sizeof(syntax) / sizeof(syntax[0]); i++) {
        assert_int_equal(nexthop_parse(slice_of(syntax[i]), 25, &hop), ERR_SYNTAX);
    }
    /* Not UTF-8; a disallowed character; a label that grows too long. */
    assert_int_equal(nexthop_parse(SLICE("\xff.test"), 25, &hop), ERR_MISSING);
    assert_int_equal(nexthop_parse(SLICE("\xe2\x80\xae.test"), 25, &hop), ERR_MISSING);
    char text[100];
    for (size_t i = 0; i < sizeof(text); i += 2) {
        text[i] = '\xc3';
        text[i + 1] = '\xa9';
    }
    assert_int_equal(nexthop_parse(slice_make(text, sizeof(text)), 25, &hop), 0);
    char longer[2000];
    memset(longer, '\xc3', sizeof(longer));
    assert_int_equal(nexthop_parse(slice_make(longer, sizeof(longer)), 25, &hop), ERR_MISSING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
