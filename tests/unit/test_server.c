/* Which server a new connection goes to: each rule of the delivery essay is one test. */
#include "sched/sched.h"
#include "tests/unit/sched_bed.h"

static const struct sched_outcome unreachable = {
    .again = true, .server_failed = true, .server_tried = true};

/* "This will become a new connection which will attract new jobs, thereby spreading our load" */
static void each_unused_host_is_used_before_any_twice(void **state)
{
    static struct bed b;
    char orders[8][4] = {{0}};
    for (int seed = 0; seed < 8; seed++) {
        bed_init_essay(&b, 1);
        b.config.hash_seed = (uint64_t)seed;
        bed_start(&b, "x10 y10 z10");
        for (int i = 0; i < 3; i++) {
            orders[seed][i] = bed_place(&b)[0];
            assert_null(memchr(orders[seed], orders[seed][i], (size_t)i));
        }
        bed_close(&b);
    }
    bool is_random = false;
    for (int seed = 1; seed < 8; seed++) {
        is_random = is_random || strcmp(orders[seed], orders[0]) != 0;
    }
    assert_true(is_random);
}

static void then_the_closed_host_that_was_connected_to_longest_ago(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 1);
    bed_start(&b, "x10 y10 z10");
    char first[3];
    for (unsigned i = 0; i < 3; i++) {
        first[i] = bed_place(&b)[0];
        bed_advance(&b, 1);
    }
    /* Closed in another order than opened. */
    bed_outcome(&b, 2, bed_gone);
    bed_outcome(&b, 3, bed_gone);
    bed_outcome(&b, 1, bed_gone);
    for (unsigned round = 0; round < 4; round++) {
        for (unsigned i = 0; i < 3; i++) {
            assert_int_equal(bed_place(&b)[0], first[i]);
            bed_outcome(&b, b.delivered, bed_gone);
            bed_advance(&b, 1);
        }
    }
    bed_close(&b);
}

/* Two destinations of one host that refuses; y takes over. */
static void fail_host(struct bed *b, char host, int times)
{
    for (int i = 0; i < times;) {
        char at = bed_place(b)[0];
        assert_int_not_equal(at, 'n');
        bed_outcome(b, b->delivered, at == host ? unreachable : bed_gone);
        i += at == host;
    }
}

static void a_host_in_retry_is_left_out_until_its_time_and_then_tried_last(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 1);
    b.config.destination_concurrency_failed_cohort_limit = 1;
    bed_fix_window(&b, 2);
    bed_start(&b, "x10 y10");
    fail_host(&b, 'x', 2);
    assert_string_equal(bed_host(&b, 'x'), "retry 0 0 2");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(bed_place(&b)[0], 'y');
        bed_outcome(&b, b.delivered, bed_gone);
        bed_advance(&b, 10);
    }
    bed_advance(&b, 100);
    bed_message(&b, 'B', "b0@aa b1@aa b2@aa b3@aa");
    bed_message(&b, 'C', "c0@aa c1@aa c2@aa c3@aa");
    /* y is closed, which is better than having failed; then it is active, and x is tried. */
    assert_int_equal(bed_place(&b)[0], 'y');
    assert_int_equal(bed_place(&b)[0], 'x');
    bed_outcome(&b, b.delivered, bed_done);
    assert_string_equal(bed_host(&b, 'x'), "idle 1 0 0");
    bed_close(&b);
}

static void when_all_are_active_the_one_with_the_fewest_connections(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 1);
    bed_start(&b, "x10 y10");
    char first = bed_place(&b)[0];
    char second = bed_place(&b)[0];
    assert_int_not_equal(first, second);
    (void)bed_places(&b, 2);
    assert_string_equal(bed_host(&b, 'x'), "active 2 2 0");
    assert_string_equal(bed_host(&b, 'y'), "active 2 2 0");
    bed_outcome(&b, first == 'x' ? 1 : 2, bed_gone);
    assert_int_equal(bed_place(&b)[0], 'x');
    bed_close(&b);
}

static void at_their_limit_it_joins_an_active_connection_or_waits(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 16);
    b.config.host_concurrency_limit = 1;
    bed_start(&b, "x10 y20");
    assert_string_equal(bed_place(&b), "x0+");
    /* y is for when x is broken, not for when it is busy. */
    assert_string_equal(bed_place(&b), "none");
    assert_int_equal(bed_view(&b, "aa").why, SCHED_WHY_HOST_LIMIT);
    bed_report_depth(&b, 1, 2);
    assert_string_equal(bed_places(&b, 3), "x0 x0 none");
    bed_close(&b);
}

static void a_host_with_room_again_is_noticed_by_all_destinations(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 1);
    b.config.host_concurrency_limit = 1;
    bed_open(&b);
    bed_ask(&b, 'A', "a@aa", "x10");
    assert_string_equal(bed_place(&b), "x0+");
    bed_ask(&b, 'B', "b@bb", "x10");
    assert_string_equal(bed_place(&b), "none");
    (void)bed_log(&b);
    bed_outcome(&b, 1, bed_done);
    /* The idle connection is another destination's, and gives way. */
    assert_string_equal(bed_place(&b), "x0+");
    assert_string_equal(bed_log(&b), "finished A; close 0");
    assert_string_equal(bed_host(&b, 'x'), "active 1 1 0");
    bed_close(&b);
}

static void secondaries_only_when_no_primary_is_left_to_try(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 1);
    b.config.destination_concurrency_failed_cohort_limit = 0;
    bed_start(&b, "z20 x10 y10");
    char first = bed_place(&b)[0];
    assert_true(first == 'x' || first == 'y');
    assert_false(b.deliveries[1].is_last_server);
    bed_outcome(&b, 1, unreachable);
    char second = bed_place(&b)[0];
    assert_int_equal(second, first == 'x' ? 'y' : 'x');
    assert_int_equal(b.deliveries[2].letter, 'A');
    bed_outcome(&b, 2, unreachable);
    assert_int_equal(bed_place(&b)[0], 'z');
    assert_true(b.deliveries[3].is_last_server);
    /* The next entry has tried nothing yet. */
    assert_int_not_equal(bed_place(&b)[0], 'z');
    bed_close(&b);
}

static void an_entry_that_has_tried_all_is_exhausted(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 1);
    b.config.destination_concurrency_failed_cohort_limit = 0;
    bed_open(&b);
    bed_ask(&b, 'A', "a@aa", "x10");
    assert_string_equal(bed_place(&b), "x0+");
    assert_true(b.deliveries[1].is_last_server);
    bed_outcome(&b, 1, unreachable);
    assert_int_equal(sched_in_flight(b.sched), 1);
    assert_string_equal(bed_log(&b), "resolve aa; exhausted A");
    assert_int_equal(sched_in_flight(b.sched), 1);
    bed_report(&b, 2, BED_FAIL);
    assert_string_equal(bed_log(&b), "finished A");
    bed_close(&b);
}

static void what_was_tried_is_known_under_a_new_list(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 1);
    b.config.destination_concurrency_failed_cohort_limit = 0;
    bed_open(&b);
    bed_message(&b, 'A', "a@aa");
    bed_resolved(&b, 0, SCHED_RESOLVED, &b, 1);
    assert_string_equal(bed_place(&b), "-0+");
    bed_advance(&b, 1);
    bed_message(&b, 'B', "b@aa");
    assert_string_equal(bed_place(&b), "-1+");
    assert_string_equal(bed_log(&b), "resolve aa; resolve aa");
    bed_servers(&b, 1, "x10 y20");
    bed_outcome(&b, 1, unreachable);
    /* The server without a name is none of these: both are left. */
    assert_string_equal(bed_place(&b), "x0+");
    assert_false(b.deliveries[3].is_last_server);
    bed_outcome(&b, 3, unreachable);
    assert_string_equal(bed_place(&b), "y0+");
    assert_true(b.deliveries[4].is_last_server);
    /* A connection to a server that is not listed any more is not kept. */
    bed_report_open(&b, 2);
    assert_string_equal(bed_log(&b), "close 1; finished B");
    bed_close(&b);
}

/* "If we run out of fallbacks then the message must be deferred for later retry." */
static void with_all_hosts_in_retry_the_destination_is_deferred(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 1);
    bed_fix_window(&b, 1);
    bed_open(&b);
    bed_ask(&b, 'A', "a@aa", "x10 y20");
    (void)bed_place(&b);
    bed_outcome(&b, 1, unreachable);
    assert_string_equal(bed_place(&b), "y0+");
    bed_advance(&b, 40);
    bed_ask(&b, 'B', "b@bb", "y10 x10");
    (void)bed_log(&b);
    bed_outcome(&b, 2, unreachable);
    /* bb has failed nothing itself, and need not try. */
    const char *log = bed_log(&b);
    assert_non_null(strstr(log, "defer B b@bb (4.4.1 delivery temporarily suspended: connections "
                                "to every host of bb failed lately)"));
    assert_non_null(strstr(log, "exhausted A"));
    assert_int_equal(bed_view(&b, "bb").why, SCHED_WHY_HOST_RETRY);
    /* Until the first of them may be tried. */
    assert_true(bed_view(&b, "bb").state_until == 100 * USEC_PER_SEC);
    bed_advance(&b, 59);
    assert_string_equal(bed_queue(&b, "bb"), "dead 0 0");
    bed_advance(&b, 1);
    assert_string_equal(bed_queue(&b, "bb"), "-");
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_unused_host_is_used_before_any_twice),
        cmocka_unit_test(then_the_closed_host_that_was_connected_to_longest_ago),
        cmocka_unit_test(a_host_in_retry_is_left_out_until_its_time_and_then_tried_last),
        cmocka_unit_test(when_all_are_active_the_one_with_the_fewest_connections),
        cmocka_unit_test(at_their_limit_it_joins_an_active_connection_or_waits),
        cmocka_unit_test(a_host_with_room_again_is_noticed_by_all_destinations),
        cmocka_unit_test(secondaries_only_when_no_primary_is_left_to_try),
        cmocka_unit_test(an_entry_that_has_tried_all_is_exhausted),
        cmocka_unit_test(what_was_tried_is_known_under_a_new_list),
        cmocka_unit_test(with_all_hosts_in_retry_the_destination_is_deferred),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
