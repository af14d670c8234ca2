/* When a number that has parts of limits, but no entry, counts as late. */
#include "engine/cluster/member.h"
#include "engine/nodes/unseen_numbers.h"
#include "tests/unit/unit.h"

enum { NEVER = 0, HERE = 7 };

static const usec_t FIRST = 1000 * USEC_PER_SEC;

/* What is heard at that time, with all heard until then. */
static bool meets(struct unseen_numbers *u, uint16_t number, usec_t overlooked, usec_t now)
{
    return unseen_numbers_meet(u, number, overlooked, now, now);
}

static void it_is_late_when_no_entry_came(void **state)
{
    struct unseen_numbers u = {.count = 0};
    assert_false(meets(&u, HERE, NEVER, FIRST));
    assert_false(meets(&u, HERE, NEVER, FIRST + MEMBER_LATE_AFTER - 1));
    assert_true(meets(&u, HERE, NEVER, FIRST + MEMBER_LATE_AFTER));
    assert_false(meets(&u, HERE + 1, NEVER, FIRST + MEMBER_LATE_AFTER));
}

static void what_was_not_heard_is_no_silence(void **state)
{
    struct unseen_numbers u = {.count = 0};
    const usec_t later = FIRST + 9 * MEMBER_LATE_AFTER;
    assert_false(unseen_numbers_meet(&u, HERE, NEVER, FIRST, FIRST));
    assert_false(unseen_numbers_meet(&u, HERE, NEVER, FIRST + MEMBER_LATE_AFTER - 1, later));
    assert_true(unseen_numbers_meet(&u, HERE, NEVER, FIRST + MEMBER_LATE_AFTER, later));
}

/* A node of a newer version puts an entry of a format that is not known here, each MEMBER_BEAT, and ends. */
static void one_that_cannot_be_read_may_be_its_node(void **state)
{
    struct unseen_numbers u = {.count = 0};
    usec_t told = FIRST - MEMBER_BEAT;
    for (usec_t now = FIRST; now < FIRST + 9 * MEMBER_LATE_AFTER; now += USEC_PER_SEC) {
        told = now - told >= MEMBER_BEAT ? now : told;
        assert_false(meets(&u, HERE, told, now));
    }
    assert_false(meets(&u, HERE, told, told + MEMBER_LATE_AFTER - 1));
    assert_true(meets(&u, HERE, told, told + MEMBER_LATE_AFTER));
}

static void too_many_are_never_late(void **state)
{
    struct unseen_numbers u = {.count = 0};
    for (uint16_t number = 1; number <= UNSEEN_NUMBERS_MAX; number++) {
        assert_false(meets(&u, number, NEVER, FIRST));
    }
    assert_false(meets(&u, UNSEEN_NUMBERS_MAX + 1, NEVER, FIRST));
    assert_false(meets(&u, UNSEEN_NUMBERS_MAX + 1, NEVER, FIRST + 2 * MEMBER_LATE_AFTER));
    assert_true(meets(&u, UNSEEN_NUMBERS_MAX, NEVER, FIRST + 2 * MEMBER_LATE_AFTER));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_late_when_no_entry_came),
        cmocka_unit_test(what_was_not_heard_is_no_silence),
        cmocka_unit_test(one_that_cannot_be_read_may_be_its_node),
        cmocka_unit_test(too_many_are_never_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
