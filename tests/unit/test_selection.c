/* The vectors PR and BL: whose turn it is among destinations and jobs. */
#include "sched/selection.h"
#include "sched/transport.h"
#include "tests/unit/sched_bed.h"

/* PR-1 */
static void peers_in_turn(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.destination_recipient_limit = 2;
    bed_open(&b);
    bed_message(&b, 'A', "a1@aa a2@aa a3@aa a4@aa a5@aa b1@bb c1@cc c2@cc c3@cc");
    assert_string_equal(bed_select(&b), "A aa a1@aa,a2@aa");
    assert_string_equal(bed_select(&b), "A bb b1@bb");
    assert_string_equal(bed_select(&b), "A cc c1@cc,c2@cc");
    assert_string_equal(bed_select(&b), "A aa a3@aa,a4@aa");
    assert_string_equal(bed_select(&b), "A cc c3@cc");
    assert_string_equal(bed_select(&b), "A aa a5@aa");
    assert_string_equal(bed_select(&b), "none");
    bed_close(&b);
}

/* BL-1 */
static void blockers(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.destination_concurrency_limit = 1;
    b.config.destination_recipient_limit = 2;
    bed_open(&b);
    bed_message(&b, 'A', "a1@aa a2@aa a3@aa a4@aa");
    bed_message(&b, 'B', "b1@aa");
    bed_message(&b, 'C', "c1@bb");
    assert_string_equal(bed_select(&b), "A aa a1@aa,a2@aa");
    assert_string_equal(bed_select(&b), "C bb c1@bb");
    assert_string_equal(bed_select(&b), "none");
    bed_report(&b, 1, BED_OK);
    assert_string_equal(bed_select(&b), "A aa a3@aa,a4@aa");
    assert_string_equal(bed_select(&b), "none");
    bed_report(&b, 3, BED_OK);
    assert_string_equal(bed_select(&b), "B aa b1@aa");
    bed_close(&b);
}

/* BL-2 */
static void blocked_jobs_are_passed(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.destination_concurrency_limit = 2;
    bed_open(&b);
    bed_message(&b, 'A', "a@aa");
    bed_message(&b, 'B', "b@aa");
    bed_message(&b, 'C', "c@aa");
    bed_message(&b, 'D', "d@bb");
    assert_string_equal(bed_select(&b), "A aa a@aa");
    assert_string_equal(bed_select(&b), "B aa b@aa");
    assert_string_equal(bed_select(&b), "D bb d@bb");
    assert_string_equal(bed_select(&b), "none");
    bed_report(&b, 1, BED_OK);
    assert_string_equal(bed_select(&b), "C aa c@aa");
    bed_close(&b);
}

/* With all windows full, a deep queue is not walked: its jobs are not even marked. */
static void no_look_in_vain(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.destination_concurrency_limit = 1;
    bed_open(&b);
    bed_message(&b, 'A', "a@aa");
    bed_message(&b, 'B', "b@aa");
    assert_string_equal(bed_select(&b), "A aa a@aa");
    assert_string_equal(bed_select(&b), "none");
    assert_int_equal(b.sched->with_work[OPEN_NOW] + b.sched->with_work[OPEN_SLOT], 0);
    assert_ptr_equal(b.sched->flow.current, job_find(b.sched, 'B'));
    assert_false(job_is_blocked(job_find(b.sched, 'B')));
    bed_message(&b, 'C', "c@cc");
    assert_string_equal(bed_select(&b), "C cc c@cc");
    assert_true(job_is_blocked(job_find(b.sched, 'B')));
    bed_report(&b, 1, BED_OK);
    assert_string_equal(bed_select(&b), "B aa b@aa");
    bed_close(&b);
}

static void hold_selects_nothing(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.hold = true;
    bed_open(&b);
    bed_message(&b, 'A', "a@aa");
    assert_string_equal(bed_select(&b), "none");
    const struct sched_destination_view v = bed_view(&b, "aa");
    assert_int_equal(v.why, SCHED_WHY_HOLD);
    sched_set_hold(b.sched, false, 0);
    assert_string_equal(bed_select(&b), "A aa a@aa");
    sched_set_hold(b.sched, true, 0);
    bed_message(&b, 'B', "b@bb");
    assert_string_equal(bed_select(&b), "none");
    bed_close(&b);
}

/* 2.6: one delivery at a time, each after the delay. */
static void transport_rate_delay(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.transport_rate_delay = 2 * USEC_PER_SEC;
    bed_open(&b);
    assert_string_equal(bed_select(&b), "none");
    assert_true(sched_wake_at(b.sched) == USEC_NEVER);
    bed_message(&b, 'A', "a@aa b@bb");
    assert_string_equal(bed_select(&b), "none");
    assert_true(sched_wake_at(b.sched) == 2 * USEC_PER_SEC);
    b.now = 2 * USEC_PER_SEC;
    assert_string_equal(bed_select(&b), "A aa a@aa");
    bed_advance(&b, 100);
    assert_string_equal(bed_select(&b), "none");
    const struct sched_destination_view v = bed_view(&b, "bb");
    assert_int_equal(v.why, SCHED_WHY_TRANSPORT_RATE_DELAY);
    bed_report(&b, 1, BED_OK);
    assert_string_equal(bed_select(&b), "none");
    b.now += USEC_PER_SEC;
    assert_string_equal(bed_select(&b), "none");
    b.now += USEC_PER_SEC;
    assert_string_equal(bed_select(&b), "A bb b@bb");
    bed_close(&b);
}

/* The delay ran, but its entry could not be selected any more: the transport is free again. */
static void transport_rate_lock_is_released(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.transport_rate_delay = 2 * USEC_PER_SEC;
    b.config.must_resolve = true;
    bed_open(&b);
    bed_message(&b, 'A', "a@aa");
    assert_string_equal(bed_select(&b), "none");
    b.now = 2 * USEC_PER_SEC;
    assert_string_equal(bed_select(&b), "none");
    bed_resolved(&b, 0, SCHED_RESOLVED, &b, USEC_NEVER);
    assert_string_equal(bed_select(&b), "none");
    b.now = 4 * USEC_PER_SEC;
    assert_string_equal(bed_select(&b), "A aa a@aa");
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peers_in_turn),
        cmocka_unit_test(blockers),
        cmocka_unit_test(blocked_jobs_are_passed),
        cmocka_unit_test(no_look_in_vain),
        cmocka_unit_test(hold_selects_nothing),
        cmocka_unit_test(transport_rate_delay),
        cmocka_unit_test(transport_rate_lock_is_released),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
