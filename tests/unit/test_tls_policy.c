/* From levels and hosts to demands, and who is remembered as broken. */
#include "dns/hosts.h"
#include "engine/config/policy.h"
#include "engine/config/router.h"
#include "engine/outbound/tls_policy.h"
#include "engine/state/settings.h"
#include "engine/state/tls_clients.h"
#include "tests/unit/config_sample.h"

#include <stdlib.h>

/* Mail that says `TLS-Required: No`: what the receiver's domain demands is `may`, and nothing else is
 * less. */
static void check_optional(const struct settings *s, const struct tls_policy_peer *peer,
                           bool is_broken, const struct tls_policy *strict)
{
    struct tls_policy p;
    bool is_theirs =
        slice_eq(peer->destination, SLICE("dane")) || slice_eq(peer->destination, SLICE("mta-sts"));
    bool is_less = tls_policy_choose(s, peer, true, is_broken, &p);
    assert_int_equal(is_less, p.level != strict->level);
    if (!is_theirs) {
        assert_false(is_less);
    } else if (peer->options->options.smtp.smtp_auth_user != NULL) {
        assert_int_equal(p.level, TLS_LEVEL_ENCRYPT);
    } else {
        assert_int_equal(p.level, is_broken ? TLS_LEVEL_NONE : TLS_LEVEL_MAY);
    }
}

static void levels_and_hosts_make_demands(void **state)
{
    static const struct {
        uint32_t transport;
        const char *destination;
        enum dns_dane dane;
        const char *policy;
        bool is_broken;
        enum tls_level level;
        enum smtp_client_tls client;
    } rows[] = {
        {0, "none", DNS_DANE_RECORDS, "1", false, TLS_LEVEL_NONE, SMTP_CLIENT_TLS_NONE},
        {0, "may", DNS_DANE_RECORDS, "1", false, TLS_LEVEL_MAY, SMTP_CLIENT_TLS_MAY},
        {0, "may", DNS_DANE_NONE, "", true, TLS_LEVEL_NONE, SMTP_CLIENT_TLS_NONE},
        {0, "encrypt", DNS_DANE_NONE, "", true, TLS_LEVEL_ENCRYPT, SMTP_CLIENT_TLS_ENCRYPT},
        {0, "verify", DNS_DANE_NONE, "", true, TLS_LEVEL_VERIFY, SMTP_CLIENT_TLS_ENCRYPT},
        {0, "dane", DNS_DANE_RECORDS, "", true, TLS_LEVEL_DANE, SMTP_CLIENT_TLS_ENCRYPT},
        {0, "dane", DNS_DANE_UNUSABLE, "", true, TLS_LEVEL_ENCRYPT, SMTP_CLIENT_TLS_ENCRYPT},
        {0, "dane", DNS_DANE_NONE, "", false, TLS_LEVEL_MAY, SMTP_CLIENT_TLS_MAY},
        {0, "dane", DNS_DANE_NONE, "", true, TLS_LEVEL_NONE, SMTP_CLIENT_TLS_NONE},
        {0, "mta-sts", DNS_DANE_NONE, "1", true, TLS_LEVEL_VERIFY, SMTP_CLIENT_TLS_ENCRYPT},
        {0, "mta-sts", DNS_DANE_NONE, "", false, TLS_LEVEL_MAY, SMTP_CLIENT_TLS_MAY},
        {0, "other", DNS_DANE_NONE, "", false, TLS_LEVEL_ENCRYPT, SMTP_CLIENT_TLS_ENCRYPT},
        /* with a password */
        {1, "[1]", DNS_DANE_NONE, "", false, TLS_LEVEL_ENCRYPT, SMTP_CLIENT_TLS_ENCRYPT},
        {1, "[1]", DNS_DANE_NONE, "", true, TLS_LEVEL_ENCRYPT, SMTP_CLIENT_TLS_ENCRYPT},
        {1, "dane", DNS_DANE_NONE, "", true, TLS_LEVEL_ENCRYPT, SMTP_CLIENT_TLS_ENCRYPT},
        {1, "mta-sts", DNS_DANE_NONE, "1", true, TLS_LEVEL_VERIFY, SMTP_CLIENT_TLS_ENCRYPT},
        {2, "[1]", DNS_DANE_NONE, "", false, TLS_LEVEL_MAY, SMTP_CLIENT_TLS_MAY},
        {2, "[1]", DNS_DANE_NONE, "", true, TLS_LEVEL_NONE, SMTP_CLIENT_TLS_NONE},
    };
    struct sample s;
    sample_load(&s, "transport t { smtp_tls_security_level = encrypt }\n"
                    "transport login { smtp_auth_user = u smtp_auth_password_file = p }\n"
                    "transport open { smtp_auth_user = u smtp_auth_password_file = p\n"
                    " smtp_auth_requires_tls = no }\n"
                    "route l { transport = login nexthop = \"[1]\" }\n"
                    "route d { transport = login nexthop = dane smtp_tls_security_level = dane }\n"
                    "route m { transport = login nexthop = mta-sts\n"
                    " smtp_tls_security_level = mta-sts }\n"
                    "route o { transport = open nexthop = \"[1]\" }\n"
                    "route none { transport = t smtp_tls_security_level = none }\n"
                    "route may { transport = t smtp_tls_security_level = may }\n"
                    "route encrypt { transport = t }\n"
                    "route verify { transport = t smtp_tls_security_level = verify }\n"
                    "route dane { transport = t smtp_tls_security_level = dane }\n"
                    "route mta-sts { transport = t smtp_tls_security_level = mta-sts }\n");
    assert_int_equal(s.err, 0);
    struct settings settings = {.config = s.config, .router = router_new(s.config)};
    assert_int_equal(policy_table_new(s.config, &settings.policies), 0);
    const bool all[] = {true};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct dns_host host = {.name = SLICE("mx"), .dane = rows[i].dane};
        struct dns_hosts *plain =
            dns_hosts_new(&host, 1, &(struct dns_hosts_facts){.has_mx = true});
        struct dns_hosts *hosts = dns_hosts_restrict(plain, all, slice_of(rows[i].policy));
        struct tls_policy p;
        struct slice destination = slice_of(rows[i].destination);
        const struct tls_policy_peer peer = {
            policy_of(settings.policies, rows[i].transport, destination, SLICE("")), destination,
            hosts, 0};
        assert_false(tls_policy_choose(&settings, &peer, false, rows[i].is_broken, &p));
        check_optional(&settings, &peer, rows[i].is_broken, &p);
        if (p.level != rows[i].level || p.client != rows[i].client) {
            fail_msg("row %zu: level %d, client %d", i, (int)p.level, (int)p.client);
        }
        assert_int_equal(tls_policy_may_fall_back(&p), rows[i].level == TLS_LEVEL_MAY);
        dns_hosts_put(hosts);
        dns_hosts_put(plain);
    }
    policy_table_free(settings.policies);
    router_free(settings.router);
    config_free(s.config);
}

static void a_handshake_is_judged_by_what_it_proved(void **state)
{
    struct tls_policy p = {.level = TLS_LEVEL_VERIFY};
    struct tls_facts facts = {.is_proved = true, .is_verified = true};
    assert_null(tls_policy_judge(&p, &facts));
    facts.is_proved = facts.is_verified = false;
    assert_non_null(tls_policy_judge(&p, &facts));
    p.level = TLS_LEVEL_DANE;
    assert_non_null(tls_policy_judge(&p, &facts));
    facts.is_proved = true; /* no record was usable: nothing was demanded */
    assert_null(tls_policy_judge(&p, &facts));
    p.level = TLS_LEVEL_MAY;
    assert_null(tls_policy_judge(&p, &facts));
}

static void transports_with_the_same_files_share_a_client(void **state)
{
    struct sample s;
    sample_load(&s, "transport a {} transport b {} transport c { smtp_tls_CAfile = \"" SOURCE_FOLDER
                    "/tests/unit/no.pem\" }\n"
                    "route \"*\" { transport = a }\n");
    assert_int_equal(s.err, 0);
    struct tls_client **clients;
    char why[TLS_CLIENTS_TEXT_MAX];
    s.config->transport_count = 2;
    assert_int_equal(tls_clients_open(s.config, &clients, why), 0);
    assert_non_null(clients[0]);
    assert_ptr_equal(clients[0], clients[1]);
    tls_clients_close(s.config, clients);
    s.config->transport_count = 3;
    assert_int_not_equal(tls_clients_open(s.config, &clients, why), 0);
    assert_non_null(strstr(why, "transport c: TLS: "));
    config_free(s.config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_and_hosts_make_demands),
        cmocka_unit_test(a_handshake_is_judged_by_what_it_proved),
        cmocka_unit_test(transports_with_the_same_files_share_a_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
