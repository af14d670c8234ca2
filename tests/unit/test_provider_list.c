/* The providers that are shipped: the file loads, its patterns are those of the hosts that it is about,
 * each number says where it is from, and the shipped rules for replies name providers that are there.
 * SOURCE_FOLDER comes from the build. */
#include "engine/config/config_section.h"
#include "engine/config/policy.h"
#include "tests/unit/config_sample.h"

#include <ctype.h>
#include <stdlib.h>

#define LIST  SOURCE_FOLDER "/engine/config/providers.conf"
#define RULES SOURCE_FOLDER "/engine/reply/replies.conf"
#define LOAD  "include(\"" LIST "\")\ntransport t {}\nroute \"*\" { transport = t }\n"

static void hosts_lead_to_their_providers(void **state)
{
    static const char *const rows[][2] = {
        {"gmail-smtp-in.l.google.com,alt1.gmail-smtp-in.l.google.com", "google"},
        {"aspmx.l.google.com,alt1.aspmx.l.google.com,aspmx2.googlemail.com", "google"},
        {"smtp.google.com", "google"},
        {"mta5.am0.yahoodns.net,mta6.am0.yahoodns.net", "yahoo"},
        {"mx-eu.mail.am0.yahoodns.net", "yahoo"},
        {"mx-aol.mail.gm0.yahoodns.net", "yahoo"},
        {"outlook-com.olc.protection.outlook.com", "microsoft"},
        {"example-com.mail.protection.outlook.com", "microsoft-365"},
        {"example-com.a-v1.mx.microsoft", "microsoft-365"},
        {"mx01.mail.icloud.com,mx02.mail.icloud.com", "apple"},
        {"mx00.emig.gmx.net,mx01.emig.gmx.net", "gmx"},
        {"mx-ha02.web.de,mx-ha03.web.de", "gmx"},
        {"mx00.kundenserver.de,mx01.kundenserver.de", "gmx-ionos"},
        {"smtp-in.orange.fr", "orange"},
        {"mx1a1.comcast.net,mx2a1.comcast.net", "comcast"},
        {"us-smtp-inbound-1.mimecast.com,us-smtp-inbound-2.mimecast.com", "mimecast"},
        {"mx0a-00000000.pphosted.com,mx0b-00000000.pphosted.com", "proofpoint"},
        {"mxa-00000000.gslb.pphosted.com", "proofpoint"},
        {"d1.a.ess.barracudanetworks.com,d1.b.ess.barracudanetworks.com", "barracuda"},
        {"mx1.mail.ovh.net,mxb.ovh.net", "ovh"},
        {"aspmx.l.google.com,mail.evil.test", NULL},
        {"aspmx.l.google.com.evil.test", NULL},
        {"l.google.com", NULL},
    };
    static struct sample s;
    struct policy_table *table;
    sample_load(&s, LOAD);
    if (s.config == NULL || s.warnings > 0) {
        fail_msg("%s", s.said);
    }
    assert_int_equal(policy_table_new(s.config, &table), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct policy *p = policy_of(table, 0, SLICE("x.test"), slice_of(rows[i][0]));
        const char *name = p->provider_section == NULL ? NULL : p->provider_section->options.name;
        if (name == NULL ? rows[i][1] != NULL
                         : rows[i][1] == NULL || strcmp(name, rows[i][1]) != 0) {
            fail_msg("%s: %s", rows[i][0], name == NULL ? "none" : name);
        }
    }
    policy_table_free(table);
    config_free(s.config);
}

/* A domain says nothing about who receives its mail, so no section goes by one; and whoever includes
 * the list does not make one of them less than a destination without it. */
static void sections_are_cautious(void **state)
{
    static struct sample s;
    sample_load(&s, LOAD);
    assert_non_null(s.config);
    assert_true(s.config->provider_count >= 25);
    for (size_t i = 0; i < s.config->provider_count; i++) {
        const struct config_receiver *p = &s.config->providers[i];
        assert_true(p->mx.count > 0);
        assert_int_equal(p->domains.count, 0);
        assert_true(p->options.sched.destination_concurrency_limit > 0);
        assert_int_equal(p->options.limits.max_message_rate.count, 0); /* that is learned */
    }
    config_free(s.config);
}

static void numbers_say_where_they_are_from(void **state)
{
    char line[512];
    int numbers = 0;
    FILE *in = fopen(LIST, "r");
    assert_non_null(in);
    while (fgets(line, sizeof(line), in) != NULL) {
        if (line[0] != '#' && strstr(line, "_limit = ") != NULL) {
            numbers++;
            const char *comment = strchr(line, '#');
            if (comment == NULL || strlen(comment) < 10) {
                fail_msg("%s", line);
            }
        }
    }
    assert_int_equal(fclose(in), 0);
    assert_true(numbers > 25);
}

static void rules_name_providers_that_are_there(void **state)
{
    static struct sample s;
    char line[4096];
    int named = 0;
    sample_load(&s, LOAD);
    assert_non_null(s.config);
    FILE *in = fopen(RULES, "r");
    assert_non_null(in);
    while (fgets(line, sizeof(line), in) != NULL) {
        char *name = line + strspn(line, " ");
        if (strncmp(name, "provider = ", 11) == 0) {
            name += 11;
            name[strcspn(name, " \n")] = '\0';
            named++;
            if (config_section_find_title(s.config, CONFIG_SECTION_PROVIDER, name) ==
                s.config->provider_count) {
                fail_msg("there is no provider %s", name);
            }
        }
    }
    assert_int_equal(fclose(in), 0);
    assert_true(named > 100);
    config_free(s.config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_lead_to_their_providers),
        cmocka_unit_test(sections_are_cautious),
        cmocka_unit_test(numbers_say_where_they_are_from),
        cmocka_unit_test(rules_name_providers_that_are_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
