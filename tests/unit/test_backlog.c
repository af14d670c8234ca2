/* The states of the backlog, as they are drawn in engine/post/backlog.h. */
#include "engine/post/backlog.h"
#include "engine/state/engine.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

enum { FLOW = 70000 };

static struct engine *engine;
static struct backlog backlog;

static int set_up(void **state)
{
    engine = aligned_alloc(CACHE_LINE, sizeof(*engine));
    if (engine == NULL) {
        return -1;
    }
    memset(engine, 0, sizeof(*engine));
    backlog = (struct backlog){.flow = FLOW};
    backlog_grow(&backlog, engine); /* as at the start */
    return 0;
}

static int tear_down(void **state)
{
    free(engine);
    return 0;
}

static void pass(uint64_t place)
{
    backlog_pass(&backlog, place);
}

/* seen: by the writer */
static void expect(bool is_empty, bool is_readable, bool is_seen)
{
    assert_int_equal(backlog_is_empty(&backlog), is_empty);
    assert_int_equal(backlog_is_readable(&backlog), is_readable);
    assert_int_equal(backlog_is_seen(engine, FLOW), is_seen);
    assert_int_equal(backlog_is_any(engine), is_seen);
    assert_false(backlog_is_seen(engine, FLOW + 1));
}

static void mail_of_an_earlier_run_is_read_first(void **state)
{
    expect(false, true, true);
    pass(3);
    expect(false, true, true);
    assert_true(backlog_has_passed(&backlog, 3) && !backlog_has_passed(&backlog, 4));
    backlog_end(&backlog, engine);
    expect(true, false, false);
}

static void mail_that_is_announced_is_read(void **state)
{
    backlog_end(&backlog, engine);
    backlog_grow(&backlog, engine);
    expect(false, true, true);
    pass(5);
    backlog_end(&backlog, engine);
    expect(true, false, false);
    pass(6); /* from memory */
    expect(true, false, false);
    assert_true(backlog_has_passed(&backlog, 6));
}

static void mail_that_went_back_is_awaited(void **state)
{
    backlog_end(&backlog, engine);
    pass(5);
    backlog_return(&backlog, engine, 6);
    expect(false, true, true);
    backlog_end(&backlog, engine); /* the tables do not have it yet */
    expect(false, false, true);
    backlog_return(&backlog, engine, 7); /* new mail queues behind it */
    expect(false, false, true);
    backlog_grow(&backlog, engine);
    expect(false, true, true);
    pass(6);
    backlog_end(&backlog, engine);
    expect(false, false, true);
    backlog_grow(&backlog, engine);
    pass(7);
    backlog_end(&backlog, engine);
    expect(true, false, false);
}

static void mail_that_went_back_may_be_found_before_its_letter(void **state)
{
    backlog_end(&backlog, engine);
    backlog_return(&backlog, engine, 6);
    pass(6);
    backlog_end(&backlog, engine);
    expect(true, false, false);
    assert_true(backlog_has_passed(&backlog, 6));
}

/* One that was taken gives its place back: the scan meets it again, and what was passed behind it. */
static void what_gives_its_place_back_is_read_again(void **state)
{
    pass(9);
    backlog_end(&backlog, engine);
    backlog_reopen(&backlog, engine, 9);
    expect(false, true, true);
    assert_false(backlog_has_passed(&backlog, 9));
    backlog_reopen(&backlog, engine, 7);
    backlog_reopen(&backlog, engine, 8);
    assert_true(backlog_has_passed(&backlog, 6) && !backlog_has_passed(&backlog, 7));
    pass(8);
    backlog_end(&backlog, engine); /* the journal alone has the last one */
    expect(false, false, true);
    backlog_grow(&backlog, engine);
    pass(9);
    backlog_end(&backlog, engine);
    expect(true, false, false);
}

/* Numbers of two flows fall on the same place. */
static void a_place_has_a_backlog_until_none_of_its_flows_has(void **state)
{
    struct backlog other = {.flow = FLOW + ENGINE_BACKLOG_PLACES};
    backlog_grow(&other, engine);
    backlog_grow(&other, engine);
    backlog_end(&backlog, engine);
    assert_true(backlog_is_empty(&backlog) && backlog_is_seen(engine, FLOW));
    backlog_end(&other, engine);
    expect(true, false, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(mail_of_an_earlier_run_is_read_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(mail_that_is_announced_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(mail_that_went_back_is_awaited, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_gives_its_place_back_is_read_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_place_has_a_backlog_until_none_of_its_flows_has, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(mail_that_went_back_may_be_found_before_its_letter, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
