/* Suspensions that replies ask for: which become orders, and which are in force already. */
#include "base/mailbox.h"
#include "base/rcu.h"
#include "engine/order/order.h"
#include "engine/order/order_book.h"
#include "engine/order/suspension.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct bench {
    char folder[64], path[96];
    struct order_book *book;
    struct suspensions *suspensions;
    struct mailbox box;
};

static void open_bench(struct bench *t)
{
    char text[ORDER_FILE_TEXT_MAX];
    *t = (struct bench){.folder = "/tmp/test_suspension.XXXXXX"};
    assert_non_null(mkdtemp(t->folder));
    (void)snprintf(t->path, sizeof(t->path), "%s/orders.json", t->folder);
    assert_int_equal(order_book_open(t->folder, clock_wall(), &t->book, text), 0);
    t->suspensions = suspensions_new();
    assert_non_null(t->suspensions);
    assert_int_equal(mailbox_init(&t->box, 16), 0);
}

static void close_bench(struct bench *t)
{
    mailbox_fini(&t->box);
    suspensions_free(t->suspensions);
    order_book_free(t->book);
    (void)unlink(t->path); /* it may not be there */
    assert_int_equal(rmdir(t->folder), 0);
    rcu_pass();
}

static void ask_at(struct bench *t, const char *site, const char *tenant, const char *campaign,
                   usec_t seconds)
{
    const struct suspension wanted = {.tenant = slice_of(tenant),
                                      .campaign = slice_of(campaign),
                                      .site = slice_of(site),
                                      .destination = SLICE("x.test"),
                                      .span = seconds * USEC_PER_SEC,
                                      .rule = SLICE("over"),
                                      .text = SLICE("4.7.0 over")};
    suspensions_ask(t->suspensions, &wanted, &t->box);
}

static void ask(struct bench *t, const char *tenant, const char *campaign, usec_t seconds)
{
    ask_at(t, "", tenant, campaign, seconds);
}

static unsigned take(struct bench *t)
{
    return suspensions_take(t->suspensions, t->book, clock_wall());
}

static void what_is_asked_for_is_in_force_once(void **state)
{
    struct bench t;
    open_bench(&t);
    ask(&t, "acme", "", 600);
    ask(&t, "ACME", "", 500); /* the same */
    ask(&t, "acme", "spring", 600);
    assert_true(suspensions_are_asked(t.suspensions));
    assert_int_equal(take(&t), 2);
    assert_false(suspensions_are_asked(t.suspensions));
    const struct order *o = order_book_next(t.book, 0, NULL);
    assert_non_null(o);
    assert_int_equal(o->kind, ORDER_SUSPEND);
    assert_string_equal(o->by, "reply rule over");
    assert_string_equal(o->reason, "4.7.0 over");
    assert_string_equal(o->selector.value[SELECTOR_DESTINATION], "x.test");
    assert_null(o->selector.value[SELECTOR_CAMPAIGN]);
    ask(&t, "acme", "", 300); /* what is in force lasts longer */
    assert_int_equal(take(&t), 0);
    ask(&t, "acme", "", 1200);
    assert_int_equal(take(&t), 1);
    assert_int_equal(order_book_size(t.book), 2); /* it took the place of the shorter one */
    close_bench(&t);
}

static void one_for_each_site(void **state)
{
    struct bench t;
    char long_name[ORDER_SITE_MAX + 2];
    open_bench(&t);
    ask_at(&t, "provider:big", "acme", "", 600);
    ask_at(&t, "provider:big", "acme", "", 600);
    ask_at(&t, "mx.x.test", "acme", "", 600);
    assert_int_equal(take(&t), 2);
    const struct order *o = order_book_next(t.book, 0, NULL);
    assert_string_equal(o->site, "provider:big");
    assert_null(o->selector.value[SELECTOR_DESTINATION]);
    ask_at(&t, "provider:big", "acme", "", 300);
    assert_int_equal(take(&t), 0);
    memset(long_name, 'x', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    ask_at(&t, long_name, "acme", "", 600); /* counts for the destination alone */
    assert_int_equal(take(&t), 1);
    o = order_book_next(t.book, 2, NULL);
    assert_null(o->site);
    assert_string_equal(o->selector.value[SELECTOR_DESTINATION], "x.test");
    close_bench(&t);
}

static void names_that_would_be_patterns_are_left_out(void **state)
{
    struct bench t;
    open_bench(&t);
    ask(&t, "a*", "", 600);
    ask(&t, "acme", "s*", 600);
    ask(&t, "", "", 600);
    assert_false(suspensions_are_asked(t.suspensions));
    for (unsigned i = 0; i < 2 * SUSPENSIONS_MOST; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "t%u", i);
        ask(&t, name, "", 600);
    }
    unsigned given = take(&t);
    assert_true(given > 0 && given <= SUSPENSIONS_MOST);
    close_bench(&t);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_asked_for_is_in_force_once),
        cmocka_unit_test(one_for_each_site),
        cmocka_unit_test(names_that_would_be_patterns_are_left_out),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
