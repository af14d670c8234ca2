#include "sched/table.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

struct thing {
    struct table_node node;
    unsigned number;
    unsigned seen;
};

static long objects;
static long fail_after = -1;

static void *allocate(void *ctx, size_t size)
{
    if (fail_after == 0) {
        return NULL;
    }
    objects++;
    return malloc(size);
}

static void release(void *ctx, void *obj)
{
    objects--;
    free(obj);
}

static const struct sched_host host = {allocate, release, release, NULL};

static bool matches(const struct table_node *node, const void *key)
{
    return container_of(node, const struct thing, node)->number == *(const unsigned *)key;
}

static struct thing *find(const struct table *t, uint64_t hash, unsigned number)
{
    struct table_node *node = table_find(t, hash, matches, &number);
    return node == NULL ? NULL : container_of(node, struct thing, node);
}

static void insert(struct table *t, struct thing *thing, unsigned number, uint64_t hash)
{
    *thing = (struct thing){{hash}, number, 0};
    assert_int_equal(table_reserve(t), 0);
    table_insert(t, &thing->node);
}

static uint64_t spread(unsigned number)
{
    return (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Every node is in the bucket of its neighbours: tombs, wrap-around and emptying are all met. */
static void collisions(void **state)
{
    struct table t;
    struct thing things[200];
    assert_int_equal(table_init(&t, &host), 0);
    for (unsigned i = 0; i < 200; i++) {
        insert(&t, &things[i], i, 15);
    }
    for (unsigned i = 0; i < 200; i += 2) {
        table_remove(&t, &things[i].node);
    }
    for (unsigned i = 0; i < 200; i++) {
        assert_ptr_equal(find(&t, 15, i), i % 2 == 0 ? NULL : &things[i]);
    }
    for (unsigned i = 1; i < 200; i += 2) {
        table_remove(&t, &things[i].node);
    }
    assert_int_equal(t.count, 0);
    assert_null(find(&t, 15, 1));
    table_fini(&t);
    assert_int_equal(objects, 0);
}

/* First in, first out, for long: the array must not fill up with tombs nor grow. */
static void churn(void **state)
{
    struct table t;
    struct thing things[64];
    assert_int_equal(table_init(&t, &host), 0);
    for (unsigned i = 0; i < 100000; i++) {
        struct thing *thing = &things[i % 64];
        if (i >= 64) {
            assert_ptr_equal(find(&t, spread(i - 64), i - 64), thing);
            table_remove(&t, &thing->node);
        }
        insert(&t, thing, i, spread(i));
    }
    assert_int_equal(t.count, 64);
    assert_int_equal(objects, 1);
    table_fini(&t);
}

/* A walk during which the table grows eightfold sees each old node once. */
static void walk_while_growing(void **state)
{
    enum { OLD = 50, NEW = 400 };
    static struct thing things[NEW];
    struct table t;
    assert_int_equal(table_init(&t, &host), 0);
    for (unsigned i = 0; i < OLD; i++) {
        insert(&t, &things[i], i, spread(i));
    }
    uint64_t cursor = 0;
    unsigned next = OLD;
    struct table_node *node;
    while ((node = table_next(&t, &cursor)) != NULL) {
        container_of(node, struct thing, node)->seen++;
        for (int i = 0; i < 20 && next < NEW; i++, next++) {
            insert(&t, &things[next], next, spread(next));
        }
    }
    assert_null(table_next(&t, &cursor));
    for (unsigned i = 0; i < NEW; i++) {
        assert_true(i < OLD ? things[i].seen == 1 : things[i].seen <= 1);
    }
    table_fini(&t);
}

/* Room that is kept stays, whatever comes and goes meanwhile, and is there without memory. */
static void promises(void **state)
{
    enum { KEPT = 300, OTHERS = 500, MANY = 5000 };
    static struct thing kept[KEPT], others[OTHERS], many[MANY];
    struct table t;
    assert_int_equal(table_init(&t, &host), 0);
    for (unsigned i = 0; i < KEPT; i++) {
        assert_int_equal(table_promise(&t), 0);
    }
    for (unsigned i = 0; i < 20 * OTHERS; i++) {
        struct thing *thing = &others[i % OTHERS];
        if (i >= OTHERS) {
            table_remove(&t, &thing->node);
        }
        insert(&t, thing, i, spread(i));
    }
    fail_after = 0;
    unsigned more = 0;
    for (; table_reserve(&t) == 0; more++) { /* as full as it may be */
        assert_true(more < MANY);
        many[more] = (struct thing){{spread(100000 + more)}, 100000 + more, 0};
        table_insert(&t, &many[more].node);
    }
    assert_int_not_equal(table_promise(&t), 0);
    for (unsigned i = 0; i < KEPT; i++) {
        kept[i] = (struct thing){{spread(50000 + i)}, 50000 + i, 0};
        table_insert(&t, &kept[i].node);
        table_take_back(&t);
    }
    fail_after = -1;
    for (unsigned i = 0; i < KEPT; i++) {
        assert_ptr_equal(find(&t, spread(50000 + i), 50000 + i), &kept[i]);
    }
    assert_int_equal(t.count, OTHERS + KEPT + more);
    assert_int_equal(t.promised, 0);
    table_fini(&t);
    assert_int_equal(objects, 0);
}

static void out_of_memory(void **state)
{
    struct table t;
    struct thing things[64];
    unsigned count = 0;
    fail_after = 0;
    assert_int_not_equal(table_init(&t, &host), 0);
    table_fini(&t);
    fail_after = -1;
    assert_int_equal(table_init(&t, &host), 0);
    fail_after = 0;
    while (table_reserve(&t) == 0) {
        things[count] = (struct thing){{spread(count)}, count, 0};
        table_insert(&t, &things[count].node);
        count++;
        assert_true(count < 64);
    }
    for (unsigned i = 0; i < count; i++) {
        assert_ptr_equal(find(&t, spread(i), i), &things[i]);
    }
    fail_after = -1;
    assert_int_equal(table_reserve(&t), 0);
    table_fini(&t);
    assert_int_equal(objects, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collisions),         cmocka_unit_test(churn),
        cmocka_unit_test(walk_while_growing), cmocka_unit_test(promises),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
