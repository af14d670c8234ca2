/* Hosts: their states, when they are tried again, when they are forgotten. */
#include "sched/transport.h"
#include "tests/unit/sched_bed.h"

/* The next server, and the feedback of scheduler-semantics section 3 only at the end. */
static const struct sched_outcome refused = {
    .feedback = SCHED_NEGATIVE, .has_deferred = true, .server_failed = true};

static void open_bed(struct bed *b)
{
    bed_init(b);
    b->config.must_resolve = true;
    b->config.destination_recipient_limit = 2;
    b->config.delivery_slot_cost = 0;
    b->config.connection_idle_limit = 5 * USEC_PER_SEC;
    bed_open(b);
}

/* Windows of one connection: the first failure is a window's worth. */
static void open_narrow(struct bed *b)
{
    bed_init(b);
    b->config.must_resolve = true;
    b->config.initial_destination_concurrency = 1;
    bed_open(b);
}

static void the_states_of_a_host(void **state)
{
    static struct bed b;
    open_bed(&b);
    assert_string_equal(bed_host(&b, 'x'), "-");
    bed_ask(&b, 'A', "a@aa", "x10 y20");
    assert_string_equal(bed_host(&b, 'x'), "unused 0 0 0");
    assert_string_equal(bed_place(&b), "x0+");
    assert_string_equal(bed_host(&b, 'x'), "active 1 1 0");
    bed_outcome(&b, 1, bed_done);
    assert_string_equal(bed_host(&b, 'x'), "idle 1 0 0");
    bed_advance(&b, 5);
    assert_string_equal(bed_host(&b, 'x'), "closed 0 0 0");
    /* Of y nothing is worth keeping; x is forgotten an hour after its last connection. */
    assert_string_equal(bed_host(&b, 'y'), "-");
    bed_advance(&b, 3599);
    assert_string_equal(bed_host(&b, 'x'), "closed 0 0 0");
    bed_advance(&b, 1);
    assert_string_equal(bed_host(&b, 'x'), "-");
    bed_close(&b);
}

static void a_forgotten_host_in_use_is_unused_again(void **state)
{
    static struct bed b;
    open_bed(&b);
    bed_ask(&b, 'A', "a@aa", "x10 y10");
    bed_ask(&b, 'B', "b@bb", "x10 y10");
    char first = bed_place(&b)[0];
    bed_outcome(&b, 1, bed_gone);
    sched_set_hold(b.sched, true, b.now);
    bed_advance(&b, 3600);
    assert_string_equal(bed_host(&b, first), "unused 0 0 0");
    bed_close(&b);
}

/* initial_destination_concurrency 5, cohort limit 1: five connections in a row. */
static void a_windows_worth_of_failures_and_it_is_left_alone(void **state)
{
    static struct bed b;
    static const char *const addresses[] = {"u@aa", "u@bb", "u@cc", "u@dd", "u@ee"};
    static const char *const states[] = {"closed 0 0 1", "closed 0 0 2", "closed 0 0 3",
                                         "closed 0 0 4", "retry 0 0 5"};
    open_bed(&b);
    for (unsigned i = 0; i < 5; i++) {
        bed_ask(&b, (char)('A' + i), addresses[i], "x10");
        assert_int_equal(bed_place(&b)[0], 'x');
        bed_outcome(&b, i + 1, refused);
        assert_string_equal(bed_host(&b, 'x'), states[i]);
    }
    /* The sixth destination does not pay its own timeout. */
    bed_ask(&b, 'F', "u@ff", "x10");
    (void)bed_log(&b);
    assert_string_equal(bed_place(&b), "none");
    assert_string_equal(bed_queue(&b, "ff"), "dead 0 0");
    bed_close(&b);
}

/* Its own rule comes first: with these figures at the fourth failure. */
static void a_destination_alone_dies_of_its_own_rule(void **state)
{
    static struct bed b;
    open_bed(&b);
    bed_ask(&b, 'A', "a0@aa a1@aa a2@aa a3@aa a4@aa a5@aa a6@aa a7@aa a8@aa a9@aa", "x10");
    (void)bed_places(&b, 5);
    for (unsigned i = 1; i <= 3; i++) {
        bed_outcome(&b, i, refused);
    }
    assert_string_equal(bed_host(&b, 'x'), "active 2 2 3");
    bed_outcome(&b, 4, refused);
    const struct sched_destination_view v = bed_view(&b, "aa");
    assert_int_equal(v.state, SCHED_DESTINATION_DEAD);
    assert_int_equal(v.why, SCHED_WHY_DEAD);
    bed_close(&b);
}

/* A window that has grown: five failures are no windowful any more, neither for the destination nor
 * for its host, whose connections carry one entry each and so are never live for long. */
static void fail_with_a_grown_window(bool is_forgotten)
{
    static struct bed b;
    bed_init(&b);
    b.config.must_resolve = true;
    b.config.concurrency_feedback_rule = SCHED_RULE_README;
    b.config.destination_recipient_limit = 2;
    b.config.delivery_slot_cost = 0;
    bed_open(&b);
    bed_ask(&b, 'A', BED_TEN " " BED_TEN " " BED_TEN " " BED_TEN, "x10");
    (void)bed_places(&b, 5);
    for (unsigned i = 1; i <= 5; i++) {
        bed_outcome(&b, i, bed_gone);
    }
    if (is_forgotten) {
        sched_set_hold(b.sched, true, b.now);
        bed_advance(&b, 3600);
        assert_string_equal(bed_host(&b, 'x'), "unused 0 0 0");
        sched_set_hold(b.sched, false, b.now);
    }
    (void)bed_places(&b, 8);
    assert_string_equal(bed_queue(&b, "aa"), "8 8 7");
    /* 1/8 + 1/7 + 1/6 + 1/5 + 1/4 are less than one cohort, with 1/3 it is more. */
    for (unsigned i = 6; i <= 10; i++) {
        bed_outcome(&b, i, refused);
    }
    assert_string_equal(bed_host(&b, 'x'), "active 3 3 5");
    assert_string_equal(bed_queue(&b, "aa"), "3 3 7");
    bed_outcome(&b, 11, refused);
    assert_int_equal(bed_view(&b, "aa").state, SCHED_DESTINATION_DEAD);
    bed_close(&b);
}

static void a_grown_window_allows_more_failures(void **state)
{
    fail_with_a_grown_window(false);
}

static void a_forgotten_host_begins_anew(void **state)
{
    fail_with_a_grown_window(true);
}

static void a_live_connection_keeps_a_host_out_of_retry(void **state)
{
    static struct bed b;
    open_bed(&b);
    bed_ask(&b, 'A', "a@aa", "x10");
    assert_string_equal(bed_place(&b), "x0+");
    bed_outcome(&b, 1, bed_done);
    static const char *const addresses[] = {"u@bb", "u@cc", "u@dd", "u@ee", "u@ff", "u@gg"};
    for (unsigned i = 0; i < 6; i++) {
        bed_ask(&b, (char)('B' + i), addresses[i], "x10");
        assert_int_equal(bed_place(&b)[0], 'x');
        bed_outcome(&b, i + 2, refused);
    }
    assert_string_equal(bed_host(&b, 'x'), "idle 1 0 0");
    bed_close(&b);
}

static void success_clears_failures(void **state)
{
    static struct bed b;
    open_bed(&b);
    b.config.destination_concurrency_failed_cohort_limit = 1;
    bed_ask(&b, 'A', "a0@aa a1@aa", "x10");
    bed_ask(&b, 'B', "b@bb", "x10");
    bed_ask(&b, 'C', "c@cc", "x10");
    (void)bed_places(&b, 3);
    bed_outcome(&b, 1, refused);
    bed_outcome(&b, 2, refused);
    assert_string_equal(bed_host(&b, 'x'), "active 1 1 2");
    bed_outcome(&b, 3, bed_gone);
    assert_string_equal(bed_host(&b, 'x'), "closed 0 0 0");
    bed_close(&b);
}

/* A report that tries elsewhere proves nothing of the host, unless the connection was ready for
 * MAIL: the sender may have failed on its own side. */
static void our_own_failure_says_nothing_of_a_host(void **state)
{
    static struct bed b;
    const struct sched_outcome ours = {.again = true, .server_tried = true};
    const struct sched_outcome was_ready = {.again = true, .server_tried = true, .depth = 1};
    open_bed(&b);
    static const char *const addresses[] = {"u@aa", "u@bb", "u@cc"};
    for (unsigned i = 0; i < 3; i++) {
        bed_ask(&b, (char)('A' + i), addresses[i], "x10 y20");
        assert_int_equal(bed_place(&b)[0], 'x');
    }
    bed_outcome(&b, 1, refused);
    assert_string_equal(bed_host(&b, 'x'), "active 2 2 1");
    bed_outcome(&b, 2, ours);
    assert_string_equal(bed_host(&b, 'x'), "active 1 1 1");
    bed_outcome(&b, 3, was_ready);
    assert_string_equal(bed_host(&b, 'x'), "closed 0 0 0");
    assert_int_equal(bed_place(&b)[0], 'y');
    assert_int_equal(bed_place(&b)[0], 'y');
    bed_close(&b);
}

/* Connections on their way when the host was given up may still come through. */
static void success_ends_a_retry(void **state)
{
    static struct bed b;
    open_narrow(&b);
    bed_ask(&b, 'A', "a@aa", "x10");
    bed_ask(&b, 'B', "b@bb", "x10");
    (void)bed_place(&b);
    (void)bed_place(&b);
    bed_outcome(&b, 1, refused);
    assert_string_equal(bed_host(&b, 'x'), "retry 1 1 1");
    bed_outcome(&b, 2, bed_done);
    assert_string_equal(bed_host(&b, 'x'), "idle 1 0 0");
    bed_close(&b);
}

static void a_flush_tries_every_host(void **state)
{
    static struct bed b;
    open_narrow(&b);
    bed_ask(&b, 'A', "a@aa", "x10");
    (void)bed_place(&b);
    bed_outcome(&b, 1, refused);
    bed_ask(&b, 'B', "b@bb", "x10");
    assert_string_equal(bed_place(&b), "none");
    sched_flush(b.sched, b.now);
    bed_ask(&b, 'C', "c@cc", "x10");
    assert_string_equal(bed_place(&b), "x0+");
    bed_close(&b);
}

static void notes_stay_with_the_host(void **state)
{
    static struct bed b;
    open_bed(&b);
    bed_ask(&b, 'A', "a@aa", "x10");
    (void)bed_place(&b);
    assert_int_equal(b.deliveries[1].server_notes, 0);
    struct sched_outcome o = bed_gone;
    o.server_notes = 5;
    bed_outcome(&b, 1, o);
    bed_ask(&b, 'B', "b@bb", "x10");
    (void)bed_place(&b);
    assert_int_equal(b.deliveries[2].server_notes, 5);
    o.server_notes = 2;
    bed_outcome(&b, 2, o);
    bed_ask(&b, 'C', "c@cc", "x10");
    (void)bed_place(&b);
    assert_int_equal(b.deliveries[3].server_notes, 7);
    bed_close(&b);
}

/* Bytes of hosts in memory do not grow with the hosts that were ever contacted. */
static void there_are_not_too_many_records(void **state)
{
    static struct bed b;
    open_bed(&b);
    for (uint32_t i = 0; i < 66000; i++) {
        const struct sched_recipient r = {SLICE("u@aa"), SLICE("aa"), 0, 0};
        const struct sched_message m = {.id = i, .recipients = &r, .recipient_count = 1};
        assert_int_equal(sched_submit(b.sched, &m, b.now), 0);
        struct sched_action a;
        assert_true(sched_pull(b.sched, &a, b.now) && a.kind == SCHED_RESOLVE);
        struct sched_server server = {.key_len = sizeof(i)};
        memcpy(server.key, &i, sizeof(i));
        const struct sched_hosts_result found = {.destination = a.destination,
                                                 .resolution = SCHED_RESOLVED,
                                                 .hosts = &b,
                                                 .expires = USEC_NEVER,
                                                 .servers = &server,
                                                 .server_count = 1};
        b.hosts++;
        sched_resolved(b.sched, &found, b.now);
        assert_true(sched_pull(b.sched, &a, b.now) && a.kind == SCHED_DELIVER);
        struct sched_outcome o = bed_gone;
        o.entry = a.entry;
        sched_report(b.sched, &o, b.now);
        assert_true(sched_pull(b.sched, &a, b.now) && a.kind == SCHED_FINISHED);
    }
    assert_in_range(b.sched->destdb.by_key.count, 65536, 65537);
    bed_close(&b);
}

static void no_memory_for_servers_is_one_without_a_name(void **state)
{
    static struct bed b;
    open_bed(&b);
    bed_message(&b, 'A', "a@aa");
    b.fail_after = 1;
    bed_servers(&b, 0, "x10 y10");
    b.fail_after = -1;
    assert_string_equal(bed_select(&b), "A aa a@aa");
    assert_true(b.deliveries[1].is_last_server);
    assert_string_equal(bed_host(&b, 'x'), "-");
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_states_of_a_host),
        cmocka_unit_test(a_forgotten_host_in_use_is_unused_again),
        cmocka_unit_test(a_windows_worth_of_failures_and_it_is_left_alone),
        cmocka_unit_test(a_destination_alone_dies_of_its_own_rule),
        cmocka_unit_test(a_grown_window_allows_more_failures),
        cmocka_unit_test(a_forgotten_host_begins_anew),
        cmocka_unit_test(a_live_connection_keeps_a_host_out_of_retry),
        cmocka_unit_test(success_clears_failures),
        cmocka_unit_test(our_own_failure_says_nothing_of_a_host),
        cmocka_unit_test(success_ends_a_retry),
        cmocka_unit_test(a_flush_tries_every_host),
        cmocka_unit_test(notes_stay_with_the_host),
        cmocka_unit_test(there_are_not_too_many_records),
        cmocka_unit_test(no_memory_for_servers_is_one_without_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
