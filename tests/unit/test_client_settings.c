/* What a session is told: the transport's options, or those that its provider or domain sets. */
#include "engine/config/policy.h"
#include "engine/state/client_settings.h"
#include "engine/state/password.h"
#include "engine/state/source_table.h"
#include "tests/unit/config_sample.h"

static void a_provider_has_time_outs_of_its_own(void **state)
{
    static struct sample sample;
    static struct slice none[1];
    const struct passwords passwords = {.transports = none};
    struct smtp_client_config **all, room = {0};
    struct policy_table *table;
    struct source_table *sources;
    char why[SOURCE_TABLE_TEXT_MAX];
    sample_load(&sample, "transport t { smtp_mail_timeout = 50s smtp_helo_name = we.test }\n"
                         "provider \"p\" { domains = {\"p.test\"} smtp_mail_timeout = 7s\n"
                         "  pipeline_depth = 2 }\n"
                         "provider \"q\" { domains = {\"q.test\"} max_message_rate = \"5/s\" }\n");
    assert_int_equal(sample.err, 0);
    assert_int_equal(source_table_new(sample.config, NULL, &sources, why), 0);
    assert_int_equal(client_settings_new(sample.config, sources, &passwords, &all), 0);
    assert_int_equal(policy_table_new(sample.config, &table), 0);
    const struct smtp_client_config *shared = client_settings_of(all, 0, 0, SMTP_CLIENT_TLS_MAY);
    static const char *const others[] = {"x.test", "q.test", "[p.test]"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const struct policy *p = policy_of(table, 0, slice_of(others[i]), SLICE(""));
        assert_ptr_equal(client_settings_by(all, p, 0, SMTP_CLIENT_TLS_MAY, &room), shared);
    }
    const struct policy *p = policy_of(table, 0, SLICE("p.test"), SLICE(""));
    const struct smtp_client_config *own =
        client_settings_by(all, p, 0, SMTP_CLIENT_TLS_MAY, &room);
    assert_ptr_equal(own, &room);
    assert_int_equal(own->mail_timeout, 7 * USEC_PER_SEC);
    assert_int_equal(own->rcpt_timeout, shared->rcpt_timeout);
    assert_int_equal(own->pipeline_depth, 2);
    assert_true(own->unacked_max < shared->unacked_max);
    assert_int_equal(own->tls, SMTP_CLIENT_TLS_MAY);
    assert_true(slice_eq(own->ehlo_name, SLICE("we.test")));
    policy_table_free(table);
    client_settings_free(sample.config, all);
    source_table_free(sources);
    config_free(sample.config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_provider_has_time_outs_of_its_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
