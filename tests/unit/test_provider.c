/* Providers by patterns: the rules of the pattern one by one, and the table against a plain reading
 * of all rules over many random sets. */
#include "base/error.h"
#include "engine/config/name_pattern.h"
#include "engine/config/provider.h"
#include "tests/unit/unit.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool matches(const char *pattern, const char *name)
{
    return name_pattern_matches(slice_of(pattern), slice_of(name));
}

static bool meet(const char *a, const char *b)
{
    bool found = name_pattern_meets(slice_of(a), slice_of(b));
    assert_int_equal(name_pattern_meets(slice_of(b), slice_of(a)), found);
    return found;
}

static void a_star_is_one_label(void **state)
{
    assert_true(matches("*.google.com", "mx1.google.com"));
    assert_true(matches("*.google.com", "MX1.Google.Com."));
    assert_true(matches("*.*.google.com", "a.b.google.com"));
    assert_true(matches("mx.example.com", "mx.example.com"));
    assert_false(matches("*.google.com", "google.com"));
    assert_false(matches("*.google.com", "a.b.google.com"));
    assert_false(matches("*.google.com", ".google.com"));
    assert_false(matches("*.google.com", "evilgoogle.com"));
    assert_false(matches("*.google.com", "mx1.google.com.evil.test"));
    assert_false(matches("google.com", "mx.google.com"));
}

static void wrong_patterns_are_known(void **state)
{
    static const char *const good[] = {"a", "*.a", "*.*.a-b.c_d", "EXAMPLE.com.", "*.a."};
    static const char *const bad[] = {"",    "*",      "*.",      ".",          "a..b",
                                      ".a",  "*a.com", "a.*.com", "mx*.a",      "a b",
                                      "a/b", "**.a",   "*.*",     "[192.0.2.1]"};
    char wide[300];
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(name_pattern_is_valid(slice_of(good[i])));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(name_pattern_is_valid(slice_of(bad[i])));
    }
    memset(wide, 'a', sizeof(wide));
    assert_true(name_pattern_is_valid(slice_make(wide, 63)));
    assert_false(name_pattern_is_valid(slice_make(wide, 64)));
    for (size_t i = 9; i < sizeof(wide); i += 10) {
        wide[i] = '.';
    }
    assert_true(name_pattern_is_valid(slice_make(wide, 253)));
    assert_false(name_pattern_is_valid(slice_make(wide, 254)));
}

static void patterns_that_share_a_name_meet(void **state)
{
    assert_true(meet("*.a.test", "mx.a.test"));
    assert_true(meet("*.*.test", "*.a.test"));
    assert_true(meet("a.test", "A.test."));
    assert_true(meet("*.*.test", "x.y.test"));
    assert_false(meet("*.a.test", "*.b.test"));
    assert_false(meet("*.test", "*.a.test"));
    assert_false(meet("*.a.test", "a.test"));
}

/* Each rule's complaint, "" or "OTHER: PATTERN OTHER_PATTERN". */
static void expect_overlaps(const char *const lists[][2], size_t count,
                            const char *const expected[])
{
    char words[8][2][64], *items[8][2][4], said[200];
    struct config_texts texts[8][2] = {0};
    struct provider_rule rules[8];
    struct provider_overlap overlaps[8];
    struct provider_table *table;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < 2; k++) {
            (void)snprintf(words[i][k], sizeof(words[i][k]), "%s", lists[i][k]);
            texts[i][k].items = items[i][k];
            for (char *w = strtok(words[i][k], " "); w != NULL; w = strtok(NULL, " ")) {
                items[i][k][texts[i][k].count++] = w;
            }
        }
        rules[i] = (struct provider_rule){&texts[i][0], &texts[i][1]};
    }
    assert_int_equal(provider_table_new(rules, count, &table), 0);
    assert_int_equal(provider_table_overlaps(table, overlaps), 0);
    for (size_t i = 0; i < count; i++) {
        const struct provider_overlap *o = &overlaps[i];
        said[0] = '\0';
        if (o->is_found) {
            (void)snprintf(said, sizeof(said), "%zu %s: " SLICE_FMT " " SLICE_FMT, o->other,
                           o->is_domain ? "domains" : "mx", SLICE_ARG(o->pattern),
                           SLICE_ARG(o->other_pattern));
        }
        assert_string_equal(said, expected[i]);
    }
    provider_table_free(table);
}

static void overlaps_are_found(void **state)
{
    static const char *const apart[][2] = {{"*.a.test mx.b.test", ""}, {"*.*.a.test *.b.test", ""}};
    expect_overlaps(apart, 1, (const char *const[]){""});
    expect_overlaps(apart, 2, (const char *const[]){"", "0 mx: *.b.test mx.b.test"});
    static const char *const same[][2] = {{"a.test a.test", ""}, {"c.test", ""}, {"A.test", ""}};
    expect_overlaps(same, 3, (const char *const[]){"", "", "0 mx: A.test a.test"});
    static const char *const literal[][2] = {{"*.*.test", ""}, {"x.y.test", ""}, {"*.y.test", ""}};
    expect_overlaps(
        literal, 3,
        (const char *const[]){"", "0 mx: x.y.test *.*.test", "1 mx: *.y.test x.y.test"});
    /* Both kinds must meet; where one has only mx and the other only domains, their order says. */
    static const char *const kinds[][2] = {
        {"*.a.test", "d.test"}, {"*.a.test", "e.test"}, {"", "f.test"}, {"*.b.test", ""}};
    expect_overlaps(kinds, 4, (const char *const[]){"", "", "", ""});
    static const char *const wide[][2] = {
        {"*.a.test", "d.test"}, {"x.a.test", ""}, {"", "d.test"}, {"q.test", "d.test"}};
    expect_overlaps(wide, 4,
                    (const char *const[]){"", "0 mx: x.a.test *.a.test", "0 domains: d.test d.test",
                                          "2 domains: d.test d.test"});
}

/* Three rules with all patterns alike, of domains that are all different: the worst there is. */
static void a_search_for_overlaps_ends(void **state)
{
    enum { NAMES = 8000 };
    static char text[3][NAMES][16];
    static char *items[3][NAMES], *hosts[NAMES];
    struct config_texts mx = {hosts, NAMES}, domains[3];
    struct provider_rule rules[3];
    struct provider_overlap overlaps[3];
    struct provider_table *table;
    for (int r = 0; r < 3; r++) {
        for (int i = 0; i < NAMES; i++) {
            (void)snprintf(text[r][i], sizeof(text[r][i]), "%c%d.test", 'a' + r, i);
            items[r][i] = text[r][i];
            hosts[i] = text[0][i];
        }
        domains[r] = (struct config_texts){items[r], NAMES};
        rules[r] = (struct provider_rule){&mx, &domains[r]};
    }
    assert_int_equal(provider_table_new(rules, 3, &table), 0);
    assert_int_equal(provider_table_overlaps(table, overlaps), ERR_LIMIT);
    provider_table_free(table);
    domains[0].count = domains[1].count = domains[2].count = 100;
    assert_int_equal(provider_table_new(rules, 3, &table), 0);
    assert_int_equal(provider_table_overlaps(table, overlaps), 0);
    provider_table_free(table);
    assert_false(overlaps[1].is_found || overlaps[2].is_found);
}

#define RULES    6
#define PATTERNS 3

struct random_set {
    char text[RULES][2][PATTERNS][32];
    char *items[RULES][2][PATTERNS];
    struct config_texts lists[RULES][2];
    struct provider_rule rules[RULES];
};

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return *seed >> 33;
}

/* A name of few letters, so that patterns and names meet often. */
static void random_name(uint64_t *seed, size_t stars, char ret[static 32])
{
    static const char letters[] = "abAB";
    size_t n = 0;
    for (size_t i = 0; i < stars; i++) {
        ret[n++] = '*';
        ret[n++] = '.';
    }
    for (size_t i = 0, labels = 1 + next_random(seed) % 3; i < labels; i++) {
        if (i > 0) {
            ret[n++] = '.';
        }
        ret[n++] = letters[next_random(seed) % 4];
    }
    if (next_random(seed) % 8 == 0) {
        ret[n++] = '.';
    }
    ret[n] = '\0';
}

static void make_set(uint64_t *seed, struct random_set *s)
{
    for (size_t r = 0; r < RULES; r++) {
        for (size_t kind = 0; kind < 2; kind++) {
            s->lists[r][kind] =
                (struct config_texts){s->items[r][kind], next_random(seed) % (PATTERNS + 1)};
            for (size_t i = 0; i < PATTERNS; i++) {
                random_name(seed, next_random(seed) % 3, s->text[r][kind][i]);
                s->items[r][kind][i] = s->text[r][kind][i];
            }
        }
        s->rules[r] = (struct provider_rule){&s->lists[r][0], &s->lists[r][1]};
    }
}

static bool one_of(const struct config_texts *list, struct slice name)
{
    bool found = false;
    for (size_t i = 0; i < list->count; i++) {
        found = found || name_pattern_matches(slice_of(list->items[i]), name);
    }
    return found;
}

static size_t naive(const struct random_set *s, struct slice domain, const struct slice *hosts,
                    size_t count)
{
    for (size_t r = 0; r < RULES; r++) {
        const struct config_texts *mx = s->rules[r].mx;
        const struct config_texts *domains = s->rules[r].domains;
        bool fits = mx->count + domains->count > 0 && (mx->count == 0 || count > 0) &&
                    (domains->count == 0 || one_of(domains, domain));
        for (size_t i = 0; mx->count > 0 && i < count; i++) {
            fits = fits && one_of(mx, hosts[i]);
        }
        if (fits) {
            return r;
        }
    }
    return RULES;
}

static void same_as_naive(void **state)
{
    uint64_t seed = 11;
    size_t found = 0, by_mx = 0;
    for (int round = 0; round < 3000; round++) {
        static struct random_set s;
        struct provider_table *t;
        make_set(&seed, &s);
        assert_int_equal(provider_table_new(s.rules, RULES, &t), 0);
        for (int question = 0; question < 20; question++) {
            char domain[32], names[3][32];
            struct slice hosts[3];
            size_t count = next_random(&seed) % 4;
            random_name(&seed, 0, domain);
            for (size_t i = 0; i < 3; i++) {
                random_name(&seed, 0, names[i]);
                hosts[i] = slice_of(names[i]);
            }
            size_t rule = provider_find(t, slice_of(domain), hosts, count);
            assert_int_equal(rule, naive(&s, slice_of(domain), hosts, count));
            found += rule < RULES;
            by_mx += rule < RULES && s.rules[rule].mx->count > 0;
        }
        provider_table_free(t);
    }
    assert_true(found > 10000 && by_mx > 1000); /* the sets ask something */
}

/* gmx.evil.test must not become a part of the provider whose names it resembles. */
static void all_hosts_must_match(void **state)
{
    char wild[] = "*.gmx.net", one[] = "gmx.de", other[] = "gmx.net";
    char *mx[] = {wild}, *domains[] = {one, other};
    const struct config_texts hosts_only = {mx, 1}, none = {NULL, 0}, of_domains = {domains, 2};
    const struct provider_rule rules[] = {{&hosts_only, &of_domains}, {&hosts_only, &none}};
    const struct slice theirs[] = {SLICE("mx00.gmx.net"), SLICE("mx01.gmx.net")};
    const struct slice mixed[] = {SLICE("mx00.gmx.net"), SLICE("mx.evil.test")};
    struct provider_table *t;
    assert_int_equal(provider_table_new(rules, 2, &t), 0);
    assert_int_equal(provider_find(t, SLICE("gmx.de"), theirs, 2), 0);
    assert_int_equal(provider_find(t, SLICE("customer.test"), theirs, 2), 1);
    assert_int_equal(provider_find(t, SLICE("gmx.evil.test"), mixed, 2), 2);
    assert_int_equal(provider_find(t, SLICE("gmx.de"), mixed, 2), 2);
    assert_int_equal(provider_find(t, SLICE("gmx.de"), NULL, 0), 2);
    provider_table_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_star_is_one_label),
        cmocka_unit_test(wrong_patterns_are_known),
        cmocka_unit_test(patterns_that_share_a_name_meet),
        cmocka_unit_test(overlaps_are_found),
        cmocka_unit_test(a_search_for_overlaps_ends),
        cmocka_unit_test(same_as_naive),
        cmocka_unit_test(all_hosts_must_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
