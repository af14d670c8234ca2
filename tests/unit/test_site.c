/* Sites: destinations that share windows, and connections where their hosts allow it. */
#include "sched/sched.h"
#include "tests/unit/site_bed.h"

#include <limits.h>

static void destinations_share_a_window_and_its_connections(void **state)
{
    static struct shell h;
    shell_init(&h);
    shell_open(&h);
    shell_send(&h, "aa");
    shell_send(&h, "bb");
    shell_send(&h, "cc");
    assert_int_equal(shell_run(&h), 2);
    shell_report(&h, 0, SCHED_POSITIVE, true);
    assert_int_equal(shell_run(&h), 1);
    assert_int_equal(shell_letter(&h, 2), 'c');
    assert_false(h.deliveries[2].connection_is_new);
    assert_int_equal(h.deliveries[2].connection, h.deliveries[0].connection);
    struct sched_destination_view v;
    assert_true(sched_view_destination(h.sched, SLICE("cc"), &v));
    assert_int_equal(v.window, 2);
    assert_int_equal(v.busy, 2);
    shell_close(&h);
}

/* Each of these differs from the first destination in one thing that forbids its connection. */
static void a_connection_is_shared_only_where_all_agrees(void **state)
{
    static const struct place others[] = {{"s", "yz", 0, 0, NULL}, /* it does not name that host */
                                          {"s", "xy", 1, 0, NULL}, /* it demands another TLS */
                                          {"s", "xy", 0, 1, NULL}, /* it knows the host by a name */
                                          {"t", "xy", 0, 0, NULL}};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        static struct shell h;
        shell_init(&h);
        h.places['b' - 'a'] = others[i];
        shell_open(&h);
        shell_send(&h, "aa");
        assert_int_equal(shell_run(&h), 1);
        shell_report(&h, 0, SCHED_POSITIVE, true);
        shell_send(&h, "bb");
        assert_int_equal(shell_run(&h), 1);
        assert_true(h.deliveries[1].connection_is_new);
        shell_send(&h, "aa");
        assert_int_equal(shell_run(&h), 1);
        assert_false(h.deliveries[2].connection_is_new);
        shell_close(&h);
    }
}

static void a_dead_lane_defers_what_waits_for_its_site_and_nothing_else(void **state)
{
    static struct shell h;
    shell_init(&h);
    h.config.concurrency_feedback_rule = SCHED_RULE_POSTFIX3;
    h.places['d' - 'a'].site = "t";
    shell_open(&h);
    for (int i = 0; i < 3; i++) {
        shell_send(&h, "aa");
        shell_send(&h, "bb");
    }
    assert_int_equal(shell_run(&h), 2);
    shell_report(&h, 0, SCHED_NEGATIVE, false);
    shell_report(&h, 1, SCHED_NEGATIVE, false);
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.deferred, 4);
    shell_send(&h, "cc"); /* it is not known yet to be at that site */
    shell_send(&h, "dd");
    assert_int_equal(shell_run(&h), 1);
    assert_int_equal(shell_letter(&h, 2), 'd');
    assert_int_equal(h.deferred, 5);
    h.now += h.config.minimal_backoff_time;
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 1);
    shell_close(&h);
}

/* Another answer moves what waits; the delivery under way stays where it is. */
static void a_destination_moves_to_another_site(void **state)
{
    static struct shell h;
    shell_init(&h);
    h.config.destination_concurrency_limit = h.config.initial_destination_concurrency = 1;
    shell_open(&h);
    shell_send(&h, "bb");
    shell_send(&h, "aa");
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 1);
    h.places[0] = (struct place){.site = "t", .servers = "z"};
    sched_forget_hosts(h.sched, h.now);
    assert_int_equal(shell_run(&h), 1);
    assert_int_equal(shell_letter(&h, 1), 'a');
    shell_report(&h, 0, SCHED_POSITIVE, true);
    assert_int_equal(shell_run(&h), 0);
    shell_report(&h, 1, SCHED_POSITIVE, true);
    assert_int_equal(shell_run(&h), 1);
    assert_false(h.deliveries[2].connection_is_new);
    shell_close(&h);
}

/* Its mail goes over a connection that is there for another one, so it opens none, and yet it hears of
 * another answer. */
static void a_destination_that_only_rides_asks_again(void **state)
{
    static struct shell h;
    shell_init(&h);
    shell_open(&h);
    shell_send(&h, "bb");
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 2);
    shell_report(&h, 0, SCHED_POSITIVE, true);
    for (unsigned i = 1; i < 4; i++) {
        assert_int_equal(h.resolved, i + 1);
        h.now += 2 * USEC_PER_SEC; /* beyond their expiry */
        shell_send(&h, "aa");
        assert_int_equal(shell_run(&h), 1);
        assert_false(h.deliveries[i + 1].connection_is_new);
        shell_report(&h, i + 1, SCHED_POSITIVE, true);
        assert_int_equal(h.resolved, i + 2);
    }
    h.places[0] = (struct place){.site = "t", .servers = "z"};
    h.now += 2 * USEC_PER_SEC;
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 1);
    shell_report(&h, 5, SCHED_POSITIVE, true);
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 1);
    assert_true(h.deliveries[6].connection_is_new);
    shell_report(&h, 1, SCHED_POSITIVE, true);
    shell_close(&h);
}

/* A list may have one host under several names, and a refresh of it ends no connection to it. */
static void a_host_keeps_its_connections_under_each_of_its_names(void **state)
{
    static struct shell h;
    struct sched_action a;
    shell_init(&h);
    shell_open(&h);
    for (uint32_t i = 0; i < 12; i++) {
        const struct sched_server servers[] = {
            {.key = {1}, .key_len = 1, .preference = 10, .name = 7},
            {.key = {1}, .key_len = 1, .preference = 10, .name = 8},
            {.key = {2}, .key_len = 1, .preference = 20, .name = 9}};
        shell_send(&h, "aa");
        bool had_connection = h.delivered > 0;
        while (sched_pull(h.sched, &a, h.now)) {
            shell_check(&h);
            if (a.kind == SCHED_RESOLVE) {
                sched_resolved(h.sched,
                               &(struct sched_hosts_result){.destination = a.destination,
                                                            .resolution = SCHED_RESOLVED,
                                                            .hosts = &h,
                                                            .servers = servers,
                                                            .server_count = 2 + i % 2,
                                                            .site = SLICE("s")},
                               h.now);
            } else if (a.kind == SCHED_DELIVER) {
                assert_int_equal(a.connection_is_new, !had_connection);
                h.deliveries[h.delivered++] = a;
            }
        }
        shell_report(&h, h.delivered - 1, SCHED_POSITIVE, i % 4 != 3);
        h.delivered = i % 4 == 3 ? 0 : h.delivered;
    }
    sched_free(h.sched);
}

/* What others see of a site and its lanes. */
static void a_site_is_seen(void **state)
{
    static struct shell h;
    struct sched_destination_view d;
    struct sched_site_view v, one;
    struct sched_lane_view lane;
    uint64_t cursor = 0;
    shell_init(&h);
    h.config.lane_memory = USEC_PER_SEC;
    shell_open(&h);
    for (int i = 0; i < 2; i++) {
        shell_send(&h, "aa");
        shell_send(&h, "bb");
    }
    assert_int_equal(shell_run(&h), 2);
    assert_true(sched_view_sites(h.sched, &cursor, &v));
    assert_true(slice_eq(v.key, SLICE("s")));
    assert_int_equal(v.lanes, 1);
    assert_int_equal(v.destinations, 2);
    assert_int_equal(v.todo, 2);
    assert_int_equal(v.window, 2);
    assert_int_equal(v.busy, 2);
    assert_int_equal(v.in_flight, 2);
    assert_int_equal(v.state, SCHED_LANE_READY);
    assert_false(sched_view_sites(h.sched, &cursor, &one));
    assert_true(sched_view_site(h.sched, SLICE("s"), &one));
    assert_int_equal(one.todo, 2);
    assert_false(sched_view_site(h.sched, SLICE("t"), &one));
    assert_true(sched_view_lane(h.sched, SLICE("s"), 0, &lane));
    assert_int_equal(lane.in_flight, 2);
    assert_int_equal(lane.connections, 2);
    assert_false(sched_view_lane(h.sched, SLICE("s"), 1, &lane));
    assert_true(sched_view_destination(h.sched, SLICE("bb"), &d));
    assert_true(slice_eq(d.site, SLICE("s")));
    shell_close(&h);
}

static void the_limit_of_a_site_bounds_its_connections(void **state)
{
    static struct shell h;
    shell_init(&h);
    h.config.site_concurrency_limit = 1;
    shell_open(&h);
    shell_send(&h, "aa");
    shell_send(&h, "bb");
    assert_int_equal(shell_run(&h), 1);
    shell_report(&h, 0, SCHED_POSITIVE, false);
    assert_int_equal(shell_run(&h), 1);
    shell_close(&h);
}

/* A site may have a window of its own, from its first delivery on and when it changes. */
static void a_site_has_options_of_its_own(void **state)
{
    static struct shell h;
    struct sched_config own;
    struct sched_site_view v;
    shell_init(&h);
    h.places['b' - 'a'].site = "t";
    shell_open(&h);
    own = h.config;
    own.destination_concurrency_limit = 1;
    assert_false(sched_site_configure(h.sched, SLICE("t"), &own, h.now));
    for (int i = 0; i < 5; i++) {
        shell_send(&h, "bb");
        shell_send(&h, "aa");
    }
    assert_int_equal(shell_run(&h), 4);
    assert_true(sched_site_configure(h.sched, SLICE("t"), &own, h.now));
    shell_check(&h);
    assert_true(sched_view_site(h.sched, SLICE("t"), &v));
    assert_int_equal(v.window, 1);
    assert_true(sched_view_site(h.sched, SLICE("s"), &v));
    assert_int_equal(v.window, 2);
    own.destination_concurrency_limit = 9;
    own.initial_destination_concurrency = 9;
    own.site_concurrency_limit = 3;
    assert_true(sched_site_configure(h.sched, SLICE("t"), &own, h.now));
    assert_int_equal(shell_run(&h), 1); /* the limit of the site is below its window */
    assert_true(sched_reconfigure(h.sched, &h.config, h.now) == 0);
    shell_check(&h);
    assert_true(sched_view_site(h.sched, SLICE("t"), &v));
    assert_int_equal(v.window, 9);
    assert_true(sched_site_configure(h.sched, SLICE("t"), NULL, h.now));
    shell_check(&h);
    assert_true(sched_view_site(h.sched, SLICE("t"), &v));
    assert_int_equal(v.window, 2);
    shell_close(&h);
}

/* Each window may be as large as an int. */
static void a_view_adds_the_largest_windows(void **state)
{
    static struct shell h;
    struct sched_site_view v;
    struct sched_destination_view d;
    uint64_t cursor = 0;
    shell_init(&h);
    h.config.destination_concurrency_limit = h.config.initial_destination_concurrency = INT_MAX;
    shell_open(&h);
    shell_sources(&h, 2, NULL, 0);
    for (int i = 0; i < 4; i++) {
        shell_send(&h, "aa");
    }
    assert_int_equal(shell_run(&h), 4);
    assert_true(sched_view_site(h.sched, SLICE("s"), &v));
    assert_int_equal(v.lanes, 2);
    assert_int_equal(v.window, INT_MAX);
    assert_true(sched_view_destinations(h.sched, &cursor, &d));
    assert_int_equal(d.window, INT_MAX);
    shell_close(&h);
}

/* What was learned is kept for lane_memory, and without it no longer than the mail. */
static void a_window_is_remembered(void **state)
{
    for (int keeps = 0; keeps < 2; keeps++) {
        static struct shell h;
        shell_init(&h);
        h.config.destination_concurrency_limit = 9;
        h.config.connection_idle_limit = 0;
        h.config.lane_memory = keeps * 3600 * USEC_PER_SEC;
        shell_open(&h);
        shell_send(&h, "aa");
        shell_send(&h, "aa");
        assert_int_equal(shell_run(&h), 2);
        shell_report(&h, 0, SCHED_POSITIVE, false);
        shell_report(&h, 1, SCHED_POSITIVE, false);
        h.now += 3599 * USEC_PER_SEC;
        for (int i = 0; i < 5; i++) {
            shell_send(&h, "bb");
        }
        assert_int_equal(shell_run(&h), keeps ? 3 : 2);
        shell_close(&h);
    }
}

/* A flow that has been told that one party lacks a slot is told the same of the lanes when a second one comes; and its
 * message may go while both wait. */
static void a_message_goes_while_two_parties_lack_a_slot(void **state)
{
    static struct shell h;
    const struct sched_reason reason = {"4.0.0", "taken away"};
    shell_init(&h);
    h.config.process_limit = 3;
    h.config.initial_destination_concurrency = h.config.destination_concurrency_limit = 1;
    h.places['c' - 'a'].servers = "z";
    h.places['d' - 'a'].site = "t";
    h.places['e' - 'a'].site = "u";
    shell_open(&h);
    h.flow.tenant = 1;
    shell_send(&h, "dd");
    h.flow.tenant = 2;
    const char *const names[] = {"ee", "ee", "aa", "aa", "bb"};
    for (int i = 0; i < 5; i++) {
        shell_send(&h, names[i]);
    }
    assert_int_equal(shell_run(&h), 3); /* the others were looked at: the windows are full */
    h.config.process_limit = 1;
    assert_int_equal(sched_reconfigure(h.sched, &h.config, h.now), 0);
    shell_report(&h, 1, SCHED_POSITIVE, false);
    shell_report(&h, 2, SCHED_POSITIVE, false);
    assert_int_equal(shell_run(&h), 0);
    shell_send(&h, "cc");
    assert_int_equal(shell_run(&h), 0);
    sched_withdraw(h.sched, 5, SLICE(""), &reason, h.now); /* the first one at both */
    shell_check(&h);
    assert_int_equal(shell_run(&h), 0);
    shell_report(&h, 0, SCHED_POSITIVE, false);
    assert_int_equal(shell_run(&h), 1);
    assert_int_equal(shell_letter(&h, 3), 'e');
    shell_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(destinations_share_a_window_and_its_connections),
        cmocka_unit_test(a_connection_is_shared_only_where_all_agrees),
        cmocka_unit_test(a_dead_lane_defers_what_waits_for_its_site_and_nothing_else),
        cmocka_unit_test(a_destination_moves_to_another_site),
        cmocka_unit_test(a_destination_that_only_rides_asks_again),
        cmocka_unit_test(a_host_keeps_its_connections_under_each_of_its_names),
        cmocka_unit_test(a_site_is_seen),
        cmocka_unit_test(the_limit_of_a_site_bounds_its_connections),
        cmocka_unit_test(a_site_has_options_of_its_own),
        cmocka_unit_test(a_view_adds_the_largest_windows),
        cmocka_unit_test(a_window_is_remembered),
        cmocka_unit_test(a_message_goes_while_two_parties_lack_a_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
