#include "dns/ip.h"
#include "tests/unit/unit.h"

#include <netinet/in.h>
#include <string.h>

static struct ip parsed(const char *text)
{
    struct ip ip;
    assert_int_equal(ip_parse(slice_of(text), &ip), 0);
    return ip;
}

static void test_parse(void **state)
{
    static const char *const bad[] = {
        "",       "1.2.3",  "1.2.3.4.5", "[1.2.3.4]",     "IPv6:", "x",        "1.2.3.4 ",
        "::1%lo", "0x7f.1", "127.1",     "IPv6:IPv6:::1", ":::",   "1.2.3.256"};
    char text[IP_TEXT_MAX];
    struct ip ip;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_not_equal(ip_parse(slice_of(bad[i]), &ip), 0);
    }
    assert_int_not_equal(ip_parse(slice_make("1.2.3.4\0", 8), &ip), 0);
    ip = parsed("192.0.2.1");
    assert_int_equal(ip.family, 4);
    assert_string_equal(ip_text(&ip, text), "192.0.2.1");
    ip = parsed("IPv6:2001:db8::1");
    assert_int_equal(ip.family, 6);
    assert_string_equal(ip_text(&ip, text), "2001:db8::1");
    ip = parsed("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255");
    assert_int_equal(ip.family, 6);
}

static void test_scope(void **state)
{
    static const struct {
        const char *text;
        enum ip_scope scope;
    } cases[] = {
        {"192.0.2.1", IP_PUBLIC},
        {"127.0.0.1", IP_LOOPBACK},
        {"127.255.255.255", IP_LOOPBACK},
        {"0.0.0.0", IP_UNSPECIFIED},
        {"0.1.2.3", IP_UNSPECIFIED},
        {"10.1.2.3", IP_PRIVATE},
        {"172.15.0.1", IP_PUBLIC},
        {"172.16.0.1", IP_PRIVATE},
        {"172.32.0.1", IP_PUBLIC},
        {"192.168.0.1", IP_PRIVATE},
        {"100.64.0.1", IP_PRIVATE},
        {"169.254.169.254", IP_LINK_LOCAL},
        {"224.0.0.1", IP_UNUSABLE},
        {"255.255.255.255", IP_UNUSABLE},
        {"2001:db8::1", IP_PUBLIC},
        {"::1", IP_LOOPBACK},
        {"::", IP_UNSPECIFIED},
        {"fe80::1", IP_LINK_LOCAL},
        {"fd00::1", IP_PRIVATE},
        {"ff02::1", IP_UNUSABLE},
        {"::ffff:127.0.0.1", IP_LOOPBACK},
        {"::ffff:8.8.8.8", IP_PUBLIC},
        {"::127.0.0.1", IP_LOOPBACK},
        {"64:ff9b::7f00:1", IP_LOOPBACK},
        {"64:ff9b::a9fe:a9fe", IP_LINK_LOCAL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct ip ip = parsed(cases[i].text);
        assert_int_equal(ip_scope(&ip), cases[i].scope);
    }
    struct ip none = {0};
    assert_int_equal(ip_scope(&none), IP_UNUSABLE);
}

static void test_sockaddr(void **state)
{
    static const char *const texts[] = {"192.0.2.1", "2001:db8::1"};
    struct sockaddr_storage sa;
    uint16_t port = 0;
    struct ip back;

    for (size_t i = 0; i < 2; i++) {
        struct ip ip = parsed(texts[i]);
        assert_int_equal(ip_to_sockaddr(&ip, 2525, &sa),
                         i == 0 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
        assert_int_equal(ip_from_sockaddr(&sa, &back, &port), 0);
        assert_true(ip_eq(&ip, &back));
        assert_int_equal(port, 2525);
    }
    struct ip mapped = parsed("::ffff:192.0.2.1");
    struct ip plain = parsed("192.0.2.1");
    (void)ip_to_sockaddr(&mapped, 25, &sa); /* only the address matters */
    assert_int_equal(ip_from_sockaddr(&sa, &back, &port), 0);
    assert_true(ip_eq(&plain, &back));
    memset(&sa, 0, sizeof(sa));
    sa.ss_family = AF_UNIX;
    assert_int_not_equal(ip_from_sockaddr(&sa, &back, &port), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_scope),
        cmocka_unit_test(test_sockaddr),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
