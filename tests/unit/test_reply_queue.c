/* Replies under way: in order, each after its round trip, without copies of their bytes. */
#include "bench/sink/reply_queue.h"
#include "tests/unit/unit.h"

static void test_round_trip(void **state)
{
    struct reply_queue q = {0};
    (void)state;
    assert_true(reply_queue_next(&q) == USEC_NEVER);
    reply_queue_add(&q, 10, 0, 1100);
    reply_queue_add(&q, 25, 1, 1100); /* at the same time: the same mark */
    reply_queue_add(&q, 30, 2, 1140);
    assert_int_equal(q.count, 2);
    assert_int_equal(reply_queue_held(&q), 30);
    assert_int_equal(reply_queue_next(&q), 1100);
    assert_int_equal(reply_queue_release(&q, 1099), 0);
    assert_int_equal(q.released, 0);
    assert_int_equal(reply_queue_release(&q, 1100), 1);
    assert_int_equal(q.released, 25);
    assert_int_equal(reply_queue_held(&q), 5);
    assert_int_equal(reply_queue_next(&q), 1140);
    assert_int_equal(reply_queue_release(&q, 5000), 2);
    assert_int_equal(q.released, 30);
    assert_true(reply_queue_next(&q) == USEC_NEVER);
    reply_queue_fini(&q);
}

static void test_no_round_trip(void **state)
{
    struct reply_queue q = {0};
    (void)state;
    for (uint64_t i = 1; i <= 100; i++) {
        reply_queue_add(&q, 7 * i, 1, (usec_t)i);
        assert_int_equal(reply_queue_release(&q, (usec_t)i), 1);
        assert_int_equal(q.released, 7 * i);
    }
    assert_int_equal(q.capacity, 8); /* it goes round */
    reply_queue_fini(&q);
}

/* More marks than there was room for, begun in the middle of the ring. */
static void test_grows_in_order(void **state)
{
    struct reply_queue q = {0};
    uint64_t end = 0;
    (void)state;
    for (usec_t i = 0; i < 5; i++) {
        reply_queue_add(&q, ++end, 1, 1000 + i);
    }
    assert_int_equal(reply_queue_release(&q, 1003), 4);
    for (usec_t i = 5; i < 500; i++) {
        reply_queue_add(&q, ++end, 1, 1000 + i);
    }
    for (usec_t i = 4; i < 500; i++) {
        assert_int_equal(reply_queue_next(&q), 1000 + i);
        assert_int_equal(reply_queue_release(&q, 1000 + i), 1);
        assert_int_equal(q.released, i + 1);
    }
    reply_queue_fini(&q);
}

/* Where round trips differ, a quick reply waits for the slow one before it. */
static void test_keeps_order(void **state)
{
    struct reply_queue q = {0};
    (void)state;
    reply_queue_add(&q, 10, 1, 300);
    reply_queue_add(&q, 20, 1, 200);
    reply_queue_add(&q, 30, 1, 400);
    assert_int_equal(reply_queue_release(&q, 299), 0);
    assert_int_equal(reply_queue_release(&q, 300), 2);
    assert_int_equal(q.released, 20);
    assert_int_equal(reply_queue_release(&q, 400), 1);
    reply_queue_fini(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_no_round_trip),
        cmocka_unit_test(test_grows_in_order),
        cmocka_unit_test(test_keeps_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
