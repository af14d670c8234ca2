/* The lazily sorted deadlines against a model that searches all of them. */
#include "net/timeout.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#define TIMEOUTS 64
#define STEPS    20000

struct item {
    struct timeout timeout;
    usec_t model; /* the deadline that the test believes in */
    bool is_added;
};

static struct item items[TIMEOUTS];
static usec_t fired_at[TIMEOUTS]; /* deadlines in the order in which they fired */
static unsigned fired;
static uint64_t random_state;

static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % limit;
}

static void item_expired(struct timeout *t, usec_t now)
{
    struct item *item = container_of(t, struct item, timeout);
    assert_true(item->model <= now);
    assert_false(timeout_is_armed(t));
    fired_at[fired++] = item->model;
    item->model = USEC_NEVER;
}

static usec_t model_next(void)
{
    usec_t next = USEC_NEVER;
    for (int i = 0; i < TIMEOUTS; i++) {
        if (items[i].is_added && items[i].model < next) {
            next = items[i].model;
        }
    }
    return next;
}

static void random_operation(struct timeout_queue *q, usec_t now)
{
    struct item *item = &items[random_below(TIMEOUTS)];
    if (!item->is_added) {
        assert_int_equal(timeout_add(q, &item->timeout, item_expired), 0);
        item->is_added = true;
        item->model = USEC_NEVER;
        return;
    }
    switch (random_below(12)) {
    case 0:
        timeout_remove(q, &item->timeout);
        item->is_added = false;
        item->model = USEC_NEVER;
        return;
    case 1:
        item->model = USEC_NEVER;
        break;
    default:
        item->model = now + (usec_t)random_below(1000) - 50;
        break;
    }
    timeout_set(q, &item->timeout, item->model);
}

static void order_is_that_of_a_search(void **state)
{
    struct timeout_queue q;
    usec_t now = 1000;
    unsigned total = 0;
    random_state = 42;
    timeout_queue_init(&q);
    for (int step = 0; step < STEPS; step++) {
        random_operation(&q, now);
        assert_true(timeout_queue_next(&q) <= model_next());
        if (random_below(4) != 0) {
            continue;
        }
        now += random_below(100);
        unsigned due = 0;
        for (int i = 0; i < TIMEOUTS; i++) {
            due += items[i].is_added && items[i].model <= now;
        }
        fired = 0;
        assert_int_equal(timeout_queue_run(&q, now), due);
        assert_int_equal(fired, due);
        for (unsigned i = 1; i < fired; i++) {
            assert_true(fired_at[i - 1] <= fired_at[i]);
        }
        assert_true(model_next() > now);
        assert_true(timeout_queue_next(&q) > now);
        total += due;
    }
    assert_true(total > 500);
    for (int i = 0; i < TIMEOUTS; i++) {
        timeout_remove(&q, &items[i].timeout);
    }
    timeout_queue_fini(&q);
}

static void later_is_only_noted(void **state)
{
    struct timeout_queue q;
    struct timeout t;
    timeout_queue_init(&q);
    assert_int_equal(timeout_queue_next(&q), USEC_NEVER);
    assert_int_equal(timeout_add(&q, &t, NULL), 0);
    assert_int_equal(timeout_queue_next(&q), USEC_NEVER);
    assert_false(timeout_is_armed(&t));
    timeout_set(&q, &t, 100);
    assert_int_equal(timeout_queue_next(&q), 100);
    timeout_set(&q, &t, 500);
    assert_int_equal(timeout_queue_next(&q), 100);
    assert_int_equal(timeout_queue_run(&q, 200), 0);
    assert_int_equal(timeout_queue_next(&q), 500);
    timeout_set(&q, &t, USEC_NEVER);
    assert_int_equal(timeout_queue_run(&q, 1000), 0);
    assert_int_equal(timeout_queue_next(&q), USEC_NEVER);
    timeout_remove(&q, &t);
    timeout_remove(&q, &t);
    timeout_queue_fini(&q);
}

struct chain {
    struct timeout timeout;
    struct timeout_queue *queue;
    struct chain *victim;
    int calls;
    bool is_removing_itself;
};

static void chain_expired(struct timeout *t, usec_t now)
{
    struct chain *c = container_of(t, struct chain, timeout);
    c->calls++;
    if (c->victim != NULL) {
        timeout_remove(c->queue, &c->victim->timeout);
    }
    if (c->is_removing_itself) {
        timeout_remove(c->queue, t);
        return;
    }
    timeout_set(c->queue, t, now - 10);
}

static void callbacks_may_change_the_queue(void **state)
{
    struct timeout_queue q;
    struct chain a = {.queue = &q};
    struct chain b = {.queue = &q, .is_removing_itself = true};
    struct chain c = {.queue = &q};
    timeout_queue_init(&q);
    assert_int_equal(timeout_add(&q, &a.timeout, chain_expired), 0);
    assert_int_equal(timeout_add(&q, &b.timeout, chain_expired), 0);
    assert_int_equal(timeout_add(&q, &c.timeout, chain_expired), 0);
    timeout_set(&q, &a.timeout, 10);
    timeout_set(&q, &b.timeout, 20);
    timeout_set(&q, &c.timeout, 30);
    b.victim = &c;
    /* a arms itself for the past each time: once a run all the same, and b is not kept waiting. */
    assert_int_equal(timeout_queue_run(&q, 100), 2);
    assert_int_equal(a.calls, 1);
    assert_int_equal(b.calls, 1);
    assert_int_equal(c.calls, 0);
    assert_true(timeout_queue_next(&q) <= 101);
    assert_int_equal(timeout_queue_run(&q, 101), 1);
    assert_int_equal(a.calls, 2);
    timeout_remove(&q, &a.timeout);
    timeout_queue_fini(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_that_of_a_search),
        cmocka_unit_test(later_is_only_noted),
        cmocka_unit_test(callbacks_may_change_the_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
