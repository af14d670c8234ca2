/* What left memory until its turn: kept by site and flow, in order, and called back as its lanes take more, not
 * beyond what they take soon, and not before what was called back of the flow last has become active. */
#include "engine/activator/recall.h"
#include "engine/post/letter.h"
#include "engine/schedule/absent.h"
#include "tests/unit/lanes_bed.h"

#define RATE  10 /* messages a second, of the only lane */
#define LATER (3600 * SECOND)

static struct absent absent;
static struct mailbox activator;
static struct outbox to_activator;
static struct delivery out; /* it keeps its destination alive */
static struct sched_action sent;
static usec_t wall;

static void begin_absent(const char *options)
{
    begin(options);
    assert_int_equal(mailbox_init(&activator, 16), 0);
    outbox_init(&to_activator, &activator);
    absent_init(&absent);
    wall = clock_wall();
    submit("x");
    sent = pull_past_ends();
    assert_int_equal(sent.kind, SCHED_DELIVER);
    out = (struct delivery){.entry = sent.entry,
                            .message = message,
                            .connection = sent.connection,
                            .connection_is_new = sent.connection_is_new,
                            .source = sent.source,
                            .destination = sched_destination_name(sent.destination),
                            .connection_open = true};
    lanes_deliver(&lanes, &sent, &out, now);
    sent.due = now + SECOND;
}

static void end_absent(void)
{
    out.depth = 1;
    out.taken_messages = out.taken_recipients = 1;
    out.feedback = SCHED_POSITIVE;
    report(&out);
    settle();
    absent_fini(&absent);
    outbox_fini(&to_activator);
    mailbox_fini(&activator);
    end();
}

/* So many messages, from this number on, have left memory: their turns are an hour away. */
static void note_of(uint32_t flow, uint64_t from, uint64_t count)
{
    for (uint64_t id = from; id < from + count; id++) {
        sent.message_id = id;
        absent_note(&absent, &lanes, &sent, flow, now, wall + LATER + (usec_t)id);
    }
}

static void note_all(uint64_t from, uint64_t count)
{
    note_of(0, from, count);
}

static struct recall *look_again(void)
{
    struct letter letter;
    const struct absent_recall r = {core, &lanes, &to_activator, now};
    absent_recall(&absent, &r);
    (void)outbox_flush(&to_activator);
    return mailbox_take(&activator, &letter) ? letter_take_recall(&letter) : NULL;
}

/* These messages and no others were called back. */
static void called_back(uint64_t from, uint64_t count)
{
    struct recall *r = look_again();
    if (r == NULL) {
        fail_msg("nothing is called back");
        return;
    }
    assert_int_equal(r->count, count);
    for (uint64_t i = 0; i < count; i++) {
        const struct spool_position *at = &r->at[i];
        assert_int_equal(at->id, from + i);
        assert_int_equal(at->time, wall + LATER + (usec_t)(from + i));
        assert_int_equal(at->class, SPOOL_DEFERRED);
    }
    recall_free(r);
}

static void nobody_looks_again(void)
{
    assert_null(look_again());
}

/* --- what is noted ------------------------------------------------------------------------------ */

static void only_what_a_rate_sent_away_is_noted(void **state)
{
    begin_absent("source_pool = one");
    note_all(1, 3); /* its lanes would have taken it: another limit sends it away */
    assert_int_equal(absent.count, 0);
    assert_true(absent_wake_at(&absent) == USEC_NEVER);
    end_absent();
    begin_absent("source_pool = one max_message_rate = \"10/s\"");
    sent.due = now; /* it may go at once */
    note_all(1, 3);
    assert_int_equal(absent.count, 0);
    sent.due = now + SECOND;
    note_all(1, 3);
    assert_int_equal(absent.count, 3);
    note_all(3, 1); /* more recipients of the same message: it comes once */
    assert_int_equal(absent.count, 3);
    end_absent();
}

/* --- what is called back ------------------------------------------------------------------------ */

static void so_many_come_as_the_lanes_take_soon(void **state)
{
    begin_absent("source_pool = one max_message_rate = \"10/s\"");
    note_all(1, 500);
    called_back(1, 20 * RATE);
    assert_int_equal(absent.count, 500 - 20 * RATE);
    nobody_looks_again(); /* it is not time */
    now = absent_wake_at(&absent);
    called_back(20 * RATE + 1, 20 * RATE);
    end_absent();
}

/* What waits in memory for the lanes counts: with ten seconds' worth of it nothing more is wanted. */
static void what_waits_already_is_taken_off(void **state)
{
    begin_absent("source_pool = one max_message_rate = \"10/s\"");
    note_all(1000, 500);
    for (int i = 0; i < 5 * RATE; i++) {
        submit("x");
    }
    called_back(1000, 15 * RATE);
    for (int i = 0; i < 5 * RATE + 1; i++) {
        submit("x");
    }
    now = absent_wake_at(&absent);
    nobody_looks_again();
    assert_int_equal(absent.count, 500 - 15 * RATE);
    for (int i = 0; i < 10 * RATE + 1; i++) {
        now += SECOND / RATE;
        struct delivery d = deliver();
        d.depth = 1;
        d.taken_messages = d.taken_recipients = 1;
        d.feedback = SCHED_POSITIVE;
        report(&d);
    }
    end_absent();
}

static void what_comes_by_itself_soon_is_left_alone(void **state)
{
    begin_absent("source_pool = one max_message_rate = \"10/s\"");
    for (uint64_t id = 1; id <= 3; id++) {
        sent.message_id = id;
        absent_note(&absent, &lanes, &sent, 0, now, wall);
    }
    nobody_looks_again();
    assert_int_equal(absent.count, 0);
    assert_true(absent_wake_at(&absent) == USEC_NEVER);
    end_absent();
}

static void a_site_is_called_back_one_time_after_the_other(void **state)
{
    begin_absent("source_pool = one max_message_rate = \"10/s\"");
    note_all(1, 500);
    struct recall *r = look_again();
    assert_non_null(r);
    now = absent_wake_at(&absent);
    nobody_looks_again();
    now = absent_wake_at(&absent);
    assert_true(now != USEC_NEVER);
    recall_free(r);
    called_back(20 * RATE + 1, 20 * RATE);
    end_absent();
}

static struct recall *called_of(uint32_t flow, uint64_t count)
{
    struct recall *r = look_again();
    if (r == NULL) {
        fail_msg("nothing of %u is called back", flow);
        return NULL;
    }
    assert_int_equal(r->at[0].flow, flow);
    assert_int_equal(r->count, count);
    return r;
}

/* A flow that gets no places for what was called back keeps the others of its site waiting for a moment. */
static void a_flow_that_is_stuck_keeps_nobody_waiting(void **state)
{
    begin_absent("source_pool = one max_message_rate = \"10/s\"");
    note_of(1, 1, 500);
    note_of(2, 1001, 700);
    struct recall *stuck = called_of(1, 10 * RATE), *other = called_of(2, 10 * RATE);
    now = absent_wake_at(&absent);
    nobody_looks_again();
    recall_free(other);
    now = absent_wake_at(&absent);
    other = called_of(2, 10 * RATE); /* what may be on its way is taken off */
    recall_free(other);
    now += 2 * SECOND;
    other = called_of(2, 20 * RATE);
    recall_free(stuck);
    now = absent_wake_at(&absent);
    nobody_looks_again(); /* so much of the other one is on its way */
    recall_free(other);
    now = absent_wake_at(&absent);
    recall_free(called_of(1, 10 * RATE));
    recall_free(called_of(2, 10 * RATE));
    assert_int_equal(absent.flow_count, 2);
    end_absent();
}

/* More flows than one look goes through: of each that is ready as much is called back, and what has come by itself is
 * forgotten of all of them, some in each look. */
static void very_many_flows_are_looked_through_by_and_by(void **state)
{
    enum { FLOWS = 5000, LOOKS = 40 };
    uint32_t called = 0;
    begin_absent("source_pool = one max_message_rate = \"10/s\"");
    for (uint32_t flow = 1; flow <= FLOWS; flow++) {
        note_of(flow, flow, 1);
    }
    for (int look = 0; look < LOOKS; look++) {
        struct recall *r;
        now += SECOND;
        while ((r = look_again()) != NULL) {
            assert_int_equal(r->count, 1);
            assert_int_equal(r->at[0].id, ++called);
            recall_free(r);
        }
    }
    assert_int_equal(called, FLOWS);
    now += SECOND;
    nobody_looks_again();
    assert_int_equal(absent.flow_count, 0);
    sent.due = now + SECOND;
    for (uint32_t flow = 1; flow <= FLOWS; flow++) {
        sent.message_id = flow;
        absent_note(&absent, &lanes, &sent, flow, now, wall);
    }
    now += SECOND;
    nobody_looks_again();
    assert_in_range(absent.flow_count, FLOWS / 2, FLOWS - 1);
    for (int look = 0; look < LOOKS && absent.flow_count > 0; look++) {
        now += SECOND;
        nobody_looks_again();
    }
    assert_int_equal(absent.flow_count, 0);
    assert_int_equal(absent.count, 0);
    assert_true(absent_wake_at(&absent) == USEC_NEVER);
    end_absent();
}

/* It is one of very many, so that nobody has looked at it before: the others get no more and no less than the receiver
 * takes. */
static void what_has_come_by_itself_is_not_called_back(void **state)
{
    enum { FLOWS = 300, MOST = 2000, OWN = 5000, COME = 4000 };
    begin_absent("source_pool = one max_message_rate = \"1000/s\"");
    for (uint32_t flow = 1; flow < FLOWS; flow++) {
        note_of(flow, flow, 1);
    }
    for (uint64_t id = FLOWS; id < FLOWS + COME; id++) {
        sent.message_id = id;
        absent_note(&absent, &lanes, &sent, FLOWS, now, wall);
    }
    note_of(FLOWS + 1, OWN, OWN);
    uint64_t called = 0;
    struct recall *r;
    while ((r = look_again()) != NULL) {
        called += r->count;
        recall_free(r);
    }
    assert_int_equal(called, MOST);
    assert_int_equal(absent.count, FLOWS - 1 + OWN - MOST);
    end_absent();
}

/* --- turns -------------------------------------------------------------------------------------- */

/* The writer puts what waits longer than a retry where nobody who calls it back would find it. */
static void a_turn_is_never_beyond_the_longest_retry(void **state)
{
    const struct config c = {.minimal_backoff_time = 300 * SECOND,
                             .maximal_backoff_time = 4000 * SECOND};
    assert_true(absent_turn(&c, 60 * SECOND, wall) == wall + 60 * SECOND);
    assert_true(absent_turn(&c, -SECOND, wall) == wall);
    assert_true(absent_turn(&c, 86400 * SECOND, wall) < wall + 4000 * SECOND);
    assert_true(absent_turn(&c, 86400 * SECOND, wall) > wall + 300 * SECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_a_rate_sent_away_is_noted),
        cmocka_unit_test(so_many_come_as_the_lanes_take_soon),
        cmocka_unit_test(what_waits_already_is_taken_off),
        cmocka_unit_test(what_comes_by_itself_soon_is_left_alone),
        cmocka_unit_test(a_site_is_called_back_one_time_after_the_other),
        cmocka_unit_test(a_flow_that_is_stuck_keeps_nobody_waiting),
        cmocka_unit_test(very_many_flows_are_looked_through_by_and_by),
        cmocka_unit_test(what_has_come_by_itself_is_not_called_back),
        cmocka_unit_test(a_turn_is_never_beyond_the_longest_retry),
    };
    rcu_start();
    rcu_join(); /* as a scheduler thread, which reads the settings */
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rcu_leave();
    rcu_stop();
    return failed;
}
