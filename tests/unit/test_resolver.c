#include "base/clock.h"
#include "base/error.h"
#include "base/rcu.h"
#include "dns/resolver.h"
#include "tests/unit/fake_dns.h"
#include "tests/unit/unit.h"

#define NOT_FOUND "Host or domain name not found. Name service error for name="

#define DIGEST "0123456789abcdef0123456789abcdef" /* 32 bytes */

static const struct fake_record records[] = {
    {"ok.test", DNS_TYPE_MX, "20 mx2.ok.test"},
    {"ok.test", DNS_TYPE_MX, "10 mx1.ok.test"},
    {"mx1.ok.test", DNS_TYPE_A, "192.0.2.1"},
    {"mx1.ok.test", DNS_TYPE_AAAA, "2001:db8::1"},
    {"mx2.ok.test", DNS_TYPE_A, "192.0.2.2"},
    {"plain.test", DNS_TYPE_A, "192.0.2.3"},
    {"null.test", DNS_TYPE_MX, "0 "},
    {"halfnull.test", DNS_TYPE_MX, "0 "},
    {"halfnull.test", DNS_TYPE_MX, "10 mx1.ok.test"},
    {"useless.test", DNS_TYPE_MX, "10 localhost"},
    {"literal.test", DNS_TYPE_MX, "10 192.0.2.1"},
    {"even1.test", DNS_TYPE_MX, "10 x.even.test"},
    {"even1.test", DNS_TYPE_MX, "10 y.even.test"},
    {"even1.test", DNS_TYPE_MX, "20 gone.even.test"},
    {"even2.test", DNS_TYPE_MX, "20 gone.even.test"},
    {"even2.test", DNS_TYPE_MX, "10 y.even.test"},
    {"even2.test", DNS_TYPE_MX, "10 x.even.test"},
    {"x.even.test", DNS_TYPE_A, "192.0.2.30"},
    {"x.even.test", DNS_TYPE_A, "192.0.2.10"},
    {"x.even.test", DNS_TYPE_AAAA, "2001:db8::3"},
    {"x.even.test", DNS_TYPE_AAAA, "2001:db8::4"},
    {"y.even.test", DNS_TYPE_A, "192.0.2.20"},
    {"y.even.test", DNS_TYPE_A, "192.0.2.10"},
    {"refused.test", 0, "REFUSED"},
    {"servfail.test", 0, "SERVFAIL"},
    {"servfail.test", DNS_TYPE_A, "192.0.2.66"},
    {"drop.test", 0, "DROP"},
    {"notimp.test", 0, "FORMERR"},
    {"alias.test", DNS_TYPE_CNAME, "ok.test"},
    {"aliasmx.test", DNS_TYPE_MX, "10 alias1.test"},
    {"alias1.test", DNS_TYPE_CNAME, "alias2.test"},
    {"alias2.test", DNS_TYPE_CNAME, "mx1.ok.test"},
    {"circle.test", DNS_TYPE_CNAME, "circle2.test"},
    {"circle2.test", DNS_TYPE_CNAME, "circle.test"},
    {"tc.test", DNS_TYPE_MX, "10 mx1.ok.test"},
    {"tc.test", 0, "TC"},
    {"tcgone.test", DNS_TYPE_MX, "10 mx1.ok.test"},
    {"tcgone.test", 0, "TCGONE"},
    {"many.test", DNS_TYPE_A, "192.0.2.9"},
    {"*.many.test", DNS_TYPE_A, "192.0.2.7"},
    {"partial.test", DNS_TYPE_MX, "10 refused.test"},
    {"partial.test", DNS_TYPE_MX, "20 nowhere.test"},
    {"partial.test", DNS_TYPE_MX, "30 mx2.ok.test"},
    {"allsoft.test", DNS_TYPE_MX, "10 nowhere.test"},
    {"allsoft.test", DNS_TYPE_MX, "20 refused.test"},
    {"allgone.test", DNS_TYPE_MX, "10 nowhere.test"},
    {"allgone.test", DNS_TYPE_MX, "20 empty.test"},
    {"empty.test", DNS_TYPE_MX, "10 nowhere.test"},
    {"selfbest.test", DNS_TYPE_MX, "10 self.test"},
    {"selfbest.test", DNS_TYPE_MX, "20 mx1.ok.test"},
    {"selfworse.test", DNS_TYPE_MX, "20 self.test"},
    {"selfworse.test", DNS_TYPE_MX, "10 mx2.ok.test"},
    {"selfnext.test", DNS_TYPE_MX, "10 refused.test"},
    {"selfnext.test", DNS_TYPE_MX, "20 self.test"},
    {"self.test", DNS_TYPE_A, "192.0.2.99"},
    {"loop.test", DNS_TYPE_MX, "10 lo.test"},
    {"lo.test", DNS_TYPE_A, "127.0.0.1"},
    {"meta.test", DNS_TYPE_A, "169.254.169.254"},
    {"forged.test", DNS_TYPE_MX, "10 mx2.ok.test"},
    {"forged.test", 0, "FORGED"},
    {"evil.test", DNS_TYPE_A, "192.0.2.66"},
    {"*.shared.test", DNS_TYPE_MX, "10 mx1.ok.test"},
    {"*.search.test", DNS_TYPE_A, "192.0.2.66"},
    {"xn--bcher-kva.test", DNS_TYPE_A, "192.0.2.4"},
    {"dane.test", DNS_TYPE_MX, "10 a.dane.test"},
    {"dane.test", DNS_TYPE_MX, "20 b.dane.test"},
    {"dane.test", DNS_TYPE_MX, "30 c.dane.test"},
    {"*.dane.test", DNS_TYPE_A, "192.0.2.8"},
    {"_25._tcp.a.dane.test", DNS_TYPE_TLSA, "\3\1\1" DIGEST},
    {"_25._tcp.b.dane.test", DNS_TYPE_TLSA, "\1\1\1" DIGEST},
    {"_25._tcp.c.dane.test", 0, "SERVFAIL"},
    {"failing.test", DNS_TYPE_MX, "10 c.dane.test"},
    {"_label.ok.test", DNS_TYPE_TXT, "text"},
    {NULL, 0, NULL},
};

static struct fake_dns server;
static struct resolver_wants wants;
static struct dns_cache *cache;
static struct resolver *resolver;
static struct dns_result result;
static struct mx_own own[1];

static struct dns_config config(void)
{
    static const char *servers[1];
    struct dns_config config;

    servers[0] = server.address;
    dns_config_defaults(&config);
    config.servers = servers;
    config.server_count = 1;
    /* A busy machine may keep the answer to itself for a while. */
    config.query_timeout = 60 * USEC_PER_SEC;
    config.query_tries = 1;
    config.own = own;
    config.own_count = 1;
    config.seed = 1;
    return config;
}

static void reopen(const struct dns_config *config)
{
    const struct resolver_hooks hooks = {fake_dns_watch, &server};

    resolver_free(resolver);
    resolver = NULL;
    assert_int_equal(resolver_new(config, cache, &hooks, &resolver), 0);
}

static int setup(void **state)
{
    struct dns_cache_config cache_config;

    fake_dns_open(&server, records);
    dns_cache_config_defaults(&cache_config);
    cache = dns_cache_new(&cache_config);
    assert_non_null(cache);
    assert_int_equal(ip_parse(SLICE("192.0.2.99"), &own[0].ip), 0);
    resolver = NULL;
    wants = (struct resolver_wants){.dane = false};
    const struct dns_config usual = config();
    reopen(&usual);
    return 0;
}

static int teardown(void **state)
{
    resolver_free(resolver);
    for (int i = 0; i < FAKE_WATCHES; i++) {
        assert_int_equal(server.watches[i].fd, -1);
    }
    dns_cache_clear(cache);
    rcu_pass();
    rcu_drain();
    dns_cache_put(cache);
    fake_dns_close(&server);
    return 0;
}

static void on_event(void *asker, int fd, bool readable, bool writable)
{
    resolver_fd_event(asker, fd, readable, writable, clock_mono());
}

static void start(const char *nexthop, void *user)
{
    assert_int_equal(resolver_start(resolver, slice_of(nexthop), 25, &wants, user, clock_mono()),
                     0);
}

static void wait_result(void)
{
    usec_t give_up = clock_mono() + 60 * USEC_PER_SEC;

    while (!resolver_next(resolver, &result, clock_mono())) {
        usec_t now = clock_mono();
        usec_t at = resolver_wake_at(resolver);
        assert_true(now < give_up);
        assert_true(at != USEC_NEVER);
        rcu_pass();
        fake_dns_poll(&server, at <= now ? 0 : (int)((at - now) / USEC_PER_MSEC) + 1, on_event,
                      resolver);
        resolver_tick(resolver, clock_mono());
    }
}

static void resolve(const char *nexthop)
{
    int mark;

    start(nexthop, &mark);
    wait_result();
    assert_ptr_equal(result.user, &mark);
    assert_true(result.expires > clock_mono());
    assert_int_equal(result.hosts != NULL, result.verdict == DNS_OK);
}

static void expect_failure(const char *nexthop, enum dns_verdict verdict, const char *status,
                           const char *text)
{
    resolve(nexthop);
    assert_string_equal(result.status, status);
    assert_string_equal(result.text, text);
    assert_int_equal(result.verdict, verdict);
}

/* The addresses in order, separated by spaces. */
static void expect_hosts(const char *nexthop, const char *addresses)
{
    char got[2000] = "";
    char text[IP_TEXT_MAX];
    size_t len = 0;

    resolve(nexthop);
    assert_int_equal(result.verdict, DNS_OK);
    for (uint32_t i = 0; i < result.hosts->count; i++) {
        len += (size_t)snprintf(got + len, sizeof(got) - len, "%s%s", i == 0 ? "" : " ",
                                ip_text(&result.hosts->list[i].ip, text));
    }
    assert_string_equal(got, addresses);
    dns_hosts_put(result.hosts);
}

static void test_mx(void **state)
{
    struct dns_config v4 = config();

    resolve("OK.test.");
    assert_int_equal(result.verdict, DNS_OK);
    assert_true(result.hosts->facts.has_mx);
    assert_int_equal(result.hosts->count, 3);
    assert_int_equal(result.hosts->list[0].preference, 10);
    assert_int_equal(result.hosts->list[1].preference, 10);
    assert_true(result.hosts->list[0].ip.family != result.hosts->list[1].ip.family);
    assert_int_equal(result.hosts->list[2].preference, 20);
    assert_true(slice_eq(result.hosts->list[2].name, SLICE("mx2.ok.test")));
    assert_int_equal(result.hosts->list[2].port, 25);
    assert_int_equal(result.hosts->facts.expires, result.expires);
    assert_in_range(result.expires - clock_mono(), 55 * USEC_PER_SEC, 60 * USEC_PER_SEC);
    dns_hosts_put(result.hosts);
    assert_int_equal(server.log_count, 5);
    /* From the cache, with another preference of families. */
    v4.prefer = MX_FAMILY_IPV6;
    reopen(&v4);
    expect_hosts("ok.test", "2001:db8::1 192.0.2.1 192.0.2.2");
    v4.families = DNS_FAMILIES_IPV4;
    reopen(&v4);
    expect_hosts("ok.test", "192.0.2.1 192.0.2.2");
    assert_int_equal(server.log_count, 5);
    v4.families = DNS_FAMILIES_IPV6;
    reopen(&v4);
    expect_hosts("ok.test", "2001:db8::1");
}

static void expect_names(const char *nexthop, const char *names, const char *best)
{
    resolve(nexthop);
    assert_int_equal(result.verdict, DNS_OK);
    assert_true(slice_eq(result.hosts->facts.names, slice_of(names)));
    assert_true(slice_eq(dns_hosts_best(result.hosts), slice_of(best)));
    dns_hosts_put(result.hosts);
}

/* Whatever order the name server has them in, and whichever resolver is asked. */
static void test_equal_records_give_equal_lists(void **state)
{
    struct dns_config some = config();

    some.address_limit = 0;
    reopen(&some);
    for (int i = 0; i < 4; i++) {
        expect_hosts("even1.test", "192.0.2.10 192.0.2.10 192.0.2.20 192.0.2.30 2001:db8::3 "
                                   "2001:db8::4");
        expect_hosts("even2.test", "192.0.2.10 192.0.2.10 192.0.2.20 192.0.2.30 2001:db8::3 "
                                   "2001:db8::4");
    }
    /* A name without an address just now is one of the records all the same. */
    expect_names("even1.test", "x.even.test,y.even.test,gone.even.test", "x.even.test,y.even.test");
    expect_names("even2.test", "x.even.test,y.even.test,gone.even.test", "x.even.test,y.even.test");
    expect_names("plain.test", "plain.test", "plain.test");
    expect_names("[plain.test]", "plain.test", "plain.test");
    expect_names("[192.0.2.1]", "192.0.2.1", "192.0.2.1");
    /* Where not all have room, both get the same ones. */
    some.address_limit = 3;
    for (uint64_t seed = 1; seed < 20; seed++) {
        some.seed = seed;
        reopen(&some);
        resolve("even1.test");
        struct dns_hosts *first = result.hosts;
        reopen(&some);
        resolve("even2.test");
        assert_int_equal(result.hosts->count, 3);
        assert_int_equal(first->count, 3);
        for (uint32_t k = 0; k < 3; k++) {
            assert_true(ip_eq(&first->list[k].ip, &result.hosts->list[k].ip));
            assert_true(slice_eq(first->list[k].name, result.hosts->list[k].name));
        }
        dns_hosts_put(first);
        dns_hosts_put(result.hosts);
    }
}

static void test_host_without_mx(void **state)
{
    expect_hosts("plain.test", "192.0.2.3");
    assert_int_equal(fake_dns_asked(&server, "plain.test", DNS_TYPE_MX), 1);
    expect_hosts("[plain.test]:2525", "192.0.2.3");
}

static void test_brackets(void **state)
{
    resolve("[mx2.ok.test]:2525");
    assert_int_equal(result.verdict, DNS_OK);
    assert_false(result.hosts->facts.has_mx);
    assert_int_equal(result.hosts->count, 1);
    assert_int_equal(result.hosts->list[0].port, 2525);
    dns_hosts_put(result.hosts);
    assert_int_equal(fake_dns_asked(&server, "mx2.ok.test", DNS_TYPE_MX), 0);
    int asked = server.log_count;
    resolve("[127.0.0.1]:2626");
    assert_int_equal(result.verdict, DNS_OK);
    assert_true(result.expires == USEC_NEVER);
    assert_int_equal(result.hosts->list[0].port, 2626);
    assert_true(slice_eq(result.hosts->list[0].name, SLICE("127.0.0.1")));
    dns_hosts_put(result.hosts);
    expect_hosts("[IPv6:::1]", "::1");
    assert_int_equal(server.log_count, asked);
    /* A host the operator named may be on loopback, but not this very service. */
    expect_hosts("[lo.test]:2525", "127.0.0.1");
    expect_hosts("[self.test]:2525", "192.0.2.99");
    expect_failure("[self.test]", DNS_HARD, "5.4.6", "mail for self.test loops back to myself");
}

static void test_hard_failures(void **state)
{
    expect_failure("nx.test", DNS_HARD, "5.4.4", NOT_FOUND "nx.test type=A: Host not found");
    expect_failure("empty.test", DNS_HARD, "5.4.4",
                   NOT_FOUND "nowhere.test type=A: Host not found");
    expect_failure("null.test", DNS_HARD, "5.1.10",
                   "Domain null.test does not accept mail (nullMX)");
    assert_int_equal(fake_dns_asked(&server, "null.test", DNS_TYPE_A), 0);
    expect_failure("allgone.test", DNS_HARD, "5.4.4",
                   NOT_FOUND "nowhere.test type=A: Host not found");
    expect_failure("circle.test", DNS_HARD, "5.4.4", "Name server loop for circle.test");
    expect_failure("notimp.test", DNS_HARD, "5.4.3",
                   NOT_FOUND "notimp.test type=MX: Non-recoverable error");
    expect_failure("useless.test", DNS_HARD, "5.4.4",
                   NOT_FOUND "useless.test type=MX: Malformed or unexpected name server reply");
    expect_failure("literal.test", DNS_HARD, "5.4.4",
                   NOT_FOUND "literal.test type=MX: Malformed or unexpected name server reply");
    expect_failure("a b\r\n.test", DNS_HARD, "5.1.2", "Bad destination system address: a?b??.test");
    expect_failure("\xff\xfe.test", DNS_HARD, "5.1.2", "Bad destination system address: ??.test");
    expect_failure("", DNS_HARD, "5.1.2", "Bad destination system address: ");
    expect_hosts("b\xc3\xbc"
                 "cher.test",
                 "192.0.2.4");
}

static void test_soft_failures(void **state)
{
    expect_failure("refused.test", DNS_SOFT, "4.4.3",
                   NOT_FOUND "refused.test type=MX: Host not found, try again");
    expect_failure("servfail.test", DNS_SOFT, "4.4.3",
                   NOT_FOUND "servfail.test type=MX: Host not found, try again");
    assert_int_equal(fake_dns_asked(&server, "servfail.test", DNS_TYPE_A), 0);
    struct dns_config usual = config(), hasty = usual;
    hasty.query_timeout = 100 * USEC_PER_MSEC; /* for a question that nobody answers */
    reopen(&hasty);
    expect_failure("drop.test", DNS_SOFT, "4.4.3",
                   NOT_FOUND "drop.test type=MX: Host not found, try again");
    reopen(&usual);
    expect_failure("allsoft.test", DNS_SOFT, "4.4.3",
                   NOT_FOUND "refused.test type=A: Host not found, try again");
    resolve("tcgone.test");
    assert_int_equal(result.verdict, DNS_SOFT);
    assert_string_equal(result.status, "4.4.3");
    /* A destination that fails is not asked about again at once. */
    int asked = server.log_count;
    resolve("servfail.test");
    assert_int_equal(server.log_count, asked);
}

static void test_partial(void **state)
{
    struct dns_config v4_first = config();

    v4_first.prefer = MX_FAMILY_IPV4;
    reopen(&v4_first);
    expect_hosts("partial.test", "192.0.2.2");
    expect_hosts("halfnull.test", "192.0.2.1 2001:db8::1");
}

static void test_aliases(void **state)
{
    struct dns_config v4 = config();
    v4.families = DNS_FAMILIES_IPV4;
    reopen(&v4);
    expect_hosts("alias.test", "192.0.2.1 192.0.2.2");
    expect_hosts("aliasmx.test", "192.0.2.1");
}

static void test_truncated_goes_to_tcp(void **state)
{
    struct dns_config v4 = config();
    v4.families = DNS_FAMILIES_IPV4;
    reopen(&v4);
    expect_hosts("tc.test", "192.0.2.1");
    assert_int_equal(fake_dns_asked(&server, "tc.test", DNS_TYPE_MX), 2);
}

static void test_thousand_mx(void **state)
{
    resolve("many.test"); /* 1,000 records do not fit into a datagram */
    assert_int_equal(result.verdict, DNS_OK);
    assert_int_equal(result.hosts->count, MX_HOSTS_MAX);
    for (uint32_t i = 0; i < result.hosts->count; i++) {
        assert_int_equal(result.hosts->list[i].preference, i);
    }
    dns_hosts_put(result.hosts);
    assert_true(server.log_count <= 2 + 2 * MX_HOSTS_MAX);
}

static void test_self(void **state)
{
    struct dns_config lo = config();

    expect_failure("selfbest.test", DNS_HARD, "5.4.6",
                   "mail for selfbest.test loops back to myself");
    expect_hosts("selfworse.test", "192.0.2.2");
    expect_failure("selfnext.test", DNS_SOFT, "4.4.4",
                   "unable to find primary relay for selfnext.test");
    expect_failure("loop.test", DNS_HARD, "5.4.6", "mail for loop.test loops back to myself");
    expect_failure("lo.test:2525", DNS_HARD, "5.4.6", "mail for lo.test loops back to myself");
    expect_failure("meta.test", DNS_HARD, "5.4.6", "mail for meta.test loops back to myself");
    lo.allow_loopback = true;
    reopen(&lo);
    expect_hosts("loop.test", "127.0.0.1");
}

static void test_forged_answers(void **state)
{
    expect_hosts("forged.test", "192.0.2.2");
}

/* Neither search lists nor aliases nor the hosts file take part. */
static void test_absolute_names_only(void **state)
{
    char path[] = "/tmp/sluice-hostaliases-XXXXXX";
    int fd = mkstemp(path);
    const char line[] = "short a.search.test\n";

    assert_true(fd >= 0);
    assert_int_equal(write(fd, line, sizeof(line) - 1), sizeof(line) - 1);
    close(fd);
    setenv("HOSTALIASES", path, 1);
    setenv("LOCALDOMAIN", "search.test", 1);
    setenv("RES_OPTIONS", "ndots:5", 1);
    const struct dns_config usual = config();
    reopen(&usual);
    resolve("short");
    assert_int_equal(result.verdict, DNS_HARD);
    resolve("[localhost]");
    assert_int_equal(result.verdict, DNS_HARD);
    resolve("nx.test");
    assert_int_equal(result.verdict, DNS_HARD);
    for (int i = 0; i < server.log_count; i++) {
        assert_null(strstr(server.log[i].name, "search.test"));
    }
    unsetenv("HOSTALIASES");
    unsetenv("LOCALDOMAIN");
    unsetenv("RES_OPTIONS");
    unlink(path);
}

static void test_many_destinations_share_questions(void **state)
{
    enum { COUNT = 1000 };
    static int users[COUNT];
    struct dns_config few = config();
    struct resolver_counters counters;
    char name[64];

    few.query_limit = 50;
    reopen(&few);
    memset(users, 0, sizeof(users));
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof(name), "d%d.shared.test", i);
        start(name, &users[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        wait_result();
        assert_int_equal(result.verdict, DNS_OK);
        (*(int *)result.user)++;
        dns_hosts_put(result.hosts);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(users[i], 1);
    }
    assert_int_equal(fake_dns_asked(&server, "mx1.ok.test", 0), 2);
    resolver_read_counters(resolver, &counters);
    assert_int_equal(counters.resolutions, COUNT);
    assert_int_equal(counters.queries, COUNT + 2);
    assert_int_equal(counters.active, 0);
    assert_false(resolver_next(resolver, &result, clock_mono()));
    assert_true(resolver_wake_at(resolver) == USEC_NEVER);
}

/* The deadline is the resolver's own; time is passed in, so nothing waits. */
static void test_deadline(void **state)
{
    struct dns_config slow = config();
    usec_t now = clock_mono();
    int mark;

    slow.query_timeout = 30 * USEC_PER_SEC;
    reopen(&slow);
    server.is_silent = true;
    assert_int_equal(resolver_start(resolver, SLICE("ok.test"), 25, NULL, &mark, now), 0);
    assert_false(resolver_next(resolver, &result, now));
    resolver_tick(resolver, now + slow.deadline - 1);
    assert_false(resolver_next(resolver, &result, now + slow.deadline - 1));
    resolver_tick(resolver, now + slow.deadline);
    assert_true(resolver_next(resolver, &result, now + slow.deadline));
    assert_int_equal(result.verdict, DNS_SOFT);
    assert_string_equal(result.status, "4.4.3");
    assert_string_equal(result.text, NOT_FOUND "ok.test type=MX: Host not found, try again");
    /* The answer that comes late serves the next one. */
    server.is_silent = false;
    expect_hosts("[mx2.ok.test]", "192.0.2.2");
    assert_non_null(dns_cache_find(cache, SLICE("ok.test"), DNS_TYPE_MX, clock_mono()));
}

static void test_free_while_busy(void **state)
{
    for (int i = 0; i < 3; i++) {
        start("ok.test", NULL);
    }
    start("[192.0.2.1]", NULL);
    start("drop.test", NULL);
    wait_result();
    dns_hosts_put(result.hosts);
    const struct dns_config usual = config();
    reopen(&usual);
    expect_hosts("[plain.test]", "192.0.2.3");
}

/* A server that is not there at first. */
static void test_server_comes_back(void **state)
{
    struct dns_config usual = config();
    static const char *nobody[] = {"127.0.0.1:1"};

    usual.servers = nobody;
    reopen(&usual);
    resolve("plain.test");
    assert_int_equal(result.verdict, DNS_SOFT);
    dns_cache_clear(cache);
    usual = config();
    reopen(&usual);
    expect_hosts("plain.test", "192.0.2.3");
}

static void test_dane(void **state)
{
    wants.dane = true;
    server.flags = 0x20;
    resolve("dane.test");
    assert_int_equal(result.verdict, DNS_OK);
    assert_int_equal(result.hosts->count, 2); /* nobody knows about c */
    assert_int_equal(result.hosts->list[0].dane, DNS_DANE_RECORDS);
    assert_int_equal(result.hosts->list[0].tlsa->count, 1);
    assert_true(result.hosts->list[0].is_authentic);
    assert_int_equal(result.hosts->list[1].dane, DNS_DANE_UNUSABLE);
    assert_int_equal(result.hosts->list[1].tlsa->tlsa[0].usage, 1);
    dns_hosts_put(result.hosts);
    resolve("ok.test");
    assert_int_equal(result.hosts->list[0].dane, DNS_DANE_NONE);
    assert_null(result.hosts->list[0].tlsa);
    dns_hosts_put(result.hosts);
    expect_failure("failing.test", DNS_SOFT, "4.7.5",
                   "TLSA lookup error for the mail hosts of failing.test");
    resolve("[a.dane.test]");
    assert_int_equal(result.hosts->list[0].dane, DNS_DANE_RECORDS);
    dns_hosts_put(result.hosts);
}

static void test_no_dane_without_validation_or_wish(void **state)
{
    wants.dane = true;
    resolve("dane.test");
    assert_int_equal(result.hosts->count, 3);
    assert_int_equal(result.hosts->list[0].dane, DNS_DANE_NONE);
    dns_hosts_put(result.hosts);
    assert_int_equal(fake_dns_asked(&server, "_25._tcp.a.dane.test", 0), 0);
    dns_cache_clear(cache);
    server.flags = 0x20;
    wants.dane = false;
    resolve("dane.test");
    assert_int_equal(result.hosts->count, 3);
    dns_hosts_put(result.hosts);
    assert_int_equal(fake_dns_asked(&server, "_25._tcp.a.dane.test", 0), 0);
}

static void test_txt_comes_with_the_hosts(void **state)
{
    wants.txt_label = "_label";
    resolve("ok.test");
    assert_non_null(result.txt);
    assert_true(slice_eq(result.txt->txt[0], SLICE("text")));
    dns_rrset_put(result.txt);
    dns_hosts_put(result.hosts);
    resolve("plain.test");
    assert_non_null(result.txt);
    assert_int_equal(result.txt->status, DNS_NXDOMAIN);
    dns_rrset_put(result.txt);
    dns_hosts_put(result.hosts);
    resolve("[plain.test]");
    assert_null(result.txt);
    dns_hosts_put(result.hosts);
}

/* What was asked before is answered by whom it was asked of; what follows goes by the new config. */
static void test_another_config_while_busy(void **state)
{
    struct dns_config v4 = config();
    struct dns_cache_config cache_config;
    struct resolver_counters counters;
    int first, second;

    dns_cache_config_defaults(&cache_config);
    struct dns_cache *other = dns_cache_new(&cache_config);
    assert_non_null(other);
    v4.families = DNS_FAMILIES_IPV4;
    start("ok.test", &first);
    assert_false(resolver_next(resolver, &result, clock_mono())); /* sends it */
    resolver_read_counters(resolver, &counters);
    assert_int_equal(counters.outstanding, 1);
    assert_int_equal(resolver_reconfigure(resolver, &v4, other), 0);
    dns_cache_put(other); /* the resolver has its own reference */
    start("plain.test", &second);
    for (int i = 0; i < 2; i++) {
        wait_result();
        assert_int_equal(result.verdict, DNS_OK);
        for (uint32_t host = 0; host < result.hosts->count; host++) {
            assert_int_equal(result.hosts->list[host].ip.family, 4);
        }
        dns_hosts_put(result.hosts);
    }
    assert_int_equal(fake_dns_asked(&server, "ok.test", DNS_TYPE_MX), 1);
    resolver_read_counters(resolver, &counters);
    assert_int_equal(counters.outstanding, 0);
    assert_int_equal(counters.queries, server.log_count);
    /* One that cannot be: all stays as it was. */
    static const char *const wrong[] = {"no address"};
    struct dns_config bad = v4;
    bad.servers = wrong;
    assert_int_equal(resolver_reconfigure(resolver, &bad, cache), ERR_SYNTAX);
    expect_hosts("ok.test", "192.0.2.1 192.0.2.2");
    /* Freed with questions out by both. */
    start("drop.test", &first);
    assert_int_equal(resolver_reconfigure(resolver, &v4, cache), 0);
    start("dane.test", &second);
}

/* --- a reader --------------------------------------------------------------------------------- */

static bool read_back(struct resolver *reader, const char *nexthop, struct dns_result *ret)
{
    return resolver_from_cache(reader, slice_of(nexthop), 25, &wants, ret, clock_mono());
}

static void drop_result(struct dns_result *r)
{
    dns_hosts_put(r->hosts);
    dns_rrset_put(r->txt);
}

static void expect_same_hosts(const struct dns_hosts *a, const struct dns_hosts *b)
{
    assert_int_equal(a->count, b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        assert_memory_equal(&a->list[i].ip, &b->list[i].ip, sizeof(a->list[i].ip));
        assert_int_equal(a->list[i].port, b->list[i].port);
        assert_int_equal(a->list[i].preference, b->list[i].preference);
        assert_int_equal(a->list[i].is_authentic, b->list[i].is_authentic);
        assert_int_equal(a->list[i].dane, b->list[i].dane);
        assert_ptr_equal(a->list[i].tlsa, b->list[i].tlsa);
        assert_true(slice_eq(a->list[i].name, b->list[i].name));
    }
}

/* Before it was resolved the reader knows nothing of it; afterwards the same as the resolver. */
static void expect_read_back(struct resolver *reader, const char *nexthop)
{
    struct dns_result known;
    struct dns_cache_counters before, after;
    dns_cache_read_counters(cache, &before);
    assert_false(read_back(reader, nexthop, &known));
    dns_cache_read_counters(cache, &after);
    assert_int_equal(after.hits, before.hits);
    assert_int_equal(after.misses, before.misses); /* who asks counts it */
    resolve(nexthop);
    dns_cache_read_counters(cache, &before);
    assert_true(read_back(reader, nexthop, &known));
    dns_cache_read_counters(cache, &after);
    assert_true(after.hits > before.hits);
    assert_int_equal(after.misses, before.misses);
    assert_int_equal(known.verdict, result.verdict);
    assert_string_equal(known.status, result.status);
    assert_string_equal(known.text, result.text);
    assert_true(known.expires > clock_mono());
    assert_ptr_equal(known.txt, result.txt);
    if (known.verdict == DNS_OK) {
        assert_int_equal(known.expires, result.expires);
        expect_same_hosts(known.hosts, result.hosts);
    }
    drop_result(&known);
    drop_result(&result);
}

static const char *const read_names[] = {
    "ok.test",       "plain.test",   "null.test",     "useless.test",  "even1.test",
    "refused.test",  "drop.test",    "servfail.test", "aliasmx.test",  "circle.test",
    "partial.test",  "allsoft.test", "nowhere.test",  "selfbest.test", "selfworse.test",
    "loop.test",     "forged.test",  "x.search.test", "dane.test",     "failing.test",
    "[x.many.test]", "gone.test:26", "a.shared.test", "tc.test",       NULL,
};

static void test_reader_knows_what_the_cache_knows(void **state)
{
    struct dns_config usual = config(), hasty = usual;
    struct resolver *reader = NULL;
    hasty.query_timeout = 100 * USEC_PER_MSEC; /* for a question that nobody answers */
    for (int round = 0; round < 3; round++) {
        wants =
            (struct resolver_wants){.dane = round > 0, .txt_label = round > 1 ? "_label" : NULL};
        assert_int_equal(resolver_new_reader(&usual, cache, &reader), 0);
        for (int i = 0; read_names[i] != NULL; i++) {
            dns_cache_clear(cache);
            reopen(strcmp(read_names[i], "drop.test") == 0 ? &hasty : &usual);
            expect_read_back(reader, read_names[i]);
        }
        resolver_free(reader);
    }
}

static void test_reader_needs_no_answer_for_an_address(void **state)
{
    struct dns_config v6 = config();
    struct resolver *reader = NULL;
    struct dns_result known;
    assert_int_equal(resolver_new_reader(&v6, cache, &reader), 0);
    assert_true(read_back(reader, "[192.0.2.77]:26", &known));
    assert_int_equal(known.verdict, DNS_OK);
    assert_int_equal(known.hosts->list[0].port, 26);
    drop_result(&known);
    assert_true(read_back(reader, "bad name", &known));
    assert_int_equal(known.verdict, DNS_HARD);
    /* And it goes on by another config. */
    resolve("ok.test");
    drop_result(&result);
    v6.families = DNS_FAMILIES_IPV6;
    assert_int_equal(resolver_reconfigure(reader, &v6, cache), 0);
    assert_true(read_back(reader, "ok.test", &known));
    assert_int_equal(known.hosts->count, 1);
    assert_int_equal(known.hosts->list[0].ip.family, 6);
    drop_result(&known);
    resolver_free(reader);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_mx),
        TEST(test_reader_knows_what_the_cache_knows),
        TEST(test_reader_needs_no_answer_for_an_address),
        TEST(test_equal_records_give_equal_lists),
        TEST(test_host_without_mx),
        TEST(test_brackets),
        TEST(test_hard_failures),
        TEST(test_soft_failures),
        TEST(test_partial),
        TEST(test_aliases),
        TEST(test_truncated_goes_to_tcp),
        TEST(test_thousand_mx),
        TEST(test_self),
        TEST(test_forged_answers),
        TEST(test_absolute_names_only),
        TEST(test_many_destinations_share_questions),
        TEST(test_deadline),
        TEST(test_free_while_busy),
        TEST(test_server_comes_back),
        TEST(test_another_config_while_busy),
        TEST(test_dane),
        TEST(test_no_dane_without_validation_or_wish),
        TEST(test_txt_comes_with_the_hosts),
    };
    rcu_start();
    rcu_join();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rcu_leave();
    rcu_drain();
    rcu_stop();
    return failed;
}
