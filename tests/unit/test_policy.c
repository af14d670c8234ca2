/* What counts for a destination: the narrowest section of each option, of rates the smallest, where
 * each value comes from, and which destinations are a site of their own. */
#include "engine/config/policy.h"
#include "engine/config/router.h"
#include "tests/unit/config_sample.h"

#include <pthread.h>

static const char text[] = "transport smtp { destination_concurrency_limit = 30 max_message_rate = "
                           "\"100/s\"\n"                                                 /* 1 */
                           "  smtp_mail_timeout = 50s smtp_tls_security_level = may }\n" /* 2 */
                           "transport other { concurrency_feedback_rule = postfix3 }\n"  /* 3 */
                           "provider \"big\" { mx = {\"*.big.test\"} destination_concurrency_limit "
                           "= 40\n"                                                   /* 4 */
                           "  max_message_rate = \"200/s\" smtp_mail_timeout = 40s\n" /* 5 */
                           "  max_recipient_rate = \"6000/min\" smtp_tls_security_level = encrypt "
                           "}\n" /* 6 */
                           "provider \"names\" { domains = {\"n.test\"} "
                           "smtp_connection_cache_time_limit = 9s }\n" /* 7 */
                           "domain \"A.test\" { max_message_rate = \"3000/min\" "
                           "destination_concurrency_limit = 0 }\n" /* 8 */
                           "domain \"b.test\" { smtp_mail_timeout = 30s smtp_tls_security_level = "
                           "none }\n"                                                      /* 9 */
                           "domain \"c.test\" { max_recipient_rate = \"100/s, burst 5\"\n" /* 10 */
                           "  destination_concurrency_positive_feedback = \"1/2\" }\n"     /* 11 */
                           "route \"*\" { transport = smtp }\n"
                           "route \"b.test\" { transport = smtp smtp_tls_security_level = verify "
                           "}\n"
                           "route \"d.test\" { transport = smtp smtp_tls_security_level = dane }\n";

enum { SMTP, OTHER, BIG = 0, NAMES, NONE };

struct bed {
    struct sample sample;
    struct policy_table *table;
};

static void begin(struct bed *b, const char *config)
{
    sample_load(&b->sample, config);
    if (b->sample.config == NULL) {
        fail_msg("%s", b->sample.said);
    }
    assert_int_equal(policy_table_new(b->sample.config, &b->table), 0);
}

static void end(struct bed *b)
{
    policy_table_free(b->table);
    config_free(b->sample.config);
}

static const struct policy *find(const struct bed *b, uint32_t transport, size_t provider,
                                 const char *domain)
{
    const struct policy *p = policy_find(b->table, transport, provider, slice_of(domain));
    assert_non_null(p);
    assert_int_equal(p->transport, transport);
    assert_int_equal(p->provider, provider);
    return p;
}

static void expect_origin(const struct bed *b, const struct policy *p, const char *option,
                          const char *expected)
{
    char at[CONFIG_ORIGIN_BYTES];
    const struct config_option *o = config_option_find(CONFIG_SECTION_TRANSPORT, option);
    struct policy_origin origin = policy_origin(b->table, p, o);
    (void)config_origin(b->sample.config, origin.section, origin.index, option, at);
    assert_string_equal(at, expected);
}

static void the_narrowest_section_counts(void **state)
{
    struct bed b;
    begin(&b, text);
    const struct policy *p = find(&b, SMTP, NONE, "x.test");
    assert_int_equal(p->options.sched.destination_concurrency_limit, 30);
    assert_int_equal(p->options.smtp.smtp_mail_timeout, 50 * USEC_PER_SEC);
    expect_origin(&b, p, "destination_concurrency_limit", "f:1");
    expect_origin(&b, p, "smtp_rcpt_timeout", "default");
    expect_origin(&b, p, "process_limit", "default");
    p = find(&b, SMTP, BIG, "x.test");
    assert_int_equal(p->options.sched.destination_concurrency_limit, 40);
    assert_int_equal(p->options.smtp.smtp_mail_timeout, 40 * USEC_PER_SEC);
    assert_int_equal(p->options.smtp.smtp_rcpt_timeout, 300 * USEC_PER_SEC);
    expect_origin(&b, p, "smtp_mail_timeout", "f:5");
    p = find(&b, SMTP, BIG, "b.test");
    assert_int_equal(p->options.smtp.smtp_mail_timeout, 30 * USEC_PER_SEC);
    expect_origin(&b, p, "smtp_mail_timeout", "f:9");
    expect_origin(&b, p, "destination_concurrency_limit", "f:4");
    /* A value that is the built-in zero is set as well. */
    p = find(&b, SMTP, BIG, "a.TEST");
    assert_int_equal(p->options.sched.destination_concurrency_limit, 0);
    expect_origin(&b, p, "destination_concurrency_limit", "f:8");
    p = find(&b, SMTP, NAMES, "n.test");
    assert_int_equal(p->options.sched.connection_idle_limit, 9 * USEC_PER_SEC);
    end(&b);
}

static void of_rates_the_smallest_holds(void **state)
{
    struct bed b;
    begin(&b, text);
    const struct policy *p = find(&b, SMTP, BIG, "x.test");
    assert_int_equal(p->options.limits.max_message_rate.count, 100); /* not the provider's 200/s */
    expect_origin(&b, p, "max_message_rate", "f:1");
    expect_origin(&b, p, "max_recipient_rate", "f:6");
    p = find(&b, SMTP, BIG, "a.test"); /* 3000/min are 50/s */
    assert_int_equal(p->options.limits.max_message_rate.count, 3000);
    expect_origin(&b, p, "max_message_rate", "f:8");
    p = find(&b, SMTP, BIG, "c.test"); /* 100/s are 6000/min; less of them at once */
    assert_int_equal(p->options.limits.max_recipient_rate.burst, 5);
    expect_origin(&b, p, "max_recipient_rate", "f:10");
    p = find(&b, OTHER, BIG, "x.test"); /* none is no limit, so any is smaller */
    assert_int_equal(p->options.limits.max_message_rate.count, 200);
    end(&b);
}

static void what_shapes_a_lane_makes_a_site(void **state)
{
    struct bed b;
    begin(&b, text);
    const struct policy *base = find(&b, SMTP, NONE, "x.test");
    assert_ptr_equal(base->site, base);
    assert_ptr_equal(find(&b, SMTP, NONE, "y.test"), base);
    assert_ptr_equal(find(&b, SMTP, NONE, "a.test:26"), base);
    assert_false(base->has_own_site || base->is_bounded);
    const struct policy *p = find(&b, SMTP, NONE, "a.test");
    assert_true(p->has_own_site && !p->is_bounded);
    assert_ptr_equal(p->site, p);
    assert_ptr_equal(find(&b, SMTP, NONE, "A.Test"), p);
    p = find(&b, SMTP, NONE, "b.test"); /* time-outs and TLS stay the destination's */
    assert_false(p->has_own_site || p->is_bounded);
    assert_ptr_equal(p->site, base);
    p = find(&b, SMTP, BIG, "a.test"); /* inside a provider: a further bound */
    assert_true(!p->has_own_site && p->is_bounded);
    assert_ptr_equal(p->site, find(&b, SMTP, BIG, "x.test"));
    end(&b);
}

static void a_quota_in_a_provider_is_of_the_destination(void **state)
{
    struct bed b;
    begin(&b,
          "transport smtp { max_message_quota = \"70/d\" }\n"
          "provider big { mx = {\"*.big.test\"} max_message_quota = \"90/d\" }\n"
          "domain \"a.test\" { max_message_quota = \"5/h\" }\n"
          "domain \"b.test\" { max_message_rate = \"1/s\" }\nroute \"*\" { transport = smtp }\n");
    const struct policy *p = find(&b, SMTP, BIG, "a.test");
    assert_int_equal(p->bounds.quota.count, 5);
    assert_int_equal(p->site->options.limits.max_message_quota.count, 70);
    assert_int_equal(find(&b, SMTP, BIG, "b.test")->bounds.quota.count, 0);
    p = find(&b, SMTP, 1, "a.test"); /* no provider's: of its own lanes */
    assert_int_equal(p->bounds.quota.count, 0);
    assert_int_equal(p->options.limits.max_message_quota.count, 70);
    assert_ptr_equal(policy_domain(b.table, SLICE("A.test")), &b.sample.config->domains[0]);
    assert_null(policy_domain(b.table, SLICE("c.test")));
    end(&b);
}

static void feedback_is_read_by_the_rule_that_counts(void **state)
{
    struct bed b;
    begin(&b, text);
    const struct policy *p = find(&b, OTHER, NONE, "c.test");
    assert_int_equal(p->options.sched.concurrency_feedback_rule, SCHED_RULE_POSTFIX3);
    assert_true(p->options.sched.destination_concurrency_positive_feedback.base == 0.5);
    end(&b);
    sample_load(&b.sample,
                "transport smtp {}\ntransport p { concurrency_feedback_rule = postfix3 }\n"
                "domain \"a.test\" {\n"
                "destination_concurrency_positive_feedback = \"1/sqrt_concurrency\" }\n");
    assert_non_null(strstr(b.sample.said, "f:4: destination_concurrency_positive_feedback: "));
    sample_load(&b.sample,
                "transport smtp {}\ntransport p { concurrency_feedback_rule = postfix3 }\n"
                "domain \"a.test\" { concurrency_feedback_rule = readme\n"
                "destination_concurrency_positive_feedback = \"1/sqrt_concurrency\" }\n");
    assert_int_equal(b.sample.errors, 0);
    config_free(b.sample.config);
}

static void a_route_goes_before_a_provider(void **state)
{
    struct bed b;
    begin(&b, text);
    struct router *r = router_new(b.sample.config);
    assert_non_null(r);
    static const struct {
        const char *domain;
        size_t provider;
        enum config_tls_level level;
    } rows[] = {
        {"x.test", NONE, CONFIG_TLS_MAY},  {"x.test", BIG, CONFIG_TLS_ENCRYPT},
        {"b.test", BIG, CONFIG_TLS_NONE},  {"d.test", BIG, CONFIG_TLS_DANE},
        {"d.test", NONE, CONFIG_TLS_DANE}, {"c.test", BIG, CONFIG_TLS_ENCRYPT},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct policy *p = find(&b, SMTP, rows[i].provider, rows[i].domain);
        assert_int_equal(policy_tls_level(r, p, slice_of(rows[i].domain)), rows[i].level);
    }
    router_free(r);
    end(&b);
}

static void providers_are_found(void **state)
{
    struct bed b;
    const struct slice hosts[] = {SLICE("mx1.big.test"), SLICE("MX2.big.test.")};
    const struct slice mixed[] = {SLICE("mx1.big.test"), SLICE("mx.evil.test")};
    begin(&b, text);
    assert_int_equal(policy_no_provider(b.table), NONE);
    assert_int_equal(policy_provider(b.table, SLICE("x.test"), hosts, 2), BIG);
    assert_int_equal(policy_provider(b.table, SLICE("x.test"), mixed, 2), NONE);
    assert_int_equal(policy_provider(b.table, SLICE("x.test"), NULL, 0), NONE);
    assert_int_equal(policy_provider(b.table, SLICE("n.test"), NULL, 0), NAMES);
    assert_false(policy_is_by_domains(b.table, BIG));
    assert_true(policy_is_by_domains(b.table, NAMES));
    assert_false(policy_is_by_domains(b.table, NONE));
    end(&b);
}

static void a_destination_has_a_policy(void **state)
{
    struct bed b;
    begin(&b, text);
    static const struct {
        const char *nexthop, *names;
        size_t provider;
        bool has_domain;
    } rows[] = {
        {"a.test", "", NONE, true},
        {"a.test", "mx1.big.test,mx2.big.test", BIG, true},
        {"A.test", "mx1.big.test,mx.evil.test", NONE, true},
        {"x.test", "mx1.big.test", BIG, false},
        {"a.test:26", "mx1.big.test", NONE, false},
        {"[a.test]", "a.test", NONE, false},
        {"[mx1.big.test]", "mx1.big.test", NONE, false},
        {"mx1.big.test", "mx1.big.test", BIG, false},
        {"n.test", "", NAMES, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct policy *p =
            policy_of(b.table, OTHER, slice_of(rows[i].nexthop), slice_of(rows[i].names));
        assert_int_equal(p->transport, OTHER);
        assert_int_equal(p->provider, rows[i].provider);
        assert_int_equal(p->domain_section != NULL, rows[i].has_domain);
    }
    end(&b);
}

/* --- threads ---------------------------------------------------------------------------------- */

enum { THREADS = 4, DOMAINS = 200 };

struct asker {
    const struct policy_table *table;
    const struct policy *found[DOMAINS];
};

static void *ask(void *argument)
{
    struct asker *a = argument;
    char name[32];
    for (int i = 0; i < DOMAINS; i++) {
        (void)snprintf(name, sizeof(name), "d%d.test", i);
        a->found[i] = policy_find(a->table, 0, 0, slice_of(name));
    }
    return NULL;
}

static void threads_share_a_policy(void **state)
{
    static char config[DOMAINS * 64];
    struct bed b;
    pthread_t threads[THREADS];
    static struct asker askers[THREADS];
    size_t len = 0;
    for (int i = 0; i < DOMAINS; i++) {
        len += (size_t)snprintf(config + len, sizeof(config) - len,
                                "domain \"d%d.test\" { smtp_rcpt_timeout = %ds }\n", i, i + 1);
    }
    (void)snprintf(config + len, sizeof(config) - len, "transport t {}\n");
    begin(&b, config);
    for (int i = 0; i < THREADS; i++) {
        askers[i].table = b.table;
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (int i = 0; i < DOMAINS; i++) {
        assert_non_null(askers[0].found[i]);
        assert_int_equal(askers[0].found[i]->options.smtp.smtp_rcpt_timeout,
                         (i + 1) * USEC_PER_SEC);
        for (int t = 1; t < THREADS; t++) {
            assert_ptr_equal(askers[t].found[i], askers[0].found[i]);
        }
    }
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_narrowest_section_counts),
        cmocka_unit_test(of_rates_the_smallest_holds),
        cmocka_unit_test(what_shapes_a_lane_makes_a_site),
        cmocka_unit_test(a_quota_in_a_provider_is_of_the_destination),
        cmocka_unit_test(feedback_is_read_by_the_rule_that_counts),
        cmocka_unit_test(a_route_goes_before_a_provider),
        cmocka_unit_test(providers_are_found),
        cmocka_unit_test(a_destination_has_a_policy),
        cmocka_unit_test(threads_share_a_policy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
