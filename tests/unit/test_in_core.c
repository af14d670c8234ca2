/* The count of recipients in memory and the shares that messages have of it. */
#include "engine/post/in_core.h"
#include "engine/post/message.h"
#include "engine/state/engine.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

static void shares_add_up_to_the_total(void **state)
{
    struct engine *e = aligned_alloc(CACHE_LINE, sizeof(*e));
    struct message settled = {.envelope = {.id = 1}}, left = {.envelope = {.id = 2}};
    assert_non_null(e);
    memset(e, 0, sizeof(*e));
    in_core_add(e, &settled, 3);
    in_core_add(e, &left, 4);
    in_core_add(e, &settled, 2);
    assert_int_equal(in_core_count(e), 9);
    in_core_remove(e, &settled, 1);
    in_core_remove(e, &left, 1);
    in_core_remove(e, &settled, 4);
    in_core_settled(&settled);
    assert_int_equal(in_core_count(e), 3);
    in_core_abandon(e, &settled);
    assert_int_equal(in_core_count(e), 3);
    in_core_abandon(e, &left);
    assert_int_equal(in_core_count(e), 0);
    free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_add_up_to_the_total),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
