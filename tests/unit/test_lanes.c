/* The lanes of a core, between it and struct limits: connections and acceptances are counted once, what
 * was lent and not used comes back, and nothing is left of a lane that is gone. The test is the
 * scheduler thread, and says what a worker would. */
#include "tests/unit/lanes_bed.h"

/* What a worker reports of a message that the server took. */
static void accept_one(struct delivery *d)
{
    d->depth = 1;
    d->taken_messages = d->taken_recipients = 1;
    d->feedback = SCHED_POSITIVE;
}

/* No connection: it is to go to the next server. */
static void fail_to_connect(struct delivery *d)
{
    d->connection_open = false;
    d->again = d->server_tried = d->server_failed = true;
    d->feedback = SCHED_NEUTRAL;
}

static struct limit_lane_report look(const char *source)
{
    struct limit_lane_report r;
    const struct limit_key key = {
        .source = slice_of(source), .site = slice_of(site), .hosts = SLICE("")};
    if (!limits_report_lane(engine->limits, &key, now, clock_wall(), &r)) {
        fail_msg("no lane of %s at %s", source, site);
    }
    return r;
}

static uint32_t lanes_held(void)
{
    struct limit_lane_report r;
    uint32_t at = 0, held = 0;
    while (limits_report(engine->limits, &at, &r, 1, now, clock_wall()) > 0) {
        held += r.holds;
    }
    return held;
}

/* --- connections and what they carry ------------------------------------------------------------ */

static void a_connection_counts_once_whatever_it_carries(void **state)
{
    begin("source_pool = one");
    submit("x");
    submit("x");
    struct delivery d = deliver();
    const struct lane_slot *slot = &lanes.slots[d.connection];
    assert_true(d.connection_is_new);
    assert_non_null(slot->lane);
    assert_int_equal(look("a").open_connections, 0); /* it is not made yet */
    struct delivery e = deliver();
    assert_true(e.connection_is_new && e.connection != d.connection);
    accept_one(&d);
    report(&d);
    assert_int_equal(look("a").open_connections, 1);
    submit("x");
    d = deliver();
    assert_false(d.connection_is_new);
    assert_ptr_equal(&lanes.slots[d.connection], slot);
    accept_one(&d);
    d.taken_messages = 2; /* its first MAIL was reset */
    d.connection_open = false;
    d.connection_ends = true;
    report(&d);
    assert_int_equal(slot->messages, 3);
    assert_int_equal(look("a").open_connections, 1); /* its end is awaited */
    lanes_closed(&lanes, d.connection, now);
    sched_connection_closed(core, d.connection, now);
    assert_int_equal(look("a").open_connections, 0);
    assert_null(slot->lane);
    lanes_closed(&lanes, d.connection, now); /* nobody is there any more */
    accept_one(&e);
    e.connection_open = false;
    report(&e);
    assert_int_equal(look("a").open_connections, 0);
    (void)pull();
    end();
}

/* Its last server failed it, and meanwhile its place was given to another connection. */
static void what_is_exhausted_leaves_the_next_connection_of_its_place_alone(void **state)
{
    begin("source_pool = one");
    submit("x");
    struct delivery d = deliver();
    fail_to_connect(&d);
    report(&d);
    assert_null(lanes.slots[d.connection].lane);
    submit("y");
    struct sched_action a = pull();
    assert_int_equal(a.kind, SCHED_DELIVER); /* d again, at the other server */
    assert_ptr_equal(a.entry, d.entry);
    d.connection = a.connection;
    d.connection_is_new = a.connection_is_new;
    d.again = d.server_tried = d.server_failed = false;
    d.connection_open = true;
    lanes_deliver(&lanes, &a, &d, now);
    d.depth = 1; /* the server took its MAIL, and went away */
    d.taken_messages = d.taken_recipients = 1;
    d.connection_open = false;
    d.again = d.server_tried = true;
    report(&d);
    uint32_t place = d.connection;
    assert_null(lanes.slots[place].lane);
    assert_int_equal(look("a").open_connections, 0);
    assert_int_equal(pull_past_ends().kind, SCHED_EXHAUSTED);
    struct delivery e = deliver();
    assert_int_equal(e.connection, place);
    accept_one(&e);
    lanes_heard(&lanes, &e, now);
    assert_int_equal(lanes.slots[place].messages, 1);
    /* As dispatch_exhausted leaves it: its lane has heard all of it. */
    delivery_forget_session(&d);
    lanes_heard(&lanes, &d, now);
    lanes_parted(&lanes, &d, now);
    assert_int_equal(lanes.slots[place].messages, 1);
    assert_non_null(lanes.slots[place].lane);
    assert_int_equal(look("a").open_connections, 1);
    const struct sched_outcome o = {.entry = d.entry, .has_deferred = true};
    sched_report(core, &o, now);
    e.taken_messages = 0;
    e.connection_open = false;
    report(&e);
    assert_int_equal(look("a").open_connections, 0);
    (void)pull();
    end();
}

/* Throttled at its recipient or behind its content, a message was not let through, although its MAIL
 * was taken: to the pace it is refused and not accepted as well. It counts in its session. */
static void what_is_throttled_behind_its_mail_is_not_accepted(void **state)
{
    begin("source_pool = one");
    submit("x");
    struct delivery d = deliver();
    const struct lane_slot *slot = &lanes.slots[d.connection];
    struct refusal refusal = {.class = REPLY_THROTTLED,
                              .scope = REPLY_MESSAGES,
                              .verdict = {.stage = OUTCOME_STAGE_RCPT}};
    struct request request = {.refusal = &refusal};
    d.depth = 1;
    d.taken_messages = 1;
    d.is_refused = true;
    d.request = &request;
    lanes_heard(&lanes, &d, now);
    assert_int_equal(slot->messages, 1);
    assert_int_equal(look("a").last_accepted, 0);
    refusal.class = REPLY_MAILBOX; /* that recipient alone */
    lanes_heard(&lanes, &d, now);
    assert_int_equal(slot->messages, 2);
    assert_true(look("a").last_accepted > 0);
    d.is_refused = false;
    d.request = NULL;
    accept_one(&d);
    report(&d);
    end();
}

static void others_of_the_lane_are_known(void **state)
{
    begin("source_pool = one");
    submit("x");
    submit("x");
    struct delivery d = deliver();
    struct sched_action a = pull();
    assert_int_equal(a.kind, SCHED_DELIVER);
    assert_false(lanes_have_others(&a)); /* the first one is not made yet */
    struct delivery e = {.entry = a.entry, .message = message, .connection = a.connection};
    lanes_deliver(&lanes, &a, &e, now);
    accept_one(&d);
    report(&d);
    submit("x");
    submit("x");
    d = deliver(); /* on the first connection */
    a = pull();
    assert_true(a.kind == SCHED_DELIVER && a.connection_is_new);
    assert_true(lanes_have_others(&a));
    struct delivery f = {.entry = a.entry, .message = message, .connection = a.connection};
    lanes_deliver(&lanes, &a, &f, now);
    report(&d);
    report(&e);
    report(&f);
    assert_int_equal(look("a").open_connections, 1);
    end();
}

/* --- loans -------------------------------------------------------------------------------------- */

static void what_no_receiver_had_is_given_back(void **state)
{
    begin("source_pool = one max_message_rate = \"1/h\"");
    submit("x");
    struct delivery d = deliver();
    assert_true(d.is_lent);
    fail_to_connect(&d);
    report(&d);
    struct sched_action a = pull(); /* else it waits for an hour */
    assert_int_equal(a.kind, SCHED_DELIVER);
    assert_ptr_equal(a.entry, d.entry);
    d = (struct delivery){.entry = a.entry,
                          .message = message,
                          .connection = a.connection,
                          .destination = SLICE("x"),
                          .connection_open = true};
    lanes_deliver(&lanes, &a, &d, now);
    accept_one(&d);
    report(&d);
    submit("x");
    assert_int_equal(pull().kind, SCHED_NONE); /* that one was used */
    now += 1800 * SECOND;
    settle();
    now += 1801 * SECOND;
    d = deliver();
    accept_one(&d);
    report(&d);
    end();
}

static void a_rate_of_another_configuration_counts_at_once(void **state)
{
    begin("source_pool = one max_message_rate = \"1/h\"");
    submit("x");
    struct delivery d = deliver();
    submit("x");
    assert_int_equal(pull().kind, SCHED_NONE);
    assert_int_equal(look("a").rates[LIMIT_OF_LANE].messages.span / SECOND, 3600);
    load(&second, "source_pool = one max_message_rate = \"1000/s\"", first.settings.sources, 2);
    use(&second);
    sched_forget_hosts(core, now); /* as after a reload: the answers name the site anew */
    settle();                      /* it asks, and is told a time that is near */
    assert_true(sched_wake_at(core) < now + 10 * USEC_PER_MSEC);
    now += 10 * USEC_PER_MSEC;
    struct delivery e = deliver();
    assert_int_equal(look("a").rates[LIMIT_OF_LANE].messages.count, 1000);
    accept_one(&d);
    report(&d);
    accept_one(&e);
    report(&e);
    assert_int_equal(lanes_held(), 1);
    settle();
    end();
}

/* --- sites and sources that change -------------------------------------------------------------- */

static void lanes_go_with_their_site(void **state)
{
    begin("source_pool = two");
    submit("x");
    struct delivery d = deliver();
    assert_int_equal(lanes_held(), 2); /* of both sources */
    now += 61 * SECOND;                /* what is known of x is out of date */
    site = "mx2";
    submit("x");
    struct delivery e = deliver(); /* by what is known, and asks */
    struct sched_action a = pull();
    assert_int_equal(a.kind, SCHED_NONE);
    submit("x");
    struct delivery f = deliver();
    assert_int_equal(lanes_held(), 4);
    site = "mx"; /* both lanes of it: one carries d and e, or each has one of them */
    accept_one(&d);
    accept_one(&e);
    d.connection_open = e.connection_open = false;
    report(&d);
    report(&e);
    settle();
    assert_int_equal(lanes_held(), 2); /* those at mx2 */
    accept_one(&f);
    f.connection_open = false;
    report(&f);
    settle();
    assert_int_equal(lanes_held(), 0);
    assert_true(list_is_empty(&lanes.all));
    end();
}

/* The core has forgotten it before its connection is over. */
static void a_lane_that_is_gone_stays_for_its_connection(void **state)
{
    begin("source_pool = one");
    submit("x");
    struct delivery d = deliver();
    accept_one(&d);
    report(&d);
    const struct sched_lane_key key = {slice_of(site), d.source};
    const struct sched_loan nothing = {.lane = {SLICE(""), 0}};
    const struct sched_action gone = {
        .kind = SCHED_LANE_GONE, .lane_user = sched_lane_user(core, key), .loan = &nothing};
    assert_non_null(gone.lane_user);
    assert_true(sched_lane_attach(core, key, NULL, now));
    lanes_gone(&gone, now);
    assert_int_equal(lanes_held(), 1);
    assert_int_equal(look("a").open_connections, 1);
    lanes_closed(&lanes, d.connection, now);
    assert_int_equal(lanes_held(), 0);
    sched_connection_closed(core, d.connection, now);
    end();
}

static void a_source_that_a_reload_takes_away_leaves_nothing(void **state)
{
    begin("source_pool = two");
    submit("x");
    submit("x");
    struct delivery d = deliver(), e = deliver(); /* one of each source: they take turns */
    assert_int_not_equal(d.source, e.source);
    accept_one(&d);
    report(&d);
    load(&second, "source_pool = one", first.settings.sources, 2);
    use(&second);
    accept_one(&e);
    report(&e);
    settle();
    submit("x");
    struct delivery f = deliver();
    accept_one(&f);
    report(&f);
    assert_int_equal(look("a").open_connections + look("a").holds, 2);
    assert_int_equal(look("b").open_connections, 0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_counts_once_whatever_it_carries),
        cmocka_unit_test(what_is_exhausted_leaves_the_next_connection_of_its_place_alone),
        cmocka_unit_test(what_is_throttled_behind_its_mail_is_not_accepted),
        cmocka_unit_test(others_of_the_lane_are_known),
        cmocka_unit_test(what_no_receiver_had_is_given_back),
        cmocka_unit_test(a_rate_of_another_configuration_counts_at_once),
        cmocka_unit_test(lanes_go_with_their_site),
        cmocka_unit_test(a_lane_that_is_gone_stays_for_its_connection),
        cmocka_unit_test(a_source_that_a_reload_takes_away_leaves_nothing),
    };
    rcu_start();
    rcu_join(); /* as a scheduler thread, which reads the settings */
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rcu_leave();
    rcu_stop();
    return failed;
}
