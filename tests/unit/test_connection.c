/* Which connection an entry goes to, and when connections end. */
#include "sched/place/connection.h"
#include "sched/transport.h"
#include "tests/unit/sched_bed.h"

/* Two connections of aa and one of bb, all idle: slots 0 and 1, idle in that order, then 2. */
static void open_idle(struct bed *b, int process_limit)
{
    bed_init(b);
    b->config.process_limit = process_limit;
    bed_open(b);
    bed_message(b, 'A', "a@aa");
    bed_message(b, 'B', "b@aa");
    bed_message(b, 'C', "c@bb");
    for (unsigned i = 0; i < 3; i++) {
        assert_string_not_equal(bed_select(b), "none");
        assert_int_equal(b->deliveries[i + 1].connection, i);
        assert_true(b->deliveries[i + 1].is_new);
    }
    for (unsigned i = 1; i <= 3; i++) {
        bed_report_open(b, i);
    }
    assert_string_equal(bed_log(b), "finished A; finished B; finished C");
    struct sched_counters c;
    sched_view_counters(b->sched, &c);
    assert_int_equal(c.connections, 3);
    assert_int_equal(c.idle, 3);
    assert_int_equal(c.destinations, 2);
}

static void the_latest_idle_first(void **state)
{
    static struct bed b;
    open_idle(&b, 10);
    bed_message(&b, 'D', "d@aa");
    bed_message(&b, 'E', "e@aa");
    bed_message(&b, 'F', "f@aa");
    static const struct {
        unsigned connection;
        bool is_new;
    } expected[] = {{1, false}, {0, false}, {3, true}};
    for (unsigned i = 0; i < 3; i++) {
        assert_string_not_equal(bed_select(&b), "none");
        assert_int_equal(b.deliveries[b.delivered].connection, expected[i].connection);
        assert_int_equal(b.deliveries[b.delivered].is_new, expected[i].is_new);
    }
    assert_string_equal(bed_log(&b), "");
    bed_close(&b);
}

/* At the limit the one that has been idle longest gives way. */
static void making_room(void **state)
{
    static struct bed b;
    open_idle(&b, 3);
    bed_message(&b, 'D', "d@cc");
    assert_string_equal(bed_select(&b), "D cc d@cc");
    assert_int_equal(b.deliveries[4].connection, 0);
    assert_true(b.deliveries[4].is_new);
    assert_string_equal(bed_log(&b), "close 0");
    bed_message(&b, 'E', "e@bb");
    assert_string_equal(bed_select(&b), "E bb e@bb");
    assert_int_equal(b.deliveries[5].connection, 2);
    bed_message(&b, 'F', "f@cc");
    bed_message(&b, 'G', "g@cc");
    assert_string_equal(bed_select(&b), "F cc f@cc");
    assert_string_equal(bed_log(&b), "close 1");
    /* All are busy: nothing is selected before it can be placed. */
    assert_string_equal(bed_select(&b), "none");
    const struct sched_destination_view v = bed_view(&b, "cc");
    assert_int_equal(v.why, SCHED_WHY_PROCESS_LIMIT);
    assert_int_equal(v.connections, 2);
    bed_report(&b, 4, BED_OK);
    assert_string_equal(bed_select(&b), "G cc g@cc");
    bed_close(&b);
}

static void idle_too_long(void **state)
{
    static struct bed b;
    open_idle(&b, 10);
    bed_advance(&b, 4);
    assert_string_equal(bed_log(&b), "");
    bed_message(&b, 'D', "d@aa");
    (void)bed_select(&b);
    bed_advance(&b, 1);
    assert_string_equal(bed_log(&b), "close 0; close 2");
    bed_report_open(&b, 4);
    assert_true(sched_wake_at(b.sched) == 10 * USEC_PER_SEC);
    bed_advance(&b, 5);
    assert_string_equal(bed_log(&b), "finished D; close 1");
    struct sched_counters c;
    sched_view_counters(b.sched, &c);
    assert_int_equal(c.connections, 0);
    assert_int_equal(c.destinations, 0);
    bed_close(&b);
}

static void lost(void **state)
{
    static struct bed b;
    open_idle(&b, 10);
    sched_connection_closed(b.sched, 1, b.now);
    sched_connection_closed(b.sched, 1, b.now);
    assert_string_equal(bed_log(&b), "");
    bed_message(&b, 'D', "d@aa");
    (void)bed_select(&b);
    assert_int_equal(b.deliveries[4].connection, 0);
    /* It is busy: the report will tell. */
    sched_connection_closed(b.sched, 0, b.now);
    bed_report(&b, 4, BED_OK);
    sched_connection_closed(b.sched, 2, b.now);
    struct sched_counters c;
    sched_view_counters(b.sched, &c);
    assert_int_equal(c.connections, 0);
    assert_int_equal(c.destinations, 0);
    bed_close(&b);
}

static void death_closes(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.initial_destination_concurrency = 2;
    b.config.destination_concurrency_limit = 2;
    bed_open(&b);
    bed_message(&b, 'A', "a@aa");
    bed_message(&b, 'B', "b@aa");
    (void)bed_select(&b);
    (void)bed_select(&b);
    bed_message(&b, 'C', "c@aa");
    bed_report_open(&b, 1);
    (void)bed_select(&b);
    bed_message(&b, 'D', "d@aa");
    bed_report_open(&b, 2);
    (void)bed_select(&b);
    /* Busy: 3 on slot 0, 4 on slot 1. Both fail. */
    (void)bed_log(&b);
    bed_report(&b, 3, BED_FAIL);
    bed_message(&b, 'E', "e@aa");
    bed_report_open(&b, 4);
    (void)bed_log(&b);
    (void)bed_select(&b);
    assert_int_equal(b.deliveries[5].connection, 1);
    bed_report(&b, 5, BED_FAIL);
    bed_close(&b);
}

/* A connection is open although its destination died meanwhile. */
static void no_idling_with_the_dead(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.initial_destination_concurrency = 2;
    b.config.destination_concurrency_limit = 2;
    b.config.destination_concurrency_positive_feedback =
        (struct sched_feedback){SCHED_FEEDBACK_CONSTANT, 0};
    bed_open(&b);
    bed_message(&b, 'A', "a@aa");
    bed_message(&b, 'B', "b@aa");
    bed_message(&b, 'C', "c@aa");
    (void)bed_select(&b);
    (void)bed_select(&b);
    bed_report_open(&b, 1);
    struct sched_outcome failure = {.entry = b.deliveries[2].entry,
                                    .feedback = SCHED_NEGATIVE,
                                    .has_deferred = true,
                                    .connection_open = true};
    b.deliveries[2].entry = NULL;
    (void)bed_select(&b);
    (void)bed_log(&b);
    sched_report(b.sched, &failure, b.now);
    assert_string_equal(bed_log(&b), "finished B");
    bed_message(&b, 'D', "d@aa e@aa");
    (void)bed_log(&b);
    /* Window 1 and cohorts 1/2 so far: this one kills it. */
    bed_report(&b, 3, BED_FAIL);
    assert_string_equal(
        bed_log(&b),
        "close 1; defer D d@aa e@aa (4.4.1 delivery temporarily suspended: no answer); "
        "finished D; finished C");
    bed_close(&b);
}

static void no_idling_at_all(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.connection_idle_limit = 0;
    bed_open(&b);
    bed_message(&b, 'A', "a@aa");
    (void)bed_select(&b);
    bed_report_open(&b, 1);
    assert_string_equal(bed_log(&b), "close 0; finished A");
    bed_close(&b);
}

/* Connections are worth keeping; what was learned of the destination is not kept with them. */
static void learned_concurrency_is_forgotten(void **state)
{
    static struct bed b;
    open_idle(&b, 10);
    assert_string_equal(bed_queue(&b, "aa"), "5 0 0");
    bed_close(&b);
}

/* Two entries on one connection, of which one reports the loss: the slot is free after the other.
 */
static void a_lost_connection_goes_with_its_last_entry(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.process_limit = 1;
    b.config.pipeline_depth = 4;
    bed_open(&b);
    bed_message(&b, 'A', "a@aa");
    bed_message(&b, 'B', "b@aa");
    bed_message(&b, 'C', "c@aa");
    (void)bed_select(&b);
    struct sched_outcome o = {.feedback = SCHED_POSITIVE, .connection_open = true, .depth = 3};
    bed_outcome(&b, 1, o);
    assert_string_equal(bed_select(&b), "B aa b@aa");
    assert_string_equal(bed_select(&b), "C aa c@aa");
    assert_int_equal(b.deliveries[3].connection, 0);
    assert_false(b.deliveries[3].is_new);
    assert_string_equal(bed_queue(&b, "aa"), "6 1 0");
    bed_message(&b, 'D', "d@bb");
    bed_report(&b, 2, BED_OK);
    /* It is not idle, and what is said of an idle one does not count. */
    sched_connection_closed(b.sched, 0, b.now);
    assert_string_equal(bed_select(&b), "none");
    /* Whatever the last one says: the shell has lost it. */
    bed_report_open(&b, 3);
    assert_string_equal(bed_select(&b), "D bb d@bb");
    assert_true(b.deliveries[4].is_new);
    assert_string_equal(bed_log(&b), "finished A; finished B; finished C");
    bed_close(&b);
}

/* One connection and no more, which carries one entry; A is on it. */
static void open_single(struct bed *b)
{
    bed_init(b);
    b->config.awaits_end = true;
    b->config.connection_reuse_limit = 1;
    b->config.initial_destination_concurrency = 1;
    b->config.destination_concurrency_positive_feedback =
        (struct sched_feedback){SCHED_FEEDBACK_CONSTANT, 0};
    bed_open(b);
    bed_message(b, 'A', "a@aa");
    bed_message(b, 'B', "b@aa");
    assert_string_equal(bed_select(b), "A aa a@aa");
}

/* A server that limits connections counts one until it has seen its end. */
static void a_connection_that_is_closed_counts_until_its_end(void **state)
{
    static struct bed b;
    open_single(&b);
    bed_report_open(&b, 1);
    assert_string_equal(bed_log(&b), "close 0; finished A");
    assert_true(b.end_is_awaited);
    assert_string_equal(bed_queue(&b, "aa"), "1 1 1");
    assert_string_equal(bed_select(&b), "none");
    assert_int_equal(bed_view(&b, "aa").why, SCHED_WHY_WINDOW);
    sched_connection_closed(b.sched, 0, b.now);
    assert_string_equal(bed_select(&b), "B aa b@aa");
    assert_int_equal(b.deliveries[2].connection, 0);
    assert_true(b.deliveries[2].is_new);
    bed_report_open(&b, 2);
    sched_connection_closed(b.sched, 0, b.now);
    sched_connection_closed(b.sched, 0, b.now);
    struct sched_counters c;
    sched_view_counters(b.sched, &c);
    assert_int_equal(c.connections, 0);
    assert_int_equal(c.destinations, 0);
    bed_close(&b);
}

/* The same when the shell ends it; without the promise of an end it is gone at once. */
static void a_connection_that_ends_counts_until_its_end(void **state)
{
    static struct bed b;
    open_single(&b);
    struct sched_outcome o = {.feedback = SCHED_POSITIVE, .connection_ends = true};
    bed_outcome(&b, 1, o);
    assert_string_equal(bed_log(&b), "finished A");
    assert_string_equal(bed_select(&b), "none");
    sched_connection_closed(b.sched, 0, b.now);
    assert_string_equal(bed_select(&b), "B aa b@aa");
    bed_message(&b, 'C', "c@aa");
    bed_report(&b, 2, BED_OK);
    assert_string_equal(bed_select(&b), "C aa c@aa");
    bed_report(&b, 3, BED_OK);
    bed_close(&b);
}

/* It was lost by itself before CLOSE was pulled: that is of no use to the next one in its slot. */
static void an_end_needs_no_close(void **state)
{
    static struct bed b;
    open_single(&b);
    struct sched_outcome o = {
        .entry = b.deliveries[1].entry, .feedback = SCHED_POSITIVE, .connection_open = true};
    b.deliveries[1].entry = NULL;
    sched_report(b.sched, &o, b.now);
    sched_connection_closed(b.sched, 0, b.now);
    assert_string_equal(bed_select(&b), "B aa b@aa");
    assert_string_equal(bed_log(&b), "finished A");
    bed_report_open(&b, 2);
    sched_connection_closed(b.sched, 0, b.now);
    bed_close(&b);
}

/* It ends with two entries on it; the end comes before the second report, which promises none. */
static void an_end_before_the_last_report(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.awaits_end = true;
    b.config.process_limit = 1;
    b.config.pipeline_depth = 2;
    bed_open(&b);
    bed_message(&b, 'A', "a@aa");
    bed_message(&b, 'B', "b@aa");
    bed_message(&b, 'C', "c@aa");
    (void)bed_select(&b);
    struct sched_outcome o = {.feedback = SCHED_POSITIVE, .connection_open = true, .depth = 2};
    bed_outcome(&b, 1, o);
    (void)bed_select(&b);
    (void)bed_select(&b);
    bed_message(&b, 'D', "d@bb");
    o = (struct sched_outcome){.feedback = SCHED_POSITIVE, .connection_ends = true};
    bed_outcome(&b, 2, o);
    sched_connection_closed(b.sched, 0, b.now);
    assert_string_equal(bed_select(&b), "none");
    bed_report(&b, 3, BED_OK);
    assert_string_equal(bed_select(&b), "D bb d@bb");
    /* As late as it can come: the next one in the slot is on its way. */
    sched_connection_closed(b.sched, 0, b.now);
    assert_string_equal(bed_queue(&b, "bb"), "5 1 0");
    bed_report(&b, 4, BED_OK);
    bed_close(&b);
}

/* Each report of one connection is one of feedback; the window counts the connection once. */
static void the_window_counts_connections(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.pipeline_depth = 4;
    b.config.initial_destination_concurrency = 1;
    bed_open(&b);
    bed_message(&b, 'A', "a@aa");
    bed_message(&b, 'B', "b@aa");
    (void)bed_select(&b);
    assert_string_equal(bed_select(&b), "none");
    struct sched_outcome o = {.feedback = SCHED_NEUTRAL, .connection_open = true, .depth = 4};
    bed_outcome(&b, 1, o);
    (void)bed_select(&b);
    bed_message(&b, 'C', "c@aa");
    bed_message(&b, 'D', "d@aa");
    (void)bed_select(&b);
    (void)bed_select(&b);
    bed_message(&b, 'E', "e@aa");
    assert_string_equal(bed_queue(&b, "aa"), "1 1 1");
    const struct sched_destination_view v = bed_view(&b, "aa");
    assert_int_equal(v.in_flight, 3);
    assert_int_equal(v.connections, 1);
    bed_report_open(&b, 2);
    assert_string_equal(bed_queue(&b, "aa"), "2 1 1");
    /* The guard: a window as large as the busy ones and the initial concurrency together. */
    bed_report_open(&b, 3);
    assert_string_equal(bed_queue(&b, "aa"), "2 1 1");
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_latest_idle_first),
        cmocka_unit_test(making_room),
        cmocka_unit_test(idle_too_long),
        cmocka_unit_test(lost),
        cmocka_unit_test(death_closes),
        cmocka_unit_test(no_idling_with_the_dead),
        cmocka_unit_test(no_idling_at_all),
        cmocka_unit_test(learned_concurrency_is_forgotten),
        cmocka_unit_test(a_lost_connection_goes_with_its_last_entry),
        cmocka_unit_test(a_connection_that_is_closed_counts_until_its_end),
        cmocka_unit_test(a_connection_that_ends_counts_until_its_end),
        cmocka_unit_test(an_end_needs_no_close),
        cmocka_unit_test(an_end_before_the_last_report),
        cmocka_unit_test(the_window_counts_connections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
