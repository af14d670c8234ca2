/* Rules and answers of the test name server; well-formed answers are read back by dnslib in
 * tests/integration/test_tools.py, here it is about what must not be believed. */
#include "base/error.h"
#include "bench/zone/zone_answer.h"
#include "tests/unit/unit.h"

#include <string.h>

static const uint8_t query[] = {0x12, 0x34, 1, 0,   0,   1,   0,   0, 0, 0,  0, 0, 2,
                                'D',  '7',  4, 't', 'e', 's', 't', 0, 0, 15, 0, 1};

static size_t ask(const struct zone *zone, const uint8_t *bytes, size_t len, uint8_t *ret)
{
    uint32_t delay;
    return zone_answer(zone, slice_make((const char *)bytes, len), 60, ret, &delay);
}

static void test_answer(void **state)
{
    struct zone zone = {0};
    uint8_t answer[ZONE_ANSWER_MAX];
    (void)state;
    assert_int_equal(zone_add(&zone, " d#.TEST  MX  10 mx#.test. \n"), 0);
    size_t len = ask(&zone, query, sizeof(query), answer);
    static const uint8_t record[] = {0xc0, 12, 0, 15,  0,   1,   0, 0,   0,   60,  0,   12,
                                     0,    10, 3, 'm', 'x', '7', 4, 't', 'e', 's', 't', 0};
    assert_int_equal(len, sizeof(query) + sizeof(record));
    assert_memory_equal(answer, "\x12\x34\x85\x80\0\1\0\1\0\0\0\0", 12);
    assert_memory_equal(answer + 12, query + 12, sizeof(query) - 12);
    assert_memory_equal(answer + sizeof(query), record, sizeof(record));
    zone_fini(&zone);
}

static void test_late_and_truncated(void **state)
{
    struct zone zone = {0};
    uint8_t answer[ZONE_ANSWER_MAX];
    uint32_t delay = 7;
    struct slice question = slice_make((const char *)query, sizeof(query));
    (void)state;
    assert_int_equal(zone_add(&zone, "d#.test MX 10 mx.test"), 0);
    assert_int_equal(zone_add(&zone, "d#.test DELAY 250"), 0);
    assert_int_equal(zone_add(&zone, "d7.test TC"), 0);
    assert_int_equal(zone_answer(&zone, question, 60, answer, &delay), sizeof(query));
    assert_memory_equal(answer, "\x12\x34\x87\x80\0\1\0\0\0\0\0\0", 12);
    assert_int_equal(delay, 250);
    assert_true(zone_answer(&zone, question, 60, answer, NULL) > sizeof(query));
    assert_memory_equal(answer, "\x12\x34\x85\x80\0\1\0\1\0\0\0\0", 12);
    zone_fini(&zone);
}

static void test_malformed(void **state)
{
    struct zone zone = {0};
    uint8_t answer[ZONE_ANSWER_MAX];
    uint8_t copy[sizeof(query)];
    (void)state;
    assert_int_equal(zone_add(&zone, "d#.test A 127.0.0.#"), 0);
    for (size_t len = 0; len < sizeof(query); len++) {
        assert_int_equal(ask(&zone, query, len, answer), 0);
    }
    static const struct {
        size_t at;
        uint8_t byte;
    } changes[] = {{2, 0x80}, {2, 0x28}, {5, 0}, {5, 2}, {12, 0xc0}, {12, 64}, {15, 200}};
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        memcpy(copy, query, sizeof(copy));
        copy[changes[i].at] = changes[i].byte;
        assert_int_equal(ask(&zone, copy, sizeof(copy), answer), 0);
    }
    zone_fini(&zone);
}

static void test_rules(void **state)
{
    struct zone zone = {0};
    static const char *const wrong[] = {"x.test",
                                        "x.test A",
                                        "x.test A one",
                                        "x.test B 1",
                                        "x.test MX mx.y",
                                        "x.test MX 70000 y",
                                        "x.test CNAME",
                                        "x.test AAAA 1.2.3.4",
                                        "x.test SERVFAIL 1",
                                        "x#.test A 127.0.0.#%0",
                                        "x#.test MX 10 m#%.test",
                                        "x#.test CNAME m#%3+.test"};
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(zone_add(&zone, wrong[i]), ERR_SYNTAX);
    }
    assert_int_equal(zone_add(&zone, ""), 0);
    assert_int_equal(zone_add(&zone, "; a remark"), 0);
    assert_int_equal(zone.count, 0);
    assert_int_equal(zone_add(&zone, "a#b.test A 127.#.0.#"), 0);

    char value[ZONE_NAME_MAX + 1];
    struct slice digits;
    assert_true(zone_rule_matches(zone.rules, SLICE("a12b.test"), &digits));
    assert_true(zone_rule_value(zone.rules, digits, value));
    assert_string_equal(value, "127.12.0.12");
    static const char *const others[] = {"ab.test", "axb.test", "a1.test", "a12b.tes", ""};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_false(zone_rule_matches(zone.rules, slice_of(others[i]), &digits));
    }
    zone_fini(&zone);
}

/* Many names at a few hosts. */
static void test_remainders(void **state)
{
    static const struct {
        const char *rule;
        struct slice name;
        const char *value;
    } cases[] = {
        {"d#.test MX 10 mx#%20+1.s#%20+1.test", {"d1.test", 7}, "mx2.s2.test"},
        {"d#.test MX 10 mx.s#%20.test", {"d10000.test", 11}, "mx.s0.test"},
        {"d#.test A 127.0.1.#%20+1", {"d39.test", 8}, "127.0.1.20"},
        {"d#.test CNAME h#.s#%11.test",
         {"d123456789012345678901234567890.test", 36},
         "h123456789012345678901234567890.s7.test"},
        {"d#.test TXT 5#%20", {"d3.test", 7}, "53%20"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct zone zone = {0};
        struct slice digits;
        char value[ZONE_NAME_MAX + 1];
        assert_int_equal(zone_add(&zone, cases[i].rule), 0);
        assert_true(zone_rule_matches(zone.rules, cases[i].name, &digits));
        assert_true(zone_rule_value(zone.rules, digits, value));
        assert_string_equal(value, cases[i].value);
        zone_fini(&zone);
    }
}

/* One label or more, of names that have no rule of their own (RFC 4592). */
static void test_wildcards(void **state)
{
    struct zone zone = {0};
    uint8_t answer[ZONE_ANSWER_MAX];
    uint8_t question[sizeof(query)];
    struct slice digits;
    (void)state;
    assert_int_equal(zone_add(&zone, "*.test MX 10 mx.test"), 0);
    static const char *const names[] = {"a.test", "a.b.test", "7.test"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_true(zone_rule_matches(zone.rules, slice_of(names[i]), &digits));
    }
    static const char *const others[] = {"test", ".test", "atest", "a.tes", ""};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_false(zone_rule_matches(zone.rules, slice_of(others[i]), &digits));
    }
    assert_true(ask(&zone, query, sizeof(query), answer) > sizeof(query));
    assert_int_equal(zone_add(&zone, "d#.test A 127.0.0.1"), 0);
    assert_true(ask(&zone, query, sizeof(query), answer) > 0);
    assert_int_equal(answer[7], 0); /* d7.test exists, and has no MX */
    assert_int_equal(answer[3] & 15, 0);
    memcpy(question, query, sizeof(query));
    question[13] = 'e';
    assert_true(ask(&zone, question, sizeof(question), answer) > sizeof(question));
    zone_fini(&zone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer),     cmocka_unit_test(test_late_and_truncated),
        cmocka_unit_test(test_malformed),  cmocka_unit_test(test_rules),
        cmocka_unit_test(test_remainders), cmocka_unit_test(test_wildcards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
