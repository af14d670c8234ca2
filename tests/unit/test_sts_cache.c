/* Policies that outlive the process: files of a folder, their expiry and their bound. */
#include "engine/outbound/sts_cache.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[128];
static struct sts_cache *cache;

static const usec_t start = 1000000 * USEC_PER_SEC;

static void open_cache(uint32_t limit, usec_t now)
{
    sts_cache_close(cache);
    cache = NULL;
    assert_int_equal(sts_cache_open(folder, limit, now, &cache), 0);
}

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(folder, sizeof(folder), "%s/sts.XXXXXX", base == NULL ? "/tmp" : base);
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    open_cache(10, start);
    return 0;
}

static int tear_down(void **state)
{
    char command[160];
    sts_cache_close(cache);
    cache = NULL;
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

static void put(const char *domain, const char *id, const char *mode, unsigned age, usec_t now)
{
    char text[200];
    struct mta_sts_policy policy;
    (void)snprintf(text, sizeof(text), "version: STSv1\nmode: %s\nmx: mx.%s\nmax_age: %u\n", mode,
                   domain, age);
    assert_int_equal(mta_sts_policy_parse(slice_of(text), &policy), 0);
    assert_int_equal(sts_cache_put(cache, slice_of(domain), slice_of(id), &policy, now), 0);
    memset(text, 'x', sizeof(text));
}

static bool has_file(const char *name)
{
    char path[400];
    struct stat st;
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return stat(path, &st) == 0;
}

static void write_file(const char *name, const char *text)
{
    char path[400];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fputs(text, file) < 0, 0);
    assert_int_equal(fclose(file), 0);
}

static void policies_come_back_after_a_restart(void **state)
{
    put("a.test", "1", "enforce", 100, start);
    put("b.test", "x2", "testing", 100, start + 10 * USEC_PER_SEC);
    put("a.test", "3", "enforce", 50, start + 20 * USEC_PER_SEC);
    open_cache(10, start + 30 * USEC_PER_SEC);
    assert_int_equal(sts_cache_count(cache), 2);
    const struct sts_entry *e = sts_cache_find(cache, SLICE("a.test"), start + 30 * USEC_PER_SEC);
    assert_non_null(e);
    assert_true(slice_eq(e->id, SLICE("3")));
    assert_int_equal(e->policy.mode, MTA_STS_ENFORCE);
    assert_int_equal(e->fetched, start + 20 * USEC_PER_SEC);
    assert_true(mta_sts_policy_allows(&e->policy, SLICE("mx.a.test")));
    assert_false(mta_sts_policy_allows(&e->policy, SLICE("mx.b.test")));
    assert_null(sts_cache_find(cache, SLICE("c.test"), start));
}

static void what_has_expired_is_gone(void **state)
{
    put("a.test", "1", "enforce", 100, start);
    assert_non_null(sts_cache_find(cache, SLICE("a.test"), start + 99 * USEC_PER_SEC));
    assert_null(sts_cache_find(cache, SLICE("a.test"), start + 100 * USEC_PER_SEC));
    assert_false(has_file("a.test"));
    put("a.test", "1", "enforce", 100, start);
    assert_true(has_file("a.test"));
    open_cache(10, start + 100 * USEC_PER_SEC);
    assert_int_equal(sts_cache_count(cache), 0);
    assert_false(has_file("a.test"));
}

/* Put back by a day, the clock must not lengthen the life of a policy by a day. */
static void a_clock_put_back_lengthens_nothing(void **state)
{
    put("a.test", "1", "enforce", 100, start + 86400 * USEC_PER_SEC);
    open_cache(10, start);
    assert_non_null(sts_cache_find(cache, SLICE("a.test"), start + 99 * USEC_PER_SEC));
    assert_null(sts_cache_find(cache, SLICE("a.test"), start + 100 * USEC_PER_SEC));
}

static void the_one_used_longest_ago_makes_room(void **state)
{
    open_cache(2, start);
    put("a.test", "1", "enforce", 100, start);
    put("b.test", "1", "enforce", 100, start);
    assert_non_null(sts_cache_find(cache, SLICE("a.test"), start));
    put("c.test", "1", "enforce", 100, start);
    assert_int_equal(sts_cache_count(cache), 2);
    assert_null(sts_cache_find(cache, SLICE("b.test"), start));
    assert_false(has_file("b.test"));
    assert_non_null(sts_cache_find(cache, SLICE("a.test"), start));
    assert_non_null(sts_cache_find(cache, SLICE("c.test"), start));
}

static void odd_files_do_no_harm(void **state)
{
    static const char *const odd[] = {
        "",
        "STSv1",
        "STSv1 \n",
        "STSv1 5\n",
        "STSv1 x 1\nversion: STSv1\nmode: none\nmax_age: 1000\n",
        "STSv1 1000000000000000000 1\nversion: STSv1\nmode: none\nmax_age: 1000\n",
        "STSv2 1000000000000 1\nversion: STSv1\nmode: none\nmax_age: 1000\n",
        "STSv1 1000000000000 1\nversion: STSv1\nmode: none\n",
        "STSv1 1000000000000 \nversion: STSv1\nmode: none\nmax_age: 1000\n",
        ("STSv1 1000000000000 123456789012345678901234567890123\nversion: STSv1\nmode: none\n"
         "max_age: 1000\n"),
    };
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        write_file("a.test", odd[i]);
        write_file("not a domain", "STSv1 1000000000000 1\n");
        open_cache(10, start);
        assert_int_equal(sts_cache_count(cache), 0);
        assert_false(has_file("a.test"));
        assert_false(has_file("not a domain"));
    }
    /* half written when the power went */
    write_file(".new", "STSv1 10000");
    write_file("b.test", "STSv1 999999000000 1\nversion: STSv1\nmode: none\nmax_age: 1000\n");
    open_cache(10, start);
    assert_int_equal(sts_cache_count(cache), 1);
    put("a.test", "1", "enforce", 100, start);
    assert_true(has_file("a.test"));
    assert_false(has_file(".new"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(policies_come_back_after_a_restart),
        TEST(what_has_expired_is_gone),
        TEST(a_clock_put_back_lengthens_nothing),
        TEST(the_one_used_longest_ago_makes_room),
        TEST(odd_files_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
