/* The truth table of RFC 7672 2.2: which questions follow from which answers, and what they mean.
 */
#include "dns/dane.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#define DIGEST "0123456789abcdef0123456789abcdef" /* 32 bytes */

static struct dns_rrset *made[16];
static size_t made_count;

static struct dns_rrset *keep(const struct dns_rrset_source *source)
{
    struct dns_rrset *set = dns_rrset_new(source);
    assert_non_null(set);
    made[made_count++] = set;
    return set;
}

static int release(void **state)
{
    while (made_count > 0) {
        dns_rrset_put(made[--made_count]);
    }
    return 0;
}

static struct dns_rrset *address(bool is_authentic, const char *end)
{
    static struct dns_record record;
    assert_int_equal(ip_parse(SLICE("192.0.2.1"), &record.ip), 0);
    return keep(&(struct dns_rrset_source){.name = SLICE("mx.test"),
                                           .end = slice_of(end),
                                           .type = DNS_TYPE_A,
                                           .status = DNS_FOUND,
                                           .is_authentic = is_authentic,
                                           .records = &record,
                                           .count = 1});
}

static struct dns_rrset *nothing(enum dns_type type, enum dns_status status)
{
    return keep(&(struct dns_rrset_source){.name = SLICE("mx.test"),
                                           .type = type,
                                           .status = status,
                                           .is_authentic = !dns_status_is_soft(status)});
}

static struct dns_rrset *alias(bool is_authentic)
{
    static struct dns_record record;
    assert_int_equal(dns_name_from_text(SLICE("end.test"), &record.exchange), 0);
    return keep(&(struct dns_rrset_source){.name = SLICE("mx.test"),
                                           .type = DNS_TYPE_CNAME,
                                           .status = DNS_FOUND,
                                           .is_authentic = is_authentic,
                                           .records = &record,
                                           .count = 1});
}

/* One record, its RDATA as a literal with the three numbers in front. */
static struct dns_rrset *tlsa(bool is_authentic, struct slice rdata)
{
    const struct dns_record record = {.data = rdata};
    return keep(&(struct dns_rrset_source){.name = SLICE("_25._tcp.mx.test"),
                                           .type = DNS_TYPE_TLSA,
                                           .status = DNS_FOUND,
                                           .is_authentic = is_authentic,
                                           .records = &record,
                                           .count = 1});
}

static void expect_question(struct dane *d, enum dns_type type, const char *name)
{
    struct dns_name asked;
    enum dns_type asked_type;
    assert_true(dane_next(d, &asked, &asked_type));
    assert_string_equal(asked.text, name);
    assert_int_equal(asked_type, type);
}

static void expect_end(struct dane *d, enum dns_dane result)
{
    struct dns_name asked;
    enum dns_type type;
    assert_false(dane_next(d, &asked, &type));
    assert_int_equal(d->result, result);
}

static void begin(struct dane *d, const struct dns_rrset *a, const struct dns_rrset *aaaa)
{
    dane_begin(d, SLICE("mx.test"), 25, a, aaaa);
}

static void only_validated_hosts_are_asked_about(void **state)
{
    struct dane d;
    begin(&d, address(false, ""), NULL);
    expect_end(&d, DNS_DANE_NONE);
    begin(&d, nothing(DNS_TYPE_A, DNS_NODATA), nothing(DNS_TYPE_AAAA, DNS_TIMEOUT));
    expect_end(&d, DNS_DANE_NONE);
    begin(&d, NULL, NULL);
    expect_end(&d, DNS_DANE_NONE);
    /* either family will do */
    begin(&d, address(false, ""), address(true, ""));
    expect_question(&d, DNS_TYPE_TLSA, "_25._tcp.mx.test");
    begin(&d, nothing(DNS_TYPE_A, DNS_NODATA), address(true, ""));
    expect_question(&d, DNS_TYPE_TLSA, "_25._tcp.mx.test");
}

static void answers_decide(void **state)
{
    static const struct {
        struct slice rdata;
        enum dns_dane result;
    } rows[] = {
        {SLICE("\3\1\1" DIGEST), DNS_DANE_RECORDS},
        {SLICE("\2\0\2" DIGEST DIGEST), DNS_DANE_RECORDS},
        {SLICE("\3\0\0x"), DNS_DANE_RECORDS},
        {SLICE("\3\0\0"), DNS_DANE_UNUSABLE},
        {SLICE("\3\1\1" DIGEST "x"), DNS_DANE_UNUSABLE},
        {SLICE("\3\1\2" DIGEST), DNS_DANE_UNUSABLE},
        {SLICE("\0\1\1" DIGEST), DNS_DANE_UNUSABLE},
        {SLICE("\1\1\1" DIGEST), DNS_DANE_UNUSABLE},
        {SLICE("\4\1\1" DIGEST), DNS_DANE_UNUSABLE},
        {SLICE("\3\2\1" DIGEST), DNS_DANE_UNUSABLE},
        {SLICE("\3\1\3" DIGEST), DNS_DANE_UNUSABLE},
    };
    struct dane d;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin(&d, address(true, ""), NULL);
        expect_question(&d, DNS_TYPE_TLSA, "_25._tcp.mx.test");
        dane_answer(&d, tlsa(true, rows[i].rdata));
        expect_end(&d, rows[i].result);
        release(NULL);
    }
    for (int status = DNS_NODATA; status < DNS_STATUS_COUNT; status++) {
        bool is_denial = status == DNS_NODATA || status == DNS_NXDOMAIN || status == DNS_ALIAS_LOOP;
        begin(&d, address(true, ""), NULL);
        expect_question(&d, DNS_TYPE_TLSA, "_25._tcp.mx.test");
        dane_answer(&d, nothing(DNS_TYPE_TLSA, (enum dns_status)status));
        expect_end(&d, is_denial ? DNS_DANE_NONE : DNS_DANE_FAILED);
        release(NULL);
    }
    begin(&d, address(true, ""), NULL);
    expect_question(&d, DNS_TYPE_TLSA, "_25._tcp.mx.test");
    dane_answer(&d, NULL);
    expect_end(&d, DNS_DANE_FAILED);
    /* records that nobody signed bind nobody */
    begin(&d, address(true, ""), NULL);
    expect_question(&d, DNS_TYPE_TLSA, "_25._tcp.mx.test");
    dane_answer(&d, tlsa(false, SLICE("\3\1\1" DIGEST)));
    expect_end(&d, DNS_DANE_NONE);
}

static void an_alias_counts_at_its_end_first(void **state)
{
    struct dane d;
    begin(&d, address(true, "end.test"), NULL);
    expect_question(&d, DNS_TYPE_TLSA, "_25._tcp.end.test");
    dane_answer(&d, nothing(DNS_TYPE_TLSA, DNS_NXDOMAIN));
    expect_question(&d, DNS_TYPE_TLSA, "_25._tcp.mx.test");
    dane_answer(&d, tlsa(true, SLICE("\3\1\1" DIGEST)));
    expect_end(&d, DNS_DANE_RECORDS);

    begin(&d, address(true, "end.test"), NULL);
    expect_question(&d, DNS_TYPE_TLSA, "_25._tcp.end.test");
    dane_answer(&d, tlsa(true, SLICE("\3\1\1" DIGEST)));
    expect_end(&d, DNS_DANE_RECORDS);

    begin(&d, address(true, "end.test"), NULL);
    expect_question(&d, DNS_TYPE_TLSA, "_25._tcp.end.test");
    dane_answer(&d, nothing(DNS_TYPE_TLSA, DNS_SERVFAIL));
    expect_end(&d, DNS_DANE_FAILED);
}

static void an_alias_out_of_the_signed_world(void **state)
{
    struct dane d;
    begin(&d, address(false, "end.test"), NULL);
    expect_question(&d, DNS_TYPE_CNAME, "mx.test");
    dane_answer(&d, alias(true));
    expect_question(&d, DNS_TYPE_TLSA, "_25._tcp.mx.test");
    dane_answer(&d, tlsa(true, SLICE("\3\1\1" DIGEST)));
    expect_end(&d, DNS_DANE_RECORDS);

    begin(&d, address(false, "end.test"), NULL);
    expect_question(&d, DNS_TYPE_CNAME, "mx.test");
    dane_answer(&d, alias(false));
    expect_end(&d, DNS_DANE_NONE);

    begin(&d, address(false, "end.test"), NULL);
    expect_question(&d, DNS_TYPE_CNAME, "mx.test");
    dane_answer(&d, nothing(DNS_TYPE_CNAME, DNS_TIMEOUT));
    expect_end(&d, DNS_DANE_FAILED);
}

static void a_name_too_long_for_records_has_none(void **state)
{
    char name[DNS_NAME_MAX + 1];
    struct dane d;
    memset(name, 'a', DNS_NAME_MAX);
    for (size_t i = 50; i < DNS_NAME_MAX; i += 51) {
        name[i] = '.';
    }
    dane_begin(&d, slice_make(name, DNS_NAME_MAX), 25, address(true, ""), NULL);
    expect_end(&d, DNS_DANE_NONE);
}

static void the_base_is_the_name_behind_two_labels(void **state)
{
    assert_true(slice_eq(dane_base(tlsa(true, SLICE("\3\1\1" DIGEST))), SLICE("mx.test")));
}

#define TEST(name) cmocka_unit_test_teardown(name, release)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(only_validated_hosts_are_asked_about), TEST(answers_decide),
        TEST(an_alias_counts_at_its_end_first),     TEST(an_alias_out_of_the_signed_world),
        TEST(a_name_too_long_for_records_has_none), TEST(the_base_is_the_name_behind_two_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
