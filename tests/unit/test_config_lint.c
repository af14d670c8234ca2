#include "engine/config/config_lint.h"
#include "tests/unit/config_sample.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define TIDY                                                                                       \
    "hostname = mail.example.com\nspool { path = \"/s\" }\n"                                       \
    "source \"s\" { helo_name = s.example.com }\npool \"p\" { sources = {s} }\n"                   \
    "transport t { source_pool = p }\nroute \"*\" { transport = t }\n"

/* What is said about it, but for the system's addresses. */
static void expect(const char *text, const char *expected)
{
    static struct sample s;
    sample_load(&s, text);
    if (s.config == NULL) {
        fail_msg("%s", s.said);
    }
    const struct config_sink sink = {.complain = sample_complain, .ctx = &s};
    s.said[0] = '\0';
    config_lint(s.config, &sink);
    if (expected[0] == '\0' ? s.said[0] != '\0' : strstr(s.said, expected) == NULL) {
        fail_msg("wanted: %s\nsaid: %s", expected, s.said);
    }
    config_free(s.config);
}

static void what_is_tidy_is_quiet(void **state)
{
    (void)state;
    expect(TIDY, "");
    expect(TIDY "route x.example { transport = t nexthop = \"[mx]\" }\n"
                "route \".x.example\" { transport = t smtp_tls_security_level = verify }\n",
           "");
}

static void each_rule(void **state)
{
    static const char *const rows[][2] = {
        {"transport u { scheduler = fifo delivery_slot_cost = 4 }\n",
         "f:7: delivery_slot_cost: warning: used only with scheduler preemptive; remove it"},
        {"transport u { scheduler = round_robin max_message_concurrency = 4 }\n",
         "f:7: max_message_concurrency: warning: not used with scheduler round_robin; remove it"},
        {"tenant a {}\ntransport u { scheduler = round_robin }\n",
         "f:8: scheduler: warning: with round_robin destinations take turns whatever the class"},
        {"transport u {}\n", "f:7: transport: warning: no route leads to transport \"u\"; add"},
        {"pool \"q\" { sources = {s} }\n", "f:7: pool: warning: no transport has source_pool = "},
        {"source \"z\" {}\n", "f:7: source: warning: no pool has source \"z\"; add it"},
        {"provider p {}\n", "f:7: provider: warning: provider \"p\" has neither mx nor domains"},
        {"max_message_rate = \"5/s\"\nprovider p { mx = {\"*.x\"} max_message_rate = \"300/min\" "
         "}\n",
         "f:8: max_message_rate: warning: each transport has one that is no larger, and the"},
        {"max_message_rate = \"5/s\"\ndomain d.test { max_message_rate = \"6/s\" }\n",
         "f:8: max_message_rate: warning: transport \"t\" has one that is no larger, and the"},
        {"provider p { mx = {\"*.x\"} destination_recipient_limit = 60 }\n",
         "f:7: destination_recipient_limit: warning: each transport has one that is no larger"},
        {"provider p { mx = {\"*.x\"} }\ndomain d.test { max_message_quota = \"1/d\" }\n",
         "f:8: max_message_quota: warning: where a provider has the domain, its mail is counted "
         "with"},
        {"http \"127.0.0.1:1\" {}\n",
         "f:7: trust_loopback: warning: without tokens_file this door is for looking and"},
        {"domain d.test {}\n", "f:7: domain: warning: domain \"d.test\" says nothing; remove it"},
        {"domain d.test { pipeline_depth = 1 }\nroute \".test\" { transport = t nexthop = \"[mx]\" "
         "}\n",
         "f:7: domain: warning: route \".test\" (f:8) sends the mail of domain \"d.test\" to "
         "\"[mx]\""},
        {"route x.example { transport = t }\n",
         "f:7: route: warning: route \"x.example\" changes nothing: route \"*\" (f:6) leads"},
        {"route \".b.c\" { transport = t nexthop = n }\n"
         "route a.b.c { transport = t nexthop = n }\n",
         "f:8: route: warning: route \"a.b.c\" changes nothing: route \".b.c\" (f:7) leads"},
        {"message_recipient_limit = 20000\nrecipient_limit = 20001\n",
         "f:8: recipient_limit: warning: 20001 is more than message_recipient_limit (20000)"},
        {"destination_concurrency_limit = 101\n",
         "f:7: destination_concurrency_limit: warning: 101 is more than process_limit (100)"},
        {"initial_destination_concurrency = 21\n",
         "f:7: initial_destination_concurrency: warning: 21 is more than "},
        {"host_concurrency_limit = 200\n", "f:7: host_concurrency_limit: warning: 200 is more"},
        {"recipient_limit = 50\n", "recipient_refill_limit: warning: 100 never fit into"},
        {"destination_rate_delay = 1s\ndestination_concurrency_limit = 3\n",
         "f:8: destination_concurrency_limit: warning: with destination_rate_delay it is"},
        {"smtp_connection_cache_time_limit = 400s\n",
         "f:7: smtp_connection_cache_time_limit: warning: it is longer than smtp_connection_re"},
        {"delay_warning_time = 200h\n", "f:7: delay_warning_time: warning: mail is returned"},
        {"queue_run_delay = 2h\n", "f:7: queue_run_delay: warning: it is longer than maximal"},
        {"smtp_data_done_timeout = 60s\n",
         "f:7: smtp_data_done_timeout: warning: 60s is less than RFC 5321 asks for (600s)"},
        {"smtp_helo_timeout = 2h\n", "f:7: smtp_helo_timeout: warning: 7200s holds a connection"},
        {"smtp_helo_name = relay\n", "f:7: smtp_helo_name: warning: \"relay\" is not fully"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[2048];
        (void)snprintf(text, sizeof(text), "%s%s", TIDY, rows[i][0]);
        expect(text, rows[i][1]);
    }
}

static void secrets_of_others(void **state)
{
    (void)state;
    char path[] = "/tmp/secret.XXXXXX", text[2048], expected[128];
    int fd = mkstemp(path);
    assert_true(fd >= 0 && close(fd) == 0);
    (void)snprintf(text, sizeof(text),
                   TIDY "transport l { smtp_auth_user = u\n smtp_auth_password_file = \"%s\" }\n"
                        "route l.example { transport = l nexthop = \"[l]\"\n"
                        " smtp_tls_security_level = verify }\n",
                   path);
    expect(text, "");
    assert_int_equal(chmod(path, 0644), 0);
    (void)snprintf(expected, sizeof(expected),
                   "f:8: smtp_auth_password_file: warning: %s: others can read it (mode 0644)",
                   path);
    expect(text, expected);
    assert_int_equal(chmod(path, 0620), 0);
    expect(text, "others can change it (mode 0620)");
    assert_int_equal(unlink(path), 0);
}

/* An option at the top level counts for all transports, and is said once. */
static void one_line_is_one_finding(void **state)
{
    (void)state;
    static struct sample s;
    sample_load(&s, TIDY "transport u {}\nroute u.example { transport = u }\n"
                         "smtp_mail_timeout = 9s\n");
    const struct config_sink sink = {.complain = sample_complain, .ctx = &s};
    s.warnings = 0;
    config_lint(s.config, &sink);
    assert_int_equal(s.warnings, 1);
    config_free(s.config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_tidy_is_quiet),
        cmocka_unit_test(each_rule),
        cmocka_unit_test(secrets_of_others),
        cmocka_unit_test(one_line_is_one_finding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
