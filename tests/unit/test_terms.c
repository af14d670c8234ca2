/* Terms: what counts for one destination of a site in place of the config. */
#include "sched/sched.h"
#include "tests/unit/site_bed.h"

/* As the config of the bed has them. */
static const struct sched_terms usual = {
    .connection_idle_limit = 2 * USEC_PER_SEC,
    .connection_age_limit = 300 * USEC_PER_SEC,
};

static void open_with(struct shell *h, const struct sched_terms *terms)
{
    shell_init(h);
    h->config.connection_idle_limit = 2 * USEC_PER_SEC;
    h->config.connection_age_limit = 300 * USEC_PER_SEC;
    h->places['a' - 'a'].terms = terms;
    shell_open(h);
}

static void wait_for(struct shell *h, unsigned delivery, usec_t until, usec_t turn,
                     enum sched_why why)
{
    const struct sched_bound bound = {until, turn, why};
    sched_bound_wait(h->sched, h->deliveries[delivery].entry, &bound, h->now);
}

static void entries_that_wait_are_divided(void **state)
{
    static struct shell h;
    struct sched_terms t = usual;
    uint32_t count, all = 0;
    t.recipient_limit = 4;
    t.most_in_flight = 0;
    open_with(&h, &t);
    shell_send_to_many(&h, "aa", 10); /* before anybody knows whose it is */
    shell_send_to_many(&h, "bb", 10);
    for (unsigned round = 0; round < 8; round++) {
        unsigned gone = shell_run(&h);
        for (unsigned i = h.delivered - gone; i < h.delivered; i++) {
            (void)sched_entry_indexes(h.deliveries[i].entry, &count);
            assert_int_equal(count <= 4, shell_letter(&h, i) == 'a');
            all += count;
            shell_report(&h, i, SCHED_POSITIVE, true);
        }
    }
    assert_int_equal(all, 20);
    shell_send_to_many(&h, "aa", 10); /* now it is known */
    assert_true(shell_run(&h) >= 1);
    (void)sched_entry_indexes(h.deliveries[h.delivered - 1].entry, &count);
    assert_int_equal(count, 4);
    shell_close(&h);
}

static void a_limit_never_exceeds_the_config(void **state)
{
    static struct shell h;
    struct sched_terms t = usual;
    uint32_t count;
    t.recipient_limit = 60;
    open_with(&h, &t);
    shell_send_to_many(&h, "aa", 60);
    assert_int_equal(shell_run(&h), 2);
    (void)sched_entry_indexes(h.deliveries[0].entry, &count);
    assert_int_equal(count, 50);
    shell_close(&h);
}

static void a_connection_carries_so_many(void **state)
{
    static struct shell h;
    struct sched_terms t = usual;
    t.connection_reuse_limit = 2;
    open_with(&h, &t);
    for (unsigned i = 0; i < 6; i++) {
        shell_send(&h, "aa");
        assert_int_equal(shell_run(&h), 1);
        assert_int_equal(h.deliveries[i].connection_is_new, i % 2 == 0);
        shell_report(&h, i, SCHED_POSITIVE, true);
    }
    (void)shell_run(&h);
    assert_int_equal(h.closed, 3);
    shell_close(&h);
}

/* Each of two destinations that have different hosts has its own time. */
static void connections_end_by_their_own_times(void **state)
{
    static struct shell h;
    struct sched_terms t = usual;
    t.connection_idle_limit = 10 * USEC_PER_SEC;
    t.connection_age_limit = 25 * USEC_PER_SEC;
    open_with(&h, &t);
    h.places['b' - 'a'].servers = "z";
    shell_send(&h, "aa");
    shell_send(&h, "bb");
    assert_int_equal(shell_run(&h), 2);
    shell_report(&h, 0, SCHED_POSITIVE, true);
    shell_report(&h, 1, SCHED_POSITIVE, true);
    (void)shell_run(&h);
    h.now = 2 * USEC_PER_SEC;
    assert_int_equal(sched_wake_at(h.sched), h.now);
    (void)shell_run(&h);
    assert_int_equal(h.closed, 1); /* of bb */
    for (unsigned i = 2; i < 4; i++) {
        h.now += 7 * USEC_PER_SEC;
        shell_send(&h, "aa");
        assert_int_equal(shell_run(&h), 1);
        assert_false(h.deliveries[i].connection_is_new);
        shell_report(&h, i, SCHED_POSITIVE, true);
    }
    (void)shell_run(&h);
    assert_int_equal(sched_wake_at(h.sched), 25 * USEC_PER_SEC);
    h.now = 25 * USEC_PER_SEC;
    (void)shell_run(&h);
    assert_int_equal(h.closed, 2);
    shell_close(&h);
}

static void a_delay_follows_each_entry_of_it_alone(void **state)
{
    static struct shell h;
    struct sched_terms t = usual;
    t.rate_delay = 5 * USEC_PER_SEC;
    open_with(&h, &t);
    shell_send(&h, "aa");
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 1);
    shell_report(&h, 0, SCHED_POSITIVE, true);
    assert_int_equal(shell_run(&h), 0);
    struct sched_destination_view v;
    assert_true(sched_view_destination(h.sched, SLICE("aa"), &v));
    assert_int_equal(v.state, SCHED_DESTINATION_SUSPENDED);
    shell_send(&h, "bb");
    shell_send(&h, "bb");
    assert_int_equal(shell_run(&h), 2);
    h.now = 5 * USEC_PER_SEC;
    shell_report(&h, 1, SCHED_POSITIVE, true);
    assert_int_equal(shell_run(&h), 1);
    assert_int_equal(shell_letter(&h, 3), 'a');
    shell_close(&h);
}

static void a_bound_leaves_the_window_to_others(void **state)
{
    static struct shell h;
    struct sched_terms t = usual;
    t.most_in_flight = 1;
    open_with(&h, &t);
    shell_send(&h, "aa");
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 1);
    struct sched_destination_view v;
    assert_true(sched_view_destination(h.sched, SLICE("aa"), &v));
    assert_int_equal(v.why, SCHED_WHY_WINDOW);
    shell_send(&h, "bb");
    assert_int_equal(shell_run(&h), 1);
    shell_report(&h, 0, SCHED_POSITIVE, true);
    assert_int_equal(shell_run(&h), 1);
    assert_int_equal(shell_letter(&h, 2), 'a');
    shell_close(&h);
}

/* The shell counts it, and says of each entry when the next one may go. */
static void a_rate_is_of_the_destination_alone(void **state)
{
    static struct shell h;
    struct sched_terms t = usual;
    const usec_t due = USEC_PER_SEC / 2;
    t.messages = (struct rate_rule){.count = 2, .span = USEC_PER_SEC};
    open_with(&h, &t);
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 1);
    assert_true(sched_destination_is_bound(h.deliveries[0].destination));
    wait_for(&h, 0, due, due, SCHED_WHY_RATE);
    shell_report(&h, 0, SCHED_POSITIVE, false);
    assert_int_equal(shell_run(&h), 0);
    shell_send(&h, "aa");
    shell_send(&h, "bb");
    assert_int_equal(shell_run(&h), 1);
    assert_int_equal(shell_letter(&h, 1), 'b');
    struct sched_destination_view v;
    assert_true(sched_view_destination(h.sched, SLICE("aa"), &v));
    assert_int_equal(v.why, SCHED_WHY_RATE);
    assert_int_equal(v.state_until, due);
    assert_false(sched_destination_waits(h.deliveries[0].destination)); /* that is for a quota */
    assert_int_equal(sched_wake_at(h.sched), due);
    h.now = due;
    assert_int_equal(shell_run(&h), 1);
    assert_int_equal(shell_letter(&h, 2), 'a');
    wait_for(&h, 2, 2 * due, 2 * due, SCHED_WHY_RATE);
    wait_for(&h, 2, 0, 0, SCHED_WHY_RATE); /* it comes back as if nothing had gone */
    shell_outcome(&h, 2, (struct sched_outcome){.throttled = true, .connection_open = true});
    assert_int_equal(shell_run(&h), 1);
    shell_report(&h, 3, SCHED_POSITIVE, false);
    h.now = 3 * USEC_PER_SEC;
    (void)shell_run(&h);
    assert_true(!sched_view_destination(h.sched, SLICE("aa"), &v) || v.state_until == 0);
    shell_close(&h);
}

/* The shell counts it. What is beyond a quarter of the places leaves memory until its turn. */
static void a_quota_that_is_used_up_is_of_the_destination_alone(void **state)
{
    static struct shell h;
    struct sched_terms t = usual;
    const usec_t hour = 3600 * USEC_PER_SEC;
    struct sched_destination_view v;
    t.quota = (struct rate_rule){.count = 2, .span = hour};
    shell_init(&h);
    h.config.message_recipient_limit = 16;
    h.places['a' - 'a'].terms = &t;
    shell_open(&h);
    for (unsigned i = 0; i < 3; i++) {
        shell_send(&h, "aa");
    }
    assert_true(shell_run(&h) >= 1);
    struct sched_destination *aa = h.deliveries[0].destination;
    assert_true(sched_destination_is_bound(aa) && !sched_destination_waits(aa));
    for (unsigned i = 0; i < 3; i++) {
        shell_report(&h, i, SCHED_POSITIVE, true);
        (void)shell_run(&h);
    }
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 1);
    wait_for(&h, 3, hour / 12, hour, SCHED_WHY_QUOTA);
    assert_true(sched_destination_waits(aa));
    shell_report(&h, 3, SCHED_POSITIVE, true);
    unsigned before = h.deferred;
    for (unsigned i = 0; i < 8; i++) {
        shell_send(&h, "aa");
    }
    shell_send(&h, "bb");
    assert_int_equal(shell_run(&h), 1);
    assert_int_equal(shell_letter(&h, 4), 'b');
    assert_true(sched_view_destination(h.sched, SLICE("aa"), &v));
    assert_int_equal(v.why, SCHED_WHY_QUOTA);
    assert_int_equal(v.state_until, hour / 12);
    assert_int_equal(h.deferred - before, 8 - v.todo);
    assert_in_range(v.todo, 1, 4);
    h.now = hour / 12;
    assert_true(shell_run(&h) >= 1);
    assert_int_equal(shell_letter(&h, 5), 'a');
    wait_for(&h, 5, hour, hour, SCHED_WHY_QUOTA);
    assert_true(sched_destination_waits(aa));
    wait_for(&h, 5, 0, 0, SCHED_WHY_QUOTA);
    assert_false(sched_destination_waits(aa));
    shell_close(&h);
}

/* Another quota is counted anew; the same one stays used up. */
static void terms_with_another_quota_let_it_go_on(void **state)
{
    static struct shell h;
    struct sched_terms t = usual;
    t.quota = (struct rate_rule){.count = 2, .span = USEC_PER_SEC};
    open_with(&h, &t);
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 1);
    wait_for(&h, 0, 9 * USEC_PER_SEC, 9 * USEC_PER_SEC, SCHED_WHY_QUOTA);
    shell_send(&h, "aa");
    t.rate_delay = USEC_PER_MSEC;
    sched_forget_hosts(h.sched, h.now);
    assert_int_equal(shell_run(&h), 0);
    t.quota.count = 3;
    t.rate_delay = 0;
    sched_forget_hosts(h.sched, h.now);
    assert_int_equal(shell_run(&h), 1);
    shell_close(&h);
}

/* The next answer about hosts has other terms, or none. */
static void terms_change_with_the_hosts(void **state)
{
    static struct shell h;
    struct sched_terms t = usual;
    t.most_in_flight = 1;
    open_with(&h, &t);
    shell_send(&h, "aa");
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 1);
    h.places['a' - 'a'].terms = NULL;
    sched_forget_hosts(h.sched, h.now);
    assert_int_equal(shell_run(&h), 1);
    shell_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_that_wait_are_divided),
        cmocka_unit_test(a_limit_never_exceeds_the_config),
        cmocka_unit_test(a_connection_carries_so_many),
        cmocka_unit_test(connections_end_by_their_own_times),
        cmocka_unit_test(a_delay_follows_each_entry_of_it_alone),
        cmocka_unit_test(a_bound_leaves_the_window_to_others),
        cmocka_unit_test(a_rate_is_of_the_destination_alone),
        cmocka_unit_test(a_quota_that_is_used_up_is_of_the_destination_alone),
        cmocka_unit_test(terms_with_another_quota_let_it_go_on),
        cmocka_unit_test(terms_change_with_the_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
