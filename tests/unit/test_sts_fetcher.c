/* Which addresses a stranger's policy host may make this machine connect to; the rest is the matter
 * of the integration tests. */
#include "engine/outbound/sts_fetcher.h"
#include "tests/unit/unit.h"

static void only_addresses_of_others_are_asked(void **state)
{
    static const struct {
        const char *address;
        bool by_default, with_loopback;
    } rows[] = {
        {"198.51.100.1", true, true},
        {"2001:db8::1", true, true},
        {"127.0.0.1", false, true},
        {"::1", false, true},
        {"::ffff:127.0.0.1", false, true},
        {"10.1.2.3", false, true},
        {"192.168.1.1", false, true},
        {"64:ff9b::a00:1", false, true}, /* 10.0.0.1 by NAT64 */
        {"fd00::1", false, true},
        {"0.0.0.0", false, false},
        {"::", false, false},
        {"169.254.169.254", false, false},
        {"fe80::1", false, false},
        {"224.0.0.1", false, false},
        {"255.255.255.255", false, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct ip ip;
        assert_int_equal(ip_parse(slice_of(rows[i].address), &ip), 0);
        if (sts_fetcher_may_ask(&ip, false) != rows[i].by_default ||
            sts_fetcher_may_ask(&ip, true) != rows[i].with_loopback) {
            fail_msg("%s", rows[i].address);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_addresses_of_others_are_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
