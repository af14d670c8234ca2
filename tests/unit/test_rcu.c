#include "base/rcu.h"
#include "base/thread.h"
#include "tests/unit/unit.h"

#include <assert.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define READERS 3
#define UPDATES STRESS_ROUNDS(400000)
#define ALIVE   UINT64_C(0xa11ea11ea11ea11e)
#define DEAD    UINT64_C(0xdeaddeaddeaddead)

struct node {
    struct rcu_retired retired; /* first, so that a retired node is its node */
    uint64_t mark;
    uint64_t value;
};

static struct node *shared;
static _Atomic long nodes_alive;
static _Atomic bool is_over;
static _Atomic int stage;
static _Atomic long passes;

static struct node *node_new(uint64_t value)
{
    struct node *node = malloc(sizeof(*node));
    assert(node != NULL);
    node->mark = ALIVE;
    node->value = value;
    atomic_fetch_add(&nodes_alive, 1);
    return node;
}

static void node_release(struct rcu_retired *retired)
{
    struct node *node = container_of(retired, struct node, retired);
    assert(node->mark == ALIVE);
    node->mark = DEAD;
    free(node);
    atomic_fetch_sub(&nodes_alive, 1);
}

static void replace(uint64_t value)
{
    struct node *old = shared; /* the writer itself may read plainly */
    rcu_publish(&shared, node_new(value));
    if (old != NULL) {
        rcu_retire(&old->retired, node_release);
    }
}

static void remove_last(void)
{
    struct node *old = shared;
    rcu_publish(&shared, NULL);
    rcu_retire(&old->retired, node_release);
}

static void read_in_passes(void *arg)
{
    uint64_t last = 0;
    for (unsigned pass = 0; !atomic_load(&is_over); pass++) {
        assert(rcu_is_online());
        const struct node *node = rcu_load(&shared);
        for (int i = 0; i < 4; i++) {
            assert(node->mark == ALIVE);
            assert(node->value >= last);
        }
        last = node->value;
        atomic_fetch_add_explicit(&passes, 1, memory_order_relaxed);
        if (pass % 16 == 0) {
            rcu_sleep();
            assert(!rcu_is_online());
            (void)sched_yield();
            rcu_awake();
        } else {
            rcu_pass();
        }
    }
}

static void readers_never_see_a_released_node(void **state)
{
    atomic_store(&is_over, false);
    replace(1);
    struct thread readers[READERS];
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(thread_start(&readers[i], "reader", read_in_passes, NULL), 0);
    }
    /* Until both sides have done their share: a writer alone proves nothing. */
    for (uint64_t i = 2; i <= UPDATES || atomic_load(&passes) < UPDATES / 4; i++) {
        replace(i);
        if (i % 8 == 0) {
            rcu_pass();
        }
        if (i % 1024 == 0) {
            /* The other path: wait here, then free here. */
            struct node *old = shared;
            rcu_publish(&shared, node_new(i));
            rcu_wait();
            node_release(&old->retired);
        }
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < READERS; i++) {
        thread_join(&readers[i]);
    }
    remove_last();
    rcu_drain();
    assert_int_equal(rcu_backlog(), 0);
    assert_int_equal(atomic_load(&nodes_alive), 0);
}

static void hold_one_pass(void *arg)
{
    const struct node *node = rcu_load(&shared);
    atomic_store(&stage, 1);
    while (atomic_load(&stage) == 1) {
        (void)sched_yield();
    }
    /* It is retired now; give the reclaim thread every chance to be wrong. */
    for (int i = 0; i < 2000; i++) {
        (void)sched_yield();
    }
    assert(node->mark == ALIVE && node->value == 77);
    assert(atomic_load(&nodes_alive) == 1);
}

static void an_online_reader_holds_the_grace_period(void **state)
{
    replace(77);
    atomic_store(&stage, 0);
    struct thread reader;
    assert_int_equal(thread_start(&reader, "holder", hold_one_pass, NULL), 0);
    while (atomic_load(&stage) == 0) {
        (void)sched_yield();
    }
    remove_last();
    rcu_pass();
    atomic_store(&stage, 2);
    thread_join(&reader);
    rcu_drain();
    assert_int_equal(atomic_load(&nodes_alive), 0);
}

static struct rcu_retired order[100];
static size_t order_next;

static void check_order(struct rcu_retired *retired)
{
    assert(retired == &order[order_next]);
    order_next++;
}

static void released_in_the_order_of_retiring(void **state)
{
    order_next = 0;
    for (size_t i = 0; i < 100; i++) {
        rcu_retire(&order[i], check_order);
        if (i % 7 == 0) {
            rcu_pass();
        }
    }
    rcu_sleep();
    rcu_drain();
    assert_int_equal(order_next, 100);
    rcu_awake();
}

static struct rcu_retired chain[4];
static size_t chain_length;

static void retire_the_next(struct rcu_retired *retired)
{
    chain_length++;
    if (chain_length < 4) {
        rcu_retire(&chain[chain_length], retire_the_next);
    }
}

static void drain_waits_for_what_releases_retire(void **state)
{
    chain_length = 0;
    rcu_sleep();
    rcu_retire(&chain[0], retire_the_next); /* offline: handed over at once */
    rcu_drain();
    assert_int_equal(chain_length, 4);
    rcu_awake();
}

static void retire_and_leave(void *arg)
{
    rcu_retire(&node_new(1)->retired, node_release);
}

static void leaving_hands_over(void **state)
{
    struct thread t;
    assert_int_equal(thread_start(&t, "leaver", retire_and_leave, NULL), 0);
    thread_join(&t);
    rcu_drain();
    assert_int_equal(atomic_load(&nodes_alive), 0);
}

static void stop_releases_the_rest(void **state)
{
    rcu_retire(&node_new(1)->retired, node_release);
    rcu_stop(); /* online, and with a list of its own */
    assert_true(rcu_is_online());
    assert_int_equal(atomic_load(&nodes_alive), 0);
    rcu_start();
}

static int start(void **state)
{
    rcu_start();
    rcu_join();
    return 0;
}

static int stop(void **state)
{
    rcu_leave();
    rcu_drain();
    rcu_stop();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_never_see_a_released_node),
        cmocka_unit_test(an_online_reader_holds_the_grace_period),
        cmocka_unit_test(released_in_the_order_of_retiring),
        cmocka_unit_test(drain_waits_for_what_releases_retire),
        cmocka_unit_test(leaving_hands_over),
        cmocka_unit_test(stop_releases_the_rest),
    };
    return cmocka_run_group_tests_name("rcu", tests, start, stop);
}
