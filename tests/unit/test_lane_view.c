/* Which state a lane is shown in, and until when, by what its core and struct limits say of it. */
#include "engine/lane/lane_view.h"
#include "tests/unit/unit.h"

#include <string.h>

#define NOW            (1000 * USEC_PER_SEC)
#define WALL           (1800000000 * USEC_PER_SEC)
#define LATER(seconds) (WALL + (seconds)*USEC_PER_SEC)

static enum lane_state state_of(const struct sched_lane_view *core,
                                const struct limit_lane_report *limits, usec_t *until)
{
    return lane_view_state(core, limits, NOW, WALL, until);
}

static void states_of_limits(void **state)
{
    struct limit_lane_report r = {0};
    usec_t until;
    (void)state;
    assert_int_equal(state_of(NULL, &r, &until), LANE_OPEN);
    assert_int_equal(until, 0);
    r.paces[1] = 3;
    assert_int_equal(state_of(NULL, &r, &until), LANE_PACED);
    assert_int_equal(until, 0);
    r.pace_until[1] = WALL - 1; /* it is due: nothing keeps its next trial */
    assert_int_equal(state_of(NULL, &r, &until), LANE_PACED);
    r.pace_until[1] = LATER(5);
    r.paces[0] = 9;
    assert_int_equal(state_of(NULL, &r, &until), LANE_PAUSED);
    assert_int_equal(until, LATER(5));
    r.paused_until = LATER(60);
    assert_int_equal(state_of(NULL, &r, &until), LANE_PAUSED);
    assert_int_equal(until, LATER(60));
    r.state.is_closed = true;
    r.state.until = LATER(900);
    assert_int_equal(state_of(NULL, &r, &until), LANE_CLOSED);
    assert_int_equal(until, LATER(900));
    r.is_probing = true;
    assert_int_equal(state_of(NULL, &r, &until), LANE_PROBING);
    assert_int_equal(until, 0);
    /* What an operator closed is not probed: what else stands of it is seen again. */
    r.is_ordered = true;
    assert_int_equal(state_of(NULL, &r, &until), LANE_PAUSED);
    assert_int_equal(until, LATER(60));
}

static void states_of_cores(void **state)
{
    struct sched_lane_view core = {.state = SCHED_LANE_READY};
    struct limit_lane_report r = {0};
    usec_t until;
    (void)state;
    assert_int_equal(state_of(&core, &r, &until), LANE_OPEN);
    core.state = SCHED_LANE_DEAD;
    core.state_until = NOW + 30 * USEC_PER_SEC;
    assert_int_equal(state_of(&core, &r, &until), LANE_DEAD);
    assert_int_equal(until, LATER(30));
    r.paces[0] = 1; /* it would not be kept to it now */
    assert_int_equal(state_of(&core, &r, &until), LANE_DEAD);
    r.state.is_closed = true;
    r.state.until = LATER(7);
    assert_int_equal(state_of(&core, &r, &until), LANE_CLOSED);
    assert_int_equal(until, LATER(7));
    /* Without limits the core alone says it. */
    core.state = SCHED_LANE_CLOSED;
    assert_int_equal(state_of(&core, NULL, &until), LANE_CLOSED);
    assert_int_equal(until, LATER(30));
    core.state = SCHED_LANE_PROBING;
    core.state_until = 0;
    assert_int_equal(state_of(&core, NULL, &until), LANE_PROBING);
    assert_int_equal(until, 0);
    assert_int_equal(state_of(NULL, NULL, &until), LANE_OPEN);
}

static void waiting(void **state)
{
    struct limit_lane_report r = {.waits_for = LIMIT_BY_QUOTA, .waits_until = LATER(5)};
    (void)state;
    assert_int_equal(lane_view_waits(&r, WALL), LIMIT_BY_QUOTA);
    assert_int_equal(lane_view_waits(&r, LATER(5)), LIMIT_NO_CAUSE);
    r.waits_until = 0; /* nobody knows */
    assert_int_equal(lane_view_waits(&r, WALL), LIMIT_BY_QUOTA);
}

/* A lane that nobody holds is named as its site would be. */
static void remembered_names(void **state)
{
    struct limit_lane_report r = {.source = "s1", .site = "provider:x", .hosts = "mx.a,mx.b"};
    struct lane_view v;
    (void)state;
    lane_view_remembered(&r, &v);
    assert_true(slice_eq(v.site, SLICE("provider:x/mx.a,mx.b")));
    assert_true(slice_eq(v.source, SLICE("s1")));
    assert_int_equal(v.transport, LANE_NO_TRANSPORT);
    r.hosts[0] = '\0';
    lane_view_remembered(&r, &v);
    assert_true(slice_eq(v.site, SLICE("provider:x")));
    memset(r.site, 's', LIMITS_NAME_MAX);
    memset(r.hosts, 'h', LIMITS_NAME_MAX);
    lane_view_remembered(&r, &v);
    assert_int_equal(v.site.len, 2 * LIMITS_NAME_MAX + 1);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_of_limits),
        cmocka_unit_test(states_of_cores),
        cmocka_unit_test(waiting),
        cmocka_unit_test(remembered_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
