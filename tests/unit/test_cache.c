#include "base/rcu.h"
#include "base/thread.h"
#include "dns/cache.h"
#include "tests/unit/unit.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEC USEC_PER_SEC

static struct dns_cache *new_cache(uint32_t entry_limit, size_t memory_limit)
{
    struct dns_cache_config config;

    dns_cache_config_defaults(&config);
    config.entry_limit = entry_limit;
    config.memory_limit = memory_limit;
    config.hash_seed = 1;
    struct dns_cache *cache = dns_cache_new(&config);
    assert(cache != NULL);
    return cache;
}

/* An A record 0.0.x.y that tells which `number` it was made for; every byte of the name too. */
static void insert(struct dns_cache *cache, const char *name, enum dns_status status,
                   uint32_t number, uint32_t ttl, usec_t now)
{
    struct dns_record record = {.ttl = ttl, .ip = {.family = 4}};

    memcpy(record.ip.bytes, &number, sizeof(number));
    struct dns_rrset *set = dns_rrset_new(
        &(struct dns_rrset_source){.name = slice_of(name),
                                   .hash = dns_cache_hash(cache, slice_of(name), DNS_TYPE_A),
                                   .type = DNS_TYPE_A,
                                   .status = status,
                                   .expires = dns_cache_expiry(cache, status, ttl, now),
                                   .records = &record,
                                   .count = 1});
    assert(set != NULL);
    dns_cache_insert(cache, set, now);
    dns_rrset_put(set);
}

static const struct dns_rrset *find(struct dns_cache *cache, const char *name, usec_t now)
{
    return dns_cache_find(cache, slice_of(name), DNS_TYPE_A, now);
}

static uint32_t number_of(const struct dns_rrset *set)
{
    uint32_t number;
    memcpy(&number, set->ips[0].bytes, sizeof(number));
    return number;
}

static void test_ttl_clamps(void **state)
{
    struct dns_cache *cache = new_cache(64, 1 << 20);

    assert_int_equal(dns_cache_expiry(cache, DNS_FOUND, 0, 7), 7 + 5 * SEC);
    assert_int_equal(dns_cache_expiry(cache, DNS_FOUND, 60, 7), 7 + 60 * SEC);
    assert_int_equal(dns_cache_expiry(cache, DNS_FOUND, UINT32_MAX, 7), 7 + 86400 * SEC);
    assert_int_equal(dns_cache_expiry(cache, DNS_NXDOMAIN, 0, 7), 7 + 30 * SEC);
    assert_int_equal(dns_cache_expiry(cache, DNS_NODATA, 300, 7), 7 + 300 * SEC);
    assert_int_equal(dns_cache_expiry(cache, DNS_NODATA, 86400, 7), 7 + 3600 * SEC);
    assert_int_equal(dns_cache_expiry(cache, DNS_SERVFAIL, 9999, 7), 7 + 30 * SEC);
    dns_cache_put(cache);
    dns_cache_put(NULL);
}

static void test_find_and_expire(void **state)
{
    struct dns_cache *cache = new_cache(64, 1 << 20);

    assert_null(find(cache, "a.test", 0));
    insert(cache, "a.test", DNS_FOUND, 1, 60, 0);
    insert(cache, "b.test", DNS_NXDOMAIN, 0, 60, 0);
    assert_int_equal(number_of(find(cache, "a.test", 0)), 1);
    assert_int_equal(find(cache, "b.test", 0)->status, DNS_NXDOMAIN);
    assert_null(dns_cache_find(cache, SLICE("a.test"), DNS_TYPE_AAAA, 0));
    assert_non_null(find(cache, "a.test", 60 * SEC - 1));
    assert_null(find(cache, "a.test", 60 * SEC));
    /* A newer answer replaces the one before. */
    insert(cache, "a.test", DNS_FOUND, 2, 60, 60 * SEC);
    assert_int_equal(number_of(find(cache, "a.test", 61 * SEC)), 2);
    struct dns_cache_counters counters;
    dns_cache_read_counters(cache, &counters);
    assert_int_equal(counters.entries, 2);
    assert_int_equal(counters.evictions, 0);
    assert_int_equal(counters.hits, 4);
    assert_int_equal(counters.misses, 3);
    dns_cache_put(cache);
}

static void test_reference_outlives_the_cache(void **state)
{
    struct dns_cache *cache = new_cache(64, 1 << 20);

    insert(cache, "a.test", DNS_FOUND, 7, 60, 0);
    struct dns_rrset *held = dns_rrset_get(find(cache, "a.test", 0));
    dns_cache_clear(cache);
    assert_null(find(cache, "a.test", 0));
    rcu_pass();
    rcu_drain();
    dns_cache_put(cache);
    assert_int_equal(number_of(held), 7);
    dns_rrset_put(held);
}

static void test_bounds(void **state)
{
    struct dns_cache *cache = new_cache(800, 1 << 20);
    struct dns_cache_counters counters;
    char name[32];
    uint32_t found = 0;
    uint64_t cursor = 0;

    for (uint32_t i = 0; i < 10000; i++) {
        snprintf(name, sizeof(name), "n%u.test", i);
        insert(cache, name, DNS_FOUND, i, 60, 0);
        assert_int_equal(number_of(find(cache, name, 0)), i);
    }
    dns_cache_read_counters(cache, &counters);
    assert_true(counters.entries <= 800 && counters.entries > 700);
    assert_int_equal(counters.evictions, 10000 - counters.entries);
    while (dns_cache_next(cache, &cursor) != NULL) {
        found++;
    }
    assert_int_equal(found, counters.entries);
    rcu_pass();
    rcu_drain();
    dns_cache_put(cache);
}

/* Expired entries make room before live ones do. */
static void test_expired_leave_first(void **state)
{
    struct dns_cache *cache = new_cache(8, 1 << 20);
    struct dns_cache_counters counters;
    char name[32];

    for (uint32_t i = 0; i < 8; i++) {
        snprintf(name, sizeof(name), "n%u.test", i);
        insert(cache, name, DNS_FOUND, i, i == 3 ? 10 : 1000, 0);
    }
    insert(cache, "new.test", DNS_FOUND, 99, 60, 11 * SEC);
    dns_cache_read_counters(cache, &counters);
    assert_int_equal(counters.evictions, 0);
    for (uint32_t i = 0; i < 8; i++) {
        snprintf(name, sizeof(name), "n%u.test", i);
        assert_int_equal(find(cache, name, 11 * SEC) != NULL, i != 3);
    }
    rcu_pass();
    rcu_drain();
    dns_cache_put(cache);
}

static void test_memory_limit(void **state)
{
    struct dns_cache *cache = new_cache(100000, 64 << 10);
    struct dns_cache_counters counters;
    char name[32];

    for (uint32_t i = 0; i < 20000; i++) {
        snprintf(name, sizeof(name), "n%u.test", i);
        insert(cache, name, DNS_FOUND, i, 60, 0);
        dns_cache_read_counters(cache, &counters);
        assert_true(counters.size_bytes <= 64 << 10);
    }
    assert_true(counters.evictions > 0);
    dns_cache_clear(cache);
    dns_cache_read_counters(cache, &counters);
    assert_int_equal(counters.entries, 0);
    assert_int_equal(counters.size_bytes, 0);
    rcu_pass();
    rcu_drain();
    dns_cache_put(cache);
}

#define WRITERS 2
#define READERS 2
#define NAMES   300
#define ROUNDS  STRESS_ROUNDS(200000)

static struct dns_cache *shared;
static _Atomic int writers_left;
static _Atomic uint64_t found_total;

static void check(const struct dns_rrset *set, uint32_t number)
{
    char name[32];

    snprintf(name, sizeof(name), "n%u.test", number);
    assert(slice_eq(set->name, slice_of(name)));
    assert(set->status == DNS_FOUND && set->count == 1 && number_of(set) == number);
}

static void write_names(void *arg)
{
    uint32_t state = (uint32_t)(uintptr_t)arg;
    char name[32];

    for (int i = 0; i < ROUNDS; i++) {
        state = state * 1664525 + 1013904223;
        uint32_t number = (state >> 8) % NAMES;
        (void)snprintf(name, sizeof(name), "n%u.test", number); /* fits */
        insert(shared, name, DNS_FOUND, number, 5 + (state & 7), (usec_t)i * 1000);
        if (i % 16 == 0) {
            rcu_pass();
        }
        if (i % 5000 == 0) {
            dns_cache_clear(shared);
        }
    }
    atomic_fetch_sub(&writers_left, 1);
}

static void read_names(void *arg)
{
    uint32_t state = (uint32_t)(uintptr_t)arg;
    struct dns_rrset *held = NULL;
    uint32_t held_number = 0;
    char name[32];

    while (atomic_load(&writers_left) > 0) {
        for (int i = 0; i < 16; i++) {
            state = state * 1664525 + 1013904223;
            uint32_t number = (state >> 8) % NAMES;
            (void)snprintf(name, sizeof(name), "n%u.test", number); /* fits */
            const struct dns_rrset *set = find(shared, name, 0);
            if (set != NULL) {
                check(set, number);
                atomic_fetch_add_explicit(&found_total, 1, memory_order_relaxed);
                dns_rrset_put(held);
                held = dns_rrset_get(set);
                held_number = number;
            }
        }
        uint64_t cursor = 0;
        const struct dns_rrset *set;
        while ((set = dns_cache_next(shared, &cursor)) != NULL) {
            assert(set->count == 1);
        }
        rcu_pass();
        if (held != NULL) {
            check(held, held_number);
        }
    }
    dns_rrset_put(held);
}

static void test_readers_and_writers(void **state)
{
    struct thread threads[WRITERS + READERS];

    shared = new_cache(256, 1 << 20); /* fewer places than names: evictions all the time */
    atomic_store(&writers_left, WRITERS);
    for (uintptr_t i = 0; i < WRITERS + READERS; i++) {
        assert_int_equal(thread_start(&threads[i], "cache", i < WRITERS ? write_names : read_names,
                                      (void *)(i + 1)),
                         0);
    }
    rcu_sleep();
    for (int i = 0; i < WRITERS + READERS; i++) {
        thread_join(&threads[i]);
    }
    rcu_drain();
    rcu_awake();
    assert_true(atomic_load(&found_total) > 0);
    struct dns_cache_counters counters;
    dns_cache_read_counters(shared, &counters);
    assert_true(counters.entries <= 256);
    dns_cache_clear(shared);
    dns_cache_read_counters(shared, &counters);
    assert_int_equal(counters.entries, 0);
    assert_int_equal(counters.size_bytes, 0);
    rcu_pass();
    rcu_drain();
    dns_cache_put(shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ttl_clamps),
        cmocka_unit_test(test_find_and_expire),
        cmocka_unit_test(test_reference_outlives_the_cache),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_expired_leave_first),
        cmocka_unit_test(test_memory_limit),
        cmocka_unit_test(test_readers_and_writers),
    };
    rcu_start();
    rcu_join();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rcu_leave();
    rcu_drain();
    rcu_stop();
    return failed;
}
