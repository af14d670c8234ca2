#include "dns/dns_wire.h"
#include "tests/unit/dns_packet.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define RESPONSE 0x8180

static struct packet packet;
static struct dns_answer answer;

/* Parse an exact heap copy, so that a sanitizer sees every byte read too many. */
static int parse_bytes(size_t len, const char *name, enum dns_type type)
{
    struct dns_name question;
    uint8_t *copy = malloc(len == 0 ? 1 : len);

    assert_non_null(copy);
    memcpy(copy, packet.data, len);
    assert_int_equal(dns_name_from_text(slice_of(name), &question), 0);
    int err = dns_wire_parse(copy, len, &question, type, &answer);
    free(copy);
    return err;
}

static int parse(const char *name, enum dns_type type)
{
    return parse_bytes(packet.len, name, type);
}

static void put_raw(const char *owner, unsigned type, const void *rdata, size_t len)
{
    size_t at = packet_begin(&packet, PACKET_ANSWER, owner, type, 60);
    packet_put(&packet, rdata, len);
    packet_end(&packet, at);
}

static void test_mx(void **state)
{
    packet_start(&packet, 7, RESPONSE | 0x20, "Example.COM", DNS_TYPE_MX);
    packet_mx(&packet, "@", 300, 20, "MX2.example.com");
    packet_mx(&packet, "example.com", 200, 10, "mx1.example.com");
    packet_mx(&packet, "other.com", 1, 0, "evil.test");
    assert_int_equal(parse("example.com", DNS_TYPE_MX), 0);
    assert_int_equal(answer.id, 7);
    assert_int_equal(answer.rcode, 0);
    assert_true(answer.is_authentic);
    assert_false(answer.is_truncated);
    assert_int_equal(answer.record_count, 2);
    assert_string_equal(answer.records[0].exchange.text, "mx2.example.com");
    assert_int_equal(answer.records[0].preference, 20);
    assert_int_equal(answer.records[1].ttl, 200);
}

static void test_addresses(void **state)
{
    packet_start(&packet, 1, RESPONSE, "a.test", DNS_TYPE_A);
    packet_address(&packet, PACKET_ANSWER, "@", 60, "192.0.2.1");
    packet_address(&packet, PACKET_ANSWER, "@", 0x80000000, "192.0.2.2");
    packet_address(&packet, PACKET_ADDITIONAL, "@", 60, "192.0.2.66");
    assert_int_equal(parse("a.test", DNS_TYPE_A), 0);
    assert_int_equal(answer.record_count, 2);
    assert_int_equal(answer.records[0].ip.family, 4);
    assert_int_equal(answer.records[0].ip.bytes[3], 1);
    assert_int_equal(answer.records[1].ttl, 0);

    packet_start(&packet, 1, RESPONSE, "a.test", DNS_TYPE_AAAA);
    packet_address(&packet, PACKET_ANSWER, "@", 60, "2001:db8::5");
    assert_int_equal(parse("a.test", DNS_TYPE_AAAA), 0);
    assert_int_equal(answer.records[0].ip.family, 6);
    assert_int_equal(answer.records[0].ip.bytes[15], 5);
}

static void test_alias_chain_in_any_order(void **state)
{
    packet_start(&packet, 1, RESPONSE, "a.test", DNS_TYPE_A);
    packet_cname(&packet, "b.test", 20, "c.test");
    packet_address(&packet, PACKET_ANSWER, "c.test", 60, "192.0.2.1");
    packet_cname(&packet, "@", 40, "b.test");
    packet_address(&packet, PACKET_ANSWER, "a.test", 60, "192.0.2.66");
    assert_int_equal(parse("a.test", DNS_TYPE_A), 0);
    assert_int_equal(answer.alias_count, 2);
    assert_int_equal(answer.alias_ttl, 20);
    assert_string_equal(answer.name.text, "c.test");
    assert_int_equal(answer.record_count, 1);
    assert_int_equal(answer.records[0].ip.bytes[3], 1);
}

static void add_chain(int steps)
{
    char from[32] = "@";
    char to[32];

    packet_start(&packet, 1, RESPONSE, "n0.test", DNS_TYPE_A);
    for (int i = 1; i <= steps; i++) {
        snprintf(to, sizeof(to), "n%d.test", i);
        packet_cname(&packet, from, 60, to);
        memcpy(from, to, sizeof(from));
    }
    packet_address(&packet, PACKET_ANSWER, from, 60, "192.0.2.1");
}

static void test_alias_limits(void **state)
{
    add_chain(DNS_CNAME_MAX);
    assert_int_equal(parse("n0.test", DNS_TYPE_A), 0);
    assert_false(answer.is_alias_loop);
    assert_int_equal(answer.record_count, 1);
    add_chain(DNS_CNAME_MAX + 1);
    assert_int_equal(parse("n0.test", DNS_TYPE_A), 0);
    assert_true(answer.is_alias_loop);

    packet_start(&packet, 1, RESPONSE, "a.test", DNS_TYPE_MX);
    packet_cname(&packet, "@", 60, "b.test");
    packet_cname(&packet, "b.test", 60, "a.test");
    assert_int_equal(parse("a.test", DNS_TYPE_MX), 0);
    assert_true(answer.is_alias_loop);
    assert_int_equal(answer.record_count, 0);
}

static void test_negative(void **state)
{
    packet_start(&packet, 1, RESPONSE | DNS_RCODE_NXDOMAIN, "a.test", DNS_TYPE_MX);
    packet_soa(&packet, "test", 900, 120);
    assert_int_equal(parse("a.test", DNS_TYPE_MX), 0);
    assert_int_equal(answer.rcode, DNS_RCODE_NXDOMAIN);
    assert_true(answer.has_soa);
    assert_int_equal(answer.negative_ttl, 120);
    packet_start(&packet, 1, RESPONSE, "a.test", DNS_TYPE_MX);
    packet_soa(&packet, "test", 60, 7200);
    assert_int_equal(parse("a.test", DNS_TYPE_MX), 0);
    assert_int_equal(answer.negative_ttl, 60);
    packet_start(&packet, 1, RESPONSE | DNS_RCODE_SERVFAIL, "a.test", DNS_TYPE_MX);
    assert_int_equal(parse("a.test", DNS_TYPE_MX), 0);
    assert_false(answer.has_soa);
}

static void test_truncated_flag(void **state)
{
    packet_start(&packet, 1, RESPONSE | 0x0200, "a.test", DNS_TYPE_MX);
    packet.data[PACKET_ANSWER + 1] = 9; /* nine records announced, none sent */
    assert_int_equal(parse("a.test", DNS_TYPE_MX), 0);
    assert_true(answer.is_truncated);
    assert_int_equal(answer.record_count, 0);
}

/* Every prefix of a valid answer without additional section is refused. */
static void test_every_truncation(void **state)
{
    for (int kind = 0; kind < 4; kind++) {
        enum dns_type type = kind == 0 ? DNS_TYPE_A : DNS_TYPE_MX;
        packet_start(&packet, 1, RESPONSE, "a.test", type);
        if (kind == 0) {
            packet_cname(&packet, "@", 60, "b.test");
            packet_address(&packet, PACKET_ANSWER, "b.test", 60, "192.0.2.1");
        } else if (kind == 1) {
            packet_mx(&packet, "@", 60, 10, "mx1.test");
            packet_mx(&packet, "@", 60, 10, "@");
        } else if (kind == 2) {
            packet_soa(&packet, "test", 60, 60);
        } else {
            packet_mx(&packet, "@", 60, 10, "mx1.test");
            packet_soa(&packet, "test", 60, 60);
        }
        assert_int_equal(parse("a.test", type), 0);
        for (size_t len = 0; len < packet.len; len++) {
            assert_int_not_equal(parse_bytes(len, "a.test", type), 0);
        }
    }
}

static void test_wrong_response(void **state)
{
    packet_start(&packet, 1, 0x0100, "a.test", DNS_TYPE_MX); /* a query */
    assert_int_not_equal(parse("a.test", DNS_TYPE_MX), 0);
    packet_start(&packet, 1, RESPONSE, "b.test", DNS_TYPE_MX);
    assert_int_not_equal(parse("a.test", DNS_TYPE_MX), 0);
    packet_start(&packet, 1, RESPONSE, "a.test", DNS_TYPE_A);
    assert_int_not_equal(parse("a.test", DNS_TYPE_MX), 0);
    packet_start(&packet, 1, RESPONSE, "a.test", DNS_TYPE_MX);
    packet.data[5] = 2;
    assert_int_not_equal(parse("a.test", DNS_TYPE_MX), 0);
    packet.data[5] = 1;
    packet.data[packet.len - 1] = 3; /* class CHAOS */
    assert_int_not_equal(parse("a.test", DNS_TYPE_MX), 0);
}

static void test_tlsa(void **state)
{
    for (size_t len = 0; len < 8; len++) {
        packet_start(&packet, 1, RESPONSE, "a.test", DNS_TYPE_TLSA);
        put_raw("@", DNS_TYPE_TLSA, "\3\1\1\0data", len);
        int err = parse("a.test", DNS_TYPE_TLSA);
        assert_int_equal(err == 0, len >= 3);
        assert_true(err != 0 || (answer.record_count == 1 && answer.records[0].data.len == len));
    }
    /* records are owned by the end of the aliases */
    packet_start(&packet, 1, RESPONSE, "a.test", DNS_TYPE_TLSA);
    packet_cname(&packet, "@", 60, "b.test");
    put_raw("b.test", DNS_TYPE_TLSA, "\3\1\1x", 4);
    put_raw("a.test", DNS_TYPE_TLSA, "\2\1\1x", 4);
    assert_int_equal(parse("a.test", DNS_TYPE_TLSA), 0);
    assert_int_equal(answer.record_count, 1);
}

static void test_txt(void **state)
{
    static const struct {
        const char *data;
        size_t len;
        bool is_good;
    } rows[] = {{"\0", 1, true},  {"\1a", 2, true},  {"\1a\2bc", 5, true}, {"", 0, false},
                {"\1", 1, false}, {"\2a", 2, false}, {"\1ab", 3, false},   {"\1a\377", 3, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        packet_start(&packet, 1, RESPONSE, "a.test", DNS_TYPE_TXT);
        put_raw("@", DNS_TYPE_TXT, rows[i].data, rows[i].len);
        assert_int_equal(parse("a.test", DNS_TYPE_TXT) == 0, rows[i].is_good);
    }
}

static void test_alias_itself(void **state)
{
    packet_start(&packet, 1, RESPONSE, "a.test", DNS_TYPE_CNAME);
    packet_cname(&packet, "@", 60, "b.test");
    packet_cname(&packet, "b.test", 60, "c.test");
    assert_int_equal(parse("a.test", DNS_TYPE_CNAME), 0);
    assert_int_equal(answer.alias_count, 0);
    assert_int_equal(answer.record_count, 1);
    assert_string_equal(answer.records[0].exchange.text, "b.test");
}

static void test_bad_rdata(void **state)
{
    static const struct {
        unsigned type;
        size_t len;
        const char *data;
    } cases[] = {
        {DNS_TYPE_MX, 0, ""},           {DNS_TYPE_MX, 1, "\0"},
        {DNS_TYPE_MX, 2, "\0\1"},       {DNS_TYPE_MX, 4, "\0\1\3a"},      /* label past the data */
        {DNS_TYPE_MX, 5, "\0\1\1a\2"},  {DNS_TYPE_MX, 4, "\0\1\0\0"},     /* bytes left over */
        {DNS_TYPE_MX, 3, "\0\1\xc0"},   {DNS_TYPE_MX, 4, "\0\1\xc0\xff"}, /* pointer to nowhere */
        {DNS_TYPE_MX, 4, "\0\1\xc0\4"}, /* pointer into the header */
        {DNS_TYPE_MX, 4, "\0\1\x80\1"}, /* reserved label type */
        {DNS_TYPE_A, 3, "abc"},         {DNS_TYPE_A, 5, "abcde"},
        {DNS_TYPE_AAAA, 4, "abcd"},     {DNS_TYPE_AAAA, 0, ""},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        packet_start(&packet, 1, RESPONSE, "a.test", cases[i].type);
        put_raw("@", cases[i].type, cases[i].data, cases[i].len);
        assert_int_not_equal(parse("a.test", cases[i].type), 0);
    }
}

static void test_pointer_tricks(void **state)
{
    /* A name that points to itself, and two that point to each other. */
    packet_start(&packet, 1, RESPONSE, "a.test", DNS_TYPE_MX);
    size_t at = packet_begin(&packet, PACKET_ANSWER, "@", DNS_TYPE_MX, 60);
    packet_put16(&packet, 10);
    packet_put16(&packet, 0xc000 | (unsigned)packet.len);
    packet_end(&packet, at);
    assert_int_not_equal(parse("a.test", DNS_TYPE_MX), 0);

    packet_start(&packet, 1, RESPONSE, "a.test", DNS_TYPE_MX);
    at = packet_begin(&packet, PACKET_ANSWER, "@", DNS_TYPE_MX, 60);
    packet_put16(&packet, 10);
    packet_put16(&packet, 0xc000 | (unsigned)(packet.len + 2)); /* forward */
    packet_put16(&packet, 0xc000 | (unsigned)(packet.len - 2));
    packet_end(&packet, at);
    assert_int_not_equal(parse("a.test", DNS_TYPE_MX), 0);

    /* A label in front of a pointer to that label: grows with each turn. */
    packet_start(&packet, 1, RESPONSE, "a.test", DNS_TYPE_MX);
    at = packet_begin(&packet, PACKET_ANSWER, "@", DNS_TYPE_MX, 60);
    packet_put16(&packet, 10);
    unsigned self = (unsigned)packet.len;
    packet_put(&packet, "\1x", 2);
    packet_put16(&packet, 0xc000 | self);
    packet_end(&packet, at);
    assert_int_not_equal(parse("a.test", DNS_TYPE_MX), 0);
}

/* 4 labels: 3 of 63 and one of `last` bytes make 192 + last + 1 + 1 bytes on the wire. */
static int parse_long_name(size_t last)
{
    packet_start(&packet, 1, RESPONSE, "a.test", DNS_TYPE_MX);
    size_t at = packet_begin(&packet, PACKET_ANSWER, "@", DNS_TYPE_MX, 60);
    char label[64];
    memset(label, 'x', sizeof(label));
    packet_put16(&packet, 10);
    for (int i = 0; i < 4; i++) {
        label[0] = (char)(i < 3 ? 63 : last);
        packet_put(&packet, label, (size_t)label[0] + 1);
    }
    packet_put(&packet, "", 1);
    packet_end(&packet, at);
    return parse("a.test", DNS_TYPE_MX);
}

static void test_name_limits(void **state)
{
    assert_int_equal(parse_long_name(61), 0);
    assert_int_equal(answer.records[0].exchange.len, DNS_NAME_MAX);
    assert_int_not_equal(parse_long_name(62), 0);
}

static void test_odd_names(void **state)
{
    packet_start(&packet, 1, RESPONSE, "a.test", DNS_TYPE_MX);
    put_raw("@", DNS_TYPE_MX, "\0\1\3a\r\n\4test\0", 12);
    put_raw("@", DNS_TYPE_MX, "\0\2\3a.b\4test\0", 12);
    put_raw("@", DNS_TYPE_MX, "\0\3\0", 3);
    assert_int_equal(parse("a.test", DNS_TYPE_MX), 0);
    assert_int_equal(answer.record_count, 3);
    assert_false(answer.records[0].exchange.is_valid);
    assert_int_equal(answer.records[0].exchange.len, 0);
    assert_false(answer.records[1].exchange.is_valid);
    assert_true(answer.records[2].exchange.is_valid);
    assert_int_equal(answer.records[2].exchange.len, 0);
}

static void test_many_records(void **state)
{
    char name[32];

    packet_start(&packet, 1, RESPONSE, "a.test", DNS_TYPE_MX);
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "mx%u.test", i);
        packet_mx(&packet, "@", 60, 2000 - i, name);
    }
    assert_int_equal(parse("a.test", DNS_TYPE_MX), 0);
    assert_int_equal(answer.record_count, DNS_RECORDS_MAX);
    assert_int_equal(answer.skipped, 900);
    for (unsigned i = 0; i < DNS_RECORDS_MAX; i++) {
        assert_true(answer.records[i].preference <= 1100);
    }
    packet_start(&packet, 1, RESPONSE, "a.test", DNS_TYPE_A);
    for (unsigned i = 0; i < 500; i++) {
        packet_address(&packet, PACKET_ANSWER, "@", 60, "192.0.2.1");
    }
    assert_int_equal(parse("a.test", DNS_TYPE_A), 0);
    assert_int_equal(answer.record_count, DNS_ADDRESSES_MAX);
    assert_int_equal(answer.skipped, 450);
    packet.data[PACKET_ANSWER] = 0xff; /* count field lies */
    assert_int_not_equal(parse("a.test", DNS_TYPE_A), 0);
}

/* Each byte of a valid answer changed in each bit: no crash, limits hold. */
static void test_bit_flips(void **state)
{
    packet_start(&packet, 1, RESPONSE, "a.test", DNS_TYPE_MX);
    packet_cname(&packet, "@", 60, "b.test");
    packet_mx(&packet, "b.test", 60, 10, "mx1.test");
    packet_mx(&packet, "b.test", 60, 10, "@");
    packet_soa(&packet, "test", 60, 60);
    for (size_t at = 0; at < packet.len; at++) {
        for (int bit = 0; bit < 8; bit++) {
            packet.data[at] ^= (uint8_t)(1 << bit);
            if (parse("a.test", DNS_TYPE_MX) == 0) {
                assert_true(answer.record_count <= DNS_RECORDS_MAX);
                assert_true(answer.alias_count <= DNS_CNAME_MAX + 1);
            }
            packet.data[at] ^= (uint8_t)(1 << bit);
        }
    }
}

static void test_name_from_text(void **state)
{
    static const char *const bad[] = {"", ".", "..", "a..b", ".a", "a b", "a/b", "a..", "\xc3\xbc"};
    struct dns_name name;
    char text[300];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_not_equal(dns_name_from_text(slice_of(bad[i]), &name), 0);
    }
    assert_int_equal(dns_name_from_text(SLICE("WWW.Example-1._x."), &name), 0);
    assert_string_equal(name.text, "www.example-1._x");
    memset(text, 'a', sizeof(text));
    assert_int_equal(dns_name_from_text(slice_make(text, 63), &name), 0);
    assert_int_not_equal(dns_name_from_text(slice_make(text, 64), &name), 0);
    for (size_t i = 50; i < sizeof(text); i += 51) {
        text[i] = '.';
    }
    assert_int_equal(dns_name_from_text(slice_make(text, 253), &name), 0);
    assert_int_not_equal(dns_name_from_text(slice_make(text, 254), &name), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mx),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_alias_chain_in_any_order),
        cmocka_unit_test(test_alias_limits),
        cmocka_unit_test(test_negative),
        cmocka_unit_test(test_truncated_flag),
        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_wrong_response),
        cmocka_unit_test(test_tlsa),
        cmocka_unit_test(test_txt),
        cmocka_unit_test(test_alias_itself),
        cmocka_unit_test(test_bad_rdata),
        cmocka_unit_test(test_pointer_tricks),
        cmocka_unit_test(test_name_limits),
        cmocka_unit_test(test_odd_names),
        cmocka_unit_test(test_many_records),
        cmocka_unit_test(test_bit_flips),
        cmocka_unit_test(test_name_from_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
