#include "sched/position.h"
#include "sched/transport.h"
#include "tests/unit/unit.h"

#define JOBS 3000

/* As many jobs as fit between two neighbours and more: room is made, the order stays, and what
 * selection has passed stays passed. */
static void room_is_made(void **state)
{
    static struct flow f;
    static struct job jobs[JOBS];
    list_init(&f.schedule);
    for (unsigned i = 0; i < JOBS; i++) {
        jobs[i].flow = &f;
    }
    position_insert_after(&jobs[0], &f.schedule);
    position_insert_after(&jobs[1], &jobs[0].in_schedule);
    f.passed = jobs[0].position + 1;
    for (unsigned i = 2; i < JOBS; i++) {
        /* Always in front of jobs[1], behind the one before. */
        position_insert_after(&jobs[i], jobs[1].in_schedule.prev);
        assert_true(jobs[0].position < f.passed && jobs[1].position >= f.passed);
    }
    uint64_t last = POSITION_NONE;
    unsigned count = 0;
    list_foreach(j, &f.schedule, struct job, in_schedule)
    {
        assert_true(j->position > last);
        last = j->position;
        count++;
    }
    assert_int_equal(count, JOBS);
}

static void front_and_end_have_room(void **state)
{
    static struct flow f;
    static struct job jobs[JOBS];
    list_init(&f.schedule);
    for (unsigned i = 0; i < JOBS; i++) {
        jobs[i].flow = &f;
    }
    for (unsigned i = 0; i < JOBS; i++) {
        position_insert_after(&jobs[i], i % 3 == 0 ? f.schedule.prev : &f.schedule);
    }
    uint64_t last = POSITION_NONE;
    list_foreach(j, &f.schedule, struct job, in_schedule)
    {
        assert_true(j->position > last);
        last = j->position;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(room_is_made),
        cmocka_unit_test(front_and_end_have_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
