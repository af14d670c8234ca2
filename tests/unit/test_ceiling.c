/* Ceilings of connections and of messages a connection. */
#include "base/error.h"
#include "sched/limit/ceiling.h"
#include "tests/unit/unit.h"

#define START (1000 * USEC_PER_SEC)
#define STEP  CEILING_STEP_SPAN

static void none_permits_all(void **state)
{
    struct ceiling c = {0};
    struct ceiling_memory kept;
    (void)state;
    assert_true(ceiling_permits(&c, 1000000, START));
    assert_true(ceiling_due(&c) == USEC_NEVER);
    assert_false(ceiling_remember(&c, START, &kept));
}

static void refusal_sets_it(void **state)
{
    struct ceiling c = {0};
    (void)state;
    ceiling_refused(&c, 5, START);
    assert_true(ceiling_permits(&c, 4, START));
    assert_false(ceiling_permits(&c, 5, START));
    /* with more on their way at the next refusal it does not rise */
    ceiling_refused(&c, 7, START + 1);
    assert_int_equal(c.limit, 5);
    ceiling_refused(&c, 0, START + 2);
    assert_int_equal(c.limit, 1);
}

/* Sessions refused at the same count, three times, are a limit; others are not. */
static void the_same_count_again_is_a_limit(void **state)
{
    struct ceiling_doubt d = {0};
    (void)state;
    assert_int_equal(ceiling_doubt_refused(&d, 10, START), CEILING_UNKNOWN);
    ceiling_doubt_accepted(&d, 10, START + 1);
    assert_int_equal(ceiling_doubt_refused(&d, 10, START + 2), CEILING_UNKNOWN);
    assert_int_equal(ceiling_doubt_refused(&d, 10, START + 3), CEILING_SAID);
    /* a session that goes beyond it contradicts, for a while */
    ceiling_doubt_accepted(&d, 11, START + 4);
    assert_int_equal(ceiling_doubt_refused(&d, 10, START + 5), CEILING_DENIED);
    assert_int_equal(ceiling_doubt_refused(&d, 7, START + 6), CEILING_DENIED);
    usec_t later = START + 6 + CEILING_DOUBT_SPAN;
    assert_int_equal(ceiling_doubt_refused(&d, 7, later), CEILING_UNKNOWN);
    assert_int_equal(ceiling_doubt_refused(&d, 8, later + 1), CEILING_DENIED);
    /* and what is said three times is true, whatever was before */
    ceiling_doubt_accepted(&d, 9, later + 2);
    assert_int_equal(ceiling_doubt_refused(&d, 5, later + 3), CEILING_DENIED);
    assert_int_equal(ceiling_doubt_refused(&d, 5, later + 4), CEILING_DENIED);
    assert_int_equal(ceiling_doubt_refused(&d, 5, later + 5), CEILING_SAID);
}

static void rises_by_one_while_it_binds(void **state)
{
    struct ceiling c = {0};
    (void)state;
    ceiling_refused(&c, 5, START);
    assert_false(ceiling_permits(&c, 5, START + STEP - 1));
    assert_true(ceiling_due(&c) == START + STEP);
    assert_true(ceiling_permits(&c, 5, START + STEP));
    assert_int_equal(c.limit, 6);
    /* nobody needed more: no step */
    assert_true(ceiling_permits(&c, 3, START + 9 * STEP));
    assert_int_equal(c.limit, 6);
    assert_false(ceiling_permits(&c, 6, START + 9 * STEP));
    assert_true(ceiling_permits(&c, 6, START + 10 * STEP));
    ceiling_refused(&c, 5, START + 10 * STEP);
    assert_int_equal(c.limit, 5);
    assert_false(ceiling_permits(&c, 5, START + 11 * STEP - 1));
}

static void is_forgotten_beyond_four_times(void **state)
{
    struct ceiling c = {0};
    usec_t now = START;
    (void)state;
    ceiling_refused(&c, 2, now);
    for (uint32_t i = 2; i < 9; i++) {
        assert_int_equal(c.limit, i);
        assert_false(ceiling_permits(&c, i, now));
        now += STEP;
        assert_true(ceiling_permits(&c, i, now));
    }
    assert_int_equal(c.limit, 0);
}

/* Twenty connect at once and five are accepted: whatever the order of the replies, it is five. */
static void refused_before_the_others_were_accepted(void **state)
{
    struct ceiling c = {0};
    struct ceiling_count n = {0};
    (void)state;
    ceiling_count_opened(&n, &c, START);
    for (int i = 0; i < 8; i++) {
        ceiling_count_refused(&n, &c, START + 10);
    }
    assert_int_equal(c.limit, 1);
    for (int i = 0; i < 4; i++) {
        ceiling_count_opened(&n, &c, START + 20);
    }
    for (int i = 0; i < 7; i++) {
        ceiling_count_refused(&n, &c, START + 30);
    }
    assert_int_equal(c.limit, 5);
    assert_false(ceiling_permits(&c, n.open, START + 40));
    /* one ends and the next comes before the receiver has noticed */
    ceiling_count_closed(&n, START + 50);
    ceiling_count_refused(&n, &c, START + 60);
    assert_int_equal(c.limit, 5);
    /* but not for ever */
    ceiling_count_closed(&n, START + 70);
    ceiling_count_refused(&n, &c, START + 3 * USEC_PER_SEC);
    assert_int_equal(c.limit, 3);
}

/* A place that became free is not taken again before the receiver knows. */
static void closed_ones_count_for_a_moment(void **state)
{
    struct ceiling c = {0};
    struct ceiling_count n = {0};
    (void)state;
    for (int i = 0; i < 3; i++) {
        ceiling_count_opened(&n, &c, START);
    }
    assert_int_equal(ceiling_count_held(&n, START + 1), 3);
    ceiling_count_closed(&n, START + 10);
    ceiling_count_closed(&n, START + 20);
    assert_int_equal(ceiling_count_held(&n, START + 30), 3);
    assert_int_equal(ceiling_count_held(&n, START + 20 + CEILING_CLOSE_SPAN), 1);
    ceiling_count_opened(&n, &c, START + USEC_PER_SEC);
    assert_int_equal(ceiling_count_held(&n, START + USEC_PER_SEC), 2);
}

static void is_remembered(void **state)
{
    struct ceiling c = {0}, again = {0};
    struct ceiling_memory kept;
    (void)state;
    ceiling_refused(&c, 5, START);
    assert_true(ceiling_remember(&c, START + 60 * USEC_PER_SEC, &kept));
    assert_int_equal(ceiling_recall(&again, &kept, 7), 0);
    assert_int_equal(again.limit, 5);
    assert_true(again.since == 7 - 60 * USEC_PER_SEC);
    assert_false(ceiling_permits(&again, 5, 7));
    kept.lowest = 6;
    assert_int_equal(ceiling_recall(&again, &kept, 7), ERR_SYNTAX);
    kept.lowest = 0;
    assert_int_equal(ceiling_recall(&again, &kept, 7), ERR_SYNTAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_permits_all),
        cmocka_unit_test(refusal_sets_it),
        cmocka_unit_test(the_same_count_again_is_a_limit),
        cmocka_unit_test(rises_by_one_while_it_binds),
        cmocka_unit_test(is_forgotten_beyond_four_times),
        cmocka_unit_test(refused_before_the_others_were_accepted),
        cmocka_unit_test(closed_ones_count_for_a_moment),
        cmocka_unit_test(is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
