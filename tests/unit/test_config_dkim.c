/* Rules about the sections of keys, and about tenants that name keys and domains. */
#include "tests/unit/config_sample.h"

static void expect(const char *text, const char *wanted)
{
    struct sample s;
    sample_load(&s, text);
    if (strstr(s.said, wanted) == NULL) {
        print_error("\"%s\" is not in:\n%s", wanted, s.said);
    }
    assert_non_null(strstr(s.said, wanted));
    config_free(s.config);
}

static void titles_are_names_of_keys(void **state)
{
    expect("dkim \"example.com\" { key = \"k\" }\n",
           "f:1: dkim: \"example.com\" is not the name of a key in the DNS");
    expect("dkim \"._domainkey.a.test\" { key = \"k\" }\n", "is not the name of a key");
    expect("dkim \"s._domainkey.\" { key = \"k\" }\n", "is not the name of a key");
    expect("dkim \"s._domainkey.a..test\" { key = \"k\" }\n", "is not the name of a key");
    expect("dkim \"s._domainkey.b\303\274cher.test\" { key = \"k\" }\n",
           "is not the name of a key");
    expect("dkim \"s._domainkey.a.test\" { key = \"k\" }\n"
           "dkim \"S._domainkey.A.test\" { key = \"k\" }\n",
           "f:2: dkim: there is a key \"s._domainkey.a.test\" already");
    expect("dkim \"s._domainkey.a.test\" { }\n", "f:1: key: dkim \"s._domainkey.a.test\" has none");
}

static void options_are_checked(void **state)
{
    expect("dkim \"s._domainkey.a.test\" { key = \"k\"\n headers = {\"To:\"} }\n",
           "f:2: headers: \"To:\" is no name of a header field");
    expect("dkim \"s._domainkey.a.test\" { key = \"k\"\n oversign = {\"Received\"} }\n",
           "f:2: oversign: others on the way change Received");
    expect("dkim \"s._domainkey.a.test\" { key = \"k\"\n expire = 10m }\n",
           "f:2: expire: mail would");
    expect("dkim \"s._domainkey.a.test\" { key = \"k\"\n also = {\"b.test\"} }\n",
           "f:2: also: there is no key of domain \"b.test\"");
    expect("dkim \"s._domainkey.a.test\" { key = \"k\"\n from_domains = {\"*.b.test\"} }\n",
           "f:2: from_domains: \"*.b.test\" is no domain");
    expect("dkim \"s._domainkey.a.test\" { key = \"k\"\n canonicalization = relaxed }\n",
           "f:2: canonicalization: ");
}

static void tenants_name_what_there_is(void **state)
{
    expect("dkim \"s._domainkey.a.test\" { key = \"k\" }\n"
           "tenant \"t\" { dkim = {\"r._domainkey.a.test\"} }\n",
           "f:2: dkim: there is no dkim \"r._domainkey.a.test\"");
    expect(
        "tenant \"t\" {\n from_domains = {\"b\303\274cher.test\", \"\342\202\254\377.test\"} }\n",
        "f:2: from_domains: \"\342\202\254\377.test\" is no domain");
    expect("tenant \"t\" { from_domains = {\"a b\"} }\n",
           "f:1: from_domains: \"a b\" is no domain");
    expect("tenant \"t\" { feedback_id = \"{tenant}:{name}\" }\n",
           "f:1: feedback_id: \"{name}\" cannot stand in it");
    expect("tenant \"t\" { feedback_id = \"a b\" }\n", "f:1: feedback_id: \" b\" cannot stand");
    expect("dkim \"s._domainkey.a.test\" { key = \"k\" }\ntenant \"t\" { }\n",
           "f:1: dkim: warning: no tenant has from_domains");
}

static void what_is_right_is_taken(void **state)
{
    struct sample s;
    sample_load(&s,
                "dkim \"S1.x._domainkey.A.Test\" { key = \"k\"\n also = {\"A.test\"}\n"
                " from_domains = {\"*\", \"B\303\274cher.Test\"}\n expire = 10d\n"
                " canonicalization = \"simple/relaxed\" }\n"
                "tenant \"t\" { from_domains = {\"A.test\"}\n dkim = {\"s1.X._domainkey.a.test\"}\n"
                " feedback_id = \"{campaign}:{tenant}:{class}:esp\" }\n"
                "route \"*\" { transport = t }\ntransport t { }\n");
    assert_string_equal(s.said, "");
    const struct config_dkim *d = &s.config->dkims[0];
    assert_string_equal(d->name, "s1.x._domainkey.a.test");
    assert_true(slice_eq(d->selector, SLICE("s1.x")));
    assert_true(slice_eq(d->domain, SLICE("a.test")));
    assert_int_equal(d->canonicalization, CONFIG_CANON_SIMPLE_RELAXED);
    assert_string_equal(d->from_domains.items[1], "xn--bcher-kva.test");
    assert_string_equal(s.config->tenants[0].dkim.items[0], "s1.x._domainkey.a.test");
    assert_true(s.config->dkim_threads > 0);
    config_free(s.config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(titles_are_names_of_keys),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(tenants_name_what_there_is),
        cmocka_unit_test(what_is_right_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
