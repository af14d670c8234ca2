/* What an owner of messages may send: nothing else waits for it, and it waits for nothing else. */
#include "sched/sched.h"
#include "tests/unit/site_bed.h"

#include <string.h>

#define MSEC USEC_PER_MSEC

static int somebody;

static void start(struct shell *h)
{
    shell_init(h);
    h->config.initial_destination_concurrency = 9;
    h->config.destination_concurrency_limit = 20;
    h->config.lane_memory = 3600 * USEC_PER_SEC;
    h->now = USEC_PER_SEC;
    shell_open(h);
    shell_sources(h, 1, NULL, 0);
    h->owner = sched_owner_new(h->sched, &somebody);
    assert_non_null(h->owner);
}

static struct sched_grant grant_of(const struct shell *h, uint32_t messages)
{
    return (struct sched_grant){.messages = messages,
                                .connects = SCHED_NO_BOUND_OF_CONNECTS,
                                .recipients = SCHED_NO_BOUND,
                                .from = h->now,
                                .until = h->now + 10 * MSEC,
                                .per_second = 10,
                                .why = SCHED_WHY_TENANT_RATE};
}

static void give(struct shell *h, struct sched_owner *o, struct sched_grant g)
{
    assert_true(sched_owner_grant(h->sched, o, &g, h->now));
    shell_check(h);
}

static void refuse(struct shell *h, struct sched_owner *o, usec_t due)
{
    give(h, o,
         (struct sched_grant){
             .due = due, .turn = due, .per_second = 10, .why = SCHED_WHY_TENANT_RATE});
}

static struct sched_job_view job_of(const struct shell *h, uint64_t id)
{
    struct sched_job_view v = {.message_id = 0};
    uint64_t cursor = 0;
    while (sched_view_jobs(h->sched, &cursor, &v) && v.message_id != id) {
    }
    assert_int_equal(v.message_id, id);
    return v;
}

static void it_sends_what_it_is_lent_and_no_more(void **state)
{
    static struct shell h;
    start(&h);
    for (int i = 0; i < 5; i++) {
        shell_send(&h, "aa");
    }
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.owner_asked, 1);
    assert_true(h.owner_asker == &somebody);
    struct sched_grant g = grant_of(&h, 2);
    g.from += 4 * MSEC; /* its time comes */
    give(&h, h.owner, g);
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(sched_wake_at(h.sched), g.from);
    assert_int_equal(job_of(&h, 1).why, SCHED_WHY_TENANT_RATE);
    struct sched_destination_view v;
    assert_true(sched_view_destination(h.sched, SLICE("aa"), &v));
    assert_int_equal(v.why, SCHED_WHY_TENANT_RATE);
    h.now = g.from;
    assert_int_equal(shell_run(&h), 2);
    assert_int_equal(h.deliveries[0].message_id, 1); /* in their order */
    assert_int_equal(h.deliveries[1].message_id, 2);
    assert_true(h.deliveries[0].owner_user == &somebody);
    assert_int_equal(h.owner_asked, 2); /* nothing is left of it: the next */
    assert_int_equal(h.owner_returned, 0);
    usec_t due = h.now + 70 * MSEC;
    refuse(&h, h.owner, due);
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(sched_wake_at(h.sched), due);
    h.now = due;
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.owner_asked, 3);
    give(&h, h.owner, grant_of(&h, 9));
    assert_int_equal(shell_run(&h), 3);
    assert_int_equal(h.owner_returned, 1); /* at once: nothing waits any more */
    assert_int_equal(h.left.messages, 6);
    assert_true(!sched_owner_is_idle(h.owner));
    shell_close(&h);
}

static void others_go_by_it(void **state)
{
    static struct shell h;
    start(&h);
    struct sched_owner *first = h.owner, *second = sched_owner_new(h.sched, &h);
    for (int i = 0; i < 3; i++) {
        h.owner = first;
        shell_send(&h, "aa");
        h.owner = second;
        shell_send(&h, "aa");
        h.owner = NULL;
        shell_send(&h, "aa");
    }
    assert_int_equal(shell_run(&h), 3);
    assert_int_equal(h.deliveries[0].message_id, 3);
    assert_true(h.deliveries[0].owner_user == NULL);
    assert_int_equal(h.owner_asked, 2);
    refuse(&h, first, h.now + USEC_PER_SEC);
    give(&h, second, grant_of(&h, 3));
    assert_int_equal(shell_run(&h), 3);
    assert_int_equal(h.deliveries[3].message_id, 2);
    assert_true(sched_wake_at(h.sched) <= h.now + USEC_PER_SEC);
    shell_close(&h);
}

static void recipients_beyond_the_loan_are_owed(void **state)
{
    static struct shell h;
    start(&h);
    shell_send_to_many(&h, "aa", 20);
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 0);
    struct sched_grant g = grant_of(&h, 5);
    g.recipients = 3;
    give(&h, h.owner, g);
    assert_int_equal(shell_run(&h), 1);
    assert_int_equal(h.owner_asked, 2);
    assert_int_equal(h.owner_ask.recipients_owed, 17);
    assert_int_equal(h.owner_returned, 1);
    assert_int_equal(h.left.messages, 4);
    shell_close(&h);
}

/* Its lanes are not asked for what they could not send, and its loan is not kept from it by them. */
static void a_lane_that_is_limited_too_is_asked_when_it_may_go(void **state)
{
    static struct shell h;
    start(&h);
    const struct sched_lane_key lane = {{"s", 1}, 100};
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 0);
    give(&h, h.owner, grant_of(&h, 1));
    assert_int_equal(shell_run(&h), 1);
    assert_true(sched_lane_attach(h.sched, lane, &h, h.now));
    assert_true(sched_lane_limit(h.sched, lane, true, h.now));
    shell_send(&h, "aa");
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.owner_asked, 1); /* its lane is wanted first, and nobody looked at it yet */
    assert_int_equal(h.asked, 1);
    struct sched_grant g = grant_of(&h, 5);
    assert_true(sched_lane_grant(h.sched, lane, &g, h.now));
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.owner_asked, 2);
    assert_int_equal(h.returned, 1); /* the answer takes its time: the lane is not wanted */
    give(&h, h.owner, grant_of(&h, 1));
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.asked, 2);
    assert_true(sched_lane_grant(h.sched, lane, &g, h.now));
    assert_int_equal(shell_run(&h), 1);
    refuse(&h, h.owner, h.now + 50 * MSEC);
    unsigned asked = h.asked, returned = h.returned;
    h.now += 30 * MSEC;
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.asked, asked);
    assert_true(h.returned >= returned); /* what the lane held is back */
    h.now += 20 * MSEC;
    assert_int_equal(shell_run(&h), 0);
    give(&h, h.owner, grant_of(&h, 1));
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.asked, asked + 1);
    g = grant_of(&h, 5);
    assert_true(sched_lane_grant(h.sched, lane, &g, h.now));
    assert_int_equal(shell_run(&h), 1);
    shell_close(&h);
}

/* Its mail for a destination that is closed is no reason to keep what was lent, and what it has for
 * others goes. */
static void mail_that_cannot_go_does_not_bar_what_can(void **state)
{
    static struct shell h;
    start(&h);
    h.places[1].site = "t";
    const struct sched_lane_key lane = {{"s", 1}, 100};
    const struct sched_reason reason = {"4.7.1", "closed"};
    struct sched_owner *owner = h.owner;
    h.owner = NULL;
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 1);
    h.owner = owner;
    shell_report(&h, 0, SCHED_POSITIVE, true);
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 0);
    assert_true(sched_lane_limit(h.sched, lane, true, h.now));
    for (int i = 0; i < 200; i++) {
        shell_send(&h, "aa");
    }
    shell_send(&h, "bb");
    give(&h, h.owner, grant_of(&h, 3));
    assert_int_equal(shell_run(&h), 1);
    assert_int_equal(shell_letter(&h, 1), 'b');
    (void)reason;
    shell_close(&h);
}

static void what_waits_too_long_leaves_memory(void **state)
{
    static struct shell h;
    start(&h);
    h.config.message_recipient_limit = 4000; /* a quarter are 1,000 */
    assert_int_equal(sched_reconfigure(h.sched, &h.config, h.now), 0);
    for (int i = 0; i < 1500; i++) {
        shell_send(&h, "aa");
    }
    assert_int_equal(shell_run(&h), 0);
    refuse(&h, h.owner, h.now + 100 * MSEC); /* 10 a second: 300 in half a minute */
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.deferred, h.paced);
    assert_int_equal(h.paced, 1500 - 300 - 875);
    assert_string_equal(h.reason.status, "4.3.2");
    for (unsigned i = 0; i < h.paced; i++) {
        /* Behind those that stay, in turn. */
        assert_true(h.due[i] >= h.now + 117 * USEC_PER_SEC);
        assert_true(i == 0 || h.due[i] >= h.due[i - 1]);
    }
    assert_true(h.due[h.paced - 1] <= h.now + 152 * USEC_PER_SEC);
    /* A quota that is used up until tomorrow keeps a part of the quarter, however slow. */
    h.now += 100 * MSEC;
    assert_int_equal(shell_run(&h), 0);
    refuse(&h, h.owner, h.now + 10 * 3600 * USEC_PER_SEC);
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.paced, 1500 - 875);
    shell_close(&h);
}

static void a_message_changes_its_owner(void **state)
{
    static struct shell h;
    start(&h);
    shell_send(&h, "aa");
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 0);
    refuse(&h, h.owner, h.now + 3600 * USEC_PER_SEC);
    assert_int_equal(shell_run(&h), 0);
    sched_own(h.sched, 2, NULL, h.now);
    shell_check(&h);
    assert_int_equal(shell_run(&h), 1);
    assert_int_equal(h.deliveries[0].message_id, 2);
    struct sched_owner *other = sched_owner_new(h.sched, &h);
    sched_own(h.sched, 1, other, h.now);
    shell_check(&h);
    assert_true(sched_owner_is_idle(h.owner));
    sched_owner_free(h.sched, h.owner);
    shell_check(&h);
    assert_int_equal(shell_run(&h), 0);
    assert_true(h.owner_asker == &h);
    refuse(&h, other, h.now + 3600 * USEC_PER_SEC);
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.owner_asked, 2);
    sched_owner_ask_again(h.sched, other, h.now); /* its rate is another one */
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.owner_asked, 3);
    give(&h, other, grant_of(&h, 1));
    assert_int_equal(shell_run(&h), 1);
    assert_true(sched_owner_new(h.sched, NULL) == h.owner); /* its place is used again */
    shell_close(&h);
}

static void set_hold(struct shell *h, bool hold, bool by_config)
{
    if (by_config) {
        h->config.hold = hold;
        assert_int_equal(sched_reconfigure(h->sched, &h->config, h->now), 0);
    } else {
        sched_set_hold(h->sched, hold, h->now);
    }
}

static void ask_behind_hold(bool by_config)
{
    static struct shell h;
    start(&h);
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 0);
    refuse(&h, h.owner, h.now + 10 * MSEC);
    set_hold(&h, true, by_config);
    h.now += 20 * MSEC;
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.owner_asked, 1);
    set_hold(&h, false, by_config);
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.owner_asked, 2);
    give(&h, h.owner, grant_of(&h, 1));
    assert_int_equal(shell_run(&h), 1);
    shell_close(&h);
}

static void on_hold_nothing_is_asked(void **state)
{
    (void)state;
    ask_behind_hold(false);
    ask_behind_hold(true);
}

/* Flows that were passed over stay behind those that were served meanwhile, also where lanes that one party had for
 * itself are shared from then on: each has its place there once, however many destinations it waits at. */
static void a_second_party_finds_those_who_may_not_send(void **state)
{
    static struct shell h;
    start(&h);
    struct sched_owner *first = h.owner, *second = sched_owner_new(h.sched, &h);
    h.places['c' - 'a'].servers = "z";
    h.flow = (struct sched_flow_key){SCHED_NORMAL, 1, 0};
    shell_send(&h, "aa");
    h.flow.tenant = 2;
    h.owner = second;
    shell_send(&h, "aa");
    shell_send(&h, "bb");
    h.flow.tenant = 3;
    h.owner = NULL;
    for (int i = 0; i < 12; i++) {
        shell_send(&h, "aa");
    }
    assert_int_equal(shell_run(&h), 9);
    refuse(&h, first, h.now + USEC_PER_SEC);
    refuse(&h, second, h.now + USEC_PER_SEC);
    assert_int_equal(shell_run(&h), 0);
    shell_send(&h, "cc");
    assert_int_equal(shell_run(&h), 0); /* the window is full: it waits with the others */
    struct sched_destination_view v;
    assert_true(sched_view_destination(h.sched, SLICE("cc"), &v));
    assert_int_equal(v.why, SCHED_WHY_WINDOW);
    shell_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_sends_what_it_is_lent_and_no_more),
        cmocka_unit_test(others_go_by_it),
        cmocka_unit_test(recipients_beyond_the_loan_are_owed),
        cmocka_unit_test(a_lane_that_is_limited_too_is_asked_when_it_may_go),
        cmocka_unit_test(mail_that_cannot_go_does_not_bar_what_can),
        cmocka_unit_test(what_waits_too_long_leaves_memory),
        cmocka_unit_test(a_message_changes_its_owner),
        cmocka_unit_test(a_second_party_finds_those_who_may_not_send),
        cmocka_unit_test(on_hold_nothing_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
