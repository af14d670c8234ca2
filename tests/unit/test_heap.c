#include "base/heap.h"
#include "tests/chance.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NODES 500

static void check(const struct heap *h)
{
    for (uint32_t i = 0; i < h->count; i++) {
        const struct heap_node *node = h->nodes[i];
        assert_int_equal(node->position, i + 1);
        if (i > 0) {
            const struct heap_node *parent = h->nodes[(i - 1) / 4];
            assert_true(parent->key < node->key ||
                        (parent->key == node->key && parent->sequence < node->sequence));
        }
    }
}

/* The least node of the model: those that are in the heap, by key, then insertion. */
static struct heap_node *model_min(struct heap_node *nodes)
{
    struct heap_node *least = NULL;
    for (int i = 0; i < NODES; i++) {
        struct heap_node *node = &nodes[i];
        if (node->position != 0 &&
            (least == NULL || node->key < least->key ||
             (node->key == least->key && node->sequence < least->sequence))) {
            least = node;
        }
    }
    return least;
}

static void matches_a_linear_search(void **state)
{
    static struct heap_node nodes[NODES];
    memset(nodes, 0, sizeof(nodes));
    struct heap h;
    heap_init(&h, NULL, NULL, NULL);
    uint64_t seed = 20240229;
    uint32_t count = 0;
    for (int round = 0; round < 6000; round++) {
        struct heap_node *node = &nodes[chance_next(&seed) % NODES];
        int64_t key = (int64_t)(chance_next(&seed) % 100) - 50;
        uint64_t what = chance_next(&seed) % 8;
        if (node->position == 0) {
            assert_int_equal(heap_insert(&h, node, key), 0);
            count++;
        } else if (what < 4) {
            heap_move(&h, node, key);
        } else if (what < 6) {
            heap_remove(&h, node);
            count--;
        } else {
            heap_remove(&h, heap_min(&h));
            count--;
        }
        assert_int_equal(h.count, count);
        assert_ptr_equal(heap_min(&h), model_min(nodes));
        if (round % 16 == 0) {
            check(&h);
        }
    }
    while (heap_min(&h) != NULL) {
        assert_ptr_equal(heap_min(&h), model_min(nodes));
        heap_remove(&h, heap_min(&h));
    }
    heap_fini(&h);
}

static void equal_keys_leave_in_order_of_insertion(void **state)
{
    static struct heap_node nodes[NODES];
    memset(nodes, 0, sizeof(nodes));
    struct heap h;
    heap_init(&h, NULL, NULL, NULL);
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(heap_insert(&h, &nodes[i], 7), 0);
    }
    heap_move(&h, &nodes[3], 9);
    heap_move(&h, &nodes[3], 7);
    for (int i = 0; i < NODES; i++) {
        assert_ptr_equal(heap_min(&h), &nodes[i]);
        heap_remove(&h, &nodes[i]);
        assert_int_equal(nodes[i].position, 0);
        heap_remove(&h, &nodes[i]);
    }
    assert_null(heap_min(&h));
    heap_fini(&h);
}

static void *limited_alloc(void *ctx, size_t size)
{
    int *left = ctx;
    if (*left == 0) {
        return NULL;
    }
    (*left)--;
    return malloc(size);
}

static void counted_release(void *ctx, void *obj)
{
    free(obj);
}

static void without_memory_nothing_changes(void **state)
{
    static struct heap_node nodes[NODES];
    memset(nodes, 0, sizeof(nodes));
    int allocations = 2;
    struct heap h;
    heap_init(&h, limited_alloc, counted_release, &allocations);
    int inserted = 0;
    int err = 0;
    while (err == 0 && inserted < NODES) {
        err = heap_insert(&h, &nodes[inserted], -inserted);
        inserted += err == 0;
    }
    assert_int_equal(err, -ENOMEM);
    assert_int_equal(h.count, inserted);
    assert_int_equal(nodes[inserted].position, 0);
    assert_ptr_equal(heap_min(&h), &nodes[inserted - 1]);
    check(&h);
    allocations = 1;
    assert_int_equal(heap_insert(&h, &nodes[inserted], INT64_MIN), 0);
    assert_ptr_equal(heap_min(&h), &nodes[inserted]);
    heap_fini(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_a_linear_search),
        cmocka_unit_test(equal_keys_leave_in_order_of_insertion),
        cmocka_unit_test(without_memory_nothing_changes),
    };
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
