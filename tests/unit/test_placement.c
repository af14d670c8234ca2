/* Which connection a delivery goes to: each rule of the delivery essay's scheduler is one test. */
#include "sched/sched.h"
#include "tests/unit/sched_bed.h"

static const struct sched_outcome returned = {.again = true};

/* Connections 0 and 1 of aa, each of which may carry three entries and carries one, 5 and 6. */
static void open_two(struct bed *b, const char *servers)
{
    bed_fix_window(b, 2);
    bed_start(b, servers);
    (void)bed_places(b, 2);
    assert_string_equal(bed_place(b), "none");
    bed_report_depth(b, 1, 3);
    assert_string_equal(bed_place(b), "x0");
    bed_report_depth(b, 2, 3);
    /* One that is active comes before one that is idle. */
    assert_string_equal(bed_places(b, 3), "x0 x0 x1");
    bed_outcome(b, 3, bed_done);
    bed_outcome(b, 4, bed_done);
}

/* Connection 0 of aa, which may have no other, is idle and may carry `depth` entries; B, C and D
 * wait. */
static void open_one(struct bed *b, uint16_t depth)
{
    bed_fix_window(b, 1);
    bed_open(b);
    bed_ask(b, 'A', "a@aa", "x10");
    (void)bed_place(b);
    bed_message(b, 'B', "b@aa");
    bed_message(b, 'C', "c@aa");
    bed_message(b, 'D', "d@aa");
    bed_report_depth(b, 1, depth);
}

static void the_newest_active_connection_with_room_is_taken(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 16);
    open_two(&b, "x10");
    assert_string_equal(bed_places(&b, 5), "x1 x1 x0 x0 none");
    assert_string_equal(bed_host(&b, 'x'), "active 2 6 0");
    bed_close(&b);
}

/* "so that when our load goes down older connections will become idle and eventually be closed" */
static void older_connections_become_idle_when_the_load_drops(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 16);
    b.config.connection_idle_limit = 5 * USEC_PER_SEC;
    bed_fix_window(&b, 2);
    bed_open(&b);
    bed_ask(&b, 'A', "a0@aa a1@aa a2@aa", "x10");
    (void)bed_places(&b, 2);
    bed_report_depth(&b, 1, 3);
    bed_report_depth(&b, 2, 3);
    /* Both are idle; from now on one entry at a time. */
    for (char letter = 'B'; letter < 'H'; letter++) {
        char address[] = "b@aa";
        bed_message(&b, letter, address);
        assert_string_equal(bed_place(&b), "x1");
        bed_outcome(&b, b.delivered, bed_done);
        bed_advance(&b, 1);
    }
    assert_non_null(strstr(bed_log(&b), "close 0"));
    assert_string_equal(bed_host(&b, 'x'), "idle 1 0 0");
    bed_close(&b);
}

static void a_gated_job_rides_on_an_active_connection(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 16);
    b.config.max_message_concurrency = 1;
    bed_open(&b);
    bed_ask(&b, 'B', "b@aa", "x10");
    assert_string_equal(bed_place(&b), "x0+");
    bed_message(&b, 'C', "c@aa");
    bed_report_depth(&b, 1, 3);
    assert_string_equal(bed_place(&b), "x0");
    bed_message(&b, 'A', BED_TEN);
    /* Two entries of a message that may have one: on the connection of another. */
    assert_string_equal(bed_places(&b, 3), "x0 x0 none");
    bed_close(&b);
}

static void without_an_active_connection_a_gated_job_waits(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 16);
    b.config.max_message_concurrency = 1;
    bed_start(&b, "x10");
    assert_string_equal(bed_places(&b, 2), "x0+ none");
    bed_outcome(&b, 1, bed_done);
    assert_string_equal(bed_place(&b), "x0");
    bed_close(&b);
}

static void the_most_recent_idle_connection_comes_first(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 16);
    bed_start(&b, "x10");
    (void)bed_places(&b, 3);
    bed_outcome(&b, 2, bed_done);
    bed_outcome(&b, 1, bed_done);
    assert_string_equal(bed_places(&b, 3), "x0 x1 x3+");
    bed_close(&b);
}

static void without_a_worker_it_joins_an_active_connection(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 16);
    b.config.process_limit = 1;
    bed_start(&b, "x10");
    assert_string_equal(bed_places(&b, 2), "x0+ none");
    bed_report_depth(&b, 1, 2);
    assert_string_equal(bed_place(&b), "x0");
    bed_ask(&b, 'B', "b@bb", "y10");
    /* The window of bb is open, but no connection is to be had: aa rides on. */
    assert_string_equal(bed_places(&b, 2), "x0 none");
    assert_int_equal(bed_view(&b, "bb").why, SCHED_WHY_PROCESS_LIMIT);
    bed_close(&b);
}

/* A slot that is free again is noticed by those that were passed over for want of one. */
static void a_worker_that_becomes_free_is_used(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 16);
    b.config.process_limit = 1;
    bed_open(&b);
    bed_ask(&b, 'A', "a0@aa a1@aa a2@aa a3@aa a4@aa a5@aa", "x10");
    bed_ask(&b, 'B', "b@bb", "y10");
    assert_string_equal(bed_place(&b), "x0+");
    bed_report_depth(&b, 1, 2);
    assert_string_equal(bed_places(&b, 3), "x0 x0 none");
    bed_outcome(&b, 2, bed_done);
    assert_string_equal(bed_place(&b), "none");
    bed_outcome(&b, 3, bed_done);
    assert_string_equal(bed_place(&b), "y0+");
    assert_string_equal(bed_log(&b), "resolve aa; resolve bb; finished A; close 0");
    bed_close(&b);
}

static void idle_connections_of_others_give_way(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 16);
    b.config.process_limit = 2;
    bed_open(&b);
    bed_ask(&b, 'A', "a@aa", "x10");
    bed_ask(&b, 'B', "b@bb", "y10");
    (void)bed_places(&b, 2);
    bed_outcome(&b, 2, bed_done);
    bed_outcome(&b, 1, bed_done);
    bed_ask(&b, 'C', "c@cc", "z10");
    (void)bed_log(&b);
    assert_string_equal(bed_place(&b), "z1+");
    assert_string_equal(bed_log(&b), "close 1");
    bed_close(&b);
}

static void connections_are_closed_when_they_are_old(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 16);
    b.config.connection_age_limit = 10 * USEC_PER_SEC;
    b.config.connection_idle_limit = 100 * USEC_PER_SEC;
    bed_start(&b, "x10");
    (void)bed_places(&b, 2);
    bed_outcome(&b, 2, bed_done);
    bed_report_depth(&b, 1, 4);
    assert_string_equal(bed_places(&b, 2), "x0 x0");
    (void)bed_log(&b);
    assert_true(sched_wake_at(b.sched) == 10 * USEC_PER_SEC);
    bed_advance(&b, 10);
    assert_string_equal(bed_log(&b), "close 1");
    /* The busy one takes nothing more, though it has room, and ends with its last entry. */
    assert_string_equal(bed_place(&b), "x1+");
    bed_outcome(&b, 3, bed_done);
    assert_string_equal(bed_log(&b), "");
    bed_outcome(&b, 4, bed_done);
    assert_string_equal(bed_log(&b), "close 0");
    bed_close(&b);
}

static void connections_are_closed_when_they_are_used_up(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 16);
    b.config.connection_reuse_limit = 3;
    bed_start(&b, "x10");
    assert_string_equal(bed_place(&b), "x0+");
    bed_report_depth(&b, 1, 8);
    assert_string_equal(bed_places(&b, 3), "x0 x0 x1+");
    bed_outcome(&b, 2, bed_done);
    bed_outcome(&b, 3, bed_done);
    assert_string_equal(bed_log(&b), "close 0");
    bed_close(&b);
}

/* "If the connection has a queue of pending jobs when it is closed then these must be
 * re-scheduled." */
static void entries_of_a_lost_connection_come_before_what_waits(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 16);
    open_one(&b, 3);
    assert_string_equal(bed_select(&b), "B aa b@aa");
    assert_string_equal(bed_select(&b), "C aa c@aa");
    assert_string_equal(bed_select(&b), "D aa d@aa");
    bed_message(&b, 'E', "e@aa");
    (void)bed_log(&b);
    bed_outcome(&b, 2, (struct sched_outcome){.feedback = SCHED_NEGATIVE, .has_deferred = true});
    /* Not placed on what is lost; its slot and its window unit are free with its last entry. */
    assert_string_equal(bed_select(&b), "none");
    bed_outcome(&b, 3, returned);
    assert_string_equal(bed_select(&b), "none");
    bed_outcome(&b, 4, returned);
    assert_int_equal(sched_in_flight(b.sched), 2);
    assert_string_equal(bed_queue(&b, "aa"), "dead 0 0");
    bed_close(&b);
}

/* The shell ends while they wait. */
static void displaced_entries_can_be_given_up(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 16);
    bed_fix_window(&b, 1);
    bed_start(&b, "x10");
    (void)bed_place(&b);
    bed_report_depth(&b, 1, 4);
    assert_string_equal(bed_places(&b, 3), "x0 x0 x0");
    struct sched_entry *displaced[] = {b.deliveries[2].entry, b.deliveries[3].entry};
    bed_outcome(&b, 2, returned);
    bed_outcome(&b, 3, returned);
    assert_string_equal(bed_place(&b), "none");
    for (int i = 0; i < 2; i++) {
        const struct sched_outcome o = {.entry = displaced[i], .has_deferred = true};
        struct sched_fault fault;
        sched_report(b.sched, &o, b.now);
        assert_int_equal(sched_check(b.sched, &fault), 0);
    }
    assert_int_equal(sched_in_flight(b.sched), 1);
    bed_close(&b);
}

static void displaced_entries_are_placed_in_order(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 16);
    open_one(&b, 2);
    (void)bed_select(&b);
    (void)bed_select(&b);
    (void)bed_log(&b);
    bed_outcome(&b, 2, returned);
    assert_string_equal(bed_select(&b), "none");
    bed_outcome(&b, 3, returned);
    /* A window of one connection, which learns its depth anew. */
    assert_string_equal(bed_select(&b), "B aa b@aa");
    assert_true(b.deliveries[4].is_new);
    assert_string_equal(bed_select(&b), "none");
    assert_string_equal(bed_queue(&b, "aa"), "1 1 1");
    bed_report_depth(&b, 4, 2);
    assert_string_equal(bed_select(&b), "C aa c@aa");
    assert_string_equal(bed_select(&b), "D aa d@aa");
    assert_string_equal(bed_select(&b), "none");
    bed_close(&b);
}

static void a_server_out_of_step_gets_one_entry_at_a_time(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 16);
    open_two(&b, "x10");
    struct sched_outcome o = {.feedback = SCHED_NEGATIVE, .is_out_of_step = true};
    bed_outcome(&b, 5, o);
    /* Connection 1 to the same host had room for two more. */
    assert_string_equal(bed_place(&b), "none");
    struct sched_host_view v;
    uint64_t cursor = 0;
    assert_true(sched_view_hosts(b.sched, &cursor, &v));
    assert_true(v.key[0] == 'x' && v.is_out_of_step);
    bed_close(&b);
}

/* However busy the host is: it is never forgotten as a whole. */
static void being_out_of_step_ends_after_an_hour(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 16);
    open_two(&b, "x10");
    struct sched_outcome o = {.feedback = SCHED_NEUTRAL, .connection_open = true};
    o.is_out_of_step = true;
    bed_outcome(&b, 5, o);
    unsigned kept = 6; /* in flight on connection 1 all the time */
    bed_advance(&b, 3599);
    assert_string_equal(bed_places(&b, 2), "x0+ none");
    bed_outcome(&b, b.delivered, (struct sched_outcome){.feedback = SCHED_POSITIVE});
    bed_advance(&b, 1);
    assert_string_equal(bed_places(&b, 2), "x0+ x1");
    assert_non_null(b.deliveries[kept].entry);
    bed_close(&b);
}

static void the_configured_depth_is_the_limit(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 2);
    bed_fix_window(&b, 1);
    bed_start(&b, "x10");
    (void)bed_place(&b);
    bed_report_depth(&b, 1, 1000);
    assert_string_equal(bed_places(&b, 3), "x0 x0 none");
    bed_close(&b);
}

static void a_rate_delay_follows_each_single_entry(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 16);
    b.config.destination_rate_delay = USEC_PER_SEC;
    bed_start(&b, "x10");
    assert_string_equal(bed_place(&b), "x0+");
    bed_report_depth(&b, 1, 8);
    assert_string_equal(bed_place(&b), "none");
    bed_advance(&b, 1);
    assert_string_equal(bed_places(&b, 2), "x0 none");
    /* Displaced, it is still the one. */
    bed_outcome(&b, 2, returned);
    assert_string_equal(bed_places(&b, 2), "x0+ none");
    bed_close(&b);
}

/* A server takes long over one message: what was at hand behind it comes back, the connection goes on
 * with what it has, and takes no more until it has answered. */
static void what_waits_behind_a_slow_entry_goes_to_another_connection(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 16);
    open_two(&b, "x10");
    assert_string_equal(bed_places(&b, 5), "x1 x1 x0 x0 none");
    const struct sched_outcome stalled = {.again = true, .connection_open = true, .depth = 1};
    const struct sched_entry *first = b.deliveries[7].entry, *second = b.deliveries[8].entry;
    bed_outcome(&b, 7, stalled);
    bed_outcome(&b, 8, stalled);
    assert_string_equal(bed_place(&b), "none");
    bed_report_depth(&b, 5, 3);
    assert_string_equal(bed_place(&b), "x0");
    assert_ptr_equal(b.deliveries[b.delivered].entry, first);
    bed_report_depth(&b, 9, 3);
    assert_string_equal(bed_places(&b, 2), "x0 none");
    assert_ptr_equal(b.deliveries[b.delivered].entry, second);
    assert_string_equal(bed_host(&b, 'x'), "active 2 4 0");
    bed_report_depth(&b, 6, 3); /* it has answered */
    assert_string_equal(bed_places(&b, 4), "x1 x1 x1 none");
    bed_close(&b);
}

static void a_shrunken_window_drains_the_oldest_connections(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 16);
    open_two(&b, "x10");
    assert_string_equal(bed_place(&b), "x1");
    struct sched_outcome soft = {
        .feedback = SCHED_NEGATIVE, .has_deferred = true, .connection_open = true};
    bed_outcome(&b, 7, soft);
    assert_string_equal(bed_queue(&b, "aa"), "1 2 8");
    /* Connection 1 has room for two, 0 as well; only one may go on. */
    assert_string_equal(bed_places(&b, 3), "x1 x1 none");
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_active_connection_with_room_is_taken),
        cmocka_unit_test(older_connections_become_idle_when_the_load_drops),
        cmocka_unit_test(a_gated_job_rides_on_an_active_connection),
        cmocka_unit_test(without_an_active_connection_a_gated_job_waits),
        cmocka_unit_test(the_most_recent_idle_connection_comes_first),
        cmocka_unit_test(without_a_worker_it_joins_an_active_connection),
        cmocka_unit_test(a_worker_that_becomes_free_is_used),
        cmocka_unit_test(idle_connections_of_others_give_way),
        cmocka_unit_test(connections_are_closed_when_they_are_old),
        cmocka_unit_test(connections_are_closed_when_they_are_used_up),
        cmocka_unit_test(entries_of_a_lost_connection_come_before_what_waits),
        cmocka_unit_test(displaced_entries_can_be_given_up),
        cmocka_unit_test(displaced_entries_are_placed_in_order),
        cmocka_unit_test(a_server_out_of_step_gets_one_entry_at_a_time),
        cmocka_unit_test(being_out_of_step_ends_after_an_hour),
        cmocka_unit_test(the_configured_depth_is_the_limit),
        cmocka_unit_test(a_rate_delay_follows_each_single_entry),
        cmocka_unit_test(what_waits_behind_a_slow_entry_goes_to_another_connection),
        cmocka_unit_test(a_shrunken_window_drains_the_oldest_connections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
