/* Which destinations stand apart from their site: for an hour each, and no more than there is room for. */
#include "engine/schedule/apart.h"
#include "tests/unit/unit.h"

#include <stdio.h>

#define SECOND USEC_PER_SEC
#define HOUR   (3600 * SECOND)

static struct apart apart;

static int set_up(void **state)
{
    apart = (struct apart){.next = 0};
    return 0;
}

static void a_destination_stands_apart_for_an_hour(void **state)
{
    usec_t now = 5 * SECOND;
    assert_false(apart_has(&apart, SLICE("a.test"), now));
    apart_add(&apart, SLICE("a.test"), now);
    assert_true(apart_has(&apart, SLICE("a.test"), now));
    assert_false(apart_has(&apart, SLICE("b.test"), now));
    assert_true(apart_has(&apart, SLICE("a.test"), now + HOUR - 1));
    assert_false(apart_has(&apart, SLICE("a.test"), now + HOUR));
}

/* It is found out once more meanwhile, by refusals that were on their way. */
static void what_is_said_twice_takes_one_place_and_lasts_no_longer(void **state)
{
    apart_add(&apart, SLICE("a.test"), SECOND);
    apart_add(&apart, SLICE("a.test"), 2 * SECOND);
    assert_int_equal(apart.next, 1);
    assert_false(apart_has(&apart, SLICE("a.test"), SECOND + HOUR));
    apart_add(&apart, SLICE("a.test"), SECOND + HOUR); /* and after its hour it may again */
    assert_true(apart_has(&apart, SLICE("a.test"), SECOND + HOUR));
}

static void one_more_than_there_is_room_for_displaces_the_oldest(void **state)
{
    char name[32];
    for (int i = 0; i <= APART_MOST; i++) {
        (void)snprintf(name, sizeof(name), "d%d.test", i);
        apart_add(&apart, slice_of(name), SECOND + i);
    }
    assert_false(apart_has(&apart, SLICE("d0.test"), 2 * SECOND));
    for (int i = 1; i <= APART_MOST; i++) {
        (void)snprintf(name, sizeof(name), "d%d.test", i);
        assert_true(apart_has(&apart, slice_of(name), 2 * SECOND));
    }
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_destination_stands_apart_for_an_hour),
        TEST(what_is_said_twice_takes_one_place_and_lasts_no_longer),
        TEST(one_more_than_there_is_room_for_displaces_the_oldest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
