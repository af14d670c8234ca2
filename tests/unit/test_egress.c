/* What a source means for a connection: which addresses it reaches, when it is closed, and what its
 * failures are called. */
#include "base/rcu.h"
#include "engine/order/order_book.h"
#include "engine/outbound/egress.h"
#include "engine/state/settings.h"
#include "engine/state/source_table.h"
#include "tests/unit/config_sample.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static const char text[] =
    "source a { address = 127.0.0.1 }\n"
    "source b { address = 127.0.0.2 address6 = \"::1\" }\n"
    "source c { address6 = \"::1\" }\n"
    "source any {}\n"
    "source front { address = 127.0.0.1 haproxy = \"127.0.0.1:5000\" }\n"
    "source socks { socks5 = \"[::1]:1080\" }\n"
    "pool all { sources = {a, b, c, any, front, socks} weights = {1,1,1,1,1,1} }\n"
    "transport smtp { source_pool = all } transport plain {}\n"
    "route \"*\" { transport = smtp }\n";

struct bed {
    struct sample s;
    struct settings settings;
};

static void begin(struct bed *b)
{
    char why[SOURCE_TABLE_TEXT_MAX];
    sample_load(&b->s, text);
    if (b->s.config == NULL) {
        fail_msg("%s", b->s.said);
    }
    b->settings = (struct settings){.config = b->s.config};
    assert_int_equal(source_table_new(b->s.config, NULL, &b->settings.sources, why), 0);
}

static void end(struct bed *b)
{
    source_table_free(b->settings.sources);
    config_free(b->s.config);
}

/* false: it does not reach that family */
static bool find(const struct bed *b, const char *name, int family, struct egress *ret)
{
    const struct transport_sources *all = &b->settings.sources->transports[0];
    uint32_t i = 0;
    while (strcmp(all->sections[i]->name, name) != 0) {
        i++;
    }
    bool is_found = egress_find(&b->settings, 0, all->given[i].id, family, ret);
    assert_true(!is_found || (ret->place == i && ret->source == all->sections[i]));
    assert_int_equal(is_found, (all->given[i].families & (family == 4 ? 1 : 2)) != 0);
    return is_found;
}

static void families(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool four, six;
    } cases[] = {{"a", true, false},  {"b", true, true},      {"c", false, true},
                 {"any", true, true}, {"front", true, false}, {"socks", true, true}};
    struct bed b;
    struct egress e;
    begin(&b);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(find(&b, cases[i].name, 4, &e), cases[i].four);
        assert_int_equal(find(&b, cases[i].name, 6, &e), cases[i].six);
    }
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

static void closed_sources(void **state)
{
    (void)state;
    struct bed b;
    char folder[32], path[64];
    struct egress e;
    begin(&b);
    struct order_book *book = order_for(folder, "A*", 3600);
    assert_true(find(&b, "any", 4, &e) && egress_is_closed(book, e.source));
    assert_true(find(&b, "b", 4, &e) && !egress_is_closed(book, e.source));
    assert_false(egress_is_closed(book, NULL));
    assert_true(find(&b, "a", 4, &e) && egress_is_closed(book, e.source));
    assert_false(egress_is_closed(NULL, e.source));
    assert_int_equal(order_book_remove(book, 1), 0);
    assert_false(egress_is_closed(book, e.source));
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

static void without_pool(void **state)
{
    (void)state;
    struct bed b;
    struct egress e = {.place = 7};
    char words[EGRESS_TEXT_MAX];
    begin(&b);
    assert_true(egress_find(&b.settings, 1, 0, 6, &e) && egress_find(&b.settings, 1, 0, 4, &e));
    assert_null(e.source);
    assert_int_equal(e.place, 0);
    assert_null(egress_proxy(&e));
    assert_string_equal(egress_describe(&e, words), "");
    assert_int_equal(egress_source_name(&e).len, 0);
    /* A reload took the source away. */
    assert_false(egress_find(&b.settings, 1, b.settings.sources->transports[0].given[0].id, 4, &e));
    assert_false(egress_find(&b.settings, 0, 0, 4, &e));
    end(&b);
}

static void failures(void **state)
{
    (void)state;
    struct bed b;
    struct egress e;
    char words[EGRESS_TEXT_MAX];
    begin(&b);
    assert_true(find(&b, "a", 4, &e));
    assert_string_equal(egress_describe(&e, words), " from source \"a\"");
    assert_false(egress_is_own_failure(&e, -ECONNREFUSED));
    assert_false(egress_is_own_failure(&e, -ETIMEDOUT));
    assert_true(egress_is_own_failure(&e, -EADDRNOTAVAIL));
    assert_true(egress_is_own_failure(&e, -EMFILE));
    assert_true(find(&b, "front", 4, &e));
    assert_string_equal(egress_describe(&e, words),
                        " from source \"front\" through 127.0.0.1:5000");
    assert_true(egress_is_own_failure(&e, -ECONNREFUSED));
    assert_true(find(&b, "socks", 6, &e));
    assert_string_equal(egress_describe(&e, words), " from source \"socks\" through [::1]:1080");
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families),
        cmocka_unit_test(closed_sources),
        cmocka_unit_test(without_pool),
        cmocka_unit_test(failures),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
