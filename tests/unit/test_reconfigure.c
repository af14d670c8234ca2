/* Configs that change while entries are in flight; that nothing else breaks is shown by the random
 * operations of tests/sim. */
#include "tests/unit/sched_bed.h"

#include <errno.h>

static void check(struct bed *b)
{
    struct sched_fault fault;
    if (sched_check(b->sched, &fault) != 0) {
        fail_msg("%s", fault.text);
    }
}

static void change(struct bed *b)
{
    assert_int_equal(sched_reconfigure(b->sched, &b->config, b->now), 0);
    check(b);
}

static unsigned select_all(struct bed *b)
{
    unsigned count = 0;
    while (strcmp(bed_select(b), "none") != 0) {
        count++;
    }
    return count;
}

static void open_with(struct bed *b, int process_limit)
{
    bed_init(b);
    b->config.process_limit = process_limit;
    b->config.delivery_slot_cost = 0;
    bed_open(b);
}

static void more_connections_come_at_once(void **state)
{
    static struct bed b;
    open_with(&b, 2);
    bed_spread(&b, 'A', 700);
    assert_int_equal(select_all(&b), 2);
    b.config.process_limit = 600; /* more than two blocks of them */
    change(&b);
    assert_int_equal(select_all(&b), 598);
    assert_int_equal(b.deliveries[600].connection, 599);
    bed_close(&b);
}

static void fewer_connections_come_as_entries_end(void **state)
{
    static struct bed b;
    open_with(&b, 5);
    bed_spread(&b, 'A', 30);
    assert_int_equal(select_all(&b), 5);
    b.config.process_limit = 2;
    change(&b);
    for (unsigned i = 1; i <= 3; i++) {
        bed_report(&b, i, BED_OK);
        assert_int_equal(select_all(&b), 0);
    }
    bed_report(&b, 4, BED_OK);
    assert_int_equal(select_all(&b), 1);
    bed_close(&b);
}

static void idle_connections_make_way(void **state)
{
    static struct bed b;
    struct sched_counters counters;
    open_with(&b, 4);
    bed_spread(&b, 'A', 4);
    assert_int_equal(select_all(&b), 4);
    for (unsigned i = 1; i <= 4; i++) {
        bed_report_open(&b, i);
    }
    b.config.process_limit = 1;
    change(&b);
    assert_int_equal(select_all(&b), 0); /* takes the closes */
    sched_view_counters(b.sched, &counters);
    assert_int_equal(counters.connections, 1);
    bed_close(&b);
}

static void a_window_shrinks_and_grows(void **state)
{
    static struct bed b;
    bed_init(&b);
    bed_fix_window(&b, 5);
    bed_open(&b);
    bed_message(&b, 'A', BED_TEN);
    b.config.destination_recipient_limit = 1;
    bed_message(&b, 'B', "a@bb");
    assert_string_equal(bed_queue(&b, "bb"), "5 0 1");
    b.config.initial_destination_concurrency = b.config.destination_concurrency_limit = 2;
    change(&b);
    assert_string_equal(bed_queue(&b, "bb"), "2 0 1");
    b.config.destination_concurrency_limit = 0;
    change(&b);
    assert_string_equal(bed_queue(&b, "bb"), "2 0 1"); /* by feedback from now on */
    bed_close(&b);
}

static void a_hold_begins_and_ends(void **state)
{
    static struct bed b;
    open_with(&b, 5);
    b.config.hold = true;
    change(&b);
    bed_message(&b, 'A', "a@aa");
    assert_string_equal(bed_select(&b), "none");
    b.config.hold = false;
    change(&b);
    assert_string_equal(bed_select(&b), "A aa a@aa");
    bed_close(&b);
}

static void without_memory_all_stays(void **state)
{
    static struct bed b;
    open_with(&b, 2);
    bed_spread(&b, 'A', 700);
    assert_int_equal(select_all(&b), 2);
    b.config.process_limit = 600;
    b.fail_after = 1;
    assert_int_equal(sched_reconfigure(b.sched, &b.config, b.now), -ENOMEM);
    b.fail_after = -1;
    check(&b);
    assert_int_equal(select_all(&b), 0);
    change(&b);
    assert_int_equal(select_all(&b), 598);
    bed_close(&b);
}

/* What was found out before does not count any more: hosts are asked for again, and a connection
 * that is open takes no further entry. */
static void hosts_are_forgotten(void **state)
{
    static struct bed b;
    bed_init_essay(&b, 1);
    bed_fix_window(&b, 1);
    bed_start(&b, "x10");
    assert_string_equal(bed_place(&b), "x0+");
    (void)bed_log(&b);
    sched_forget_hosts(b.sched, b.now);
    check(&b);
    assert_string_equal(bed_place(&b), "none");
    assert_string_equal(bed_log(&b), "resolve aa");
    bed_report_open(&b, b.delivered);
    assert_string_equal(bed_place(&b), "none");
    bed_servers(&b, b.asked_count - 1, "y10");
    assert_string_equal(bed_place(&b), "y0+");
    bed_close(&b);
}

/* Entries that wait hold more than the new limit: they are divided in their order, what is in
 * flight stays whole, and recipients that come later fill the last one to the new limit. */
static void larger_entries_are_divided(void **state)
{
    static struct bed b;
    bed_init(&b);
    bed_fix_window(&b, 1);
    b.config.destination_recipient_limit = 4;
    b.config.message_recipient_limit = 10;
    b.config.message_recipient_minimum = 10;
    b.config.recipient_limit = 0;
    b.config.recipient_refill_limit = 1;
    bed_open(&b);
    bed_message(&b, 'A', "a@dd b@dd c@dd d@dd e@dd f@dd g@dd h@dd i@dd j@dd k@dd l@dd");
    assert_string_equal(bed_select(&b), "A dd a@dd,b@dd,c@dd,d@dd");
    b.config.destination_recipient_limit = 3;
    change(&b);
    assert_string_equal(bed_queue(&b, "dd"), "1 1 3"); /* efg h ij: k and l are not read yet */
    bed_report(&b, 1, BED_OK);
    assert_string_equal(bed_select(&b), "A dd e@dd,f@dd,g@dd");
    bed_report(&b, 2, BED_OK);
    assert_string_equal(bed_select(&b), "A dd h@dd");
    bed_report(&b, 3, BED_OK);
    assert_string_equal(bed_select(&b), "A dd i@dd,j@dd,k@dd");
    bed_report(&b, 4, BED_OK);
    assert_string_equal(bed_select(&b), "A dd l@dd");
    bed_report(&b, 5, BED_OK);
    assert_string_equal(bed_log(&b), "finished A");
    bed_close(&b);
}

/* Entries of several messages at one destination keep their order, and each takes its turn. */
static void divided_entries_keep_their_order(void **state)
{
    static struct bed b;
    bed_init(&b);
    bed_fix_window(&b, 1);
    b.config.delivery_slot_cost = 0;
    b.config.destination_recipient_limit = 0;
    bed_open(&b);
    bed_message(&b, 'A', "x@ee a@dd b@dd c@dd");
    bed_message(&b, 'B', "d@dd e@dd f@dd");
    b.config.destination_recipient_limit = 2;
    change(&b);
    assert_string_equal(bed_queue(&b, "dd"), "1 0 4");
    assert_string_equal(bed_queue(&b, "ee"), "1 0 1");
    assert_string_equal(bed_order(&b, 9), "A x3 B x2");
    bed_close(&b);
}

/* From now on each recipient is a destination of its own; those that wait keep the one they have,
 * and go out one by one. */
static void a_limit_of_one_begins_and_ends(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.destination_recipient_limit = 50;
    bed_open(&b);
    bed_message(&b, 'A', "a@dd b@dd c@dd");
    b.config.destination_recipient_limit = 1;
    change(&b);
    bed_message(&b, 'B', "d@dd e@dd");
    assert_string_equal(bed_queue(&b, "dd"), "5 0 3");
    assert_string_equal(bed_queue(&b, "d@dd"), "5 0 1");
    b.config.destination_recipient_limit = 2;
    change(&b);
    bed_message(&b, 'C', "d@dd e@dd");
    assert_string_equal(bed_queue(&b, "dd"), "5 0 4");
    assert_string_equal(bed_select(&b), "A dd a@dd");
    assert_string_equal(bed_select(&b), "A dd b@dd");
    assert_string_equal(bed_select(&b), "A dd c@dd");
    assert_string_equal(bed_select(&b), "B d@dd d@dd");
    assert_string_equal(bed_select(&b), "B e@dd e@dd");
    assert_string_equal(bed_select(&b), "C dd d@dd,e@dd");
    bed_close(&b);
}

/* Those of the time of one recipient each are found by their nexthop, whatever the limit is now. */
static void destinations_of_one_recipient_are_revived(void **state)
{
    static struct bed b;
    bed_init(&b);
    bed_fix_window(&b, 1);
    b.config.destination_concurrency_failed_cohort_limit = 1;
    b.config.destination_recipient_limit = 1;
    bed_open(&b);
    bed_message(&b, 'A', "a@dd b@dd");
    (void)bed_select(&b);
    bed_report(&b, 1, BED_FAIL);
    b.config.destination_recipient_limit = 2;
    change(&b);
    bed_message(&b, 'B', "c@dd");
    assert_string_equal(bed_queue(&b, "a@dd"), "dead 0 0");
    assert_true(sched_revive(b.sched, SLICE("dd"), b.now));
    check(&b);
    assert_string_equal(bed_queue(&b, "a@dd"), "-");
    assert_false(sched_revive(b.sched, SLICE("dd"), b.now));
    bed_close(&b);
}

/* Fail each allocation in turn: nothing is divided unless everything is. */
static void divided_as_a_whole_or_not(void **state)
{
    static struct bed b;
    bed_init(&b);
    bed_fix_window(&b, 1);
    b.config.destination_recipient_limit = 10;
    bed_open(&b);
    bed_message(&b, 'A', BED_TEN " n0@bb n1@bb n2@bb n3@bb n4@bb n5@bb n6@bb");
    b.config.destination_recipient_limit = 3;
    long objects = b.objects, allowed = 0;
    for (;; allowed++) {
        b.fail_after = allowed;
        int err = sched_reconfigure(b.sched, &b.config, b.now);
        b.fail_after = -1;
        check(&b);
        if (err == 0) {
            break;
        }
        assert_int_equal(err, -ENOMEM);
        assert_int_equal(b.objects, objects);
        assert_string_equal(bed_queue(&b, "aa"), "1 0 1");
        assert_string_equal(bed_queue(&b, "bb"), "1 0 1");
    }
    assert_in_range(allowed, 5, 10);
    assert_string_equal(bed_queue(&b, "aa"), "1 0 4");
    assert_string_equal(bed_queue(&b, "bb"), "1 0 3");
    bed_close(&b);
}

static void a_pause_becomes_shorter_or_ends(void **state)
{
    static struct bed b;
    (void)state;
    bed_init(&b);
    b.config.destination_rate_delay = 3600 * USEC_PER_SEC;
    bed_open(&b);
    bed_message(&b, 'A', "a@d");
    bed_message(&b, 'B', "b@d");
    bed_message(&b, 'C', "c@d");
    assert_string_equal(bed_select(&b), "A d a@d");
    bed_report(&b, 1, BED_OK);
    assert_string_equal(bed_queue(&b, "d"), "suspended 0 2");
    b.config.destination_rate_delay = 2 * USEC_PER_SEC;
    change(&b);
    bed_advance(&b, 1);
    assert_string_equal(bed_select(&b), "none");
    b.config.destination_rate_delay = 3600 * USEC_PER_SEC; /* never later than it was to be */
    change(&b);
    bed_advance(&b, 1);
    assert_string_equal(bed_select(&b), "B d b@d");
    bed_report(&b, 2, BED_OK);
    assert_string_equal(bed_select(&b), "none");
    b.config.destination_rate_delay = 0;
    change(&b);
    assert_string_equal(bed_select(&b), "C d c@d");
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_connections_come_at_once),
        cmocka_unit_test(fewer_connections_come_as_entries_end),
        cmocka_unit_test(idle_connections_make_way),
        cmocka_unit_test(a_window_shrinks_and_grows),
        cmocka_unit_test(a_hold_begins_and_ends),
        cmocka_unit_test(a_pause_becomes_shorter_or_ends),
        cmocka_unit_test(without_memory_all_stays),
        cmocka_unit_test(hosts_are_forgotten),
        cmocka_unit_test(larger_entries_are_divided),
        cmocka_unit_test(divided_entries_keep_their_order),
        cmocka_unit_test(a_limit_of_one_begins_and_ends),
        cmocka_unit_test(destinations_of_one_recipient_are_revived),
        cmocka_unit_test(divided_as_a_whole_or_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
