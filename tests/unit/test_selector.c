/* Selectors: globs, their limits, and the JSON form. */
#include "base/error.h"
#include "engine/order/selector.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

static bool source_matches(const char *glob, const char *fact)
{
    struct selector s;
    selector_init(&s);
    assert_int_equal(selector_set(&s, SLICE("source"), slice_of(glob)), 0);
    bool matches = selector_matches_word(&s, SELECTOR_SOURCE, slice_of(fact));
    selector_fini(&s);
    return matches;
}

static bool glob(const char *pattern, const char *fact)
{
    struct selector s;
    selector_init(&s);
    assert_int_equal(selector_set(&s, SLICE("tenant"), slice_of(pattern)), 0);
    const struct slice facts[SELECTOR_COUNT] = {[SELECTOR_TENANT] = slice_of(fact)};
    bool matches = selector_matches(&s, facts);
    selector_fini(&s);
    return matches;
}

static void globs(void **state)
{
    (void)state;
    assert_true(glob("acme", "acme"));
    assert_true(glob("AcMe", "aCmE"));
    assert_false(glob("acme", "acme2"));
    assert_false(glob("acme", "acm"));
    assert_false(glob("acme", ""));
    assert_true(glob("*", ""));
    assert_true(glob("*", "anything"));
    assert_true(glob("a*", "a"));
    assert_true(glob("a*z", "abcz"));
    assert_true(glob("a*b*c", "a-b-b-c"));
    assert_true(glob("*.example.com", "mail.example.com"));
    assert_false(glob("*.example.com", "example.com"));
    assert_true(glob("*ab*ab", "xabxabxab"));
    assert_false(glob("*ab*ab", "xab"));
    assert_true(glob("**a**", "a"));
    assert_false(glob("\303\244", "\303\204")); /* beyond ASCII bytes are what they are */
}

static void glob_takes_no_time(void **state)
{
    (void)state;
    char pattern[SELECTOR_VALUE_MAX + 1], fact[100001];
    for (size_t i = 0; i < SELECTOR_VALUE_MAX; i++) {
        pattern[i] = i % 2 == 0 ? '*' : 'a';
    }
    pattern[SELECTOR_VALUE_MAX - 1] = 'b';
    pattern[SELECTOR_VALUE_MAX] = '\0';
    memset(fact, 'a', sizeof(fact) - 1);
    fact[sizeof(fact) - 1] = '\0';
    assert_false(glob(pattern, fact)); /* hours, if it were exponential */
}

static void sources(void **state)
{
    (void)state;
    assert_true(source_matches("ip1", "ip1"));
    assert_true(source_matches("ip2", "ip1,ip2,ip3"));
    assert_true(source_matches("ip3", "ip1,ip2,ip3"));
    assert_false(source_matches("ip", "ip1,ip2"));
    assert_false(source_matches("ip1*ip2", "ip1,ip2"));
    assert_true(source_matches("IP*", "other,ip2"));
    assert_false(source_matches("ip1", ""));
}

static void all_values_must_match(void **state)
{
    (void)state;
    struct selector s;
    selector_init(&s);
    struct slice facts[SELECTOR_COUNT] = {
        [SELECTOR_TENANT] = SLICE("acme"),
        [SELECTOR_DOMAIN] = SLICE("example.com"),
        [SELECTOR_SOURCE] = SLICE("a,b"),
    };
    assert_true(selector_is_empty(&s));
    assert_true(selector_matches(&s, facts));
    assert_int_equal(selector_set(&s, SLICE("tenant"), SLICE("acme")), 0);
    assert_int_equal(selector_set(&s, SLICE("source"), SLICE("b")), 0);
    assert_false(selector_is_empty(&s));
    assert_true(selector_matches(&s, facts));
    assert_int_equal(selector_set(&s, SLICE("domain"), SLICE("example.org")), 0);
    assert_false(selector_matches(&s, facts));
    assert_int_equal(selector_set(&s, SLICE("domain"), SLICE("example.*")), 0);
    assert_true(selector_matches(&s, facts));
    assert_int_equal(selector_set(&s, SLICE("campaign"), SLICE("spring")), 0);
    assert_false(selector_matches(&s, facts)); /* it has none */
    selector_fini(&s);
    assert_true(selector_is_empty(&s));
}

static void limits(void **state)
{
    (void)state;
    struct selector s;
    selector_init(&s);
    char value[SELECTOR_VALUE_MAX + 2];
    memset(value, 'x', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0'; /* strict_string_checks looks for it, strndup does not */
    assert_int_equal(selector_set(&s, SLICE("pool"), SLICE("x")), ERR_MISSING);
    assert_int_equal(selector_set(&s, SLICE("tenant"), SLICE("")), ERR_SYNTAX);
    assert_int_equal(selector_set(&s, SLICE("tenant"), SLICE("a\tb")), ERR_SYNTAX);
    assert_int_equal(selector_set(&s, SLICE("tenant"), SLICE("a\0b")), ERR_SYNTAX);
    assert_int_equal(selector_set(&s, SLICE("tenant"), SLICE("\x1b[2J")), ERR_SYNTAX);
    assert_int_equal(selector_set(&s, SLICE("tenant"), SLICE("\xff")), ERR_SYNTAX);
    assert_int_equal(selector_set(&s, SLICE("tenant"), slice_make(value, SELECTOR_VALUE_MAX + 1)),
                     ERR_LIMIT);
    assert_true(selector_is_empty(&s));
    assert_int_equal(selector_set(&s, SLICE("tenant"), slice_make(value, SELECTOR_VALUE_MAX)), 0);
    assert_int_equal(strlen(s.value[SELECTOR_TENANT]), SELECTOR_VALUE_MAX);
    selector_fini(&s);
}

static void copies(void **state)
{
    (void)state;
    struct selector s, copy;
    selector_init(&s);
    for (enum selector_word word = 0; word < SELECTOR_COUNT; word++) {
        const char *text = selector_word_text(word);
        assert_int_equal(selector_word_find(slice_of(text)), word);
        assert_int_equal(selector_set(&s, slice_of(text), slice_of(text)), 0);
    }
    assert_int_equal(selector_copy(&copy, &s), 0);
    assert_true(selector_eq(&copy, &s));
    selector_fini(&s);
    assert_string_equal(copy.value[SELECTOR_TRANSPORT], "transport");
    assert_false(selector_eq(&copy, &s));
    selector_fini(&copy);
    assert_true(selector_eq(&copy, &s));
}

static void json_and_back(void **state)
{
    (void)state;
    json_t *object =
        json_pack("{s:s, s:s, s:n, s:i}", "tenant", "acme", "source", "ip*", "domain", "limit", 7);
    struct selector s, again;
    const char *word = NULL;
    selector_init(&s);
    selector_init(&again);
    assert_int_equal(selector_from_json(&s, object, &word), 0);
    assert_string_equal(s.value[SELECTOR_TENANT], "acme");
    assert_string_equal(s.value[SELECTOR_SOURCE], "ip*");
    assert_null(s.value[SELECTOR_DOMAIN]);
    json_t *out = json_object();
    assert_int_equal(selector_to_json(&s, out), 0);
    assert_int_equal(json_object_size(out), 2);
    assert_int_equal(selector_from_json(&again, out, &word), 0);
    assert_true(selector_eq(&s, &again));
    selector_fini(&s);
    selector_fini(&again);
    json_decref(out);
    json_decref(object);
}

static void json_that_is_wrong(void **state)
{
    (void)state;
    json_t *object = json_pack("{s:i}", "campaign", 5);
    struct selector s;
    const char *word = NULL;
    selector_init(&s);
    assert_int_equal(selector_from_json(&s, object, &word), ERR_SYNTAX);
    assert_string_equal(word, "campaign");
    json_decref(object);
    object = json_pack("{s:s}", "destination", "");
    assert_int_equal(selector_from_json(&s, object, &word), ERR_SYNTAX);
    assert_string_equal(word, "destination");
    json_decref(object);
    selector_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(globs),         cmocka_unit_test(glob_takes_no_time),
        cmocka_unit_test(sources),       cmocka_unit_test(all_values_must_match),
        cmocka_unit_test(limits),        cmocka_unit_test(copies),
        cmocka_unit_test(json_and_back), cmocka_unit_test(json_that_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
