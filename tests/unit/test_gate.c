#include "sched/gate.h"
#include "tests/unit/sched_bed.h"

static enum sched_why why_of(struct bed *b, uint64_t id)
{
    struct sched_job_view v;
    uint64_t cursor = 0;
    while (sched_view_jobs(b->sched, &cursor, &v)) {
        if (v.message_id == id) {
            return v.why;
        }
    }
    fail_msg("no such job");
    return SCHED_WHY_NOTHING;
}

static void open_with(struct bed *b, int most, int scale, int process_limit)
{
    bed_init(b);
    b->config.max_message_concurrency = most;
    b->config.scale_max_concurrency = scale;
    b->config.process_limit = process_limit;
    b->config.delivery_slot_cost = 0;
    bed_open(b);
}

static unsigned select_all(struct bed *b)
{
    unsigned count = 0;
    while (strcmp(bed_select(b), "none") != 0) {
        count++;
    }
    return count;
}

static void there_is_no_cap_by_default(void **state)
{
    static struct bed b;
    open_with(&b, 0, 0, 20);
    bed_spread(&b, 'A', 30);
    assert_int_equal(select_all(&b), 20);
    bed_close(&b);
}

static void a_message_stays_below_the_maximum(void **state)
{
    static struct bed b;
    open_with(&b, 3, 0, 20);
    bed_spread(&b, 'A', 30);
    assert_int_equal(select_all(&b), 3);
    assert_int_equal(why_of(&b, 'A'), SCHED_WHY_MESSAGE_LIMIT);
    /* A gated job is passed over, not waited for. */
    bed_message(&b, 'B', "b@bb");
    assert_string_equal(bed_select(&b), "B bb b@bb");
    /* One of its own ends: it goes on. */
    bed_report(&b, 1, BED_OK);
    assert_int_equal(select_all(&b), 1);
    bed_close(&b);
}

static void the_maximum_scales_with_free_workers(void **state)
{
    static struct bed b;
    open_with(&b, 0, 10, 100);
    bed_spread(&b, 'A', 120);
    /* busy < 10 x (100 - busy): 91 % of an idle system. */
    assert_int_equal(select_all(&b), 91);
    bed_spread(&b, 'B', 120);
    assert_int_equal(select_all(&b), 9);
    /* The second takes over what the first gives up, while 10 x free workers allow it: 27 of the
     * 29 that the first does not hold any more. */
    for (unsigned i = 1; i <= 20; i++) {
        bed_report(&b, i, BED_OK);
        (void)select_all(&b);
    }
    assert_int_equal(b.delivered, 91 + 27);
    for (unsigned i = 101; i <= b.delivered; i++) {
        assert_int_equal(b.deliveries[i].letter, 'B');
    }
    bed_close(&b);
}

static void either_allowance_is_enough(void **state)
{
    static struct bed b;
    open_with(&b, 8, 1, 10);
    bed_spread(&b, 'A', 20);
    assert_int_equal(select_all(&b), 8); /* scaled alone it would be 5 */
    bed_close(&b);
}

static void a_gated_job_rides_on_idle_connections(void **state)
{
    static struct bed b;
    open_with(&b, 1, 0, 20);
    bed_message(&b, 'B', "b@bb");
    assert_string_equal(bed_select(&b), "B bb b@bb");
    bed_message(&b, 'A', "a@aa a@bb a@cc");
    assert_string_equal(bed_select(&b), "A aa a@aa");
    assert_string_equal(bed_select(&b), "none");
    bed_report_open(&b, 1);
    assert_string_equal(bed_select(&b), "A bb a@bb");
    assert_false(b.deliveries[b.delivered].is_new);
    assert_string_equal(bed_select(&b), "none");
    bed_close(&b);
}

/* It was passed over while the connection was full; the report that leaves room on it is another
 * message's. */
static void a_gated_job_rides_once_a_connection_has_room(void **state)
{
    static struct bed b;
    const struct sched_outcome two = {
        .feedback = SCHED_POSITIVE, .connection_open = true, .depth = 2};
    bed_init(&b);
    b.config.max_message_concurrency = 1;
    b.config.pipeline_depth = 16;
    b.config.initial_destination_concurrency = 1;
    b.config.destination_concurrency_limit = 1;
    b.config.delivery_slot_cost = 0;
    bed_open(&b);
    bed_message(&b, 'B', "b@bb");
    assert_string_equal(bed_select(&b), "B bb b@bb");
    bed_outcome(&b, 1, two);
    bed_message(&b, 'C', "c@bb");
    bed_message(&b, 'D', "d@bb");
    assert_string_equal(bed_select(&b), "C bb c@bb");
    assert_string_equal(bed_select(&b), "D bb d@bb");
    bed_message(&b, 'A', "a@aa a@bb a@cc");
    assert_string_equal(bed_select(&b), "A aa a@aa");
    assert_string_equal(bed_select(&b), "none");
    assert_int_equal(why_of(&b, 'A'), SCHED_WHY_MESSAGE_LIMIT);
    bed_outcome(&b, 2, two);
    assert_string_equal(bed_select(&b), "A bb a@bb");
    assert_int_equal(b.deliveries[b.delivered].connection, b.deliveries[3].connection);
    assert_string_equal(bed_select(&b), "none");
    bed_close(&b);
}

static void passing_over_leaves_the_reason(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.initial_destination_concurrency = 1;
    b.config.destination_concurrency_limit = 1;
    b.config.unasked_selection = true;
    bed_open(&b);
    bed_message(&b, 'A', "a@aa");
    bed_message(&b, 'B', "b@aa");
    assert_int_equal(why_of(&b, 'B'), SCHED_WHY_NOTHING);
    assert_string_equal(bed_select(&b), "A aa a@aa");
    assert_string_equal(bed_select(&b), "none");
    assert_int_equal(why_of(&b, 'B'), SCHED_WHY_WINDOW);
    bed_report(&b, 1, BED_OK);
    assert_string_equal(bed_select(&b), "B aa b@aa");
    assert_int_equal(why_of(&b, 'B'), SCHED_WHY_NOTHING);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_is_no_cap_by_default),
        cmocka_unit_test(a_message_stays_below_the_maximum),
        cmocka_unit_test(the_maximum_scales_with_free_workers),
        cmocka_unit_test(either_allowance_is_enough),
        cmocka_unit_test(a_gated_job_rides_on_idle_connections),
        cmocka_unit_test(a_gated_job_rides_once_a_connection_has_room),
        cmocka_unit_test(passing_over_leaves_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
