#include "base/attr.h"
#include "sched/tree.h"
#include "tests/unit/unit.h"

#define ITEMS 500

struct item {
    struct tree_node node;
    uint64_t key;
};

static uint64_t key_of(const struct tree_node *n)
{
    return container_of(n, const struct item, node)->key;
}

static void check_order(const struct tree *t, unsigned count)
{
    unsigned seen = 0;
    uint64_t last = 0;
    const struct tree_node *previous = NULL;
    for (const struct tree_node *n = t->first; n != NULL; n = tree_next(n)) {
        assert_true(key_of(n) >= last);
        assert_ptr_equal(tree_previous(n), previous);
        last = key_of(n);
        previous = n;
        seen++;
    }
    assert_ptr_equal(t->last, previous);
    assert_int_equal(seen, count);
}

static void random_operations_keep_the_order(void **state)
{
    static struct item items[ITEMS];
    struct tree t;
    tree_init(&t, key_of);
    uint32_t random = 7;
    unsigned count = 0;
    for (unsigned i = 0; i < ITEMS; i++) {
        tree_node_init(&items[i].node);
    }
    for (unsigned step = 0; step < 4000; step++) {
        random = random * 1664525 + 1013904223;
        struct item *item = &items[(random >> 8) % ITEMS];
        if (tree_node_is_linked(&item->node)) {
            tree_remove(&t, &item->node);
            count--;
        } else {
            item->key = (random >> 16) % 100;
            tree_insert(&t, &item->node);
            count++;
        }
        check_order(&t, count);
        const struct tree_node *found = tree_find_from(&t, 50);
        assert_true(found == NULL || key_of(found) >= 50);
        const struct tree_node *before = found == NULL ? t.last : tree_previous(found);
        assert_true(before == NULL || key_of(before) < 50);
    }
}

static void equal_keys_keep_the_order_of_insertion(void **state)
{
    struct item items[3] = {{.key = 5}, {.key = 5}, {.key = 4}};
    struct tree t;
    tree_init(&t, key_of);
    assert_true(tree_is_empty(&t));
    for (unsigned i = 0; i < 3; i++) {
        tree_insert(&t, &items[i].node);
    }
    assert_ptr_equal(t.first, &items[2].node);
    assert_ptr_equal(tree_next(&items[2].node), &items[0].node);
    assert_ptr_equal(t.last, &items[1].node);
    assert_null(tree_find_from(&t, 6));
}

/* Nodes of one array, inserted in its order: the worst that memory looks like. */
static void neighbours_in_memory_do_not_make_it_deep(void **state)
{
    static struct item items[ITEMS];
    struct tree t;
    tree_init(&t, key_of);
    for (unsigned i = 0; i < ITEMS; i++) {
        items[i].key = i;
        tree_insert(&t, &items[i].node);
    }
    check_order(&t, ITEMS);
    for (unsigned i = 0; i < ITEMS; i++) {
        unsigned depth = 0;
        for (const struct tree_node *n = &items[i].node; n != NULL; n = n->parent) {
            depth++;
        }
        assert_in_range(depth, 1, 40);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_keep_the_order),
        cmocka_unit_test(neighbours_in_memory_do_not_make_it_deep),
        cmocka_unit_test(equal_keys_keep_the_order_of_insertion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
