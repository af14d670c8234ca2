/* The trap of the pipelined log, step by step; tests/sim/log_random tries it at random. */
#include "engine/cluster/log_prefix.h"
#include "tests/unit/unit.h"

static struct log_prefix begun(unsigned frames)
{
    struct log_prefix p;
    uint64_t serial;
    log_prefix_init(&p, 3, 10);
    for (unsigned i = 1; i <= frames; i++) {
        assert_true(log_prefix_next(&p, &serial));
        assert_int_equal(serial, i);
        assert_int_equal(log_prefix_place(&p, serial), 10 + i);
    }
    return p;
}

static void four_are_under_way_and_answers_have_no_order(void **state)
{
    uint64_t serial;
    struct log_prefix p = begun(LOG_IN_FLIGHT_MAX);
    assert_false(log_prefix_next(&p, &serial));
    log_prefix_stored(&p, 2, 12);
    log_prefix_stored(&p, 4, 14);
    assert_int_equal(p.acknowledged, 0);
    log_prefix_stored(&p, 1, 11);
    assert_int_equal(p.acknowledged, 2);
    log_prefix_stored(&p, 1, 11); /* twice */
    log_prefix_stored(&p, 3, 13);
    assert_int_equal(p.acknowledged, 4);
    assert_int_equal(p.prefix, 14);
    log_prefix_doubt(&p); /* nothing is under way: nothing to doubt */
    assert_true(log_prefix_next(&p, &serial));
    assert_int_equal(log_prefix_place(&p, serial), 15);
}

static void a_frame_behind_a_fence_is_not_acknowledged(void **state)
{
    struct log_prefix p = begun(2);
    log_prefix_refused(&p, 1, 11);
    log_prefix_stored(&p, 2, 12); /* the server says so, and it is true */
    assert_int_equal(p.mode, LOG_LOOKING);
    assert_int_equal(p.acknowledged, 0);
    log_prefix_found(&p, 11, &(struct log_frame_id){.epoch = 4});
    assert_int_equal(p.mode, LOG_FENCED);
    log_prefix_stored(&p, 1, 11);
    assert_int_equal(p.acknowledged, 0);
    struct log_reader r = {.epoch = 0};
    assert_int_equal(log_reader_take(&r, &(struct log_frame_id){.epoch = 3}), LOG_FENCE);
    assert_int_equal(log_reader_take(&r, &(struct log_frame_id){.epoch = 4}), LOG_FENCE);
    assert_int_equal(log_reader_take(&r, &(struct log_frame_id){3, 2}), LOG_VOID);
    assert_int_equal(log_reader_take(&r, &(struct log_frame_id){4, 2}), LOG_VOID);
    assert_int_equal(log_reader_take(&r, &(struct log_frame_id){4, 1}), LOG_COUNTS);
}

static void it_finds_itself_after_a_lost_answer(void **state)
{
    struct log_prefix p = begun(3);
    uint64_t serial;
    log_prefix_doubt(&p);
    assert_false(log_prefix_next(&p, &serial));
    log_prefix_found(&p, 11, &(struct log_frame_id){3, 1});
    assert_int_equal(p.acknowledged, 1);
    log_prefix_found(&p, 11, &(struct log_frame_id){3, 1}); /* asked twice */
    assert_int_equal(p.acknowledged, 1);
    log_prefix_nothing(&p, 12, 11);
    assert_int_equal(p.mode, LOG_WRITING); /* 2 and 3 are sent again, for the same places */
    assert_int_equal(log_prefix_place(&p, 2), 12);
    log_prefix_refused(&p, 2, 11); /* of another place: means nothing */
    assert_int_equal(p.mode, LOG_WRITING);
}

static void own_frames_move_behind_a_void_one(void **state)
{
    struct log_prefix p = begun(2);
    log_prefix_stored(&p, 2, 12);
    log_prefix_refused(&p, 1, 11);
    log_prefix_found(&p, 11, &(struct log_frame_id){2, 77}); /* fitted behind our fence */
    assert_int_equal(log_prefix_place(&p, 1), 12);
    log_prefix_found(&p, 12, &(struct log_frame_id){3, 2}); /* ours, but out of its order */
    assert_int_equal(log_prefix_place(&p, 1), 13);
    log_prefix_nothing(&p, 13, 12);
    log_prefix_stored(&p, 1, 13);
    log_prefix_stored(&p, 2, 14);
    assert_int_equal(p.acknowledged, 2);
    assert_int_equal(log_prefix_purge(&p, 0), 13);
    assert_int_equal(log_prefix_purge(&p, 10), 9);
    assert_int_equal(log_prefix_purge(&p, 99), 13);
}

static void what_was_purged_by_another_is_a_fence(void **state)
{
    struct log_prefix p = begun(1);
    log_prefix_doubt(&p);
    log_prefix_nothing(&p, 11, 20);
    assert_int_equal(p.mode, LOG_FENCED);
    p = begun(1);
    log_prefix_vanished(&p);
    assert_int_equal(p.mode, LOG_FENCED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_are_under_way_and_answers_have_no_order),
        cmocka_unit_test(a_frame_behind_a_fence_is_not_acknowledged),
        cmocka_unit_test(it_finds_itself_after_a_lost_answer),
        cmocka_unit_test(own_frames_move_behind_a_void_one),
        cmocka_unit_test(what_was_purged_by_another_is_a_fence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
