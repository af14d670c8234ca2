#include "engine/config/config.h"
#include "tests/unit/config_sample.h"

#include <arpa/inet.h>
#include <sys/un.h>

static bool trusts(const struct config_listener *l, const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        return config_listener_trusts(l, (struct sockaddr *)&v4);
    }
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return config_listener_trusts(l, (struct sockaddr *)&v6);
}

static void trusted_networks(void **state)
{
    (void)state;
    struct sample s;
    sample_load(&s, "listener \"[::]:25\" { relay_from = {\"127.0.0.0/8\", \"10.1.2.0/23\",\n"
                    " \"192.0.2.7\", \"2001:db8::/33\"} }\nlistener \"127.0.0.1:1\" {}\n");
    assert_int_equal(s.err, 0);
    const struct config_listener *l = &s.config->listeners[0];
    static const char *const inside[] = {"127.0.0.1",  "127.255.255.255", "::ffff:127.0.0.1",
                                         "10.1.3.255", "192.0.2.7",       "2001:db8:7fff::1"};
    static const char *const outside[] = {
        "128.0.0.0", "126.255.255.255", "10.1.4.0", "10.1.1.255",
        "192.0.2.6", "2001:db8:8000::", "::1",      "::127.0.0.1"};
    for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++) {
        assert_true(trusts(l, inside[i]));
        assert_false(trusts(&s.config->listeners[1], inside[i]));
    }
    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
        assert_false(trusts(l, outside[i]));
    }
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    assert_true(config_listener_trusts(l, (struct sockaddr *)&local));
    config_free(s.config);
    config_free(NULL);
}

static void sections_of_tenants(void **state)
{
    (void)state;
    struct sample s;
    sample_load(&s, "tenant \"Acme\" { notices = no }\ntenant \"b\" {}\n");
    assert_int_equal(s.err, 0);
    assert_string_equal(config_tenant_find(s.config, SLICE("aCME"))->name, "Acme");
    assert_false(config_tenant_find(s.config, SLICE("acme"))->notices);
    assert_true(config_tenant_find(s.config, SLICE("B"))->notices);
    assert_null(config_tenant_find(s.config, SLICE("acm")));
    assert_null(config_tenant_find(s.config, SLICE("")));
    config_free(s.config);
    sample_load(&s, "tenant \"*\" { notices = no }\ntenant \"b\" {}\n");
    assert_int_equal(s.err, 0);
    assert_string_equal(config_tenant_find(s.config, SLICE(""))->name, "*");
    assert_string_equal(config_tenant_find(s.config, SLICE("acme"))->name, "*");
    assert_string_equal(config_tenant_find(s.config, SLICE("b"))->name, "b");
    config_free(s.config);
}

static void who_asks_for_dane(void **state)
{
    static const struct {
        const char *text;
        bool has_dane;
    } rows[] = {
        {"transport t {}\n", false},
        {"transport t { smtp_tls_security_level = dane }\n", true},
        {"transport t {}\nroute \"x\" { transport = t smtp_tls_security_level = dane }\n", true},
        {"transport t {}\ndomain \"x.test\" { smtp_tls_security_level = dane }\n", true},
        {"transport t {}\ndomain \"x.test\" { smtp_tls_security_level = verify }\n", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sample s;
        sample_load(&s, rows[i].text);
        assert_int_equal(config_has_tls_level(s.config, CONFIG_TLS_DANE), rows[i].has_dane);
        config_free(s.config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(trusted_networks),
                                       cmocka_unit_test(sections_of_tenants),
                                       cmocka_unit_test(who_asks_for_dane)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
