/* Ids of sources and numbers of pools: what the cores of several transports are told of one
 * configuration, and what stays over reloads. */
#include "engine/state/source_table.h"
#include "tests/unit/config_sample.h"

#include <stdlib.h>

static const char some[] = "source a { address = 127.0.0.1 }\n"
                           "source b { address = 127.0.0.2 address6 = \"::1\" }\n"
                           "source c { address6 = \"::1\" }\n"
                           "source d {}\n"
                           "pool two { sources = {a, b} weights = {3, 1} }\n"
                           "pool big { sources = {b, c} weights = {10000, 1} }\n"
                           "pool off { sources = {c, a} weights = {0, 1} }\n"
                           "pool one { sources = {d} }\n"
                           "tenant acme {}\n"
                           "tenant none {}\n"
                           "transport smtp { source_pool = two }\n"
                           "transport plain {}\n"
                           "transport off { source_pool = off }\n"
                           "route \"*\" { transport = smtp }\n";

struct bed {
    struct sample s;
    struct source_table *t;
};

static void load(struct bed *b, const char *text)
{
    sample_load(&b->s, text);
    if (b->s.config == NULL) {
        fail_msg("%s", b->s.said);
    }
    b->t = NULL;
}

static const struct config_egress_pool *section(const struct bed *b, const char *name)
{
    for (size_t i = 0; i < b->s.config->egress_pool_count; i++) {
        if (strcmp(b->s.config->egress_pools[i].name, name) == 0) {
            return &b->s.config->egress_pools[i];
        }
    }
    return NULL;
}

static void give(struct bed *b, const char *tenant, const char *pool)
{
    for (size_t i = 0; i < b->s.config->tenant_count; i++) {
        if (strcmp(b->s.config->tenants[i].name, tenant) == 0) {
            b->s.config->tenants[i].pool = section(b, pool);
        }
    }
}

static void make(struct bed *b, const struct source_table *before)
{
    char text[SOURCE_TABLE_TEXT_MAX];
    assert_int_equal(source_table_new(b->s.config, before, &b->t, text), 0);
}

static void end(struct bed *b)
{
    source_table_free(b->t);
    config_free(b->s.config);
}

/* The names of a transport's sources that a pool has, one after the other. */
static void expect_pool(const struct bed *b, const char *transport, uint32_t pool, uint64_t closed,
                        const char *names)
{
    const size_t index = config_transport_find(b->s.config, slice_of(transport));
    const struct transport_sources *s = &b->t->transports[index];
    uint64_t masks[SOURCE_TABLE_POOLS_MAX];
    char text[256] = "";
    source_table_masks(b->t, b->s.config, index, closed, masks);
    assert_true(pool < b->t->pool_count);
    for (uint32_t i = 0; i < s->count; i++) {
        if ((masks[pool] >> i & 1) != 0) {
            strcat(text, s->sections[i] == NULL ? "-" : s->sections[i]->name);
        }
    }
    assert_string_equal(text, names);
}

static uint16_t kept(const struct bed *b, uint16_t pool, const char *source)
{
    return source_table_kept(b->t, pool, source_table_mark(slice_of(source)));
}

static void test_own_pools(void **state)
{
    (void)state;
    struct bed b;
    load(&b, some);
    make(&b, NULL);
    const struct transport_sources *smtp = &b.t->transports[0], *plain = &b.t->transports[1];
    assert_int_equal(smtp->count, 2);
    assert_false(smtp->is_plain);
    assert_int_equal(smtp->given[0].weight, 3);
    assert_int_equal(smtp->given[0].families, 1);
    assert_int_equal(smtp->given[1].families, 3);
    assert_true(plain->is_plain && plain->count == 1 && plain->given[0].id == 0);
    assert_int_equal(plain->given[0].families, 3);
    expect_pool(&b, "smtp", 0, 0, "ab");
    expect_pool(&b, "smtp", 0, 1, "b");
    expect_pool(&b, "smtp", 0, 3, "");
    expect_pool(&b, "plain", 0, 0, "-");
    expect_pool(&b, "off", 0, 0, "a"); /* a weight of 0 takes c out */
    assert_int_equal(source_table_pool(b.t, SLICE("acme")), 0);
    uint32_t id = smtp->given[1].id;
    assert_int_equal(source_table_place(smtp, id), 1);
    assert_int_equal(source_table_place(plain, id), 1);
    assert_true(slice_eq(source_table_name(b.t, id), SLICE("b")));
    assert_true(slice_eq(source_table_name(b.t, 0), SLICE("")));
    assert_true(slice_eq(source_table_list(b.t, b.s.config, 0, SLICE("acme")), SLICE("a,b")));
    assert_true(slice_eq(source_table_list(b.t, b.s.config, 1, SLICE("acme")), SLICE("")));
    end(&b);
}

static void test_pools_of_tenants(void **state)
{
    (void)state;
    struct bed b;
    load(&b, some);
    give(&b, "acme", "big");
    make(&b, NULL);
    uint16_t big = source_table_pool(b.t, SLICE("ACME"));
    assert_int_not_equal(big, 0);
    assert_int_equal(source_table_pool(b.t, SLICE("none")), 0);
    assert_int_equal(source_table_pool(b.t, SLICE("other")), 0);
    assert_int_equal(source_table_pool(b.t, SLICE("")), 0);
    expect_pool(&b, "smtp", big, 0, "bc");
    expect_pool(&b, "smtp", 0, 0, "ab");
    expect_pool(&b, "plain", big, 0, "bc");
    expect_pool(&b, "plain", 0, 0, "-");
    const struct transport_sources *plain = &b.t->transports[1];
    assert_int_equal(plain->count, 3);
    assert_int_equal(plain->given[1].weight, 1000); /* of 10,000 */
    assert_int_equal(plain->given[2].weight, 1);
    assert_true(slice_eq(source_table_list(b.t, b.s.config, 1, SLICE("acme")), SLICE("b,c")));
    end(&b);
}

static void test_tenants_without_a_section(void **state)
{
    (void)state;
    struct bed b;
    char text[2048];
    (void)snprintf(text, sizeof(text), "%stenant \"*\" {}\n", some);
    load(&b, text);
    give(&b, "*", "one");
    make(&b, NULL);
    uint16_t one = source_table_pool(b.t, SLICE("somebody"));
    assert_int_equal(one, source_table_pool(b.t, SLICE("")));
    expect_pool(&b, "off", one, 0, "d");
    assert_int_equal(source_table_pool(b.t, SLICE("none")), 0);
    end(&b);
}

static void test_one_source_alone(void **state)
{
    (void)state;
    struct bed b;
    load(&b, some);
    give(&b, "acme", "big");
    give(&b, "none", "one");
    make(&b, NULL);
    uint16_t big = source_table_pool(b.t, SLICE("acme"));
    uint16_t one = source_table_pool(b.t, SLICE("none"));
    assert_int_equal(kept(&b, 0, ""), 0);
    assert_int_equal(kept(&b, 0, "nobody"), 0);
    assert_int_equal(kept(&b, one, "d"), one); /* it is the only one anyway */
    uint16_t own = kept(&b, 0, "b"), tenants = kept(&b, big, "b");
    assert_true(own != 0 && tenants != big && own != tenants);
    expect_pool(&b, "smtp", own, 0, "b");
    expect_pool(&b, "smtp", own, 2, "a"); /* closed: the others */
    expect_pool(&b, "smtp", tenants, 0, "b");
    expect_pool(&b, "smtp", tenants, 2, "c");
    expect_pool(&b, "off", own, 0, "a"); /* the pool there has no b */
    expect_pool(&b, "plain", own, 0, "-");
    end(&b);
}

/* What was given stays with its name; what is gone leaves its number behind. */
static void test_reload(void **state)
{
    (void)state;
    struct bed b, after, again;
    load(&b, some);
    give(&b, "acme", "big");
    make(&b, NULL);
    uint16_t big = source_table_pool(b.t, SLICE("acme")), own = kept(&b, 0, "b");
    uint32_t id = b.t->transports[0].given[1].id;
    load(&after, "source x {} source b {} pool new { sources = {x, b} }\n"
                 "tenant acme {}\n"
                 "transport smtp { source_pool = new } transport plain {} transport off {}\n"
                 "route \"*\" { transport = smtp }\n");
    give(&after, "acme", "new");
    make(&after, b.t);
    assert_int_equal(after.t->transports[0].given[1].id, id);
    for (uint32_t i = 0; i < b.t->transports[0].count; i++) {
        assert_int_not_equal(after.t->transports[0].given[0].id, b.t->transports[0].given[i].id);
    }
    uint16_t fresh = source_table_pool(after.t, SLICE("acme"));
    assert_int_not_equal(fresh, big);
    expect_pool(&after, "smtp", fresh, 0, "xb");
    expect_pool(&after, "smtp", big, 0, "");
    expect_pool(&after, "smtp", own, 0, "b");
    load(&again, some);
    give(&again, "acme", "big");
    make(&again, after.t);
    assert_int_equal(source_table_pool(again.t, SLICE("acme")), big);
    assert_int_equal(again.t->transports[0].given[1].id, id);
    end(&again);
    end(&after);
    end(&b);
}

/* The spool has it: it must be the same for ever. */
static void test_mark(void **state)
{
    (void)state;
    assert_int_equal(source_table_mark(SLICE("")), 0);
    assert_int_equal(source_table_mark(SLICE("ip1")), 0xffc1);
}

static void test_too_many(void **state)
{
    (void)state;
    struct bed b;
    static char config[16384];
    for (int tenants = 0; tenants < 2; tenants++) {
        size_t len = 0;
        for (int i = 0; i <= SCHED_SOURCES_MAX; i++) {
            len += (size_t)snprintf(config + len, sizeof(config) - len, "source s%d {}\n", i);
        }
        len += (size_t)snprintf(config + len, sizeof(config) - len, "pool all { sources = {s1");
        for (int i = 2; i <= SCHED_SOURCES_MAX; i++) {
            len += (size_t)snprintf(config + len, sizeof(config) - len, ", s%d", i);
        }
        (void)snprintf(config + len, sizeof(config) - len,
                       "} }\npool two { sources = {s0, s1} }\n"
                       "%stransport smtp { source_pool = all }\nroute \"*\" { transport = smtp }\n",
                       tenants ? "tenant x { pool = two }\n" : "");
        sample_load(&b.s, config);
        assert_int_equal(b.s.errors, tenants);
        if (tenants) {
            assert_non_null(strstr(b.s.said, "transport \"smtp\" has 65 sources with those of "
                                             "tenants' pools; 64 are the most"));
            continue;
        }
        make(&b, NULL);
        assert_int_equal(b.t->transports[0].count, SCHED_SOURCES_MAX);
        end(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_pools), cmocka_unit_test(test_pools_of_tenants),
        cmocka_unit_test(test_reload),    cmocka_unit_test(test_tenants_without_a_section),
        cmocka_unit_test(test_mark),      cmocka_unit_test(test_one_source_alone),
        cmocka_unit_test(test_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
