/* The server answers on a thread of its own, as the one who asks is blocked. */
#include "base/rcu.h"
#include "dns/question.h"
#include "tests/unit/fake_dns.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

static const struct fake_record records[] = {
    {"s1._domainkey.example.com", DNS_TYPE_TXT, "v=DKIM1; p=AAAA"},
    {"alias._domainkey.example.com", DNS_TYPE_CNAME, "s1._domainkey.example.com"},
    {"refused.test", 0, "REFUSED"},
    {"drop.test", 0, "DROP"},
    {NULL, 0, NULL},
};

static struct fake_dns server;
static pthread_t thread;
static atomic_bool is_over;

static void no_event(void *ctx, int fd, bool readable, bool writable)
{
    fail(); /* nobody's socket is watched by the server's thread */
}

static void *serve(void *arg)
{
    while (!atomic_load(&is_over)) {
        fake_dns_poll(&server, 10, no_event, NULL);
    }
    return NULL;
}

static int setup(void **state)
{
    fake_dns_open(&server, records);
    return pthread_create(&thread, NULL, serve, NULL);
}

static int teardown(void **state)
{
    atomic_store(&is_over, true);
    (void)pthread_join(thread, NULL);
    fake_dns_close(&server);
    return 0;
}

static struct dns_config config(void)
{
    static const char *servers[1];
    struct dns_config config;
    dns_config_defaults(&config);
    servers[0] = server.address;
    config.servers = servers;
    config.server_count = 1;
    config.query_timeout = 60 * USEC_PER_SEC;
    return config;
}

static void test_records(void **state)
{
    const struct dns_config usual = config();
    struct dns_rrset *set;
    const char *const names[] = {"s1._domainkey.example.com", "alias._domainkey.example.com"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(dns_question_ask(&usual, slice_of(names[i]), DNS_TYPE_TXT, &set), 0);
        assert_int_equal(set->status, DNS_FOUND);
        assert_int_equal(set->count, 1);
        assert_true(slice_eq(set->txt[0], SLICE("v=DKIM1; p=AAAA")));
        dns_rrset_put(set);
    }
}

static void test_none(void **state)
{
    const struct dns_config usual = config();
    struct dns_rrset *set;
    assert_int_equal(dns_question_ask(&usual, SLICE("nowhere.test"), DNS_TYPE_TXT, &set), 0);
    assert_int_equal(set->status, DNS_NXDOMAIN);
    dns_rrset_put(set);
    assert_int_equal(dns_question_ask(&usual, SLICE("refused.test"), DNS_TYPE_TXT, &set), 0);
    assert_int_equal(set->status, DNS_SERVFAIL);
    dns_rrset_put(set);
}

/* A server that says nothing costs no more than the deadline, and what was made is freed. */
static void test_silence(void **state)
{
    struct dns_config brief = config();
    struct dns_rrset *set;
    brief.query_timeout = 20 * USEC_PER_MSEC;
    brief.query_tries = 1;
    assert_int_equal(dns_question_ask(&brief, SLICE("drop.test"), DNS_TYPE_TXT, &set), 0);
    assert_int_equal(set->status, DNS_TIMEOUT);
    dns_rrset_put(set);
    brief.query_timeout = 60 * USEC_PER_SEC;
    brief.deadline = 50 * USEC_PER_MSEC;
    assert_int_equal(dns_question_ask(&brief, SLICE("drop.test"), DNS_TYPE_TXT, &set), -ETIMEDOUT);
    assert_null(set);
}

static void test_bad_server(void **state)
{
    static const char *const bad[] = {"not an address"};
    struct dns_config wrong = config();
    struct dns_rrset *set;
    wrong.servers = bad;
    assert_int_not_equal(dns_question_ask(&wrong, SLICE("a.test"), DNS_TYPE_TXT, &set), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_bad_server),
    };
    rcu_start();
    rcu_join();
    int failed = cmocka_run_group_tests(tests, setup, teardown);
    rcu_leave();
    rcu_drain();
    rcu_stop();
    return failed;
}
