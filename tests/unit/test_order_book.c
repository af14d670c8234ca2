/* Standing orders: which of them applies, sources, expiry, and the file that keeps them. */
#include "base/error.h"
#include "base/rcu.h"
#include "engine/config/label.h"
#include "engine/order/order_book.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Each sync of a change, which may take as long as the disk likes. */
static unsigned syncs, syncs_online;

int fsync(int fd)
{
    syncs++;
    syncs_online += rcu_is_online();
    return (int)syscall(SYS_fsync, fd);
}

#define NOW (1000 * USEC_PER_SEC)

struct bench {
    char folder[64], path[96];
    struct order_book *book;
};

static void reopen(struct bench *t)
{
    char text[ORDER_FILE_TEXT_MAX];
    order_book_free(t->book);
    t->book = NULL;
    assert_int_equal(order_book_open(t->folder, NOW, &t->book, text), 0);
}

static void open_bench(struct bench *t)
{
    *t = (struct bench){.folder = "/tmp/test_order_book.XXXXXX"};
    assert_non_null(mkdtemp(t->folder));
    (void)snprintf(t->path, sizeof(t->path), "%s/orders.json", t->folder);
    reopen(t);
}

static void close_bench(struct bench *t)
{
    order_book_free(t->book);
    (void)unlink(t->path); /* it may not be there */
    assert_int_equal(rmdir(t->folder), 0);
    rcu_pass();
}

static struct order make(enum order_kind kind, const char *word, const char *value, usec_t seconds)
{
    struct order o;
    order_init(&o);
    o.kind = kind;
    o.created = NOW;
    o.until = NOW + seconds * USEC_PER_SEC;
    assert_int_equal(order_set_text(&o.reason, SLICE("ticket 12"), ORDER_REASON_MAX), 0);
    assert_int_equal(order_set_text(&o.by, SLICE("local"), ORDER_BY_MAX), 0);
    if (word != NULL) {
        assert_int_equal(selector_set(&o.selector, slice_of(word), slice_of(value)), 0);
    }
    return o;
}

static uint64_t add(struct bench *t, struct order o)
{
    uint64_t id = 0;
    assert_int_equal(order_book_add(t->book, &o, &id), 0);
    assert_null(o.reason);
    rcu_pass();
    return id;
}

static uint64_t give(struct bench *t, enum order_kind kind, const char *word, const char *value,
                     usec_t seconds)
{
    return add(t, make(kind, word, value, seconds));
}

static const struct order_facts acme = {
    .tenant = {"acme", 4},
    .campaign = {"spring", 6},
    .domain = {"example.com", 11},
    .destination = {"mx.example.com", 14},
    .transport = {"smtp", 4},
    .sources = {"a,b", 3},
};

static struct order_verdict judge(struct bench *t, const struct order_facts *f, usec_t now)
{
    struct order_verdict v;
    order_book_judge(t->book, f, now, &v);
    return v;
}

static void expect(struct bench *t, enum order_kind kind, uint64_t id)
{
    struct order_verdict v = judge(t, &acme, NOW);
    assert_int_equal(v.kind, kind);
    assert_int_equal(v.id, id);
}

/* Letters match in either case, but an order that a tenant gave is about that tenant byte by byte;
 * the file keeps whose it is. */
static void the_owners_alone(void **state)
{
    (void)state;
    struct bench t;
    struct order_facts loud = acme;
    loud.tenant = SLICE("ACME");
    open_bench(&t);
    struct order o = make(ORDER_BOUNCE, "tenant", "acme", 60);
    assert_int_equal(order_set_text(&o.owner, SLICE("acme"), LABEL_MAX), 0);
    o.shared = UINT64_MAX;
    uint64_t id = add(&t, o);
    for (int run = 0; run < 2; run++) {
        expect(&t, ORDER_BOUNCE, id);
        assert_int_equal(judge(&t, &loud, NOW).kind, ORDER_NONE);
        assert_true(order_book_may_concern(t.book, &acme, ORDER_BOUNCE, NOW));
        assert_false(order_book_may_concern(t.book, &loud, ORDER_BOUNCE, NOW));
        const struct order *kept = order_book_next(t.book, 0, NULL);
        assert_string_equal(kept->owner, "acme");
        assert_true(kept->shared == UINT64_MAX);
        assert_true(order_is_visible(kept, SLICE("acme")));
        assert_false(order_is_visible(kept, SLICE("ACME")));
        assert_true(order_is_visible(kept, SLICE("")));
        reopen(&t);
    }
    close_bench(&t);
}

/* About the mail of some destinations, whatever they are called: a site that nobody knows is none. It is
 * looked at again in an hour, as the destination may belong elsewhere then. The file keeps it. */
static void at_one_site(void **state)
{
    (void)state;
    struct bench t;
    struct order_facts f = acme, other = acme, unknown = acme, any = acme;
    f.site = SLICE("provider:big");
    other.site = SLICE("provider:small");
    any.site = (struct slice){NULL, 0};
    unknown.site = SLICE("");
    open_bench(&t);
    assert_false(order_book_has_site_orders(t.book));
    struct order o = make(ORDER_SUSPEND, "tenant", "acme", 2 * 3600);
    assert_int_equal(order_set_text(&o.site, f.site, ORDER_SITE_MAX), 0);
    uint64_t id = add(&t, o);
    for (int run = 0; run < 2; run++) {
        struct order_verdict v = judge(&t, &f, NOW);
        assert_int_equal(v.id, id);
        assert_true(v.is_at_site && v.until == NOW + ORDER_SITE_LOOK);
        v = judge(&t, &f, NOW + 2 * 3600 * USEC_PER_SEC - 1);
        assert_true(v.until == NOW + 2 * 3600 * USEC_PER_SEC);
        assert_int_equal(judge(&t, &other, NOW).kind, ORDER_NONE);
        assert_int_equal(judge(&t, &unknown, NOW).kind, ORDER_NONE);
        assert_true(order_book_has_site_orders(t.book));
        assert_true(order_book_holds_at_site(t.book, &f, NOW));
        assert_false(order_book_holds_at_site(t.book, &other, NOW));
        assert_true(order_book_may_concern(t.book, &any, ORDER_SUSPEND, NOW));
        assert_false(order_book_may_concern(t.book, &unknown, ORDER_SUSPEND, NOW));
        f.tenant = SLICE("globex");
        assert_false(order_book_holds_at_site(t.book, &f, NOW));
        f.tenant = acme.tenant;
        assert_false(order_book_has_source_orders(t.book));
        assert_string_equal(order_book_next(t.book, 0, NULL)->site, "provider:big");
        reopen(&t);
    }
    assert_int_equal(order_book_remove(t.book, id), 0);
    assert_false(order_book_has_site_orders(t.book));
    close_bench(&t);
}

static void the_harshest_wins(void **state)
{
    (void)state;
    struct bench t;
    open_bench(&t);
    assert_true(order_book_is_empty(t.book));
    expect(&t, ORDER_NONE, 0);
    uint64_t short_one = give(&t, ORDER_SUSPEND, "tenant", "acme", 60);
    assert_false(order_book_is_empty(t.book));
    expect(&t, ORDER_SUSPEND, short_one);
    uint64_t long_one = give(&t, ORDER_SUSPEND, "domain", "*.com", 600);
    expect(&t, ORDER_SUSPEND, long_one);
    (void)give(&t, ORDER_DROP, "tenant", "other", 600);
    expect(&t, ORDER_SUSPEND, long_one);
    uint64_t bounce = give(&t, ORDER_BOUNCE, "campaign", "SPRING", 10);
    expect(&t, ORDER_BOUNCE, bounce);
    uint64_t drop = give(&t, ORDER_DROP, "destination", "mx.example.com", 5);
    expect(&t, ORDER_DROP, drop);
    struct order_verdict v = judge(&t, &acme, NOW + 5 * USEC_PER_SEC);
    assert_int_equal(v.id, bounce);
    v = judge(&t, &acme, NOW + 10 * USEC_PER_SEC);
    assert_int_equal(v.id, long_one);
    assert_int_equal(v.until, NOW + 600 * USEC_PER_SEC);
    assert_string_equal(v.reason, "ticket 12");
    v = judge(&t, &acme, NOW + 600 * USEC_PER_SEC);
    assert_int_equal(v.kind, ORDER_NONE);
    close_bench(&t);
}

static void removal_and_expiry(void **state)
{
    (void)state;
    struct bench t;
    open_bench(&t);
    uint64_t one = give(&t, ORDER_SUSPEND, "tenant", "acme", 60);
    uint64_t two = give(&t, ORDER_SUSPEND, "transport", "smtp", 600);
    assert_int_equal(order_book_remove(t.book, two + 1), ERR_MISSING);
    assert_int_equal(order_book_remove(t.book, 0), ERR_MISSING);
    assert_int_equal(order_book_expire(t.book, NOW), 0);
    assert_int_equal(order_book_expire(t.book, NOW + 60 * USEC_PER_SEC), 1);
    assert_int_equal(order_book_remove(t.book, one), ERR_MISSING);
    expect(&t, ORDER_SUSPEND, two);
    assert_int_equal(order_book_remove(t.book, two), 0);
    assert_true(order_book_is_empty(t.book));
    expect(&t, ORDER_NONE, 0);
    uint64_t three = give(&t, ORDER_SUSPEND, NULL, NULL, 60);
    assert_int_equal(three, two + 1);
    expect(&t, ORDER_SUSPEND, three);
    close_bench(&t);
}

/* Mail goes out from a source that is left; without one it waits until the first is free again. */
static void sources_of_a_pool(void **state)
{
    (void)state;
    struct bench t;
    open_bench(&t);
    uint64_t a = give(&t, ORDER_SUSPEND, "source", "a", 600);
    expect(&t, ORDER_NONE, 0);
    assert_true(order_book_has_source_orders(t.book));
    assert_true(order_book_bars_source(t.book, SLICE("a"), NOW));
    assert_false(order_book_bars_source(t.book, SLICE("b"), NOW));
    assert_false(order_book_bars_source(t.book, SLICE("a"), NOW + 600 * USEC_PER_SEC));
    uint64_t b = give(&t, ORDER_BOUNCE, "source", "b", 60);
    expect(&t, ORDER_SUSPEND, b);
    assert_int_equal(judge(&t, &acme, NOW).until, NOW + 60 * USEC_PER_SEC);
    assert_int_equal(judge(&t, &acme, NOW + 60 * USEC_PER_SEC).kind, ORDER_NONE);
    uint64_t both = give(&t, ORDER_DROP, "source", "*", 30);
    expect(&t, ORDER_DROP, both);
    struct order_facts no_pool = acme;
    no_pool.sources = (struct slice){0};
    assert_int_equal(judge(&t, &no_pool, NOW).kind, ORDER_NONE);
    assert_int_equal(order_book_remove(t.book, both), 0);
    assert_int_equal(order_book_remove(t.book, a), 0);
    expect(&t, ORDER_NONE, 0);
    close_bench(&t);
}

/* An order about a source is about the mail that has no other source left, and each order that has
 * a part in that counts it. */
static void sources_hold_together(void **state)
{
    (void)state;
    struct bench t;
    struct order_facts f = acme, no_pool = acme;
    no_pool.sources = SLICE("");
    open_bench(&t);
    struct order a = make(ORDER_SUSPEND, "source", "a", 60);
    struct order any = make(ORDER_SUSPEND, "source", "*", 60);
    struct order drop = make(ORDER_DROP, "source", "a", 60);
    struct order tenant = make(ORDER_SUSPEND, "tenant", "acme", 60);
    assert_false(order_book_would_hold(t.book, &a, &f, NOW)); /* b is left */
    assert_true(order_book_would_hold(t.book, &any, &f, NOW));
    assert_false(order_book_would_hold(t.book, &any, &no_pool, NOW));
    assert_true(order_book_would_hold(t.book, &tenant, &no_pool, NOW));
    uint64_t b = give(&t, ORDER_SUSPEND, "source", "b", 600);
    uint64_t other = give(&t, ORDER_SUSPEND, "source", "c", 600);
    assert_true(order_book_would_hold(t.book, &a, &f, NOW));
    assert_false(order_book_would_hold(t.book, &drop, &f, NOW)); /* b only waits */
    assert_false(order_book_would_hold(t.book, &a, &f, NOW + 600 * USEC_PER_SEC));
    f.sources = SLICE("a,d");
    assert_false(order_book_would_hold(t.book, &a, &f, NOW));
    assert_null(order_book_bar_of(t.book, SLICE("a"), NOW));
    assert_int_equal(order_book_bar_of(t.book, SLICE("b"), NOW)->id, b);
    uint64_t longer = give(&t, ORDER_SUSPEND, "source", "*", 700);
    assert_int_equal(order_book_bar_of(t.book, SLICE("b"), NOW)->id, longer);
    assert_true(judge(&t, &acme, NOW).is_by_sources);
    order_book_count_sources(t.book, &acme, NOW, 3);
    uint64_t matched, found = 0;
    for (const struct order *o = NULL; (o = order_book_next(t.book, found, &matched)) != NULL;) {
        found = o->id;
        assert_int_equal(matched, o->id == other ? 0 : 3);
    }
    struct order *made[] = {&a, &any, &drop, &tenant};
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        order_fini(made[i]);
    }
    close_bench(&t);
}

/* Named together with a tenant, a source is not closed to others. */
static void sources_of_a_tenant(void **state)
{
    (void)state;
    struct bench t;
    open_bench(&t);
    struct order o = make(ORDER_SUSPEND, "source", "*", 60);
    assert_int_equal(selector_set(&o.selector, SLICE("tenant"), SLICE("acme")), 0);
    uint64_t id = add(&t, o);
    expect(&t, ORDER_SUSPEND, id);
    assert_false(order_book_has_source_orders(t.book));
    assert_false(order_book_bars_source(t.book, SLICE("a"), NOW));
    struct order_facts other = acme;
    other.tenant = SLICE("other");
    assert_int_equal(judge(&t, &other, NOW).kind, ORDER_NONE);
    close_bench(&t);
}

static bool may_concern(struct bench *t, const struct order_facts *f, usec_t now)
{
    return order_book_may_concern(t->book, f, ORDER_SUSPEND, now);
}

static void what_may_concern(void **state)
{
    (void)state;
    struct bench t;
    open_bench(&t);
    struct order_facts f = {.destination = SLICE("mx.example.com"), .transport = SLICE("smtp")};
    assert_false(may_concern(&t, &f, NOW));
    (void)give(&t, ORDER_SUSPEND, "destination", "mx.example.*", 60);
    assert_true(may_concern(&t, &f, NOW));
    assert_false(order_book_may_concern(t.book, &f, ORDER_BOUNCE, NOW));
    assert_false(may_concern(&t, &f, NOW + 60 * USEC_PER_SEC));
    f.destination = SLICE("elsewhere");
    assert_false(may_concern(&t, &f, NOW));
    (void)give(&t, ORDER_SUSPEND, "tenant", "acme", 60); /* its mail may go there */
    assert_true(may_concern(&t, &f, NOW));
    f.tenant = SLICE("other");
    assert_false(may_concern(&t, &f, NOW));
    f.sources = SLICE("a,b");
    (void)give(&t, ORDER_SUSPEND, "source", "b", 60);
    assert_true(may_concern(&t, &f, NOW));
    f.sources = SLICE("a,c");
    assert_false(may_concern(&t, &f, NOW));
    close_bench(&t);
}

static void only_what_is_queued_now(void **state)
{
    (void)state;
    struct bench t;
    open_bench(&t);
    struct order o = make(ORDER_BOUNCE, "tenant", "acme", 60);
    o.is_once = true;
    uint64_t id = add(&t, o);
    expect(&t, ORDER_BOUNCE, id);
    struct order_facts later = acme;
    later.received = NOW + 1;
    assert_int_equal(judge(&t, &later, NOW).kind, ORDER_NONE);
    later.received = NOW;
    assert_int_equal(judge(&t, &later, NOW).kind, ORDER_BOUNCE);
    close_bench(&t);
}

static void a_restart_keeps_orders(void **state)
{
    (void)state;
    struct bench t;
    open_bench(&t);
    struct order o = make(ORDER_DROP, "tenant", "ac*", 60);
    assert_int_equal(selector_set(&o.selector, SLICE("domain"), SLICE("example.com")), 0);
    o.is_once = true;
    uint64_t one = add(&t, o), two = give(&t, ORDER_SUSPEND, "source", "a\303\244\"\\", 600);
    assert_int_equal(order_book_remove(t.book, add(&t, make(ORDER_BOUNCE, NULL, NULL, 9))), 0);
    order_book_count(t.book, one, 5);
    order_book_count(t.book, one, 2);
    order_book_count(t.book, 77, 1);
    uint64_t matched = 0;
    assert_non_null(order_book_next(t.book, 0, &matched));
    assert_int_equal(matched, 7);
    rcu_pass();
    rcu_drain();
    reopen(&t);
    const struct order *kept = order_book_next(t.book, 0, &matched);
    assert_non_null(kept);
    assert_int_equal(matched, 7); /* it goes on */
    assert_int_equal(kept->id, one);
    assert_int_equal(kept->kind, ORDER_DROP);
    assert_true(kept->is_once);
    assert_string_equal(kept->selector.value[SELECTOR_TENANT], "ac*");
    assert_string_equal(kept->selector.value[SELECTOR_DOMAIN], "example.com");
    assert_null(kept->selector.value[SELECTOR_SOURCE]);
    assert_string_equal(kept->reason, "ticket 12");
    assert_string_equal(kept->by, "local");
    assert_int_equal(kept->created, NOW);
    assert_int_equal(kept->until, NOW + 60 * USEC_PER_SEC);
    kept = order_book_next(t.book, one, NULL);
    assert_int_equal(kept->id, two);
    assert_string_equal(kept->selector.value[SELECTOR_SOURCE], "a\303\244\"\\");
    assert_null(order_book_next(t.book, two, NULL));
    assert_true(order_book_has_source_orders(t.book));
    assert_int_equal(give(&t, ORDER_SUSPEND, NULL, NULL, 1), two + 2); /* never an id twice */
    close_bench(&t);
}

static void write_file(struct bench *t, const char *content)
{
    FILE *f = fopen(t->path, "w");
    assert_non_null(f);
    assert_true(fputs(content, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void a_damaged_file(void **state)
{
    (void)state;
#define ONE(id, kind, more)                                                                        \
    "{\"version\":1,\"next_id\":3,\"orders\":[{\"id\":" id ",\"order\":\"" kind                    \
    "\",\"reason\":\"r\",\"by\":\"b\",\"created\":1" more "}]}"
    static const char *const damaged[] = {
        "",
        "{\"version\":1,\"next_id\":3,\"orders\":[",
        "[]",
        "{\"version\":2,\"next_id\":3,\"orders\":[]}",
        "{\"version\":1,\"orders\":[]}",
        "{\"version\":1,\"next_id\":3}",
        "{\"version\":1,\"next_id\":3,\"orders\":[7]}",
        ONE("3", "drop", ",\"until\":2"),
        ONE("0", "drop", ",\"until\":2"),
        ONE("1", "none", ",\"until\":2"),
        ONE("1", "drop", ""),
        ONE("1", "drop", ",\"until\":1"),
        ONE("1", "drop", ",\"until\":2,\"tenant\":7"),
        ONE("1", "drop", ",\"until\":2,\"tenant\":\"\""),
        ONE("1", "drop", ",\"until\":2,\"until\":3"),
    };
    struct bench t;
    open_bench(&t);
    for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
        struct order_book *book = NULL;
        char text[ORDER_FILE_TEXT_MAX] = "";
        write_file(&t, damaged[i]);
        if (order_book_open(t.folder, NOW, &book, text) == 0) {
            fail_msg("taken: %s", damaged[i]);
        }
        assert_null(book);
        assert_non_null(strstr(text, t.path));
        assert_non_null(strstr(text, "repair it"));
    }
    write_file(&t, ONE("1", "drop", ",\"until\":2,\"new_member\":[]"));
    reopen(&t);
    assert_true(order_book_is_empty(t.book)); /* it is over */
    write_file(&t, ONE("1", "drop", ",\"until\":1000000001,\"new_member\":[]"));
    reopen(&t);
    assert_int_equal(order_book_next(t.book, 0, NULL)->kind, ORDER_DROP);
    close_bench(&t);
}

static void what_cannot_be_written_is_not_in_force(void **state)
{
    (void)state;
    struct bench t;
    uint64_t id = 0;
    open_bench(&t);
    uint64_t kept = give(&t, ORDER_SUSPEND, "tenant", "acme", 60);
    char aside[sizeof(t.folder) + 8];
    (void)snprintf(aside, sizeof(aside), "%s.aside", t.folder);
    assert_int_equal(rename(t.folder, aside), 0);
    struct order o = make(ORDER_DROP, "tenant", "acme", 60);
    assert_true(order_book_add(t.book, &o, &id) < 0);
    assert_int_equal(id, 0);
    assert_string_equal(o.reason, "ticket 12"); /* the caller's still */
    order_fini(&o);
    assert_true(order_book_remove(t.book, kept) < 0);
    expect(&t, ORDER_SUSPEND, kept);
    assert_int_equal(rename(aside, t.folder), 0);
    close_bench(&t);
}

static void not_without_end(void **state)
{
    (void)state;
    struct bench t;
    uint64_t id = 0;
    open_bench(&t);
    struct order_file f = {.next_id = ORDER_COUNT_MAX + 1};
    static struct order orders[ORDER_COUNT_MAX];
    static const struct order *all[ORDER_COUNT_MAX];
    for (size_t i = 0; i < ORDER_COUNT_MAX; i++) {
        orders[i] = make(ORDER_SUSPEND, "tenant", "x", 60);
        orders[i].id = i + 1;
        all[i] = &orders[i];
    }
    assert_int_equal(order_file_write(t.folder, f.next_id, false, all, ORDER_COUNT_MAX), 0);
    reopen(&t);
    struct order o = make(ORDER_SUSPEND, "tenant", "acme", 60);
    assert_int_equal(order_book_add(t.book, &o, &id), ERR_LIMIT);
    order_fini(&o);
    for (size_t i = 0; i < ORDER_COUNT_MAX; i++) {
        order_fini(&orders[i]);
    }
    close_bench(&t);
}

/* The number of the review that the next start is to make; 0: none. */
static uint64_t after_a_restart(struct bench *t)
{
    reopen(t);
    return order_book_wanted_review(t->book);
}

static void reviews_outlast_a_restart(void **state)
{
    struct bench t;
    (void)state;
    open_bench(&t);
    assert_int_equal(order_book_wanted_review(t.book), 1); /* nobody knows what was lifted */
    assert_true(order_book_note_review(t.book));
    order_book_reviewed(t.book, 1);
    assert_false(order_book_note_review(t.book));
    assert_int_equal(after_a_restart(&t), 0);

    uint64_t first = add(&t, make(ORDER_SUSPEND, "tenant", "a", 60));
    uint64_t second = add(&t, make(ORDER_BOUNCE, "tenant", "b", 60));
    assert_int_equal(order_book_remove(t.book, second), 0); /* nothing was held for it */
    assert_int_equal(after_a_restart(&t), 0);
    assert_int_equal(order_book_remove(t.book, first), 0);
    uint64_t wanted = order_book_wanted_review(t.book);
    assert_int_equal(wanted, 1);
    (void)add(&t, make(ORDER_SUSPEND, "tenant", "c", 60)); /* does not make it forget */
    assert_true(order_book_note_review(t.book));
    order_book_reviewed(t.book, wanted - 1); /* one that began before */
    assert_true(order_book_note_review(t.book));
    assert_int_equal(after_a_restart(&t), 1);
    order_book_reviewed(t.book, 1);
    assert_false(order_book_note_review(t.book));
    assert_int_equal(after_a_restart(&t), 0);
    close_bench(&t);
}

static void a_sync_holds_up_no_grace_period(void **state)
{
    struct bench t;
    open_bench(&t);
    syncs = syncs_online = 0;
    uint64_t id = add(&t, make(ORDER_SUSPEND, "tenant", "acme", 10));
    assert_true(syncs > 0);
    assert_int_equal(order_book_remove(t.book, id), 0);
    assert_int_equal(syncs_online, 0);
    assert_true(rcu_is_online());
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
        cmocka_unit_test(a_sync_holds_up_no_grace_period),
        cmocka_unit_test(the_harshest_wins),
        cmocka_unit_test(the_owners_alone),
        cmocka_unit_test(at_one_site),
        cmocka_unit_test(removal_and_expiry),
        cmocka_unit_test(sources_of_a_pool),
        cmocka_unit_test(sources_hold_together),
        cmocka_unit_test(sources_of_a_tenant),
        cmocka_unit_test(what_may_concern),
        cmocka_unit_test(only_what_is_queued_now),
        cmocka_unit_test(a_restart_keeps_orders),
        cmocka_unit_test(a_damaged_file),
        cmocka_unit_test(what_cannot_be_written_is_not_in_force),
        cmocka_unit_test(not_without_end),
        cmocka_unit_test(reviews_outlast_a_restart),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
