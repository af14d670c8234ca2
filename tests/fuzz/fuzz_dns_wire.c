/* Any bytes as an answer to (a.test, MX | A | AAAA | TLSA | TXT | CNAME): the parser stays within
 * the bytes and its limits, says the same twice, and what it accepts becomes a sound rrset. The
 * first byte of the input chooses the type. */
#include "dns/dns_wire.h"
#include "dns/mx.h"
#include "dns/rrset.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct dns_answer answer;
static struct dns_answer again;

static void check_name(const struct dns_name *name)
{
    struct dns_name parsed;

    assert(name->len <= DNS_NAME_MAX && name->text[name->len] == '\0');
    assert(strlen(name->text) == name->len);
    assert(name->is_valid || name->len == 0);
    assert(name->len == 0 || dns_name_from_text(dns_name_slice(name), &parsed) == 0);
}

static void check_set(enum dns_type type)
{
    struct mx_random random = {1};
    struct mx_host hosts[MX_HOSTS_MAX];
    uint32_t count = 0;
    uint16_t best = 0;

    struct dns_rrset *set = dns_rrset_new(&(struct dns_rrset_source){.name = SLICE("a.test"),
                                                                     .type = type,
                                                                     .status = DNS_FOUND,
                                                                     .records = answer.records,
                                                                     .count = answer.record_count});
    assert(set != NULL && set->count == answer.record_count);
    if (type == DNS_TYPE_MX) {
        for (uint32_t i = 1; i < set->count; i++) {
            assert(set->mx[i - 1].preference <= set->mx[i].preference);
        }
        if (mx_select(set, &random, hosts, &count, &best) == MX_OK) {
            assert(count > 0 && count <= MX_HOSTS_MAX && best == set->mx[0].preference);
        }
    }
    for (uint32_t i = 0; type == DNS_TYPE_TLSA && i < set->count; i++) {
        if (dns_tlsa_is_usable(&set->tlsa[i])) {
            assert(set->tlsa[i].usage >= 2 && set->tlsa[i].data.len > 0);
        }
    }
    dns_rrset_put(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum dns_type types[] = {DNS_TYPE_MX,   DNS_TYPE_A,   DNS_TYPE_AAAA,
                                          DNS_TYPE_TLSA, DNS_TYPE_TXT, DNS_TYPE_CNAME};
    struct dns_name name;

    if (size == 0) {
        return 0;
    }
    enum dns_type type = types[data[0] % 6];
    int err = dns_name_from_text(SLICE("a.test"), &name);
    assert(err == 0);
    /* Its own allocation of the exact size, so that a byte too many is seen. */
    uint8_t *exact = malloc(size - 1 == 0 ? 1 : size - 1);
    assert(exact != NULL);
    memcpy(exact, data + 1, size - 1);
    err = dns_wire_parse(exact, size - 1, &name, type, &answer);
    assert(dns_wire_parse(exact, size - 1, &name, type, &again) == err);
    if (err != 0) {
        free(exact);
        return 0;
    }
    assert(answer.record_count == again.record_count && answer.skipped == again.skipped);
    assert(slice_eq(dns_name_slice(&answer.name), dns_name_slice(&again.name)));
    assert(answer.record_count <= DNS_RECORDS_MAX);
    assert(answer.alias_count <= DNS_CNAME_MAX + 1);
    check_name(&answer.name);
    for (uint32_t i = 0; i < answer.record_count; i++) {
        assert(answer.records[i].ttl <= INT32_MAX);
        if (type == DNS_TYPE_MX) {
            check_name(&answer.records[i].exchange);
        }
    }
    if (answer.record_count > 0) {
        check_set(type);
    }
    free(exact);
    return 0;
}
