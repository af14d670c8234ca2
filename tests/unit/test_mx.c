#include "dns/mx.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct mx_target targets[MX_TARGETS_MAX];
static uint32_t count;
static struct mx_random rng = {42};

static struct ip ip_of(const char *text)
{
    struct ip ip;
    assert_int_equal(ip_parse(slice_of(text), &ip), 0);
    return ip;
}

/* One address per host. */
static struct mx_host host_with(uint16_t preference, const struct ip *ip)
{
    struct mx_host host = {.name = SLICE("mx.test"), .preference = preference};
    int list = ip->family == 6;
    host.ips[list] = ip;
    host.ip_counts[list] = 1;
    return host;
}

static struct mx_policy usual_policy(void)
{
    return (struct mx_policy){.port = 25, .has_scope_check = true};
}

static enum mx_verdict order(const struct mx_policy *policy, const struct mx_host *hosts,
                             uint32_t host_count, uint16_t best)
{
    const struct mx_hosts all = {hosts, host_count, best};
    return mx_order(policy, &all, &rng, targets, &count);
}

static struct dns_rrset *mx_set(uint32_t n, const uint16_t *preferences, const char *const *names)
{
    struct dns_record *records = calloc(n, sizeof(*records));
    for (uint32_t i = 0; i < n; i++) {
        records[i].preference = preferences[i];
        if (names[i][0] == '\0') {
            records[i].exchange.is_valid = true; /* the root */
        } else if (names[i][0] != '!') {
            assert_int_equal(dns_name_from_text(slice_of(names[i]), &records[i].exchange), 0);
        }
    }
    struct dns_rrset *set = dns_rrset_new(&(struct dns_rrset_source){.name = SLICE("d.test"),
                                                                     .type = DNS_TYPE_MX,
                                                                     .status = DNS_FOUND,
                                                                     .records = records,
                                                                     .count = n});
    free(records);
    assert_non_null(set);
    return set;
}

static void test_select(void **state)
{
    const uint16_t preferences[] = {20, 10, 5, 10, 1, 2, 3, 4};
    const char *const names[] = {"c.test",    "a.test", "!",         "b.test",
                                 "localhost", "tld",    "192.0.2.1", "x.localhost"};
    struct dns_rrset *set = mx_set(8, preferences, names);
    struct mx_host hosts[MX_HOSTS_MAX];
    uint32_t n = 0;
    uint16_t best = 0;
    int first_a = 0;

    for (int i = 0; i < 1000; i++) {
        assert_int_equal(mx_select(set, &rng, hosts, &n, &best), MX_OK);
        assert_int_equal(n, 3);
        assert_int_equal(best, 1);
        assert_int_equal(hosts[2].preference, 20);
        assert_true(slice_eq(hosts[2].name, SLICE("c.test")));
        first_a += slice_eq(hosts[0].name, SLICE("a.test"));
    }
    assert_in_range(first_a, 400, 600);
    dns_rrset_put(set);
}

static void test_null_mx(void **state)
{
    const uint16_t preferences[] = {0, 10};
    const char *const root[] = {"", ""};
    const char *const mixed[] = {"", "a.test"};
    const char *const useless[] = {"", "localhost"};
    struct mx_host hosts[MX_HOSTS_MAX];
    uint32_t n = 0;
    uint16_t best = 0;

    struct dns_rrset *set = mx_set(1, preferences, root);
    assert_int_equal(mx_select(set, &rng, hosts, &n, &best), MX_NULL);
    dns_rrset_put(set);
    set = mx_set(2, preferences, mixed);
    assert_int_equal(mx_select(set, &rng, hosts, &n, &best), MX_OK);
    assert_int_equal(n, 1);
    dns_rrset_put(set);
    set = mx_set(2, preferences, useless);
    assert_int_equal(mx_select(set, &rng, hosts, &n, &best), MX_NO_HOST);
    dns_rrset_put(set);
}

static void test_select_limit(void **state)
{
    uint16_t preferences[DNS_RECORDS_MAX];
    char names[DNS_RECORDS_MAX][16];
    const char *pointers[DNS_RECORDS_MAX];
    struct mx_host hosts[MX_HOSTS_MAX];
    uint32_t n = 0;
    uint16_t best = 0;

    for (uint32_t i = 0; i < DNS_RECORDS_MAX; i++) {
        preferences[i] = (uint16_t)(1000 - i * 10);
        snprintf(names[i], sizeof(names[i]), "mx%u.test", i);
        pointers[i] = names[i];
    }
    struct dns_rrset *set = mx_set(DNS_RECORDS_MAX, preferences, pointers);
    assert_int_equal(mx_select(set, &rng, hosts, &n, &best), MX_OK);
    assert_int_equal(n, MX_HOSTS_MAX);
    assert_int_equal(best, 10);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(hosts[i].preference, 10 + i * 10);
    }
    dns_rrset_put(set);
}

/* All 24 orders of four equal addresses appear equally often: chi-square with 23 degrees of freedom
 * stays below 60 (p = 0.00004); the seed is fixed. */
/* The same text whatever order the answer has; the best names are the start of it. */
static void test_names(void **state)
{
    const uint16_t preferences[] = {20, 10, 10, 10, 5, 20};
    const char *const orders[][6] = {
        {"c.test", "b.test", "a.test", "a.test", "localhost", "b.test"},
        {"b.test", "a.test", "a.test", "b.test", "localhost", "c.test"},
    };
    char names[MX_NAMES_MAX];
    uint32_t best;
    for (int i = 0; i < 2; i++) {
        struct dns_rrset *set = mx_set(6, preferences, orders[i]);
        size_t len = mx_names(set, names, &best);
        assert_true(slice_eq(slice_make(names, len), SLICE("a.test,b.test,c.test")));
        assert_true(slice_eq(slice_make(names, best), SLICE("a.test,b.test")));
        dns_rrset_put(set);
    }
    const char *const root[] = {""};
    struct dns_rrset *set = mx_set(1, preferences, root);
    assert_int_equal(mx_names(set, names, &best), 0);
    assert_int_equal(best, 0);
    dns_rrset_put(set);
}

static void test_names_are_bounded(void **state)
{
    enum { COUNT = 12, LABELS = 3, LABEL = 62 };
    char texts[COUNT][LABELS * (LABEL + 1) + 5];
    const char *items[COUNT];
    const uint16_t preferences[COUNT] = {0};
    char names[MX_NAMES_MAX];
    uint32_t best;
    for (int i = 0; i < COUNT; i++) {
        memset(texts[i], 'a' + i, sizeof(texts[i]));
        for (int k = 1; k <= LABELS; k++) {
            texts[i][k * (LABEL + 1) - 1] = '.';
        }
        memcpy(&texts[i][LABELS * (LABEL + 1)], "test", 5);
        items[i] = texts[i];
    }
    struct dns_rrset *fits = mx_set(10, preferences, items);
    assert_int_equal(mx_names(fits, names, &best), 10 * (sizeof(texts[0]) - 1) + 9);
    dns_rrset_put(fits);
    struct dns_rrset *many = mx_set(COUNT, preferences, items);
    assert_int_equal(mx_names(many, names, &best), 0);
    dns_rrset_put(many);
}

static void test_shuffle_is_uniform(void **state)
{
    struct ip ips[4];
    struct mx_host hosts[4];
    uint32_t seen[256] = {0};
    struct mx_policy policy = usual_policy();
    enum { ROUNDS = 24000 };

    for (uint8_t i = 0; i < 4; i++) {
        ips[i] = ip_of("192.0.2.0");
        ips[i].bytes[3] = i;
        hosts[i] = host_with(10, &ips[i]);
    }
    for (int i = 0; i < ROUNDS; i++) {
        assert_int_equal(order(&policy, hosts, 4, 10), MX_OK);
        assert_int_equal(count, 4);
        uint32_t key = 0;
        for (int t = 0; t < 4; t++) {
            key = key << 2 | targets[t].ip.bytes[3];
        }
        seen[key]++;
    }
    double chi = 0;
    int kinds = 0;
    for (int i = 0; i < 256; i++) {
        if (seen[i] > 0) {
            double off = seen[i] - ROUNDS / 24.0;
            chi += off * off / (ROUNDS / 24.0);
            kinds++;
        }
    }
    assert_int_equal(kinds, 24);
    assert_true(chi < 60);
}

static void test_sample_is_uniform(void **state)
{
    struct ip ips[100];
    struct mx_host host = {.name = SLICE("mx.test"), .ips = {ips}, .ip_counts = {100}};
    uint32_t seen[100] = {0};
    struct mx_policy policy = usual_policy();

    for (uint8_t i = 0; i < 100; i++) {
        ips[i] = ip_of("192.0.2.0");
        ips[i].bytes[3] = i;
    }
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(order(&policy, &host, 1, 0), MX_OK);
        assert_int_equal(count, MX_TARGETS_MAX);
        for (uint32_t t = 0; t < count; t++) {
            seen[targets[t].ip.bytes[3]]++;
        }
    }
    for (int i = 0; i < 100; i++) {
        assert_in_range(seen[i], 880, 1120);
    }
}

static void test_preference_order(void **state)
{
    const struct ip v4 = ip_of("192.0.2.1");
    const struct ip v6 = ip_of("2001:db8::1");
    const struct mx_host hosts[] = {host_with(5, &v4), host_with(10, &v4), host_with(10, &v6),
                                    host_with(20, &v6)};
    struct mx_policy policy = usual_policy();

    for (int i = 0; i < 50; i++) {
        policy.family = i % 2 == 0 ? MX_FAMILY_IPV4 : MX_FAMILY_IPV6;
        assert_int_equal(order(&policy, hosts, 4, 5), MX_OK);
        assert_int_equal(count, 4);
        assert_int_equal(targets[0].preference, 5);
        assert_int_equal(targets[0].host, 0);
        assert_int_equal(targets[1].ip.family, i % 2 == 0 ? 4 : 6);
        assert_int_equal(targets[2].ip.family, i % 2 == 0 ? 6 : 4);
        assert_int_equal(targets[3].preference, 20);
    }
}

static void test_self(void **state)
{
    const struct ip good = ip_of("192.0.2.1");
    const struct ip self = ip_of("192.0.2.9");
    const struct mx_own own[] = {{self, 0}, {ip_of("192.0.2.8"), 2525}};
    const struct mx_host hosts[] = {host_with(10, &good), host_with(20, &self),
                                    host_with(20, &good), host_with(30, &good)};
    struct mx_policy policy = usual_policy();

    policy.own = own;
    policy.own_count = 2;
    assert_int_equal(order(&policy, hosts, 4, 10), MX_OK);
    assert_int_equal(count, 1);
    assert_int_equal(targets[0].preference, 10);
    /* This machine is the best host. */
    assert_int_equal(order(&policy, hosts + 1, 3, 20), MX_LOOP);
    /* There is a better one, but nothing is known of it. */
    assert_int_equal(order(&policy, hosts + 1, 3, 10), MX_NO_PRIMARY);
    struct mx_host unresolved[] = {
        {.name = SLICE("a.test"), .preference = 10, .has_soft_failure = true}, hosts[1]};
    assert_int_equal(order(&policy, unresolved, 2, 10), MX_NO_PRIMARY);
    /* Another port is another service, unless a listener of ours is there. */
    policy.port = 2525;
    assert_int_equal(order(&policy, hosts + 1, 3, 20), MX_OK);
    const struct mx_host listener = host_with(10, &own[1].ip);
    assert_int_equal(order(&policy, &listener, 1, 10), MX_LOOP);
    policy.port = 2526;
    assert_int_equal(order(&policy, &listener, 1, 10), MX_OK);
}

static void test_refused_scopes(void **state)
{
    static const char *const loops[] = {"127.0.0.1",        "::1",       "0.0.0.0",
                                        "::ffff:127.0.0.1", "::",        "169.254.169.254",
                                        "fe80::1",          "224.0.0.1", "255.255.255.255"};
    const struct ip good = ip_of("192.0.2.1");
    struct mx_policy policy = usual_policy();

    for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++) {
        const struct ip bad = ip_of(loops[i]);
        const struct mx_host hosts[] = {host_with(10, &good), host_with(20, &bad)};
        policy.port = i % 2 == 0 ? 25 : 2525;
        assert_int_equal(order(&policy, hosts + 1, 1, 20), MX_LOOP);
        assert_int_equal(order(&policy, hosts, 2, 10), MX_OK);
        assert_int_equal(count, 1);
        assert_true(ip_eq(&targets[0].ip, &good));
    }
    const struct ip loopback = ip_of("127.0.0.2");
    const struct mx_host host = host_with(10, &loopback);
    policy.allow_loopback = true;
    assert_int_equal(order(&policy, &host, 1, 10), MX_OK);
    /* Interfaces on loopback are no loop then, a listener of ours still is. */
    const struct mx_own own[] = {{loopback, 0}, {loopback, 2525}};
    policy.own = own;
    policy.own_count = 2;
    policy.port = 25;
    assert_int_equal(order(&policy, &host, 1, 10), MX_OK);
    policy.port = 2525;
    assert_int_equal(order(&policy, &host, 1, 10), MX_LOOP);
    policy.own_count = 0;
    policy.allow_loopback = false;
    policy.has_scope_check = false;
    assert_int_equal(order(&policy, &host, 1, 10), MX_OK);
}

static void test_nothing(void **state)
{
    struct mx_host hosts[2] = {{.name = SLICE("a.test")}, {.name = SLICE("b.test")}};
    struct mx_policy policy = usual_policy();

    assert_int_equal(order(&policy, hosts, 2, 0), MX_NO_HOST);
    hosts[1].has_soft_failure = true;
    assert_int_equal(order(&policy, hosts, 2, 0), MX_SOFT);
    const struct ip good = ip_of("192.0.2.1");
    hosts[0] = host_with(50, &good);
    hosts[1].preference = 60;
    assert_int_equal(order(&policy, hosts, 2, 0), MX_OK);
}

static void balanced(uint32_t n4, uint32_t n6, uint32_t limit, uint32_t want4, uint32_t want6,
                     bool is_v6_first)
{
    struct ip v4[20];
    struct ip v6[20];
    struct mx_host hosts[2] = {{.name = SLICE("a.test"), .preference = 10},
                               {.name = SLICE("b.test"), .preference = 20}};
    struct mx_policy policy = usual_policy();
    uint32_t got[2] = {0};

    for (int i = 0; i < 20; i++) {
        v4[i] = ip_of("192.0.2.1");
        v6[i] = ip_of("2001:db8::1");
    }
    hosts[is_v6_first].ips[0] = v4;
    hosts[is_v6_first].ip_counts[0] = n4;
    hosts[!is_v6_first].ips[1] = v6;
    hosts[!is_v6_first].ip_counts[1] = n6;
    policy.balance_limit = limit;
    assert_int_equal(order(&policy, hosts, 2, 10), MX_OK);
    for (uint32_t i = 0; i < count; i++) {
        got[targets[i].ip.family == 6]++;
        assert_true(i == 0 || targets[i - 1].preference <= targets[i].preference);
    }
    assert_int_equal(got[0], want4);
    assert_int_equal(got[1], want6);
}

static void test_balance(void **state)
{
    balanced(10, 1, 5, 4, 1, false); /* few v6: all of them */
    balanced(10, 2, 5, 3, 2, true);
    balanced(1, 10, 5, 1, 4, false);  /* few v4 */
    balanced(10, 10, 5, 3, 2, false); /* the odd one to the family of the first */
    balanced(10, 10, 5, 2, 3, true);
    balanced(10, 10, 4, 2, 2, true);
    balanced(3, 2, 5, 3, 2, false);   /* not above the limit */
    balanced(10, 0, 5, 10, 0, false); /* one family */
    balanced(10, 10, 0, 10, 10, false);
    balanced(10, 10, 1, 1, 0, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_select),
        cmocka_unit_test(test_null_mx),
        cmocka_unit_test(test_select_limit),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_names_are_bounded),
        cmocka_unit_test(test_shuffle_is_uniform),
        cmocka_unit_test(test_sample_is_uniform),
        cmocka_unit_test(test_preference_order),
        cmocka_unit_test(test_self),
        cmocka_unit_test(test_refused_scopes),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_balance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
