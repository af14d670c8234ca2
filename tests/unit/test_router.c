/* The router against a plain reading of the rules, over many random route sets and domains. */
#include "base/buf.h"
#include "engine/config/router.h"
#include "tests/unit/config_sample.h"

#include <strings.h>

static const struct config_route *naive(const struct config *c, const char *domain)
{
    const struct config_route *best = NULL, *any = NULL;
    for (size_t i = 0; i < c->route_count; i++) {
        const struct config_route *r = &c->routes[i];
        size_t len = strlen(r->pattern), domain_len = strlen(domain);
        if (strcasecmp(r->pattern, domain) == 0) {
            return r;
        }
        if (strcmp(r->pattern, "*") == 0) {
            any = r;
        } else if (r->pattern[0] == '.' && domain_len > len &&
                   strcasecmp(domain + domain_len - len, r->pattern) == 0 &&
                   (best == NULL || len > strlen(best->pattern))) {
            best = r;
        }
    }
    return best != NULL ? best : any;
}

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return *seed >> 33;
}

/* A domain of few letters, so that sets and questions meet often. */
static void random_domain(uint64_t *seed, char ret[32])
{
    static const char letters[] = "abAB";
    size_t n = 0;
    size_t labels = 1 + next_random(seed) % 4;
    for (size_t i = 0; i < labels; i++) {
        if (i > 0) {
            ret[n++] = '.';
        }
        ret[n++] = letters[next_random(seed) % 4];
    }
    ret[n] = '\0';
}

static void same_as_naive(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int round = 0; round < 200; round++) {
        struct buf text;
        char domain[32];
        struct sample s;
        buf_init(&text, 0);
        buf_append_str(&text, "transport t {}\n");
        for (size_t i = 0, n = next_random(&seed) % 12; i < n; i++) {
            random_domain(&seed, domain);
            buf_printf(&text, "route \"%s%s\" { transport = t nexthop = \"n%zu\" }\n",
                       next_random(&seed) % 2 == 0 ? "." : "", domain, i);
        }
        if (next_random(&seed) % 2 == 0) {
            buf_append_str(&text, "route \"*\" { transport = t }\n");
        }
        buf_append_char(&text, '\0');
        sample_load(&s, text.data);
        buf_fini(&text);
        if (s.err < 0) {
            continue; /* two random patterns were equal */
        }
        struct router *r = router_new(s.config);
        assert_non_null(r);
        for (int i = 0; i < 200; i++) {
            struct route_result result;
            random_domain(&seed, domain);
            const struct config_route *expected = naive(s.config, domain);
            bool is_found = router_route(r, slice_of(domain), SLICE(""), &result);
            assert_int_equal(is_found, expected != NULL);
            assert_true(!is_found || result.route == expected);
        }
        router_free(r);
        config_free(s.config);
    }
}

/* By "*" alone, and with that route's nexthop and level. */
static void a_tenant_has_a_transport(void **state)
{
    (void)state;
    struct sample s;
    struct route_result result;
    static const struct {
        const char *domain, *tenant;
        size_t transport;
    } rows[] = {{"x.test", "acme", 1},     {"x.test", "ACME", 1}, {"x.test", "b", 2},
                {"x.test", "", 2},         {"x.test", "c", 0},    {"own.test", "acme", 0},
                {"[192.0.2.1]", "acme", 1}};
    sample_load(&s, "transport a {} transport b {} transport c {}\n"
                    "tenant \"Acme\" { transport = \"b\" }\n"
                    "tenant \"*\" { transport = \"c\" }\n"
                    "tenant \"c\" {}\n"
                    "route \"own.test\" { transport = a }\n"
                    "route \"*\" { transport = a smtp_tls_security_level = encrypt }\n");
    assert_int_equal(s.err, 0);
    struct router *r = router_new(s.config);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_true(router_route(r, slice_of(rows[i].domain), slice_of(rows[i].tenant), &result));
        assert_int_equal(result.transport, rows[i].transport);
        assert_true(slice_eq(result.nexthop, slice_of(rows[i].domain)));
    }
    for (size_t transport = 0; transport < 3; transport++) {
        assert_int_equal(router_tls_level(r, transport, SLICE("x.test")), CONFIG_TLS_ENCRYPT);
        assert_int_equal(router_tls_level(r, transport, SLICE("own.test")), CONFIG_TLS_MAY);
    }
    router_free(r);
    config_free(s.config);
    sample_load(&s, "transport a {} transport b {}\n"
                    "tenant \"acme\" { transport = \"b\" }\n"
                    "route \"own.test\" { transport = a }\n"
                    "route \"*\" { transport = a nexthop = \"[hub.test]\"\n"
                    "            smtp_tls_security_level = verify }\n");
    assert_int_equal(s.err, 0);
    r = router_new(s.config);
    assert_true(router_route(r, SLICE("x.test"), SLICE("acme"), &result));
    assert_int_equal(result.transport, 1);
    assert_true(slice_eq(result.nexthop, SLICE("[hub.test]")));
    assert_int_equal(router_tls_level(r, 1, SLICE("[hub.test]")), CONFIG_TLS_VERIFY);
    assert_int_equal(router_tls_level(r, 0, SLICE("[hub.test]")), CONFIG_TLS_VERIFY);
    assert_int_equal(router_tls_level(r, 1, SLICE("own.test")), CONFIG_TLS_MAY);
    router_free(r);
    config_free(s.config);
}

static void what_a_route_says(void **state)
{
    (void)state;
    struct sample s;
    struct route_result result;
    char longest[600];
    sample_load(&s, "transport a {} transport b {}\n"
                    "route \"Example.COM\" { transport = b nexthop = \"[MX.example.net]:2525\" }\n"
                    "route \".example.com\" { transport = a }\n"
                    "route \"[192.0.2.1]\" { transport = b nexthop = \"[192.0.2.9]\" }\n");
    assert_int_equal(s.err, 0);
    struct router *r = router_new(s.config);
    assert_true(router_route(r, SLICE("eXample.com"), SLICE(""), &result));
    assert_int_equal(result.transport, 1);
    assert_true(slice_eq(result.nexthop, SLICE("[mx.example.net]:2525")));
    assert_true(router_route(r, SLICE("example.com."), SLICE(""), &result));
    assert_int_equal(result.transport, 1);
    assert_true(router_route(r, SLICE("x.y.example.com"), SLICE(""), &result));
    assert_int_equal(result.transport, 0);
    assert_true(slice_eq(result.nexthop, SLICE("x.y.example.com")));
    assert_true(router_route(r, SLICE("[192.0.2.1]"), SLICE(""), &result));
    assert_false(router_route(r, SLICE("xexample.com"), SLICE(""), &result));
    assert_false(router_route(r, SLICE("com"), SLICE(""), &result));
    assert_false(router_route(r, SLICE(""), SLICE(""), &result));
    assert_false(router_route(r, SLICE("."), SLICE(""), &result));
    assert_false(router_route(r, SLICE(".."), SLICE(""), &result));
    memset(longest, 'a', sizeof(longest));
    assert_false(router_route(r, slice_make(longest, sizeof(longest)), SLICE(""), &result));
    router_free(r);
    router_free(NULL);
    config_free(s.config);
}

static void literals_reach_no_local_host(void **state)
{
    (void)state;
    static const struct {
        const char *domain;
        bool by_default, with_loopback;
    } cases[] = {
        {"[192.0.2.1]", true, true},        {"[10.0.0.1]", true, true},
        {"[IPv6:2001:db8::1]", true, true}, {"[127.0.0.1]", false, true},
        {"[IPv6:::1]", false, true},        {"[IPv6:::ffff:127.0.0.1]", false, true},
        {"[0.0.0.0]", false, false},        {"[169.254.169.254]", false, false},
        {"[IPv6:fe80::1]", false, false},   {"[224.0.0.1]", false, false},
        {"[localhost]", false, false},      {"[127.0.0.1", false, false},
        {"[127.0.0.9]", true, true}, /* has a route of its own */
    };
    for (int allow = 0; allow < 2; allow++) {
        struct sample s;
        struct route_result result;
        sample_load(&s, allow ? "allow_loopback = yes\ntransport t {}\n"
                                "route \"*\" { transport = t }\n"
                                "route \"[127.0.0.9]\" { transport = t }\n"
                              : "transport t {}\n"
                                "route \"*\" { transport = t }\n"
                                "route \"[127.0.0.9]\" { transport = t }\n");
        assert_int_equal(s.err, 0);
        struct router *r = router_new(s.config);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            bool expected = allow ? cases[i].with_loopback : cases[i].by_default;
            if (router_route(r, slice_of(cases[i].domain), SLICE(""), &result) != expected) {
                fail_msg("%s with allow_loopback %d", cases[i].domain, allow);
            }
        }
        router_free(r);
        config_free(s.config);
    }
    /* A route that names the next hop does not go where the recipient says. */
    struct sample s;
    struct route_result result;
    sample_load(&s, "transport t {}\nroute \"*\" { transport = t nexthop = \"[192.0.2.9]\" }\n");
    assert_int_equal(s.err, 0);
    struct router *r = router_new(s.config);
    assert_true(router_route(r, SLICE("[127.0.0.1]"), SLICE(""), &result));
    router_free(r);
    config_free(s.config);
}

static void a_destination_has_one_level(void **state)
{
    (void)state;
    static const struct {
        size_t transport;
        const char *nexthop;
        enum config_tls_level level;
    } rows[] = {
        {0, "[mx.test]:25", CONFIG_TLS_DANE}, /* named by a route */
        {1, "[mx.test]:25", CONFIG_TLS_NONE}, /* for this transport by another one */
        {2, "[mx.test]:25", CONFIG_TLS_MAY},  /* by none */
        {0, "own.test", CONFIG_TLS_VERIFY},   /* its own domain */
        {0, "sub.own.test", CONFIG_TLS_MTA_STS},
        {0, "else.test", CONFIG_TLS_ENCRYPT},  /* the route says nothing */
        {1, "own.test", CONFIG_TLS_MAY},       /* that route leads elsewhere */
        {0, "named.test", CONFIG_TLS_ENCRYPT}, /* a nexthop that a route names */
        {0, "a.test", CONFIG_TLS_ENCRYPT},     /* never a destination of its route */
        {0, "", CONFIG_TLS_ENCRYPT},
    };
    struct sample s;
    sample_load(&s,
                "transport a { smtp_tls_security_level = encrypt } transport b {} transport c {}\n"
                "route a.test { transport = a nexthop = \"[MX.test]:25\"\n"
                "               smtp_tls_security_level = dane }\n"
                "route b.test { transport = b nexthop = \"[mx.test]:25\"\n"
                "               smtp_tls_security_level = none }\n"
                "route c.test { transport = a nexthop = named.test }\n"
                "route own.test { transport = a smtp_tls_security_level = verify }\n"
                "route .own.test { transport = a smtp_tls_security_level = mta-sts }\n"
                "route named.test { transport = a smtp_tls_security_level = none }\n"
                "route \"*\" { transport = a }\n");
    assert_int_equal(s.err, 0);
    struct router *r = router_new(s.config);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enum config_tls_level level =
            router_tls_level(r, rows[i].transport, slice_of(rows[i].nexthop));
        if (level != rows[i].level) {
            fail_msg("transport %zu, nexthop %s: %d", rows[i].transport, rows[i].nexthop,
                     (int)level);
        }
    }
    router_free(r);
    config_free(s.config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_naive),
        cmocka_unit_test(a_tenant_has_a_transport),
        cmocka_unit_test(what_a_route_says),
        cmocka_unit_test(literals_reach_no_local_host),
        cmocka_unit_test(a_destination_has_one_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
