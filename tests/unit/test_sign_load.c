/* Which thread gets the next message to sign. */
#include "engine/post/sign_load.h"
#include "tests/unit/unit.h"

static struct sign_load loads[3];

static int set_up(void **state)
{
    for (size_t i = 0; i < 3; i++) {
        atomic_store(&loads[i].waiting, 0);
        atomic_store(&loads[i].pace, 0);
    }
    return 0;
}

/* So many messages are sent to whoever is picked. returns: how many of them the first thread got */
static size_t send(size_t messages)
{
    size_t first = 0;
    for (size_t i = 0; i < messages; i++) {
        uint32_t at = sign_load_pick(loads, 3);
        first += at == 0;
        sign_load_add(&loads[at]);
    }
    return first;
}

static void expect_waiting(uint32_t first, uint32_t second, uint32_t third)
{
    assert_int_equal(atomic_load(&loads[0].waiting), first);
    assert_int_equal(atomic_load(&loads[1].waiting), second);
    assert_int_equal(atomic_load(&loads[2].waiting), third);
}

static void set_pace(usec_t each)
{
    for (size_t i = 0; i < 3; i++) {
        sign_load_learn(&loads[i], 10, 10 * each);
    }
}

static void few_messages_share_a_thread(void **state)
{
    set_pace(50);
    assert_int_equal(send(10), 10);
    sign_load_take(&loads[0], 10);
    assert_int_equal(send(10), 10);
    expect_waiting(10, 0, 0);
}

static void no_message_waits_long_while_a_thread_has_nothing_to_do(void **state)
{
    set_pace(250);
    assert_int_equal(send(20), 8); /* 2 ms */
    expect_waiting(8, 8, 4);
    set_up(state);
    set_pace(5000); /* one of these takes longer than a message may wait */
    assert_int_equal(send(3), 1);
    expect_waiting(1, 1, 1);
}

static void a_fast_key_has_a_bound_of_messages(void **state)
{
    set_pace(1);
    assert_int_equal(send(40), SIGN_LOAD_MAX);
    expect_waiting(SIGN_LOAD_MAX, 8, 0);
}

static void before_anything_is_known_the_key_may_be_a_slow_one(void **state)
{
    assert_int_equal(send(9), 8);
    expect_waiting(8, 1, 0);
}

static void when_all_have_much_the_shortest_wait_is_best(void **state)
{
    set_pace(250);
    (void)send(300);
    expect_waiting(100, 100, 100);
    sign_load_take(&loads[1], 5);
    assert_int_equal(send(5), 0);
    expect_waiting(100, 100, 100);
    sign_load_learn(&loads[2], 1, 100); /* it is faster than the others by now */
    (void)send(1);
    expect_waiting(100, 100, 101);
}

/* A thread that was held up once, as others needed its processor, has its pace back soon. */
static void a_pace_is_a_mean(void **state)
{
    set_pace(50);
    sign_load_learn(&loads[0], 1, 4050);
    assert_int_equal(atomic_load(&loads[0].pace), (50 * 7 + 4050) / 8 * 16);
    for (int i = 0; i < 60; i++) {
        sign_load_learn(&loads[0], 16, 16 * 50);
    }
    assert_in_range(atomic_load(&loads[0].pace), 50 * 16, 51 * 16);
    sign_load_learn(&loads[1], 16, 0); /* the clock stood still */
    assert_true(atomic_load(&loads[1].pace) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(few_messages_share_a_thread, set_up),
        cmocka_unit_test_setup(no_message_waits_long_while_a_thread_has_nothing_to_do, set_up),
        cmocka_unit_test_setup(a_fast_key_has_a_bound_of_messages, set_up),
        cmocka_unit_test_setup(before_anything_is_known_the_key_may_be_a_slow_one, set_up),
        cmocka_unit_test_setup(when_all_have_much_the_shortest_wait_is_best, set_up),
        cmocka_unit_test_setup(a_pace_is_a_mean, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
