/* Which connection a delivery goes to: each rule of the delivery essay's scheduler is one test. */
#include "sched/sched.h"
#include "tests/unit/sched_bed.h"

#define MANY "m0@aa m1@aa m2@aa m3@aa m4@aa m5@aa m6@aa m7@aa m8@aa m9@aa"

static const struct sched_outcome done = {.feedback = SCHED_POSITIVE, .connection_open = true};
static const struct sched_outcome gone = {.feedback = SCHED_POSITIVE};
static const struct sched_outcome unreachable = {
    .again = true, .server_failed = true, .server_tried = true};
static const struct sched_outcome returned = {.again = true};

/* One recipient an entry, no preemption; destinations aa, bb .. ask for servers. */
static void open_bed(struct bed *b, int depth)
{
    bed_init(b);
    b->config.must_resolve = true;
    b->config.destination_recipient_limit = 2;
    b->config.delivery_slot_cost = 0;
    b->config.pipeline_depth = depth;
    b->config.initial_destination_concurrency = 4;
    b->config.destination_concurrency_limit = 4;
    b->config.minimal_backoff_time = 100 * USEC_PER_SEC;
    b->config.hash_seed = 7;
}

/* A message of many entries for aa, whose servers are these. */
static void start(struct bed *b, const char *servers)
{
    bed_open(b);
    bed_message(b, 'A', MANY " " MANY " " MANY);
    bed_servers(b, 0, servers);
    assert_string_equal(bed_log(b), "resolve aa");
}

static void report_depth(struct bed *b, unsigned number, uint16_t depth)
{
    struct sched_outcome o = done;
    o.depth = depth;
    bed_outcome(b, number, o);
}

/* Two connections of aa, 0 and 1, each of which may carry three entries and carries one, 5 and 6.
 */
static void open_two(struct bed *b, const char *servers)
{
    b->config.initial_destination_concurrency = 2;
    b->config.destination_concurrency_limit = 2;
    start(b, servers);
    (void)bed_place(b);
    (void)bed_place(b);
    assert_string_equal(bed_place(b), "none");
    report_depth(b, 1, 3);
    assert_string_equal(bed_place(b), "x0");
    report_depth(b, 2, 3);
    /* One that is active comes before one that is idle. */
    assert_string_equal(bed_place(b), "x0");
    assert_string_equal(bed_place(b), "x0");
    assert_string_equal(bed_place(b), "x1");
    bed_outcome(b, 3, done);
    bed_outcome(b, 4, done);
}

static void the_newest_active_connection_with_room_is_taken(void **state)
{
    static struct bed b;
    open_bed(&b, 16);
    open_two(&b, "x10");
    static const char *const places[] = {"x1", "x1", "x0", "x0", "none"};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        assert_string_equal(bed_place(&b), places[i]);
    }
    assert_string_equal(bed_host(&b, 'x'), "active 2 6 0");
    bed_close(&b);
}

/* "so that when our load goes down older connections will become idle and eventually be closed" */
static void older_connections_become_idle_when_the_load_drops(void **state)
{
    static struct bed b;
    open_bed(&b, 16);
    b.config.connection_idle_limit = 5 * USEC_PER_SEC;
    b.config.initial_destination_concurrency = 2;
    b.config.destination_concurrency_limit = 2;
    bed_open(&b);
    bed_message(&b, 'A', "a0@aa a1@aa a2@aa");
    bed_servers(&b, 0, "x10");
    (void)bed_place(&b);
    (void)bed_place(&b);
    report_depth(&b, 1, 3);
    report_depth(&b, 2, 3);
    /* Both are idle; from now on one entry at a time. */
    for (char letter = 'B'; letter < 'H'; letter++) {
        char address[] = "b@aa";
        bed_message(&b, letter, address);
        assert_string_equal(bed_place(&b), "x1");
        bed_outcome(&b, b.delivered, done);
        bed_advance(&b, 1);
    }
    assert_non_null(strstr(bed_log(&b), "close 0"));
    assert_string_equal(bed_host(&b, 'x'), "idle 1 0 0");
    bed_close(&b);
}

static void a_gated_job_rides_on_an_active_connection(void **state)
{
    static struct bed b;
    open_bed(&b, 16);
    b.config.max_message_concurrency = 1;
    bed_open(&b);
    bed_message(&b, 'B', "b@aa");
    bed_servers(&b, 0, "x10");
    assert_string_equal(bed_place(&b), "x0+");
    bed_message(&b, 'C', "c@aa");
    report_depth(&b, 1, 3);
    assert_string_equal(bed_place(&b), "x0");
    bed_message(&b, 'A', MANY);
    /* Two entries of a message that may have one: on the connection of another. */
    assert_string_equal(bed_place(&b), "x0");
    assert_string_equal(bed_place(&b), "x0");
    assert_string_equal(bed_place(&b), "none");
    bed_close(&b);
}

static void without_an_active_connection_a_gated_job_waits(void **state)
{
    static struct bed b;
    open_bed(&b, 16);
    b.config.max_message_concurrency = 1;
    start(&b, "x10");
    assert_string_equal(bed_place(&b), "x0+");
    assert_string_equal(bed_place(&b), "none");
    bed_outcome(&b, 1, done);
    assert_string_equal(bed_place(&b), "x0");
    bed_close(&b);
}

static void the_most_recent_idle_connection_comes_first(void **state)
{
    static struct bed b;
    open_bed(&b, 16);
    start(&b, "x10");
    for (int i = 0; i < 3; i++) {
        (void)bed_place(&b);
    }
    bed_outcome(&b, 2, done);
    bed_outcome(&b, 1, done);
    assert_string_equal(bed_place(&b), "x0");
    assert_string_equal(bed_place(&b), "x1");
    assert_string_equal(bed_place(&b), "x3+");
    bed_close(&b);
}

static void without_a_worker_it_joins_an_active_connection(void **state)
{
    static struct bed b;
    open_bed(&b, 16);
    b.config.process_limit = 1;
    start(&b, "x10");
    assert_string_equal(bed_place(&b), "x0+");
    assert_string_equal(bed_place(&b), "none");
    report_depth(&b, 1, 2);
    assert_string_equal(bed_place(&b), "x0");
    bed_message(&b, 'B', "b@bb");
    bed_servers(&b, 1, "y10");
    /* The window of bb is open, but no connection is to be had: aa rides on. */
    assert_string_equal(bed_place(&b), "x0");
    assert_string_equal(bed_place(&b), "none");
    struct sched_destination_view v;
    assert_true(sched_view_destination(b.sched, SLICE("bb"), &v));
    assert_int_equal(v.why, SCHED_WHY_PROCESS_LIMIT);
    bed_close(&b);
}

/* A slot that is free again is noticed by those that were passed over for want of one. */
static void a_worker_that_becomes_free_is_used(void **state)
{
    static struct bed b;
    open_bed(&b, 16);
    b.config.process_limit = 1;
    bed_open(&b);
    bed_message(&b, 'A', "a0@aa a1@aa a2@aa a3@aa a4@aa a5@aa");
    bed_message(&b, 'B', "b@bb");
    bed_servers(&b, 0, "x10");
    bed_servers(&b, 1, "y10");
    assert_string_equal(bed_place(&b), "x0+");
    report_depth(&b, 1, 2);
    assert_string_equal(bed_place(&b), "x0");
    assert_string_equal(bed_place(&b), "x0");
    assert_string_equal(bed_place(&b), "none");
    bed_outcome(&b, 2, done);
    assert_string_equal(bed_place(&b), "none");
    bed_outcome(&b, 3, done);
    assert_string_equal(bed_place(&b), "y0+");
    assert_string_equal(bed_log(&b), "resolve aa; resolve bb; finished A; close 0");
    bed_close(&b);
}

static void idle_connections_of_others_give_way(void **state)
{
    static struct bed b;
    open_bed(&b, 16);
    b.config.process_limit = 2;
    bed_open(&b);
    bed_message(&b, 'A', "a@aa");
    bed_message(&b, 'B', "b@bb");
    bed_servers(&b, 0, "x10");
    bed_servers(&b, 1, "y10");
    (void)bed_place(&b);
    (void)bed_place(&b);
    bed_outcome(&b, 2, done);
    bed_outcome(&b, 1, done);
    bed_message(&b, 'C', "c@cc");
    bed_servers(&b, 2, "z10");
    (void)bed_log(&b);
    assert_string_equal(bed_place(&b), "z1+");
    assert_string_equal(bed_log(&b), "close 1");
    bed_close(&b);
}

/* "This will become a new connection which will attract new jobs, thereby spreading our load" */
static void each_unused_host_is_used_before_any_twice(void **state)
{
    static struct bed b;
    char orders[8][4] = {{0}};
    for (int seed = 0; seed < 8; seed++) {
        open_bed(&b, 1);
        b.config.hash_seed = (uint64_t)seed;
        start(&b, "x10 y10 z10");
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
    open_bed(&b, 1);
    start(&b, "x10 y10 z10");
    char first[3];
    for (unsigned i = 0; i < 3; i++) {
        first[i] = bed_place(&b)[0];
        bed_advance(&b, 1);
    }
    /* Closed in another order than opened. */
    bed_outcome(&b, 2, gone);
    bed_outcome(&b, 3, gone);
    bed_outcome(&b, 1, gone);
    for (unsigned round = 0; round < 4; round++) {
        for (unsigned i = 0; i < 3; i++) {
            assert_int_equal(bed_place(&b)[0], first[i]);
            bed_outcome(&b, b.delivered, gone);
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
        bed_outcome(b, b->delivered, at == host ? unreachable : gone);
        i += at == host;
    }
}

static void a_host_in_retry_is_left_out_until_its_time_and_then_tried_last(void **state)
{
    static struct bed b;
    open_bed(&b, 1);
    b.config.destination_concurrency_failed_cohort_limit = 1;
    b.config.initial_destination_concurrency = 2;
    b.config.destination_concurrency_limit = 2;
    start(&b, "x10 y10");
    fail_host(&b, 'x', 2);
    assert_string_equal(bed_host(&b, 'x'), "retry 0 0 2");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(bed_place(&b)[0], 'y');
        bed_outcome(&b, b.delivered, gone);
        bed_advance(&b, 10);
    }
    bed_advance(&b, 100);
    bed_message(&b, 'B', "b0@aa b1@aa b2@aa b3@aa");
    bed_message(&b, 'C', "c0@aa c1@aa c2@aa c3@aa");
    /* y is closed, which is better than having failed; then it is active, and x is tried. */
    assert_int_equal(bed_place(&b)[0], 'y');
    assert_int_equal(bed_place(&b)[0], 'x');
    bed_outcome(&b, b.delivered, done);
    assert_string_equal(bed_host(&b, 'x'), "idle 1 0 0");
    bed_close(&b);
}

static void when_all_are_active_the_one_with_the_fewest_connections(void **state)
{
    static struct bed b;
    open_bed(&b, 1);
    start(&b, "x10 y10");
    char first = bed_place(&b)[0];
    char second = bed_place(&b)[0];
    assert_int_not_equal(first, second);
    (void)bed_place(&b);
    (void)bed_place(&b);
    assert_string_equal(bed_host(&b, 'x'), "active 2 2 0");
    assert_string_equal(bed_host(&b, 'y'), "active 2 2 0");
    bed_outcome(&b, first == 'x' ? 1 : 2, gone);
    assert_int_equal(bed_place(&b)[0], 'x');
    bed_close(&b);
}

static void at_their_limit_it_joins_an_active_connection_or_waits(void **state)
{
    static struct bed b;
    open_bed(&b, 16);
    b.config.host_concurrency_limit = 1;
    start(&b, "x10 y20");
    assert_string_equal(bed_place(&b), "x0+");
    /* y is for when x is broken, not for when it is busy. */
    assert_string_equal(bed_place(&b), "none");
    struct sched_destination_view v;
    assert_true(sched_view_destination(b.sched, SLICE("aa"), &v));
    assert_int_equal(v.why, SCHED_WHY_HOST_LIMIT);
    report_depth(&b, 1, 2);
    assert_string_equal(bed_place(&b), "x0");
    assert_string_equal(bed_place(&b), "x0");
    assert_string_equal(bed_place(&b), "none");
    bed_close(&b);
}

static void a_host_with_room_again_is_noticed_by_all_destinations(void **state)
{
    static struct bed b;
    open_bed(&b, 1);
    b.config.host_concurrency_limit = 1;
    bed_open(&b);
    bed_message(&b, 'A', "a@aa");
    bed_servers(&b, 0, "x10");
    assert_string_equal(bed_place(&b), "x0+");
    bed_message(&b, 'B', "b@bb");
    bed_servers(&b, 1, "x10");
    assert_string_equal(bed_place(&b), "none");
    (void)bed_log(&b);
    bed_outcome(&b, 1, done);
    /* The idle connection is another destination's, and gives way. */
    assert_string_equal(bed_place(&b), "x0+");
    assert_string_equal(bed_log(&b), "finished A; close 0");
    assert_string_equal(bed_host(&b, 'x'), "active 1 1 0");
    bed_close(&b);
}

static void secondaries_only_when_no_primary_is_left_to_try(void **state)
{
    static struct bed b;
    open_bed(&b, 1);
    b.config.destination_concurrency_failed_cohort_limit = 0;
    start(&b, "z20 x10 y10");
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
    open_bed(&b, 1);
    b.config.destination_concurrency_failed_cohort_limit = 0;
    bed_open(&b);
    bed_message(&b, 'A', "a@aa");
    bed_servers(&b, 0, "x10");
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
    open_bed(&b, 1);
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
    open_bed(&b, 1);
    b.config.initial_destination_concurrency = 1;
    b.config.destination_concurrency_limit = 1;
    bed_open(&b);
    bed_message(&b, 'A', "a@aa");
    bed_servers(&b, 0, "x10 y20");
    (void)bed_place(&b);
    bed_outcome(&b, 1, unreachable);
    assert_string_equal(bed_place(&b), "y0+");
    bed_advance(&b, 40);
    bed_message(&b, 'B', "b@bb");
    bed_servers(&b, 1, "y10 x10");
    (void)bed_log(&b);
    bed_outcome(&b, 2, unreachable);
    /* bb has failed nothing itself, and need not try. */
    const char *log = bed_log(&b);
    assert_non_null(strstr(log, "defer B b@bb (4.4.1 delivery temporarily suspended: connections "
                                "to every host of bb failed lately)"));
    assert_non_null(strstr(log, "exhausted A"));
    struct sched_destination_view v;
    assert_true(sched_view_destination(b.sched, SLICE("bb"), &v));
    assert_int_equal(v.why, SCHED_WHY_HOST_RETRY);
    /* Until the first of them may be tried. */
    assert_true(v.state_until == 100 * USEC_PER_SEC);
    bed_advance(&b, 59);
    assert_string_equal(bed_queue(&b, "bb"), "dead 0 0");
    bed_advance(&b, 1);
    assert_string_equal(bed_queue(&b, "bb"), "-");
    bed_close(&b);
}

static void connections_are_closed_when_they_are_old(void **state)
{
    static struct bed b;
    open_bed(&b, 16);
    b.config.connection_age_limit = 10 * USEC_PER_SEC;
    b.config.connection_idle_limit = 100 * USEC_PER_SEC;
    start(&b, "x10");
    (void)bed_place(&b);
    (void)bed_place(&b);
    bed_outcome(&b, 2, done);
    report_depth(&b, 1, 4);
    assert_string_equal(bed_place(&b), "x0");
    assert_string_equal(bed_place(&b), "x0");
    (void)bed_log(&b);
    assert_true(sched_wake_at(b.sched) == 10 * USEC_PER_SEC);
    bed_advance(&b, 10);
    assert_string_equal(bed_log(&b), "close 1");
    /* The busy one takes nothing more, though it has room, and ends with its last entry. */
    assert_string_equal(bed_place(&b), "x1+");
    bed_outcome(&b, 3, done);
    assert_string_equal(bed_log(&b), "");
    bed_outcome(&b, 4, done);
    assert_string_equal(bed_log(&b), "close 0");
    bed_close(&b);
}

static void connections_are_closed_when_they_are_used_up(void **state)
{
    static struct bed b;
    open_bed(&b, 16);
    b.config.connection_reuse_limit = 3;
    start(&b, "x10");
    assert_string_equal(bed_place(&b), "x0+");
    report_depth(&b, 1, 8);
    assert_string_equal(bed_place(&b), "x0");
    assert_string_equal(bed_place(&b), "x0");
    assert_string_equal(bed_place(&b), "x1+");
    bed_outcome(&b, 2, done);
    bed_outcome(&b, 3, done);
    assert_string_equal(bed_log(&b), "close 0");
    bed_close(&b);
}

/* "If the connection has a queue of pending jobs when it is closed then these must be
 * re-scheduled." */
static void entries_of_a_lost_connection_come_before_what_waits(void **state)
{
    static struct bed b;
    open_bed(&b, 16);
    b.config.initial_destination_concurrency = 1;
    b.config.destination_concurrency_limit = 1;
    bed_open(&b);
    bed_message(&b, 'A', "a@aa");
    bed_servers(&b, 0, "x10");
    (void)bed_place(&b);
    bed_message(&b, 'B', "b@aa");
    bed_message(&b, 'C', "c@aa");
    bed_message(&b, 'D', "d@aa");
    report_depth(&b, 1, 3);
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
    open_bed(&b, 16);
    b.config.initial_destination_concurrency = 1;
    b.config.destination_concurrency_limit = 1;
    start(&b, "x10");
    (void)bed_place(&b);
    report_depth(&b, 1, 4);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(bed_place(&b), "x0");
    }
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
    open_bed(&b, 16);
    b.config.initial_destination_concurrency = 1;
    b.config.destination_concurrency_limit = 1;
    bed_open(&b);
    bed_message(&b, 'A', "a@aa");
    bed_servers(&b, 0, "x10");
    (void)bed_place(&b);
    bed_message(&b, 'B', "b@aa");
    bed_message(&b, 'C', "c@aa");
    bed_message(&b, 'D', "d@aa");
    report_depth(&b, 1, 2);
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
    report_depth(&b, 4, 2);
    assert_string_equal(bed_select(&b), "C aa c@aa");
    assert_string_equal(bed_select(&b), "D aa d@aa");
    assert_string_equal(bed_select(&b), "none");
    bed_close(&b);
}

static void a_server_out_of_step_gets_one_entry_at_a_time(void **state)
{
    static struct bed b;
    open_bed(&b, 16);
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
    open_bed(&b, 16);
    open_two(&b, "x10");
    struct sched_outcome o = {.feedback = SCHED_NEUTRAL, .connection_open = true};
    o.is_out_of_step = true;
    bed_outcome(&b, 5, o);
    unsigned kept = 6; /* in flight on connection 1 all the time */
    bed_advance(&b, 3599);
    assert_string_equal(bed_place(&b), "x0+");
    assert_string_equal(bed_place(&b), "none");
    bed_outcome(&b, b.delivered, (struct sched_outcome){.feedback = SCHED_POSITIVE});
    bed_advance(&b, 1);
    assert_string_equal(bed_place(&b), "x0+");
    assert_string_equal(bed_place(&b), "x1");
    assert_non_null(b.deliveries[kept].entry);
    bed_close(&b);
}

static void the_configured_depth_is_the_limit(void **state)
{
    static struct bed b;
    open_bed(&b, 2);
    b.config.initial_destination_concurrency = 1;
    b.config.destination_concurrency_limit = 1;
    start(&b, "x10");
    (void)bed_place(&b);
    report_depth(&b, 1, 1000);
    assert_string_equal(bed_place(&b), "x0");
    assert_string_equal(bed_place(&b), "x0");
    assert_string_equal(bed_place(&b), "none");
    bed_close(&b);
}

static void a_rate_delay_follows_each_single_entry(void **state)
{
    static struct bed b;
    open_bed(&b, 16);
    b.config.destination_rate_delay = USEC_PER_SEC;
    start(&b, "x10");
    assert_string_equal(bed_place(&b), "x0+");
    report_depth(&b, 1, 8);
    assert_string_equal(bed_place(&b), "none");
    bed_advance(&b, 1);
    assert_string_equal(bed_place(&b), "x0");
    assert_string_equal(bed_place(&b), "none");
    /* Displaced, it is still the one. */
    bed_outcome(&b, 2, returned);
    assert_string_equal(bed_place(&b), "x0+");
    assert_string_equal(bed_place(&b), "none");
    bed_close(&b);
}

static void a_shrunken_window_drains_the_oldest_connections(void **state)
{
    static struct bed b;
    open_bed(&b, 16);
    open_two(&b, "x10");
    assert_string_equal(bed_place(&b), "x1");
    struct sched_outcome soft = {
        .feedback = SCHED_NEGATIVE, .has_deferred = true, .connection_open = true};
    bed_outcome(&b, 7, soft);
    assert_string_equal(bed_queue(&b, "aa"), "1 2 8");
    /* Connection 1 has room for two, 0 as well; only one may go on. */
    assert_string_equal(bed_place(&b), "x1");
    assert_string_equal(bed_place(&b), "x1");
    assert_string_equal(bed_place(&b), "none");
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
        cmocka_unit_test(connections_are_closed_when_they_are_old),
        cmocka_unit_test(connections_are_closed_when_they_are_used_up),
        cmocka_unit_test(entries_of_a_lost_connection_come_before_what_waits),
        cmocka_unit_test(displaced_entries_can_be_given_up),
        cmocka_unit_test(displaced_entries_are_placed_in_order),
        cmocka_unit_test(a_server_out_of_step_gets_one_entry_at_a_time),
        cmocka_unit_test(being_out_of_step_ends_after_an_hour),
        cmocka_unit_test(the_configured_depth_is_the_limit),
        cmocka_unit_test(a_rate_delay_follows_each_single_entry),
        cmocka_unit_test(a_shrunken_window_drains_the_oldest_connections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
