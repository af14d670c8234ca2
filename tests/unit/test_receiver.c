/* Which site a destination belongs to, and what keeps its mail from connections of others. */
#include "dns/hosts.h"
#include "dns/rrset.h"
#include "engine/config/policy.h"
#include "engine/config/router.h"
#include "engine/schedule/receiver.h"
#include "engine/state/settings.h"
#include "tests/unit/config_sample.h"

#include <stdlib.h>

static struct sample sample;
static struct settings settings;

static int set_up(void **state)
{
    sample_load(&sample, "transport t { smtp_tls_security_level = may }\n"
                         "transport apart { site_rollup = no }\n"
                         "provider big { mx = {\"*.big.example\"} }\n"
                         "provider named { domains = {\"*.named.example\", \"named.example\"} }\n"
                         "domain lim.example { destination_concurrency_limit = 1 }\n"
                         "domain slow.example { smtp_mail_timeout = 7s }\n"
                         "domain c.big.example { destination_concurrency_limit = 1 }\n"
                         "route safe { transport = t smtp_tls_security_level = encrypt }\n"
                         "route proved { transport = t smtp_tls_security_level = verify }\n"
                         "route dane { transport = t smtp_tls_security_level = dane }\n"
                         "route dane2 { transport = t smtp_tls_security_level = dane }\n"
                         "route sts { transport = t smtp_tls_security_level = mta-sts }\n"
                         "route \"*\" { transport = t }\n");
    settings = (struct settings){.config = sample.config, .router = router_new(sample.config)};
    return sample.err != 0 || settings.router == NULL ||
                   policy_table_new(sample.config, &settings.policies) != 0
               ? -1
               : 0;
}

static int tear_down(void **state)
{
    policy_table_free(settings.policies);
    router_free(settings.router);
    config_free(sample.config);
    return 0;
}

/* One host. */
struct scene {
    const char *destination, *nexthop; /* nexthop NULL: the same */
    const char *names;                 /* of the MX records; NULL: mx */
    uint32_t best_len;                 /* 0: all of them */
    const char *host;                  /* NULL: mx */
    enum dns_dane dane;
    const struct dns_rrset *tlsa;
    const char *policy; /* of MTA-STS */
    uint32_t transport;
};

static void find(const struct scene *s, struct receiver *ret, uint32_t *ret_name)
{
    const bool keep[] = {true};
    struct slice names = slice_of(s->names == NULL ? "mx" : s->names);
    const struct dns_host host = {
        .name = slice_of(s->host == NULL ? "mx" : s->host), .dane = s->dane, .tlsa = s->tlsa};
    const struct dns_hosts_facts facts = {
        .names = names, .best_len = s->best_len == 0 ? (uint32_t)names.len : s->best_len};
    struct dns_hosts *plain = dns_hosts_new(&host, 1, &facts);
    struct dns_hosts *hosts =
        dns_hosts_restrict(plain, keep, slice_of(s->policy == NULL ? "" : s->policy));
    struct sched_server server = {.preference = 0};
    const struct receiver_question q = {
        .settings = &settings,
        .transport = s->transport,
        .destination = slice_of(s->destination),
        .nexthop = slice_of(s->nexthop == NULL ? s->destination : s->nexthop),
        .hosts = hosts};
    receiver_find(&q, 7, ret, &server);
    *ret_name = server.name;
    dns_hosts_put(hosts);
    dns_hosts_put(plain);
}

static void sites(void **state)
{
    static char long_names[RECEIVER_SITE_MAX + 2];
    memset(long_names, 'x', sizeof(long_names) - 1);
    const struct {
        struct scene scene;
        const char *site;
    } rows[] = {
        {{.destination = "a", .names = "mx1,mx2"}, "mx1,mx2"},
        {{.destination = "b", .names = "mx1,mx2,far", .best_len = 7}, "mx1,mx2"},
        {{.destination = "a:2525", .names = "mx1,mx2,far", .best_len = 7}, "mx1,mx2:2525"},
        {{.destination = "[host]"}, "[host]"},
        {{.destination = "[host]:587"}, "[host]:587"},
        {{.destination = "[192.0.2.1]"}, "[192.0.2.1]"},
        {{.destination = "u@a", .nexthop = "a"}, "mx"}, /* destination_recipient_limit = 1 */
        {{.destination = "u@[host]", .nexthop = "[host]"}, "[host]"},
        {{.destination = "a", .transport = 1}, "domain:a"},
        {{.destination = "u@a", .nexthop = "a", .transport = 1}, "domain:u@a"},
        {{.destination = "[host]", .transport = 1}, "domain:[host]"},
        {{.destination = "a", .names = long_names}, "domain:a"},
        {{.destination = "a", .names = ""}, "domain:a"},
        {{.destination = long_names, .transport = 1}, ""},
        {{.destination = "a", .names = "mx.big.example"}, "provider:big"},
        {{.destination = "a", .names = "mx.big.example,far", .best_len = 14}, /* not all are its */
         "mx.big.example"},
        {{.destination = "a:2525", .names = "mx.big.example"}, "mx.big.example:2525"},
        {{.destination = "u@a", .nexthop = "a", .names = "mx.big.example"}, "provider:big"},
        {{.destination = "a", .names = "mx.big.example", .transport = 1}, "domain:a"},
        {{.destination = "c.big.example", .names = "mx.big.example"}, "provider:big"},
        {{.destination = "named.example", .names = "mx1"}, "provider:named/mx1"},
        {{.destination = "x.named.example", .names = "mx2"}, "provider:named/mx2"},
        {{.destination = "named.example.evil", .names = "mx2"}, "mx2"},
        {{.destination = "lim.example", .names = "mx1,mx2"}, "domain:lim.example"},
        {{.destination = "slow.example", .names = "mx1,mx2"}, "mx1,mx2"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct receiver r;
        uint32_t name;
        find(&rows[i].scene, &r, &name);
        if (!slice_eq(slice_make(r.site, r.site_len), slice_of(rows[i].site))) {
            fail_msg("row %zu: " SLICE_FMT, i, (int)r.site_len, r.site);
        }
    }
}

static struct dns_rrset *new_tlsa(const char *base, const char *record)
{
    const struct dns_record item = {.data = slice_of(record)};
    struct dns_rrset *set = dns_rrset_new(&(struct dns_rrset_source){.name = slice_of(base),
                                                                     .type = DNS_TYPE_TLSA,
                                                                     .status = DNS_FOUND,
                                                                     .records = &item,
                                                                     .count = 1});
    assert_non_null(set);
    return set;
}

/* Whether both may use a connection that was opened for the other. */
static bool agree(const struct scene *a, const struct scene *b)
{
    struct receiver x, y;
    uint32_t x_name, y_name;
    find(a, &x, &x_name);
    find(b, &y, &y_name);
    assert_true(slice_eq(slice_make(x.site, x.site_len), slice_make(y.site, y.site_len)));
    return x.tls == y.tls && x_name == y_name;
}

static void demands_and_names(void **state)
{
    struct dns_rrset *key = new_tlsa("_25._tcp.mx", "\3\1\1x");
    struct dns_rrset *other_key = new_tlsa("_25._tcp.mx", "\3\1\1y");
    struct dns_rrset *other_base = new_tlsa("_25._tcp.alias", "\3\1\1x");
    struct dns_rrset *anchor = new_tlsa("_25._tcp.mx", "\2\1\1x");
    const struct {
        struct scene a, b;
        bool is_shared;
    } rows[] = {
        {{.destination = "a"}, {.destination = "b"}, true},
        {{.destination = "a"}, {.destination = "b", .host = "also-mx"}, false},
        {{.destination = "a"}, {.destination = "safe"}, false},
        {{.destination = "a"}, {.destination = "slow.example"}, false},
        {{.destination = "slow.example"}, {.destination = "slow.example"}, true},
        {{.destination = "a"}, {.destination = "proved"}, false},
        {{.destination = "safe"}, {.destination = "proved"}, false},
        /* These come to `may`. */
        {{.destination = "a"}, {.destination = "dane"}, true},
        {{.destination = "a"}, {.destination = "sts"}, true},
        {{.destination = "sts", .policy = "1"}, {.destination = "sts"}, false},
        {{.destination = "sts", .policy = "1"}, {.destination = "sts", .policy = "2"}, true},
        {{.destination = "sts", .policy = "1"}, {.destination = "proved"}, false},
        {{.destination = "dane", .dane = DNS_DANE_RECORDS, .tlsa = key},
         {.destination = "dane2", .dane = DNS_DANE_RECORDS, .tlsa = key},
         true},
        {{.destination = "dane", .dane = DNS_DANE_RECORDS, .tlsa = key},
         {.destination = "dane2", .dane = DNS_DANE_RECORDS, .tlsa = other_key},
         false},
        {{.destination = "dane", .dane = DNS_DANE_RECORDS, .tlsa = key},
         {.destination = "dane2", .dane = DNS_DANE_RECORDS, .tlsa = other_base},
         false},
        {{.destination = "dane", .dane = DNS_DANE_RECORDS, .tlsa = key},
         {.destination = "dane2"}, /* its MX records were not validated */
         false},
        {{.destination = "dane", .dane = DNS_DANE_UNUSABLE, .tlsa = key},
         {.destination = "safe"},
         true},
        /* A certificate of an authority of the host may be for the destination. */
        {{.destination = "dane", .dane = DNS_DANE_RECORDS, .tlsa = anchor},
         {.destination = "dane2", .dane = DNS_DANE_RECORDS, .tlsa = anchor},
         false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (agree(&rows[i].a, &rows[i].b) != rows[i].is_shared) {
            fail_msg("row %zu", i);
        }
        assert_true(agree(&rows[i].a, &rows[i].a));
    }
    dns_rrset_put(key);
    dns_rrset_put(other_key);
    dns_rrset_put(other_base);
    dns_rrset_put(anchor);
}

/* What is configured is the provider's, what was said is of one set of hosts. */
static void limits_are_the_providers(void **state)
{
    static const char *const rows[][3] = {
        {"provider:gmx/mx1.gmx.test,mx2.gmx.test", "provider:gmx", "mx1.gmx.test,mx2.gmx.test"},
        {"provider:google", "provider:google", ""},
        {"mx1.x.test,mx2.x.test:26", "mx1.x.test,mx2.x.test:26", ""},
        {"domain:x.test", "domain:x.test", ""},
        {"[192.0.2.1]:25", "[192.0.2.1]:25", ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slice name, hosts;
        receiver_limits(slice_of(rows[i][0]), &name, &hosts);
        assert_true(slice_eq(name, slice_of(rows[i][1])));
        assert_true(slice_eq(hosts, slice_of(rows[i][2])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_the_providers),
        cmocka_unit_test(sites),
        cmocka_unit_test(demands_and_names),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
