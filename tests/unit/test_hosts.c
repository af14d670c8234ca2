#include "dns/hosts.h"
#include "tests/unit/unit.h"

#include <string.h>

static void test_copy_and_count(void **state)
{
    char name[] = "mx1.test";
    struct dns_host list[2] = {{.port = 25, .preference = 10, .name = slice_of(name)},
                               {.port = 25, .preference = 20, .name = SLICE("")}};

    assert_int_equal(ip_parse(SLICE("2001:db8::1"), &list[0].ip), 0);
    struct dns_hosts *hosts = dns_hosts_new(list, 2, true, 123);
    memset(name, 'x', sizeof(name));
    memset(list, 0, sizeof(list));
    assert_int_equal(hosts->count, 2);
    assert_true(hosts->has_mx);
    assert_int_equal(hosts->expires, 123);
    assert_true(slice_eq(hosts->list[0].name, SLICE("mx1.test")));
    assert_int_equal(hosts->list[0].ip.family, 6);
    assert_int_equal(hosts->list[1].preference, 20);
    assert_ptr_equal(dns_hosts_get(hosts), hosts);
    dns_hosts_put(hosts);
    assert_int_equal(hosts->list[0].port, 25);
    dns_hosts_put(hosts);
    dns_hosts_put(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy_and_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
