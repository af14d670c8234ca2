#include "base/clock.h"
#include "base/rcu.h"
#include "dns/cache.h"
#include "dns/lookup.h"
#include "tests/unit/fake_dns.h"
#include "tests/unit/unit.h"

static const struct fake_record records[] = {
    {"ok.test", DNS_TYPE_A, "192.0.2.1"},
    {"alias.test", DNS_TYPE_CNAME, "ok.test"},
    {"stop.test", DNS_TYPE_CNAME, "stop2.test"},
    {"stop.test", 0, "STOP"},
    {"stop2.test", DNS_TYPE_CNAME, "ok.test"},
    {"stop2.test", 0, "STOP"},
    {"brief.test", DNS_TYPE_CNAME, "x"},
    {"brief.test", 0, "STOP"},
    {"x", DNS_TYPE_A, "192.0.2.9"},
    {"circle.test", DNS_TYPE_CNAME, "circle2.test"},
    {"circle.test", 0, "STOP"},
    {"circle2.test", DNS_TYPE_CNAME, "circle.test"},
    {"circle2.test", 0, "STOP"},
    {"lost.test", DNS_TYPE_CNAME, "nowhere.test"},
    {"refused.test", 0, "REFUSED"},
    {"formerr.test", 0, "FORMERR"},
    {"noedns.test", DNS_TYPE_A, "192.0.2.2"},
    {"noedns.test", 0, "NOEDNS"},
    {"noedns2.test", DNS_TYPE_A, "192.0.2.3"},
    {"noedns2.test", 0, "NOEDNS"},
    {"garbage.test", 0, "GARBAGE"},
    {"drop.test", 0, "DROP"},
    {"*.silent.test", 0, "DROP"},
    {"gone.test", 0, "TCGONE"},
    {"tc.test", DNS_TYPE_A, "192.0.2.4"},
    {"tc.test", 0, "TC"},
    {"tc2.test", DNS_TYPE_A, "192.0.2.4"},
    {"tc2.test", 0, "TC"},
    {"*.wild.test", DNS_TYPE_A, "192.0.2.5"},
    {NULL, 0, NULL},
};

static struct fake_dns server;
static struct dns_cache *cache;
static struct lookup *lookup;

static struct dns_config config(void)
{
    static const char *servers[1];
    struct dns_config config;

    servers[0] = server.address;
    dns_config_defaults(&config);
    config.servers = servers;
    config.server_count = 1;
    /* A busy machine may keep the answer to itself for a while. */
    config.query_timeout = 60 * USEC_PER_SEC;
    config.query_tries = 1;
    return config;
}

/* For questions that nobody answers. */
static struct dns_config hasty_config(void)
{
    struct dns_config hasty = config();
    hasty.query_timeout = 100 * USEC_PER_MSEC;
    return hasty;
}

static void open_with(const struct dns_config *config)
{
    const struct resolver_hooks hooks = {fake_dns_watch, &server};
    assert_int_equal(lookup_new(config, cache, &hooks, &lookup), 0);
}

static int setup(void **state)
{
    struct dns_cache_config cache_config;

    fake_dns_open(&server, records);
    dns_cache_config_defaults(&cache_config);
    cache = dns_cache_new(&cache_config);
    assert_non_null(cache);
    const struct dns_config usual = config();
    open_with(&usual);
    return 0;
}

static int teardown(void **state)
{
    lookup_free(lookup);
    for (int i = 0; i < FAKE_WATCHES; i++) {
        assert_int_equal(server.watches[i].fd, -1); /* all sockets were given back */
    }
    dns_cache_clear(cache);
    rcu_pass();
    rcu_drain();
    dns_cache_put(cache);
    fake_dns_close(&server);
    return 0;
}

static void on_event(void *asker, int fd, bool readable, bool writable)
{
    lookup_fd_event(asker, fd, readable, writable, clock_mono());
}

/* The next waiter with an answer. */
static struct lookup_waiter *wait_next(void)
{
    usec_t give_up = clock_mono() + 60 * USEC_PER_SEC;

    for (;;) {
        usec_t now = clock_mono();
        struct lookup_waiter *waiter = lookup_next(lookup, now);
        if (waiter != NULL) {
            return waiter;
        }
        assert_true(now < give_up);
        usec_t at = lookup_wake_at(lookup);
        assert_true(at != USEC_NEVER);
        rcu_pass();
        fake_dns_poll(&server, at <= now ? 0 : (int)((at - now) / USEC_PER_MSEC) + 1, on_event,
                      lookup);
        lookup_tick(lookup, clock_mono());
    }
}

static struct dns_rrset *ask(const char *name, enum dns_type type)
{
    struct lookup_waiter waiter = {0};

    assert_int_equal(lookup_ask(lookup, slice_of(name), type, &waiter, clock_mono()), 0);
    if (waiter.is_waiting) {
        assert_ptr_equal(wait_next(), &waiter);
    }
    assert_false(waiter.is_waiting);
    assert_non_null(waiter.set);
    assert_true(slice_eq(waiter.set->name, slice_of(name)));
    return waiter.set;
}

static void expect(const char *name, enum dns_status status)
{
    struct dns_rrset *set = ask(name, DNS_TYPE_A);
    assert_int_equal(set->status, status);
    dns_rrset_put(set);
}

static void test_statuses(void **state)
{
    expect("ok.test", DNS_FOUND);
    expect("alias.test", DNS_FOUND);
    expect("nowhere.test", DNS_NXDOMAIN);
    expect("lost.test", DNS_NXDOMAIN);
    expect("refused.test", DNS_SERVFAIL);
    expect("tc.test", DNS_FOUND);
    expect("a.onion", DNS_NXDOMAIN);
    struct dns_rrset *set = ask("ok.test", DNS_TYPE_MX);
    assert_int_equal(set->status, DNS_NODATA);
    dns_rrset_put(set);
    assert_int_equal(fake_dns_asked(&server, "a.onion", 0), 0);
    const struct dns_config hasty = hasty_config();
    lookup_free(lookup);
    open_with(&hasty);
    expect("garbage.test", DNS_TIMEOUT); /* c-ares drops what it cannot match to a question */
    expect("drop.test", DNS_TIMEOUT);
    struct lookup_counters counters;
    lookup_read_counters(lookup, &counters);
    assert_true(counters.timeouts >= 2);
    assert_int_equal(counters.outstanding, 0);
    assert_null(lookup_next(lookup, clock_mono()));
    assert_true(lookup_wake_at(lookup) == USEC_NEVER);
}

static void test_tcp_fails(void **state)
{
    struct dns_rrset *set = ask("gone.test", DNS_TYPE_A);
    assert_true(dns_status_is_soft(set->status));
    dns_rrset_put(set);
}

static void test_alias_that_stops(void **state)
{
    struct dns_rrset *set = ask("stop.test", DNS_TYPE_A);
    assert_int_equal(set->status, DNS_FOUND);
    assert_int_equal(set->ips[0].bytes[3], 1);
    dns_rrset_put(set);
    assert_int_equal(fake_dns_asked(&server, "ok.test", DNS_TYPE_A), 1);
    expect("brief.test", DNS_FOUND); /* the shortest name there is */
    expect("circle.test", DNS_ALIAS_LOOP);
    assert_true(server.log_count < 20);
}

static void test_without_edns(void **state)
{
    expect("noedns.test", DNS_FOUND);
    expect("noedns2.test", DNS_FOUND);
    expect("formerr.test", DNS_UNRECOVERABLE);
    expect("ok.test", DNS_FOUND);
}

static void test_cache_and_sharing(void **state)
{
    struct lookup_waiter waiters[3] = {0};

    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            lookup_ask(lookup, SLICE("ok.test"), DNS_TYPE_A, &waiters[i], clock_mono()), 0);
        assert_true(waiters[i].is_waiting);
    }
    lookup_forget(&waiters[1]);
    lookup_forget(&waiters[1]);
    assert_ptr_equal(wait_next(), &waiters[0]);
    assert_ptr_equal(wait_next(), &waiters[2]);
    assert_ptr_equal(waiters[0].set, waiters[2].set);
    assert_int_equal(fake_dns_asked(&server, "ok.test", 0), 1);
    dns_rrset_put(waiters[0].set);
    dns_rrset_put(waiters[2].set);
    expect("ok.test", DNS_FOUND);
    expect("refused.test", DNS_SERVFAIL);
    int asked = server.log_count;
    expect("refused.test", DNS_SERVFAIL);
    assert_int_equal(server.log_count, asked);
}

static void test_forgotten_answer_is_cached(void **state)
{
    struct lookup_waiter waiter = {0};

    assert_int_equal(lookup_ask(lookup, SLICE("ok.test"), DNS_TYPE_A, &waiter, clock_mono()), 0);
    lookup_forget(&waiter);
    expect("alias.test", DNS_FOUND);
    assert_non_null(dns_cache_find(cache, SLICE("ok.test"), DNS_TYPE_A, clock_mono()));
}

static void test_query_limit(void **state)
{
    enum { COUNT = 200 };
    static struct lookup_waiter waiters[COUNT];
    struct dns_config few = config();
    struct lookup_counters counters;
    char name[32];

    lookup_free(lookup);
    few.query_limit = 10;
    open_with(&few);
    memset(waiters, 0, sizeof(waiters));
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof(name), "n%d.wild.test", i);
        assert_int_equal(lookup_ask(lookup, slice_of(name), DNS_TYPE_A, &waiters[i], clock_mono()),
                         0);
    }
    assert_null(lookup_next(lookup, clock_mono()));
    lookup_read_counters(lookup, &counters);
    assert_int_equal(counters.outstanding, 10);
    assert_int_equal(counters.waiting, COUNT - 10);
    for (int i = 0; i < COUNT; i++) {
        struct lookup_waiter *waiter = wait_next();
        assert_int_equal(waiter->set->status, DNS_FOUND);
        dns_rrset_put(waiter->set);
        lookup_read_counters(lookup, &counters);
        assert_true(counters.outstanding <= 10);
    }
    lookup_read_counters(lookup, &counters);
    assert_int_equal(counters.queries, COUNT);
}

static void ask_silent(struct lookup_waiter *waiter, int number, usec_t now)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "n%d.silent.test", number);
    assert_int_equal(lookup_ask(lookup, slice_of(name), DNS_TYPE_A, waiter, now), 0);
}

static void expect_counts(uint32_t sent, uint32_t waiting)
{
    struct lookup_counters counters;
    lookup_read_counters(lookup, &counters);
    assert_int_equal(counters.outstanding, sent);
    assert_int_equal(counters.waiting, waiting);
}

/* Names that are never answered hold back nobody, up to a number. Time is passed in. */
static void test_late_ones_do_not_count(void **state)
{
    enum { LIMIT = 2, LATE = LIMIT * 16 };
    static struct lookup_waiter waiters[LATE + LIMIT + 1];
    struct lookup_waiter good = {0};
    struct dns_config few = config();
    usec_t now = clock_mono();

    lookup_free(lookup);
    few.query_limit = LIMIT;
    few.query_timeout = 30 * USEC_PER_SEC;
    open_with(&few);
    memset(waiters, 0, sizeof(waiters));
    for (int i = 0; i < LATE; i++) {
        ask_silent(&waiters[i], i, now);
    }
    assert_int_equal(lookup_ask(lookup, SLICE("ok.test"), DNS_TYPE_A, &good, now), 0);
    for (uint32_t sent = LIMIT; sent <= LATE; sent += LIMIT) {
        assert_null(lookup_next(lookup, now));
        expect_counts(sent, LATE + 1 - sent);
        now += 500 * USEC_PER_MSEC;
        lookup_tick(lookup, now);
    }
    assert_ptr_equal(wait_next(), &good);
    assert_int_equal(good.set->status, DNS_FOUND);
    dns_rrset_put(good.set);
    for (int i = LATE; i <= LATE + LIMIT; i++) {
        ask_silent(&waiters[i], i, now);
    }
    assert_null(lookup_next(lookup, now));
    now += 500 * USEC_PER_MSEC;
    lookup_tick(lookup, now);
    assert_null(lookup_next(lookup, now));
    expect_counts(LATE + LIMIT, 1);
    for (int i = 0; i <= LATE + LIMIT; i++) {
        lookup_forget(&waiters[i]);
    }
}

/* Answers come in bursts: what does not fit is lost, and asked for again after a timeout. */
static void test_socket_has_room(void **state)
{
    int size = 0, usual = 0;
    socklen_t len = sizeof(size);
    FILE *file = fopen("/proc/sys/net/core/rmem_default", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &usual), 1);
    assert_int_equal(fclose(file), 0);
    struct lookup_waiter waiter = {0};
    ask_silent(&waiter, 1, clock_mono());
    assert_null(lookup_next(lookup, clock_mono()));
    lookup_forget(&waiter); /* the socket is open as long as something is asked */
    assert_true(server.watches[0].fd >= 0);
    assert_int_equal(getsockopt(server.watches[0].fd, SOL_SOCKET, SO_RCVBUF, &size, &len), 0);
    assert_true(size > usual);
}

static uint32_t open_sockets(void)
{
    uint32_t count = 0;
    for (int i = 0; i < FAKE_WATCHES; i++) {
        count += server.watches[i].fd >= 0;
    }
    return count;
}

/* To loopback it stays for the next question; elsewhere each has a port that nobody knows. */
static void test_socket_stays_on_loopback(void **state)
{
    dns_rrset_put(ask("ok.test", DNS_TYPE_A));
    assert_int_equal(open_sockets(), 1);
    int fd = server.watches[0].fd;
    dns_rrset_put(ask("x.wild.test", DNS_TYPE_A));
    assert_int_equal(open_sockets(), 1);
    assert_int_equal(server.watches[0].fd, fd);
    static const char *servers[2] = {server.address, "192.0.2.53"};
    struct dns_config two = config();
    two.servers = servers;
    two.server_count = 2;
    lookup_free(lookup);
    assert_int_equal(open_sockets(), 0);
    open_with(&two);
    dns_rrset_put(ask("y.wild.test", DNS_TYPE_A));
    assert_int_equal(open_sockets(), 0);
}

/* A server that closes a connection when it has answered: the next truncated answer finds it closed. */
static void test_connection_that_closes(void **state)
{
    expect("tc.test", DNS_FOUND);
    for (int i = 0; i < FAKE_CONNECTIONS; i++) {
        if (server.connections[i] >= 0) {
            close(server.connections[i]);
            server.connections[i] = -1;
        }
    }
    expect("tc2.test", DNS_FOUND);
    expect("ok.test", DNS_FOUND);
}

static void test_authentic(void **state)
{
    struct dns_rrset *set = ask("ok.test", DNS_TYPE_A);
    assert_false(set->is_authentic);
    dns_rrset_put(set);
    server.flags = 0x20;
    set = ask("tc.test", DNS_TYPE_A);
    assert_true(set->is_authentic);
    dns_rrset_put(set);
    /* Through a server that is not on loopback the bit means nothing. */
    static const char *servers[2] = {server.address, "192.0.2.53"};
    struct dns_config two = config();
    two.servers = servers;
    two.server_count = 2;
    lookup_free(lookup);
    open_with(&two);
    set = ask("x.wild.test", DNS_TYPE_A);
    assert_int_equal(set->status, DNS_FOUND);
    assert_false(set->is_authentic);
    assert_false(lookup_trusts_ad(lookup));
    dns_rrset_put(set);
    /* Unless the operator says so. */
    two.trust_ad = true;
    lookup_free(lookup);
    open_with(&two);
    set = ask("y.wild.test", DNS_TYPE_A);
    assert_true(set->is_authentic);
    assert_true(lookup_trusts_ad(lookup));
    dns_rrset_put(set);
}

static void test_bad_servers(void **state)
{
    static const char *const bad[] = {"x", "1.2.3.4:x", "dns.example.com"};
    const struct resolver_hooks hooks = {fake_dns_watch, &server};
    struct lookup *none = NULL;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct dns_config usual = config();
        usual.servers = &bad[i];
        assert_int_not_equal(lookup_new(&usual, cache, &hooks, &none), 0);
        assert_null(none);
    }
    lookup_free(NULL);
}

static void test_free_with_questions(void **state)
{
    struct lookup_waiter waiter = {0};

    assert_int_equal(lookup_ask(lookup, SLICE("drop.test"), DNS_TYPE_A, &waiter, clock_mono()), 0);
    assert_null(lookup_next(lookup, clock_mono()));
    lookup_forget(&waiter);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_statuses),
        TEST(test_tcp_fails),
        TEST(test_alias_that_stops),
        TEST(test_without_edns),
        TEST(test_cache_and_sharing),
        TEST(test_forgotten_answer_is_cached),
        TEST(test_query_limit),
        TEST(test_late_ones_do_not_count),
        TEST(test_socket_has_room),
        TEST(test_socket_stays_on_loopback),
        TEST(test_connection_that_closes),
        TEST(test_authentic),
        TEST(test_bad_servers),
        TEST(test_free_with_questions),
    };
    rcu_start();
    rcu_join();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rcu_leave();
    rcu_drain();
    rcu_stop();
    return failed;
}
