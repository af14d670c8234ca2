/* First tries and later ones, in simulated time. */
#include "bench/sink/greylist.h"
#include "tests/unit/unit.h"

#include <stdio.h>

#define DELAY (300 * USEC_PER_SEC)

static void test_passes_after_the_delay(void **state)
{
    struct greylist g = {0};
    const uint8_t here[16] = {[15] = 1};
    const uint8_t there[16] = {[15] = 2};
    const struct slice a = SLICE("a@b.test");
    const struct slice x = SLICE("x@d1.test");
    (void)state;
    assert_false(greylist_pass(&g, here, a, x, DELAY, 1000));
    assert_false(greylist_pass(&g, here, a, x, DELAY, 1000 + DELAY - 1));
    assert_true(greylist_pass(&g, here, a, SLICE("X@D1.test"), DELAY, 1000 + DELAY));
    /* Anybody else begins anew. */
    assert_false(greylist_pass(&g, there, a, x, DELAY, 1000 + DELAY));
    assert_false(greylist_pass(&g, here, SLICE(""), x, DELAY, 1000 + DELAY));
    assert_false(greylist_pass(&g, here, a, SLICE("y@d1.test"), DELAY, 1000 + DELAY));
    assert_true(greylist_pass(&g, here, a, x, DELAY, 1000 + 2 * DELAY));
    assert_int_equal(g.count, 4);
    greylist_fini(&g);
}

static void test_remembers_many(void **state)
{
    struct greylist g = {0};
    const uint8_t client[16] = {0};
    char recipient[40];
    (void)state;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 5000; i++) {
            (void)snprintf(recipient, sizeof(recipient), "r%d@d.test", i);
            bool may_pass = greylist_pass(&g, client, SLICE("s@x.test"), slice_of(recipient), DELAY,
                                          i + round * DELAY);
            assert_int_equal(may_pass, round == 1);
        }
    }
    assert_int_equal(g.count, 5000);
    greylist_fini(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_passes_after_the_delay),
        cmocka_unit_test(test_remembers_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
