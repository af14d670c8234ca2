/* The bound on what a crash can repeat, from one configuration to another: never less than what can
 * happen. */
#include "engine/state/dispatch_bound.h"
#include "tests/unit/unit.h"

static const struct dispatch_bound large = {.undurable = 7000, .entry = 50};
static const struct dispatch_bound small = {.undurable = 2500, .entry = 5};

static void assert_bound(struct dispatch_bound b, uint64_t undurable, uint64_t entry)
{
    assert_int_equal(b.undurable, undurable);
    assert_int_equal(b.entry, entry);
}

static void an_entry_of_each_thread(void **state)
{
    assert_int_equal(dispatch_bound_deliveries(&large, 1), 7050);
    assert_int_equal(dispatch_bound_deliveries(&large, 4), 7200);
}

static void more_is_taken_at_once(void **state)
{
    assert_bound(dispatch_bound_next(&small, &large, 2400, 5), 7000, 50);
    assert_bound(dispatch_bound_next(&small, &large, 2504, 50), 7000, 50);
}

/* What is in flight by the old limits comes first, and schedulers that do not know the new ones. */
static void less_waits_for_what_is_larger(void **state)
{
    assert_bound(dispatch_bound_next(&large, &small, 2501, 5), 7000, 50);
    assert_bound(dispatch_bound_next(&large, &small, 0, 6), 7000, 50);
    assert_bound(dispatch_bound_next(&large, &small, 2500, 5), 2500, 5);
}

/* Fewer connections with larger entries: the scheduler that has them must not wait for the end of
 * what is in flight. */
static void more_and_less_at_once(void **state)
{
    const struct dispatch_bound mixed = {.undurable = 3000, .entry = 400};
    assert_bound(dispatch_bound_next(&large, &mixed, 6000, 400), 7000, 400);
    const struct dispatch_bound between = dispatch_bound_next(&large, &mixed, 6000, 400);
    assert_bound(dispatch_bound_next(&between, &mixed, 2000, 400), 3000, 400);
    assert_bound(dispatch_bound_least(&large, &mixed), 3000, 50);
    assert_bound(dispatch_bound_least(&mixed, &large), 3000, 50);
    assert_true(dispatch_bound_is_same(&mixed, &mixed));
    assert_false(dispatch_bound_is_same(&mixed, &large));
    assert_false(
        dispatch_bound_is_same(&mixed, &(struct dispatch_bound){.undurable = 3000, .entry = 50}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_of_each_thread),
        cmocka_unit_test(more_is_taken_at_once),
        cmocka_unit_test(less_waits_for_what_is_larger),
        cmocka_unit_test(more_and_less_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
