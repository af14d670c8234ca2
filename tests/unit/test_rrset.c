#include "dns/rrset.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

static void test_mx_is_sorted_and_owns_its_names(void **state)
{
    static const uint16_t preferences[] = {20, 10, 20, 5};
    struct dns_record *records = calloc(4, sizeof(*records));
    char name[] = "example.com";

    for (int i = 0; i < 4; i++) {
        char text[] = "mx0.test";
        text[2] = (char)('0' + i);
        records[i].preference = preferences[i];
        assert_int_equal(dns_name_from_text(slice_of(text), &records[i].exchange), 0);
    }
    struct dns_rrset *set = dns_rrset_new(&(struct dns_rrset_source){.name = slice_of(name),
                                                                     .hash = 9,
                                                                     .type = DNS_TYPE_MX,
                                                                     .status = DNS_FOUND,
                                                                     .expires = 77,
                                                                     .records = records,
                                                                     .count = 4});
    memset(name, 'x', sizeof(name));
    memset(records, 'x', 4 * sizeof(*records));
    free(records);
    assert_true(slice_eq(set->name, SLICE("example.com")));
    assert_int_equal(set->count, 4);
    assert_int_equal(set->expires, 77);
    assert_true(slice_eq(set->mx[0].name, SLICE("mx3.test")));
    assert_true(slice_eq(set->mx[1].name, SLICE("mx1.test")));
    assert_true(slice_eq(set->mx[2].name, SLICE("mx0.test"))); /* equals stay in order */
    assert_true(slice_eq(set->mx[3].name, SLICE("mx2.test")));
    assert_ptr_equal(dns_rrset_get(set), set);
    dns_rrset_put(set);
    assert_int_equal(set->mx[0].preference, 5);
    dns_rrset_put(set);
    dns_rrset_put(NULL);
}

static void test_addresses_and_negatives(void **state)
{
    struct dns_record record = {.ttl = 60};

    assert_int_equal(ip_parse(SLICE("192.0.2.1"), &record.ip), 0);
    struct dns_rrset_source source = {.name = SLICE("a.test"),
                                      .type = DNS_TYPE_A,
                                      .status = DNS_FOUND,
                                      .records = &record,
                                      .count = 1};
    struct dns_rrset *set = dns_rrset_new(&source);
    assert_true(ip_eq(&set->ips[0], &record.ip));
    dns_rrset_put(set);
    /* Only DNS_FOUND has records, whatever the scratch space holds. */
    source.status = DNS_NXDOMAIN;
    set = dns_rrset_new(&source);
    assert_int_equal(set->count, 0);
    dns_rrset_put(set);
}

static void test_data_is_copied_in_an_order_of_its_own(void **state)
{
    char first[] = "\3\1\1b", second[] = "\3\1\1a", third[] = "\2\1\1zz";
    struct dns_record records[3] = {
        {.data = slice_of(first)}, {.data = slice_of(second)}, {.data = slice_of(third)}};
    struct dns_rrset_source source = {.name = SLICE("_25._tcp.a.test"),
                                      .end = SLICE("b.test"),
                                      .type = DNS_TYPE_TLSA,
                                      .status = DNS_FOUND,
                                      .records = records,
                                      .count = 3};
    struct dns_rrset *set = dns_rrset_new(&source);
    memset(first, 'x', sizeof(first));
    assert_true(slice_eq(set->end, SLICE("b.test")));
    assert_int_equal(set->tlsa[0].usage, 2);
    assert_true(slice_eq(set->tlsa[0].data, SLICE("zz")));
    assert_true(slice_eq(set->tlsa[1].data, SLICE("a")));
    assert_int_equal(set->tlsa[1].matching, 1);
    assert_true(slice_eq(set->tlsa[2].data, SLICE("b")));
    dns_rrset_put(set);

    /* the strings of a TXT record are one text */
    records[0].data = SLICE("\4v=ST\0\3Sv1");
    records[1].data = SLICE("\0");
    source.type = DNS_TYPE_TXT;
    source.count = 2;
    set = dns_rrset_new(&source);
    assert_true(slice_eq(set->txt[0], SLICE("v=STSv1")));
    assert_int_equal(set->txt[1].len, 0);
    dns_rrset_put(set);

    assert_int_equal(dns_name_from_text(SLICE("c.test"), &records[0].exchange), 0);
    source.type = DNS_TYPE_CNAME;
    source.count = 1;
    set = dns_rrset_new(&source);
    assert_true(slice_eq(set->mx[0].name, SLICE("c.test")));
    dns_rrset_put(set);
}

static void test_statuses(void **state)
{
    for (int i = 0; i < DNS_STATUS_COUNT; i++) {
        assert_string_not_equal(dns_status_text((enum dns_status)i), "Unknown error");
    }
    assert_true(dns_status_is_soft(DNS_SERVFAIL));
    assert_true(dns_status_is_soft(DNS_TIMEOUT));
    assert_true(dns_status_is_soft(DNS_MALFORMED));
    assert_false(dns_status_is_soft(DNS_NXDOMAIN));
    assert_false(dns_status_is_soft(DNS_UNRECOVERABLE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mx_is_sorted_and_owns_its_names),
        cmocka_unit_test(test_addresses_and_negatives),
        cmocka_unit_test(test_data_is_copied_in_an_order_of_its_own),
        cmocka_unit_test(test_statuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
