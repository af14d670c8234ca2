/* Mail that is taken back from the core by order, and destinations that are revived by name. */
#include "tests/unit/sched_bed.h"

#include <string.h>

static const struct sched_reason order = {"4.7.0", "suspended: ticket 12"};

static void withdraw(struct bed *b, char letter, const char *destination)
{
    sched_withdraw(b->sched, (uint64_t)letter, slice_of(destination), &order, b->now);
}

static void waiting_mail_leaves(void **state)
{
    (void)state;
    static struct bed b;
    bed_init(&b);
    bed_open(&b);
    bed_message(&b, 'A', "a@d b@d c@e");
    bed_message(&b, 'B', "x@d");
    withdraw(&b, 'A', "");
    struct sched_action a;
    assert_true(sched_pull(b.sched, &a, b.now));
    assert_int_equal(a.kind, SCHED_DEFER);
    assert_true(a.is_withdrawn);
    assert_int_equal(a.message_id, 'A');
    assert_int_equal(a.index_count, 2);
    assert_string_equal(a.reason->status, "4.7.0");
    assert_string_equal(a.reason->text, "suspended: ticket 12");
    assert_string_equal(bed_log(&b), "defer A c@e (4.7.0 suspended: ticket 12); finished A");
    assert_string_equal(bed_queue(&b, "d"), "5 0 1");
    assert_string_equal(bed_queue(&b, "e"), "-");
    assert_string_equal(bed_select(&b), "B d x@d");
    assert_string_equal(bed_select(&b), "none");
    bed_close(&b);
}

static void one_destination_only(void **state)
{
    (void)state;
    static struct bed b;
    bed_init(&b);
    bed_open(&b);
    bed_message(&b, 'A', "a@d b@d c@e");
    withdraw(&b, 'A', "e");
    assert_string_equal(bed_log(&b), "defer A c@e (4.7.0 suspended: ticket 12)");
    withdraw(&b, 'A', "e");
    withdraw(&b, 'A', "elsewhere");
    withdraw(&b, 'Z', "");
    assert_string_equal(bed_log(&b), "");
    assert_string_equal(bed_select(&b), "A d a@d,b@d");
    bed_report(&b, 1, BED_OK);
    assert_string_equal(bed_log(&b), "finished A");
    bed_close(&b);
}

/* Each recipient has a destination of its own then; they have the nexthop in common. */
static void recipient_limit_one(void **state)
{
    (void)state;
    static struct bed b;
    bed_init(&b);
    b.config.destination_recipient_limit = 1;
    bed_open(&b);
    bed_message(&b, 'A', "a@d b@d c@e");
    withdraw(&b, 'A', "a@d");
    assert_string_equal(bed_log(&b), "defer A a@d (4.7.0 suspended: ticket 12)");
    withdraw(&b, 'A', "d");
    assert_string_equal(bed_log(&b), "defer A b@d (4.7.0 suspended: ticket 12)");
    assert_string_equal(bed_select(&b), "A c@e c@e");
    bed_close(&b);
}

static void what_is_in_flight_stays(void **state)
{
    (void)state;
    static struct bed b;
    bed_init(&b);
    b.config.destination_recipient_limit = 2;
    bed_open(&b);
    bed_message(&b, 'A', "a@d b@d c@d d@d e@e");
    assert_string_equal(bed_select(&b), "A d a@d,b@d");
    withdraw(&b, 'A', "");
    assert_string_equal(bed_log(&b), "defer A e@e (4.7.0 suspended: ticket 12); "
                                     "defer A c@d d@d (4.7.0 suspended: ticket 12)");
    assert_string_equal(bed_select(&b), "none");
    withdraw(&b, 'A', "");
    assert_string_equal(bed_log(&b), "");
    bed_report(&b, 1, BED_OK);
    assert_string_equal(bed_log(&b), "finished A");
    bed_close(&b);
}

/* Reported with `again`, it waits for another connection and is in flight all the time. */
static void displaced_entries_stay(void **state)
{
    (void)state;
    static struct bed b;
    bed_init(&b);
    b.config.destination_recipient_limit = 2;
    bed_fix_window(&b, 1);
    bed_open(&b);
    bed_message(&b, 'A', "a@d b@d c@d");
    assert_string_equal(bed_select(&b), "A d a@d,b@d");
    bed_outcome(&b, 1, (struct sched_outcome){.again = true});
    withdraw(&b, 'A', "");
    assert_string_equal(bed_select(&b), "A d a@d,b@d");
    assert_string_equal(bed_log(&b), "defer A c@d (4.7.0 suspended: ticket 12)");
    assert_string_equal(bed_select(&b), "none");
    bed_report(&b, 2, BED_OK);
    assert_string_equal(bed_log(&b), "finished A");
    bed_close(&b);
}

/* The slots of what left are free for what is read next. */
static void unread_recipients_are_asked_for(void **state)
{
    (void)state;
    static struct bed b;
    bed_init(&b);
    b.config.message_recipient_limit = 2;
    b.config.message_recipient_minimum = 2;
    b.config.recipient_limit = 2;
    bed_open(&b);
    bed_message(&b, 'A', "a@d b@d c@e d@e");
    withdraw(&b, 'A', "");
    const char *log = bed_log(&b);
    assert_non_null(strstr(log, "defer A a@d b@d (4.7.0 suspended: ticket 12)"));
    assert_null(strstr(log, "finished"));
    assert_string_equal(bed_select(&b), "A e c@e,d@e");
    bed_report(&b, 1, BED_OK);
    assert_string_equal(bed_log(&b), "finished A");
    bed_close(&b);
}

/* A message that preempted another one goes: the other one has its turn again. */
static void a_preempting_job_goes(void **state)
{
    (void)state;
    static struct bed b;
    bed_init(&b);
    b.config.delivery_slot_cost = 2;
    b.config.delivery_slot_loan = 0;
    b.config.minimum_delivery_slots = 0;
    bed_open(&b);
    bed_spread(&b, 'A', 10);
    bed_spread(&b, 'B', 2);
    assert_string_equal(bed_order(&b, 3), "A x2 B");
    withdraw(&b, 'B', "");
    assert_non_null(strstr(bed_log(&b), "defer B u@b00001"));
    assert_string_equal(bed_order(&b, 9), "A x8");
    bed_close(&b);
}

static void no_memory_for_the_reason(void **state)
{
    (void)state;
    static struct bed b;
    bed_init(&b);
    bed_open(&b);
    bed_message(&b, 'A', "a@d");
    b.fail_after = 0;
    withdraw(&b, 'A', "");
    assert_non_null(strstr(bed_log(&b), "defer A a@d (4.3.0 "));
    bed_close(&b);
}

static void revival_by_name(void **state)
{
    (void)state;
    static struct bed b;
    bed_init(&b);
    b.config.initial_destination_concurrency = 1;
    bed_open(&b);
    bed_message(&b, 'A', "a@d a@e");
    assert_string_equal(bed_select(&b), "A d a@d");
    assert_string_equal(bed_select(&b), "A e a@e");
    bed_report(&b, 1, BED_FAIL);
    bed_report(&b, 2, BED_FAIL);
    assert_string_equal(bed_queue(&b, "d"), "dead 0 0");
    assert_false(sched_revive(b.sched, SLICE("f"), b.now));
    assert_true(sched_revive(b.sched, SLICE("d"), b.now));
    assert_false(sched_revive(b.sched, SLICE("d"), b.now));
    assert_string_equal(bed_queue(&b, "d"), "-");
    assert_string_equal(bed_queue(&b, "e"), "dead 0 0");
    bed_message(&b, 'B', "b@d");
    assert_string_equal(bed_select(&b), "B d b@d");
    bed_close(&b);
}

/* Its only host failed and waits for its retry time, for all destinations that share it. */
static void hosts_are_tried_at_once(void **state)
{
    (void)state;
    static struct bed b;
    bed_init_essay(&b, 1);
    b.config.initial_destination_concurrency = 1;
    bed_open(&b);
    bed_ask(&b, 'A', "a@aa", "x10");
    assert_string_equal(bed_place(&b), "x0+");
    bed_outcome(&b, 1, (struct sched_outcome){.feedback = SCHED_NEGATIVE, .server_failed = true});
    assert_string_equal(bed_queue(&b, "aa"), "dead 0 0");
    assert_string_equal(bed_host(&b, 'x'), "retry 0 0 1");
    assert_true(sched_revive(b.sched, SLICE("aa"), b.now));
    bed_ask(&b, 'B', "b@aa", "x10");
    assert_string_equal(bed_place(&b), "x0+");
    bed_close(&b);
}

/* The destination is forgotten, its host is not. */
static void hosts_of_the_forgotten(void **state)
{
    (void)state;
    static struct bed b;
    bed_init_essay(&b, 1);
    b.config.initial_destination_concurrency = 1;
    b.config.destination_concurrency_failed_cohort_limit = 1;
    bed_open(&b);
    bed_ask(&b, 'A', "a@aa", "x10");
    assert_string_equal(bed_place(&b), "x0+");
    bed_outcome(&b, 1, (struct sched_outcome){.feedback = SCHED_NEGATIVE, .server_failed = true});
    assert_true(sched_revive(b.sched, SLICE("aa"), b.now));
    assert_string_equal(bed_queue(&b, "aa"), "-");
    bed_ask(&b, 'B', "b@aa", "x10");
    assert_string_equal(bed_place(&b), "x0+");
    bed_outcome(&b, 2, (struct sched_outcome){.feedback = SCHED_NEGATIVE, .server_failed = true});
    assert_string_equal(bed_host(&b, 'x'), "retry 0 0 2");
    sched_flush_hosts(b.sched, b.now);
    assert_string_equal(bed_queue(&b, "aa"), "dead 0 0");
    bed_ask(&b, 'C', "c@bb", "x10");
    assert_string_equal(bed_place(&b), "x0+");
    bed_close(&b);
}

static bool goes(struct bed *b, char letter)
{
    return sched_withdraw_untouched(b->sched, (uint64_t)letter, &order, b->now);
}

static void only_untouched_mail_gives_way(void **state)
{
    (void)state;
    static struct bed b;
    bed_init(&b);
    b.config.destination_recipient_limit = 1;
    bed_open(&b);
    bed_message(&b, 'A', "a@d b@d");
    bed_message(&b, 'B', "x@d y@e");
    bed_message(&b, 'C', "z@d");
    assert_string_equal(bed_select(&b), "A a@d a@d");
    assert_false(goes(&b, 'A'));
    withdraw(&b, 'B', "e");
    assert_false(goes(&b, 'B')); /* a part of it has left */
    assert_true(goes(&b, 'C'));
    assert_false(goes(&b, 'C'));
    assert_false(goes(&b, 'Z'));
    assert_string_equal(bed_log(&b), "defer B y@e (4.7.0 suspended: ticket 12); "
                                     "defer C z@d (4.7.0 suspended: ticket 12); finished C");
    bed_report(&b, 1, BED_OK);
    assert_false(goes(&b, 'A'));
    bed_close(&b);
}

static void unread_mail_does_not_give_way(void **state)
{
    (void)state;
    static struct bed b;
    bed_init(&b);
    b.config.message_recipient_limit = 2;
    b.config.message_recipient_minimum = 2;
    b.config.recipient_limit = 2;
    bed_open(&b);
    bed_message(&b, 'A', "a@d b@d c@e d@e");
    assert_false(goes(&b, 'A'));
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_mail_leaves),    cmocka_unit_test(one_destination_only),
        cmocka_unit_test(recipient_limit_one),    cmocka_unit_test(what_is_in_flight_stays),
        cmocka_unit_test(displaced_entries_stay), cmocka_unit_test(unread_recipients_are_asked_for),
        cmocka_unit_test(a_preempting_job_goes),  cmocka_unit_test(no_memory_for_the_reason),
        cmocka_unit_test(revival_by_name),        cmocka_unit_test(hosts_are_tried_at_once),
        cmocka_unit_test(hosts_of_the_forgotten), cmocka_unit_test(only_untouched_mail_gives_way),
        cmocka_unit_test(unread_mail_does_not_give_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
