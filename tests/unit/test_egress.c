/* The turns of a pool's sources, for each family, and what failures of a source are called. */
#include "base/error.h"
#include "base/rcu.h"
#include "dns/hosts.h"
#include "engine/order/order_book.h"
#include "engine/outbound/egress.h"
#include "tests/unit/config_sample.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static const char text[] = "source a { address = 127.0.0.1 }\n"
                           "source b { address = 127.0.0.2 address6 = \"::1\" }\n"
                           "source c { address6 = \"::1\" }\n"
                           "source any {}\n"
                           "source front { address = 127.0.0.1 haproxy = \"127.0.0.1:5000\" }\n"
                           "source socks { socks5 = \"[::1]:1080\" }\n"
                           "pool two { sources = {a, b} weights = {3, 1} }\n"
                           "pool three { sources = {a, b, c} weights = {5, 1, 1} }\n"
                           "pool four { sources = {a, any} }\n"
                           "pool off { sources = {a, b} weights = {1, 0} }\n"
                           "pool front { sources = {front} }\n"
                           "pool mixed { sources = {front, socks} }\n"
                           "transport smtp {} route \"*\" { transport = smtp }\n";

struct bed {
    struct sample s;
    struct egress *e;
};

static void begin(struct bed *b)
{
    sample_load(&b->s, text);
    if (b->s.config == NULL) {
        fail_msg("%s", b->s.said);
    }
    assert_int_equal(egress_new(b->s.config, NULL, &b->e), 0);
}

static void end(struct bed *b)
{
    egress_free(b->e);
    config_free(b->s.config);
}

static const struct config_egress_pool *pool(const struct bed *b, const char *name)
{
    for (size_t i = 0; i < b->s.config->egress_pool_count; i++) {
        if (strcmp(b->s.config->egress_pools[i].name, name) == 0) {
            return &b->s.config->egress_pools[i];
        }
    }
    fail();
    return NULL;
}

/* The names of the next choices, one after the other; "-": none. */
static void expect(struct bed *b, const char *name, int family, const char *order)
{
    char got[200] = "";
    struct egress_choice c;
    while (strlen(got) < strlen(order)) {
        bool is_found = egress_choose(b->e, pool(b, name), family, &c);
        assert_int_equal(is_found, egress_can_reach(pool(b, name), family));
        (void)strncat(got, is_found ? c.source->name : "-", sizeof(got) - strlen(got) - 2);
        (void)strncat(got, " ", 2);
    }
    assert_string_equal(got, order);
}

static void turns(void **state)
{
    (void)state;
    struct bed b;
    begin(&b);
    expect(&b, "two", 4, "a a b a a a b a ");
    /* nginx's own example of weights 5, 1, 1, here with the last one out of reach */
    expect(&b, "three", 4, "a a a b a a a a a b a a ");
    expect(&b, "three", 6, "b c b c ");
    expect(&b, "four", 4, "a any a any ");
    expect(&b, "four", 6, "any any ");
    expect(&b, "off", 4, "a a a ");
    expect(&b, "off", 6, "- - ");
    end(&b);
}

static struct order_book *order_for(char folder[static 32], const char *glob, usec_t seconds)
{
    struct order_book *book = NULL;
    struct order o;
    uint64_t id;
    char why[ORDER_FILE_TEXT_MAX];
    assert_non_null(mkdtemp(strcpy(folder, "/tmp/test_egress.XXXXXX")));
    assert_int_equal(order_book_open(folder, 0, &book, why), 0);
    order_init(&o);
    o.kind = ORDER_SUSPEND;
    o.created = clock_wall();
    o.until = o.created + seconds * USEC_PER_SEC;
    assert_int_equal(selector_set(&o.selector, SLICE("source"), slice_of(glob)), 0);
    assert_int_equal(order_set_text(&o.reason, SLICE("listed"), ORDER_REASON_MAX), 0);
    assert_int_equal(order_set_text(&o.by, SLICE("local"), ORDER_BY_MAX), 0);
    assert_int_equal(order_book_add(book, &o, &id), 0);
    return book;
}

/* By a standing order; the others share its turns. */
static void closed_sources(void **state)
{
    (void)state;
    struct bed b;
    char folder[32], path[64];
    struct egress_choice c;
    begin(&b);
    struct order_book *book = order_for(folder, "A*", 3600);
    egress_free(b.e);
    assert_int_equal(egress_new(b.s.config, book, &b.e), 0);
    expect(&b, "two", 4, "b b b ");
    assert_true(egress_choose(b.e, pool(&b, "mixed"), 4, &c) && !egress_is_closed(book, c.source));
    assert_false(egress_choose(b.e, pool(&b, "four"), 4, &c)); /* a and any */
    assert_null(c.source);
    assert_true(egress_is_closed(book, &b.s.config->egress_sources[0]));
    assert_false(egress_is_closed(book, NULL));
    assert_false(egress_is_closed(NULL, &b.s.config->egress_sources[0]));
    assert_int_equal(order_book_remove(book, 1), 0);
    expect(&b, "two", 6, "b b ");
    expect(&b, "four", 4, "a any a any ");
    order_book_free(book);
    (void)snprintf(path, sizeof(path), "%s/%s", folder, ORDER_FILE_NAME);
    assert_true(unlink(path) == 0 && rmdir(folder) == 0);
    end(&b);
}

static int start(void **state)
{
    (void)state;
    rcu_start();
    rcu_join();
    return 0;
}

static int stop(void **state)
{
    (void)state;
    rcu_leave();
    rcu_drain();
    rcu_stop();
    return 0;
}

/* One family's turn does not move the other's. */
static void families_apart(void **state)
{
    (void)state;
    struct bed b;
    begin(&b);
    expect(&b, "two", 4, "a a ");
    expect(&b, "two", 6, "b b ");
    expect(&b, "two", 4, "b a ");
    end(&b);
}

static void proxies_reach(void **state)
{
    (void)state;
    struct bed b;
    begin(&b);
    expect(&b, "front", 4, "front ");
    expect(&b, "front", 6, "- ");
    expect(&b, "mixed", 4, "front socks front socks ");
    expect(&b, "mixed", 6, "socks socks ");
    end(&b);
}

static void hosts_that_are_reached(void **state)
{
    (void)state;
    struct bed b;
    begin(&b);
    const struct dns_host list[] = {
        {.ip = {.family = 6}, .port = 1, .name = SLICE("x")},
        {.ip = {.family = 4}, .port = 2, .preference = 9, .name = SLICE("y")},
        {.ip = {.family = 6}, .port = 3, .name = SLICE("z")},
    };
    struct dns_hosts *hosts =
        dns_hosts_new(list, 3, &(struct dns_hosts_facts){.has_mx = true, .expires = 77});
    assert_ptr_equal(egress_reachable(NULL, hosts), hosts);
    assert_ptr_equal(egress_reachable(pool(&b, "two"), hosts), hosts);
    struct dns_hosts *four = egress_reachable(pool(&b, "front"), dns_hosts_get(hosts));
    assert_int_equal(four->count, 1);
    assert_int_equal(four->list[0].port, 2);
    assert_true(slice_eq(four->list[0].name, SLICE("y")) && four->facts.has_mx &&
                four->facts.expires == 77);
    dns_hosts_put(four);
    dns_hosts_put(hosts);
    hosts = dns_hosts_new(
        list, 1, &(struct dns_hosts_facts){.expires = 0}); /* nothing is reached: as it is */
    assert_ptr_equal(egress_reachable(pool(&b, "front"), hosts), hosts);
    dns_hosts_put(hosts);
    end(&b);
}

static void without_pool(void **state)
{
    (void)state;
    struct bed b;
    struct egress_choice c = {.slot = 7};
    char words[EGRESS_TEXT_MAX];
    begin(&b);
    assert_true(egress_choose(b.e, NULL, 6, &c) && egress_can_reach(NULL, 6));
    assert_null(c.source);
    assert_int_equal(c.slot, 0);
    assert_null(egress_proxy(&c));
    assert_string_equal(egress_describe(&c, words), "");
    assert_int_equal(egress_source_name(&c).len, 0);
    end(&b);
}

static void failures(void **state)
{
    (void)state;
    struct bed b;
    struct egress_choice c;
    char words[EGRESS_TEXT_MAX];
    begin(&b);
    assert_true(egress_choose(b.e, pool(&b, "two"), 4, &c));
    assert_string_equal(egress_describe(&c, words), " from source \"a\"");
    assert_false(egress_is_own_failure(&c, -ECONNREFUSED));
    assert_false(egress_is_own_failure(&c, -ETIMEDOUT));
    assert_true(egress_is_own_failure(&c, -EADDRNOTAVAIL));
    assert_true(egress_is_own_failure(&c, -EMFILE));
    assert_true(egress_is_own_failure(&c, ERR_MISSING));
    assert_true(egress_choose(b.e, pool(&b, "front"), 4, &c));
    assert_string_equal(egress_describe(&c, words),
                        " from source \"front\" through 127.0.0.1:5000");
    assert_true(egress_is_own_failure(&c, -ECONNREFUSED));
    assert_true(egress_choose(b.e, pool(&b, "mixed"), 6, &c));
    assert_int_equal(c.slot, 1);
    assert_string_equal(egress_describe(&c, words), " from source \"socks\" through [::1]:1080");
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns),          cmocka_unit_test(closed_sources),
        cmocka_unit_test(families_apart), cmocka_unit_test(proxies_reach),
        cmocka_unit_test(without_pool),   cmocka_unit_test(hosts_that_are_reached),
        cmocka_unit_test(failures),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
