#include "dns/hosts.h"
#include "tests/unit/unit.h"

#include <string.h>

static void test_copy_and_count(void **state)
{
    char name[] = "mx1.test";
    struct dns_host list[2] = {{.port = 25, .preference = 10, .name = slice_of(name)},
                               {.port = 25, .preference = 20, .name = SLICE("")}};

    assert_int_equal(ip_parse(SLICE("2001:db8::1"), &list[0].ip), 0);
    struct dns_hosts *hosts =
        dns_hosts_new(list, 2, &(struct dns_hosts_facts){.has_mx = true, .expires = 123});
    memset(name, 'x', sizeof(name));
    memset(list, 0, sizeof(list));
    assert_int_equal(hosts->count, 2);
    assert_true(hosts->facts.has_mx);
    assert_int_equal(hosts->facts.expires, 123);
    assert_true(slice_eq(hosts->list[0].name, SLICE("mx1.test")));
    assert_int_equal(hosts->list[0].ip.family, 6);
    assert_int_equal(hosts->list[1].preference, 20);
    assert_ptr_equal(dns_hosts_get(hosts), hosts);
    assert_int_equal(hosts->references, 2);
    dns_hosts_put(hosts);
    assert_int_equal(hosts->references, 1);
    assert_int_equal(hosts->list[0].port, 25);
    dns_hosts_put(hosts);
    dns_hosts_put(NULL);
}

/* Addresses of one host, as a large answer has them: its name is there once. */
static void test_shared_names(void **state)
{
    char names[2][32] = {"mx1.test", "mx2.test"};
    struct dns_host list[5];
    const bool keep[5] = {false, true, true, true, true};

    for (int i = 0; i < 5; i++) {
        list[i] = (struct dns_host){.port = (uint16_t)i, .name = slice_of(names[i % 2])};
    }
    struct dns_hosts *hosts =
        dns_hosts_new(list, 5, &(struct dns_hosts_facts){.has_mx = true, .expires = 123});
    memset(names, 'x', sizeof(names));
    for (int i = 0; i < 5; i++) {
        assert_true(slice_eq(hosts->list[i].name, slice_of(i % 2 ? "mx2.test" : "mx1.test")));
        assert_ptr_equal(hosts->list[i].name.data, hosts->list[i % 2].name.data);
    }
    struct dns_hosts *some = dns_hosts_restrict(hosts, keep, SLICE("policy"));
    dns_hosts_put(hosts);
    assert_int_equal(some->count, 4);
    assert_true(slice_eq(some->list[1].name, SLICE("mx1.test")));
    assert_ptr_equal(some->list[0].name.data, some->list[2].name.data);
    assert_ptr_equal(some->list[1].name.data, some->list[3].name.data);
    assert_true(slice_eq(some->policy, SLICE("policy")));
    dns_hosts_put(some);
}

static void test_restrict(void **state)
{
    const struct dns_record record = {.data = SLICE("\3\1\1x")};
    struct dns_rrset *tlsa = dns_rrset_new(&(struct dns_rrset_source){.name = SLICE("x"),
                                                                      .type = DNS_TYPE_TLSA,
                                                                      .status = DNS_FOUND,
                                                                      .records = &record,
                                                                      .count = 1});
    const struct dns_host list[3] = {
        {.port = 1, .name = SLICE("a.test")},
        {.port = 2, .name = SLICE("b.test"), .dane = DNS_DANE_UNUSABLE, .tlsa = tlsa},
        {.port = 3, .name = SLICE("c.test"), .dane = DNS_DANE_UNUSABLE, .tlsa = tlsa}};
    const bool keep[3] = {true, false, true};
    char policy[] = "policy";
    struct dns_hosts *hosts =
        dns_hosts_new(list, 3, &(struct dns_hosts_facts){.has_mx = true, .expires = 123});
    assert_int_equal(hosts->policy.len, 0);
    assert_int_equal(tlsa->references, 3);
    struct dns_hosts *some = dns_hosts_restrict(hosts, keep, slice_of(policy));
    dns_hosts_put(hosts);
    memset(policy, 'x', sizeof(policy));
    assert_int_equal(some->count, 2);
    assert_int_equal(some->facts.expires, 123);
    assert_true(slice_eq(some->policy, SLICE("policy")));
    assert_true(slice_eq(some->list[0].name, SLICE("a.test")));
    assert_true(slice_eq(some->list[1].name, SLICE("c.test")));
    assert_int_equal(some->list[1].port, 3);
    assert_ptr_equal(some->list[1].tlsa, tlsa);
    assert_int_equal(tlsa->references, 2);
    dns_hosts_put(some);
    assert_int_equal(tlsa->references, 1);
    dns_rrset_put(tlsa);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy_and_count),
        cmocka_unit_test(test_shared_names),
        cmocka_unit_test(test_restrict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
