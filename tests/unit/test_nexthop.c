#include "base/error.h"
#include "engine/nexthop.h"
#include "tests/unit/config_sample.h"

static void forms(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host; /* host NULL: refused */
        int port;
        bool has_mx, is_address;
    } cases[] = {
        {"example.com", "example.com", 0, true, false},
        {"example.com:587", "example.com", 587, true, false},
        {"example.com.", "example.com.", 0, true, false},
        {"[example.com]", "example.com", 0, false, false},
        {"[example.com]:25", "example.com", 25, false, false},
        {"[192.0.2.1]:2626", "192.0.2.1", 2626, false, true},
        {"[::1]", "::1", 0, false, true},
        {"[IPv6:::1]:25", "::1", 25, false, true},
        {"[ipv6:2001:db8::1]", "2001:db8::1", 0, false, true},
        {"_a-b.c", "_a-b.c", 0, true, false},
        {"", NULL, 0, false, false},
        {"[", NULL, 0, false, false},
        {"[]", NULL, 0, false, false},
        {"[a", NULL, 0, false, false},
        {"[a]x", NULL, 0, false, false},
        {"[a]:", NULL, 0, false, false},
        {"a:0", NULL, 0, false, false},
        {"a:65536", NULL, 0, false, false},
        {"a:2x", NULL, 0, false, false},
        {"::1", NULL, 0, false, false},
        {"192.0.2.1", NULL, 0, false, false},
        {"[IPv6:192.0.2.1]", NULL, 0, false, false},
        {".a", NULL, 0, false, false},
        {"a..b", NULL, 0, false, false},
        {"a b", NULL, 0, false, false},
        {"a@b", NULL, 0, false, false},
        {".", NULL, 0, false, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct nexthop n;
        int err = nexthop_parse(slice_of(cases[i].text), &n);
        assert_int_equal(err, cases[i].host == NULL ? ERR_SYNTAX : 0);
        if (err == 0) {
            assert_true(slice_eq(n.host, slice_of(cases[i].host)));
            assert_int_equal(n.port, cases[i].port);
            assert_int_equal(n.has_mx, cases[i].has_mx);
            assert_int_equal(n.is_address, cases[i].is_address);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(forms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
