/* Death and revival (FB-18 to FB-20), rate delay (RD), resolution and who holds the hosts. */
#include "tests/unit/sched_bed.h"

#define DEFERRED(letter, address)                                                                  \
    "defer " letter " " address " (4.4.1 delivery temporarily suspended: no answer)"

static int hosts_1, hosts_2;

/* FB-18 */
static void revival_by_success(void **state)
{
    static struct bed b;
    bed_init(&b);
    bed_open(&b);
    for (char letter = 'A'; letter <= 'G'; letter++) {
        const char address[] = {'u', '@', 'd', '\0'};
        bed_message(&b, letter, address);
    }
    for (unsigned i = 0; i < 5; i++) {
        assert_string_not_equal(bed_select(&b), "none");
    }
    assert_string_equal(bed_select(&b), "none");
    bed_report(&b, 1, BED_FAIL);
    assert_string_equal(bed_queue(&b, "d"), "3 4 2");
    bed_report(&b, 2, BED_FAIL);
    assert_string_equal(bed_queue(&b, "d"), "2 3 2");
    assert_string_equal(bed_log(&b), "finished A; finished B");
    bed_report(&b, 3, BED_FAIL);
    assert_string_equal(bed_log(&b), DEFERRED("F", "u@d") "; finished F; " DEFERRED(
                                         "G", "u@d") "; finished G; finished C");
    assert_string_equal(bed_queue(&b, "d"), "dead 2 0");
    bed_report(&b, 4, BED_FAIL);
    assert_string_equal(bed_queue(&b, "d"), "dead 1 0");
    bed_report(&b, 5, BED_OK);
    assert_string_equal(bed_queue(&b, "d"), "-");
    bed_close(&b);
}

static void kill_one(struct bed *b)
{
    b->config.initial_destination_concurrency = 1;
    bed_open(b);
    bed_message(b, 'A', "a@d");
    assert_string_equal(bed_select(b), "A d a@d");
    bed_report(b, 1, BED_FAIL);
    assert_string_equal(bed_log(b), "finished A");
    assert_string_equal(bed_queue(b, "d"), "dead 0 0");
}

/* FB-19 */
static void new_mail_for_the_dead(void **state)
{
    static struct bed b;
    bed_init(&b);
    kill_one(&b);
    bed_advance(&b, 100);
    bed_message(&b, 'B', "b@d b@e c@d");
    assert_string_equal(bed_log(&b),
                        "defer B b@d c@d (4.4.1 delivery temporarily suspended: no answer)");
    assert_string_equal(bed_select(&b), "B e b@e");
    bed_advance(&b, 199);
    assert_string_equal(bed_queue(&b, "d"), "dead 0 0");
    bed_advance(&b, 1);
    assert_string_equal(bed_queue(&b, "d"), "-");
    bed_close(&b);
}

/* FB-20 */
static void revival_by_time(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.initial_destination_concurrency = 2;
    bed_open(&b);
    bed_message(&b, 'A', "a@d");
    bed_message(&b, 'B', "b@d");
    bed_message(&b, 'C', "c@d");
    assert_string_equal(bed_select(&b), "A d a@d");
    assert_string_equal(bed_select(&b), "B d b@d");
    bed_report(&b, 1, BED_FAIL);
    assert_string_equal(bed_queue(&b, "d"), "1 1 1");
    bed_report(&b, 2, BED_OK);
    assert_string_equal(bed_select(&b), "C d c@d");
    bed_message(&b, 'A', "a@d");
    assert_string_equal(bed_select(&b), "A d a@d");
    bed_report(&b, 3, BED_FAIL);
    bed_report(&b, 4, BED_FAIL);
    assert_string_equal(bed_queue(&b, "d"), "dead 0 0");
    bed_advance(&b, 300);
    assert_string_equal(bed_queue(&b, "d"), "-");
    bed_close(&b);

    bed_init(&b);
    b.config.initial_destination_concurrency = 3;
    bed_open(&b);
    bed_message(&b, 'A', "a@d");
    bed_message(&b, 'B', "b@d");
    bed_message(&b, 'C', "c@d");
    for (unsigned i = 0; i < 3; i++) {
        assert_string_not_equal(bed_select(&b), "none");
    }
    bed_report(&b, 1, BED_FAIL);
    bed_report(&b, 2, BED_FAIL);
    assert_string_equal(bed_queue(&b, "d"), "dead 1 0");
    bed_advance(&b, 300);
    assert_string_equal(bed_queue(&b, "d"), "1 1 0");
    bed_message(&b, 'D', "d@d");
    assert_string_equal(bed_queue(&b, "d"), "1 1 1");
    bed_close(&b);
}

static void flush_revives(void **state)
{
    static struct bed b;
    bed_init(&b);
    kill_one(&b);
    sched_flush(b.sched, b.now);
    assert_string_equal(bed_queue(&b, "d"), "-");
    bed_message(&b, 'A', "a@d");
    assert_string_equal(bed_select(&b), "A d a@d");
    bed_close(&b);
}

static void neutral_changes_nothing(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.feedback_debug = true;
    bed_open(&b);
    bed_message(&b, 'A', "a@d");
    bed_message(&b, 'B', "b@d");
    bed_message(&b, 'C', "c@d");
    (void)bed_select(&b);
    (void)bed_select(&b);
    bed_report(&b, 1, BED_NEUTRAL);
    assert_string_equal(bed_queue(&b, "d"), "5 1 1");
    struct sched_debug debug;
    assert_false(sched_debug_next(b.sched, &debug));
    bed_report(&b, 2, BED_FAIL);
    assert_true(sched_debug_next(b.sched, &debug));
    assert_string_equal(debug.name, "d");
    assert_int_equal(debug.window, 3);
    assert_false(debug.is_positive);
    assert_false(sched_debug_next(b.sched, &debug));
    bed_close(&b);
}

/* RD-1 */
static void rate_delay(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.destination_rate_delay = 3 * USEC_PER_SEC;
    bed_open(&b);
    bed_message(&b, 'A', "a@d");
    bed_message(&b, 'B', "b@d");
    bed_message(&b, 'C', "c@d");
    assert_string_equal(bed_select(&b), "A d a@d");
    assert_string_equal(bed_select(&b), "none");
    bed_advance(&b, 2);
    bed_report(&b, 1, BED_OK);
    assert_string_equal(bed_queue(&b, "d"), "suspended 0 2");
    assert_string_equal(bed_select(&b), "none");
    bed_advance(&b, 2);
    assert_string_equal(bed_select(&b), "none");
    bed_advance(&b, 1);
    assert_string_equal(bed_queue(&b, "d"), "1 0 2");
    assert_string_equal(bed_select(&b), "B d b@d");
    (void)bed_log(&b);
    bed_report(&b, 2, BED_FAIL);
    assert_string_equal(bed_log(&b), DEFERRED("C", "c@d") "; finished C; finished B");
    assert_string_equal(bed_queue(&b, "d"), "suspended 0 0");
    bed_advance(&b, 2);
    assert_string_equal(bed_queue(&b, "d"), "suspended 0 0");
    bed_advance(&b, 1);
    assert_string_equal(bed_queue(&b, "d"), "-");
    bed_close(&b);
}

/* RD-2 */
static void rate_delay_with_cohorts(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.destination_rate_delay = 3 * USEC_PER_SEC;
    b.config.destination_concurrency_failed_cohort_limit = 10;
    b.config.feedback_debug = true;
    bed_open(&b);
    bed_message(&b, 'A', "a@d");
    bed_message(&b, 'B', "b@d");
    bed_message(&b, 'C', "c@d");
    for (unsigned i = 1; i <= 3; i++) {
        assert_string_not_equal(bed_select(&b), "none");
        bed_report(&b, i, i == 1 ? BED_FAIL : BED_OK);
        struct sched_debug debug;
        assert_true(sched_debug_next(b.sched, &debug));
        assert_int_equal(debug.window, 1);
        assert_true(debug.fail_cohorts == (i == 1 ? 1 : 0));
        assert_string_equal(bed_select(&b), "none");
        bed_advance(&b, 3);
    }
    assert_string_equal(bed_queue(&b, "d"), "-");
    bed_close(&b);
}

/* 2.4.7: dead destinations are kept, but not any number of them. */
static void the_dead_are_bounded(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.initial_destination_concurrency = 1;
    b.config.message_recipient_limit = 2;
    bed_open(&b);
    for (char letter = 'A'; letter <= 'J'; letter++) {
        const char address[] = {'u', '@', letter, '\0'};
        bed_message(&b, letter, address);
        assert_string_not_equal(bed_select(&b), "none");
        bed_report(&b, b.delivered, BED_FAIL);
    }
    struct sched_counters c;
    sched_view_counters(b.sched, &c);
    assert_int_equal(c.dead, 4);
    assert_int_equal(c.destinations, 4);
    bed_close(&b);
}

static void open_resolving(struct bed *b)
{
    bed_init(b);
    b->config.must_resolve = true;
    b->config.connection_idle_limit = 1000 * USEC_PER_SEC;
    bed_open(b);
    bed_message(b, 'A', "a@d");
    assert_string_equal(bed_log(b), "resolve d");
}

static void resolution_comes_first(void **state)
{
    static struct bed b;
    open_resolving(&b);
    assert_string_equal(bed_queue(&b, "d"), "resolving 0 1");
    assert_string_equal(bed_select(&b), "none");
    bed_message(&b, 'B', "b@d");
    assert_string_equal(bed_log(&b), "");
    const struct sched_destination_view v = bed_view(&b, "d");
    assert_int_equal(v.why, SCHED_WHY_RESOLVING);
    bed_resolved(&b, 0, SCHED_RESOLVED, &hosts_1, 100 * USEC_PER_SEC);
    assert_string_equal(bed_select(&b), "A d a@d");
    assert_ptr_equal(b.deliveries[1].hosts, &hosts_1);
    assert_string_equal(bed_select(&b), "B d b@d");
    bed_close(&b);
}

/* On hold nothing is asked, so nothing can be bounced; afterwards it is. */
static void hold_asks_nothing(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.must_resolve = b.config.hold = true;
    bed_open(&b);
    bed_message(&b, 'A', "a@d");
    assert_string_equal(bed_log(&b), "");
    sched_set_hold(b.sched, false, 0);
    assert_string_equal(bed_select(&b), "none");
    assert_string_equal(bed_log(&b), "resolve d");
    bed_resolved(&b, 0, SCHED_RESOLVE_HARD, NULL, 0);
    bed_close(&b);
}

/* Others are not held up by one that resolves. */
static void resolution_holds_no_slot(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.must_resolve = true;
    b.config.process_limit = 1;
    bed_open(&b);
    bed_message(&b, 'A', "a@d");
    bed_message(&b, 'B', "b@e");
    assert_string_equal(bed_log(&b), "resolve d; resolve e");
    bed_resolved(&b, 1, SCHED_RESOLVED, &hosts_1, USEC_NEVER);
    assert_string_equal(bed_select(&b), "B e b@e");
    assert_string_equal(bed_select(&b), "none");
    bed_resolved(&b, 0, SCHED_RESOLVED, &hosts_2, USEC_NEVER);
    assert_string_equal(bed_select(&b), "none");
    bed_report(&b, 1, BED_OK);
    assert_string_equal(bed_select(&b), "A d a@d");
    assert_int_equal(b.hosts, 1);
    bed_close(&b);
}

static void hosts_expire(void **state)
{
    static struct bed b;
    open_resolving(&b);
    bed_resolved(&b, 0, SCHED_RESOLVED, &hosts_1, 10 * USEC_PER_SEC);
    bed_message(&b, 'B', "b@d");
    bed_message(&b, 'C', "c@d");
    bed_message(&b, 'D', "d@d");
    assert_string_equal(bed_select(&b), "A d a@d");
    bed_advance(&b, 10);
    bed_report_open(&b, 1);
    /* An idle connection needs no hosts; a new one is opened to the old hosts while asking. */
    (void)bed_log(&b);
    assert_string_equal(bed_select(&b), "B d b@d");
    assert_false(b.deliveries[2].is_new);
    assert_string_equal(bed_log(&b), "");
    assert_string_equal(bed_select(&b), "C d c@d");
    assert_ptr_equal(b.deliveries[3].hosts, &hosts_1);
    assert_string_equal(bed_log(&b), "resolve d");
    bed_resolved(&b, 1, SCHED_RESOLVED, &hosts_2, 100 * USEC_PER_SEC);
    assert_int_equal(b.hosts, 1);
    assert_string_equal(bed_select(&b), "D d d@d");
    assert_ptr_equal(b.deliveries[4].hosts, &hosts_2);
    assert_string_equal(bed_log(&b), "");
    bed_close(&b);
}

static void soft_failure(void **state)
{
    static struct bed b;
    open_resolving(&b);
    bed_message(&b, 'B', "b@d b@e");
    (void)bed_log(&b);
    bed_resolved(&b, 0, SCHED_RESOLVE_SOFT, NULL, 400 * USEC_PER_SEC);
    assert_string_equal(
        bed_log(&b),
        "defer A a@d (4.4.3 delivery temporarily suspended: name server timeout); finished A; "
        "defer B b@d (4.4.3 delivery temporarily suspended: name server timeout)");
    assert_string_equal(bed_queue(&b, "d"), "dead 0 0");
    bed_message(&b, 'C', "c@d");
    assert_string_equal(
        bed_log(&b),
        "defer C c@d (4.4.3 delivery temporarily suspended: name server timeout); finished C");
    bed_advance(&b, 399);
    assert_string_equal(bed_queue(&b, "d"), "dead 0 0");
    bed_advance(&b, 1);
    assert_string_equal(bed_queue(&b, "d"), "-");
    /* No time given: the minimal backoff. */
    bed_message(&b, 'D', "d@d");
    bed_resolved(&b, 2, SCHED_RESOLVE_SOFT, NULL, 0);
    bed_advance(&b, 299);
    assert_string_equal(bed_queue(&b, "d"), "dead 0 0");
    bed_advance(&b, 1);
    assert_string_equal(bed_queue(&b, "d"), "-");
    bed_close(&b);
}

static void hard_failure(void **state)
{
    static struct bed b;
    open_resolving(&b);
    bed_message(&b, 'B', "b@d b@e");
    (void)bed_log(&b);
    bed_resolved(&b, 0, SCHED_RESOLVE_HARD, NULL, 0);
    assert_string_equal(bed_log(&b), "bounce A a@d (5.4.4 no such domain); finished A; "
                                     "bounce B b@d (5.4.4 no such domain)");
    assert_string_equal(bed_queue(&b, "d"), "-");
    assert_string_equal(bed_queue(&b, "e"), "resolving 0 1");
    bed_message(&b, 'C', "c@d");
    assert_string_equal(bed_log(&b), "resolve d");
    bed_close(&b);
}

/* The answer to a second question takes the hosts away from under a running delivery. */
static void failure_while_busy(void **state)
{
    static struct bed b;
    for (int round = 0; round < 2; round++) {
        open_resolving(&b);
        bed_resolved(&b, 0, SCHED_RESOLVED, &hosts_1, 0);
        bed_message(&b, 'B', "b@d");
        bed_message(&b, 'C', "c@d");
        assert_string_equal(bed_select(&b), "A d a@d");
        assert_string_equal(bed_log(&b), "resolve d");
        assert_string_equal(bed_select(&b), "B d b@d");
        bed_report_open(&b, 1);
        (void)bed_log(&b);
        bed_resolved(&b, 1, round == 0 ? SCHED_RESOLVE_SOFT : SCHED_RESOLVE_HARD, NULL, 0);
        assert_int_equal(b.hosts, 0);
        assert_string_equal(
            bed_log(&b),
            round == 0 ? "close 0; defer C c@d (4.4.3 delivery temporarily suspended: name server "
                         "timeout); finished C"
                       : "close 0; bounce C c@d (5.4.4 no such domain); finished C");
        /* The connection of the delivery that goes on is not kept either. */
        bed_message(&b, 'D', "d@d");
        (void)bed_log(&b);
        if (round == 1) {
            bed_report_open(&b, 2);
            assert_string_equal(bed_log(&b), "close 1; finished B");
            assert_string_equal(bed_queue(&b, "d"), "resolving 0 1");
        }
        bed_close(&b);
    }
}

/* The last entry is gone before the answer comes. */
static void answer_without_work(void **state)
{
    static struct bed b;
    for (int round = 0; round < 3; round++) {
        open_resolving(&b);
        bed_resolved(&b, 0, SCHED_RESOLVED, &hosts_1, 0);
        assert_string_equal(bed_select(&b), "A d a@d");
        bed_report(&b, 1, BED_OK);
        assert_string_equal(bed_queue(&b, "d"), "5 0 0");
        bed_resolved(&b, 1, (enum sched_resolution)round, round == 0 ? &hosts_2 : NULL, 0);
        assert_string_equal(bed_queue(&b, "d"), "-");
        assert_int_equal(b.hosts, 0);
        bed_close(&b);
    }
}

/* DELIVER waits behind CLOSE while new hosts come: it still names the old ones, which stay. */
static void hosts_of_an_action_in_waiting(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.must_resolve = true;
    b.config.process_limit = 1;
    bed_open(&b);
    bed_message(&b, 'A', "a@d");
    bed_message(&b, 'B', "b@e");
    (void)bed_log(&b);
    bed_resolved(&b, 0, SCHED_RESOLVED, &hosts_1, USEC_NEVER);
    assert_string_equal(bed_select(&b), "A d a@d");
    bed_report_open(&b, 1);
    bed_resolved(&b, 1, SCHED_RESOLVED, &hosts_2, 0);
    struct sched_action a;
    assert_true(sched_pull(b.sched, &a, b.now));
    assert_int_equal(a.kind, SCHED_RESOLVE);
    struct sched_hosts_result r = {
        .destination = a.destination, .hosts = &hosts_1, .expires = USEC_NEVER};
    assert_int_equal(b.hosts, 1); /* those of d went away with it */
    b.hosts++;
    sched_resolved(b.sched, &r, b.now);
    assert_int_equal(b.hosts, 2);
    assert_true(sched_pull(b.sched, &a, b.now));
    assert_int_equal(a.kind, SCHED_CLOSE);
    assert_int_equal(a.connection, 0);
    assert_true(sched_pull(b.sched, &a, b.now));
    assert_int_equal(a.kind, SCHED_DELIVER);
    assert_ptr_equal(a.hosts, &hosts_2);
    assert_int_equal(b.hosts, 2);
    struct sched_outcome o = {.entry = a.entry};
    sched_report(b.sched, &o, b.now);
    assert_int_equal(b.hosts, 0);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(revival_by_success),
        cmocka_unit_test(new_mail_for_the_dead),
        cmocka_unit_test(revival_by_time),
        cmocka_unit_test(flush_revives),
        cmocka_unit_test(neutral_changes_nothing),
        cmocka_unit_test(rate_delay),
        cmocka_unit_test(rate_delay_with_cohorts),
        cmocka_unit_test(the_dead_are_bounded),
        cmocka_unit_test(resolution_comes_first),
        cmocka_unit_test(hold_asks_nothing),
        cmocka_unit_test(resolution_holds_no_slot),
        cmocka_unit_test(hosts_expire),
        cmocka_unit_test(soft_failure),
        cmocka_unit_test(hard_failure),
        cmocka_unit_test(failure_while_busy),
        cmocka_unit_test(answer_without_work),
        cmocka_unit_test(hosts_of_an_action_in_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
