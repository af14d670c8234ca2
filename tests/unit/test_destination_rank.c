/* The best so many of all destinations. */
#include "engine/lane/destination_rank.h"
#include "tests/unit/unit.h"

#include <stdio.h>

static void add(struct destination_rank *r, const char *name, int todo, uint64_t delivered)
{
    struct sched_destination_view d = {
        .name = slice_of(name), .todo = todo, .in_flight = 1, .delivered = delivered};
    destination_rank_add(r, 0, &d);
}

static void expect(struct destination_rank *r, const char *names, bool has_more)
{
    char text[200] = "";
    size_t len = 0;
    destination_rank_finish(r);
    for (size_t i = 0; i < r->count; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s" SLICE_FMT, i > 0 ? " " : "",
                                SLICE_ARG(r->rows[i].view.name));
    }
    assert_string_equal(text, names);
    assert_int_equal(r->has_more, has_more);
    assert_false(r->has_failed);
    destination_rank_fini(r);
}

static void add_some(struct destination_rank *r)
{
    add(r, "d", 4, 10);
    add(r, "a", 1, 20);
    add(r, "c", 9, 30);
    add(r, "b", 9, 5);
    add(r, "", 2, 0);
}

static void orders(void **state)
{
    static const struct {
        const char *word, *two, *all;
    } cases[] = {{"name", " a", " a b c d"},
                 {"load", "b c", "b c d  a"},
                 {"delivered", "c a", "c a d b "},
                 {"deferred", " a", " a b c d"}};
    struct destination_rank r;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        enum destination_order order = destination_order_find(slice_of(cases[i].word));
        assert_int_not_equal(order, DESTINATION_ORDER_COUNT);
        destination_rank_init(&r, order, 2);
        add_some(&r);
        assert_false(destination_rank_is_full(&r));
        expect(&r, cases[i].two, true);
        destination_rank_init(&r, order, 5);
        add_some(&r);
        expect(&r, cases[i].all, false);
    }
    assert_int_equal(destination_order_find(SLICE("size")), DESTINATION_ORDER_COUNT);
    assert_int_equal(destination_order_find(SLICE("")), DESTINATION_ORDER_COUNT);
}

static void without_order_the_first_stay(void **state)
{
    struct destination_rank r;
    (void)state;
    destination_rank_init(&r, DESTINATION_ORDER_NONE, 3);
    add(&r, "d", 4, 10);
    add(&r, "a", 1, 20);
    add(&r, "c", 9, 30);
    assert_false(destination_rank_is_full(&r));
    add(&r, "b", 9, 5);
    assert_true(destination_rank_is_full(&r));
    expect(&r, "d a c", true);
    destination_rank_init(&r, DESTINATION_ORDER_NONE, 1);
    expect(&r, "", false);
}

/* Whatever the order in which they come, memory for so many and the same best ones. */
static void many(void **state)
{
    struct destination_rank r;
    (void)state;
    destination_rank_init(&r, DESTINATION_ORDER_LOAD, 100);
    for (unsigned i = 0; i < 10007; i++) {
        char name[16];
        unsigned n = i * 4099 % 10007; /* each once */
        (void)snprintf(name, sizeof(name), "d%05u", n);
        add(&r, name, (int)n, 0);
    }
    destination_rank_finish(&r);
    assert_int_equal(r.count, 100);
    assert_true(r.capacity <= 100);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(r.rows[i].view.todo, 10006 - i);
    }
    destination_rank_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders),
        cmocka_unit_test(without_order_the_first_stay),
        cmocka_unit_test(many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
