#include "engine/config/config.h"
#include "tests/unit/config_sample.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
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

static enum mail_class class_of(const struct config *c, const char *tenant, enum mail_class said,
                                enum mail_class of_listener, bool is_lowered)
{
    bool was_lowered;
    enum mail_class class = config_mail_class(c, slice_of(tenant), said, of_listener, &was_lowered);
    assert_int_equal(was_lowered, is_lowered);
    return class;
}

static void classes_of_tenants(void **state)
{
    (void)state;
    const enum mail_class none = MAIL_CLASS_COUNT;
    struct sample s;
    sample_load(&s, "tenant a { class = bulk }\ntenant b { classes = {\"urgent\", \"Bulk\"} }\n"
                    "tenant c { class = urgent }\ntenant d { classes = {\"bulk\"} }\n");
    assert_int_equal(s.err, 0);
    assert_int_equal(class_of(s.config, "a", none, none, false), MAIL_BULK);
    assert_int_equal(class_of(s.config, "a", none, MAIL_URGENT, false), MAIL_BULK);
    assert_int_equal(class_of(s.config, "A", MAIL_URGENT, none, false), MAIL_URGENT);
    assert_int_equal(class_of(s.config, "b", none, none, true), MAIL_BULK);
    assert_int_equal(class_of(s.config, "b", MAIL_URGENT, none, false), MAIL_URGENT);
    assert_int_equal(class_of(s.config, "c", none, MAIL_BULK, false), MAIL_URGENT);
    assert_int_equal(class_of(s.config, "c", MAIL_NORMAL, none, false), MAIL_NORMAL);
    assert_int_equal(class_of(s.config, "d", MAIL_URGENT, none, true), MAIL_BULK);
    /* Of whom no section speaks, nobody's mail among them: nothing urgent. */
    assert_int_equal(class_of(s.config, "other", none, none, false), MAIL_NORMAL);
    assert_int_equal(class_of(s.config, "other", none, MAIL_BULK, false), MAIL_BULK);
    assert_int_equal(class_of(s.config, "other", none, MAIL_URGENT, true), MAIL_NORMAL);
    assert_int_equal(class_of(s.config, "", MAIL_URGENT, none, true), MAIL_NORMAL);
    config_free(s.config);
    sample_load(&s, "tenant \"*\" { class = bulk }\n");
    assert_int_equal(s.err, 0);
    assert_int_equal(class_of(s.config, "other", none, none, false), MAIL_BULK);
    assert_int_equal(class_of(s.config, "other", MAIL_URGENT, none, true), MAIL_NORMAL);
    config_free(s.config);
    sample_load(&s, "tenant \"*\" { classes = {\"urgent\", \"normal\"} }\n");
    assert_int_equal(s.err, 0);
    assert_int_equal(class_of(s.config, "", MAIL_URGENT, none, false), MAIL_URGENT);
    assert_int_equal(class_of(s.config, "", MAIL_BULK, none, false), MAIL_BULK);
    config_free(s.config);
}

/* As many as a provider of mail has, in an order that is not theirs. */
static void many_tenants(void **state)
{
    (void)state;
    struct sample s;
    char text[120000], name[16];
    size_t len = 0;
    for (int i = 0; i < 2000; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "tenant T%d { class = bulk }\n",
                                i * 7919 % 2000);
    }
    sample_load(&s, text);
    assert_int_equal(s.err, 0);
    for (int i = 0; i < 2000; i++) {
        (void)snprintf(name, sizeof(name), "t%d", i);
        const struct config_tenant *t = config_tenant_find(s.config, slice_of(name));
        assert_non_null(t);
        assert_int_equal(atoi(t->name + 1), i);
    }
    assert_null(config_tenant_find(s.config, SLICE("t2000")));
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trusted_networks), cmocka_unit_test(sections_of_tenants),
        cmocka_unit_test(classes_of_tenants), cmocka_unit_test(many_tenants),
        cmocka_unit_test(who_asks_for_dane)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
