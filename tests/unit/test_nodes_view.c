/* Who has a spool, as the nodes tell that were heard: nobody only as long as somebody would have been. */
#include "engine/nodes/nodes.h"
#include "tests/unit/unit.h"

static struct nodes_view view;
static const usec_t now = 1000 * USEC_PER_SEC;

static int setup(void **state)
{
    view = (struct nodes_view){.is_joined = true, .heard = now - MEMBER_BEAT, .count = 1};
    view.nodes[0].entry.number = 3;
    return 0;
}

static void its_node_says_so(void **state)
{
    assert_int_equal(nodes_view_holder(&view, 0, now, 3), HOLDER_RUNS);
    view.nodes[0].state = MEMBER_LAPSED;
    assert_int_equal(nodes_view_holder(&view, 0, now, 3), HOLDER_RUNS);
    view.nodes[0].state = MEMBER_GONE;
    assert_int_equal(nodes_view_holder(&view, 0, now, 3), HOLDER_GONE);
    view.nodes[0].entry.is_leaving = true;
    assert_int_equal(nodes_view_holder(&view, 0, now, 3), HOLDER_LEFT);
    view.is_joined = false;
    assert_int_equal(nodes_view_holder(&view, 0, now, 3), HOLDER_UNKNOWN);
}

/* Else a node that joins while our watch hears nothing would be taken over a minute later. */
static void nobody_has_it_only_if_all_were_heard(void **state)
{
    assert_int_equal(nodes_view_holder(&view, 0, now, 4), HOLDER_NONE);
    assert_int_equal(nodes_view_holder(&view, now - USEC_PER_SEC, now, 4), HOLDER_UNKNOWN);
    assert_int_equal(nodes_view_holder(&view, now - MEMBER_GONE_AFTER, now, 4), HOLDER_NONE);
    view.heard = now - MEMBER_LAPSED_AFTER;
    assert_int_equal(nodes_view_holder(&view, 0, now, 4), HOLDER_UNKNOWN);
    assert_int_equal(nodes_view_holder(&view, 0, now, 3), HOLDER_RUNS);
    view.heard = 0; /* nothing yet */
    assert_int_equal(nodes_view_holder(&view, 0, now, 4), HOLDER_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(its_node_says_so, setup),
        cmocka_unit_test_setup(nobody_has_it_only_if_all_were_heard, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
