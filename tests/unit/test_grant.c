/* Loans of lanes: asked for when they are wanted, used in their time, given back. */
#include "sched/sched.h"
#include "tests/unit/site_bed.h"

#include <string.h>

#define MSEC USEC_PER_MSEC

static const struct sched_lane_key lane = {{"s", 1}, 100};

static void start(struct shell *h, unsigned messages)
{
    shell_init(h);
    h->config.initial_destination_concurrency = 9;
    h->config.destination_concurrency_limit = 20;
    h->config.lane_memory = 3600 * USEC_PER_SEC;
    h->now = USEC_PER_SEC;
    shell_open(h);
    shell_sources(h, 1, NULL, 0);
    shell_send(h, "aa");
    assert_int_equal(shell_run(h), 1);
    shell_report(h, 0, SCHED_POSITIVE, true);
    assert_true(sched_lane_attach(h->sched, lane, h, h->now));
    assert_true(sched_lane_limit(h->sched, lane, true, h->now));
    for (unsigned i = 0; i < messages; i++) {
        shell_send(h, i % 2 == 0 ? "aa" : "bb");
    }
}

/* So many messages from now on for ten milliseconds. */
static struct sched_grant grant_of(const struct shell *h, uint32_t messages)
{
    return (struct sched_grant){.messages = messages,
                                .connects = SCHED_NO_BOUND_OF_CONNECTS,
                                .recipients = SCHED_NO_BOUND,
                                .from = h->now,
                                .until = h->now + 10 * MSEC,
                                .why = SCHED_WHY_PACE};
}

static void give(struct shell *h, struct sched_grant g)
{
    assert_true(sched_lane_grant(h->sched, lane, &g, h->now));
    shell_check(h);
}

static void a_limited_lane_asks_and_sends_what_it_is_lent(void **state)
{
    static struct shell h;
    start(&h, 5);
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.asked, 1);
    assert_int_equal(h.ask.wanted, 5);
    assert_int_equal(h.ask.connects_wanted, 5);
    assert_true(h.ask.has_connection && h.asker == &h);
    assert_int_equal(h.ask.lane.source, 100);
    assert_true(slice_eq(h.ask.lane.site, SLICE("s")));
    struct sched_grant g = grant_of(&h, 2);
    g.from += 4 * MSEC; /* its time comes */
    give(&h, g);
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(sched_wake_at(h.sched), g.from);
    h.now = g.from;
    assert_int_equal(shell_run(&h), 2);
    assert_int_equal(h.deliveries[2].lent_from, g.from);
    assert_int_equal(h.asked, 2); /* nothing is left of it: the next */
    assert_int_equal(h.ask.wanted, 3);
    assert_int_equal(h.returned, 0);
    struct sched_destination_view v;
    assert_true(sched_view_destination(h.sched, SLICE("bb"), &v));
    assert_int_equal(v.state, SCHED_DESTINATION_READY);
    assert_int_equal(v.why, SCHED_WHY_PACE);
    struct sched_lane_view seen;
    assert_true(sched_view_lane(h.sched, SLICE("s"), 0, &seen));
    assert_true(seen.is_limited && seen.why == SCHED_WHY_PACE);
    shell_close(&h);
}

static void what_is_not_used_comes_back(void **state)
{
    static struct shell h;
    start(&h, 2);
    assert_int_equal(shell_run(&h), 0);
    struct sched_grant g = grant_of(&h, 7);
    g.connects = 4;
    give(&h, g);
    assert_int_equal(shell_run(&h), 2);
    assert_int_equal(h.returned, 1); /* at once: nothing waits any more */
    assert_int_equal(h.left.messages, 5);
    assert_int_equal(h.left.connects, 3); /* one rides on the connection that was idle */
    assert_int_equal(h.left.recipients, 0);
    /* And what its time is over for. */
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.asked, 2);
    g = grant_of(&h, 3);
    g.from += 5 * MSEC;
    give(&h, g);
    h.now = g.until;
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.returned, 2);
    assert_int_equal(h.left.messages, 3);
    /* It was in vain: a little later it asks again, and not at once. */
    assert_int_equal(h.asked, 2);
    assert_true(sched_wake_at(h.sched) > h.now);
    h.now += USEC_PER_SEC;
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.asked, 3);
    assert_true(sched_lane_limit(h.sched, lane, false, h.now));
    assert_int_equal(shell_run(&h), 1);
    assert_int_equal(h.deliveries[3].lent_from, 0);
    shell_close(&h);
}

/* No connection could be made, and the one there is was busy: when that ends, nobody waits for the
 * pause behind a loan that was in vain. */
static void a_connection_that_is_free_again_asks(void **state)
{
    static struct shell h;
    start(&h, 2);
    struct sched_grant g = grant_of(&h, 1);
    g.connects = 0;
    assert_int_equal(shell_run(&h), 0);
    give(&h, g);
    assert_int_equal(shell_run(&h), 1);
    assert_int_equal(h.asked, 2);
    give(&h, g);
    h.now = g.until;
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.returned, 1);
    h.now += MSEC;
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.asked, 2);
    shell_report(&h, 1, SCHED_POSITIVE, true);
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.asked, 3);
    shell_close(&h);
}

static void nothing_is_asked_before_it_is_due(void **state)
{
    static struct shell h;
    start(&h, 3);
    assert_int_equal(shell_run(&h), 0);
    give(&h, (struct sched_grant){.due = h.now + 40 * USEC_PER_SEC, .why = SCHED_WHY_QUOTA});
    for (int i = 0; i < 20; i++) {
        assert_int_equal(shell_run(&h), 0);
        h.now += USEC_PER_SEC;
    }
    assert_int_equal(h.asked, 1);
    assert_int_equal(sched_wake_at(h.sched), h.now + 20 * USEC_PER_SEC);
    struct sched_lane_view seen;
    assert_true(sched_view_lane(h.sched, SLICE("s"), 0, &seen));
    assert_int_equal(seen.why, SCHED_WHY_QUOTA);
    assert_int_equal(seen.due, h.now + 20 * USEC_PER_SEC);
    assert_true(sched_lane_limit(h.sched, lane, true, h.now)); /* something has changed */
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.asked, 2);
    give(&h, (struct sched_grant){.due = h.now + USEC_PER_SEC, .why = SCHED_WHY_RATE});
    h.now += USEC_PER_SEC;
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.asked, 3);
    struct sched_grant g = grant_of(&h, 1);
    give(&h, g);
    assert_false(sched_lane_grant(h.sched, lane, &g, h.now)); /* nobody asked for another */
    assert_int_equal(shell_run(&h), 1);
    shell_close(&h);
}

/* The entry that takes the last recipient may have more; the next grant pays. */
static void recipients_are_owed(void **state)
{
    static struct shell h;
    start(&h, 0);
    shell_send_to_many(&h, "aa", 40);
    shell_send_to_many(&h, "aa", 40);
    assert_int_equal(shell_run(&h), 0);
    struct sched_grant g = grant_of(&h, 9);
    g.recipients = 10;
    give(&h, g);
    assert_int_equal(shell_run(&h), 1);
    assert_int_equal(h.left.messages, 8);
    assert_int_equal(h.left.recipients, 0);
    assert_int_equal(h.ask.recipients_owed, 30);
    g.recipients = 100;
    give(&h, g);
    assert_int_equal(shell_run(&h), 1);
    assert_int_equal(h.left.recipients, 60);
    shell_close(&h);
}

/* Without a connect an entry goes on a connection that is there. */
static void connections_are_lent_too(void **state)
{
    static struct shell h;
    start(&h, 3);
    assert_int_equal(shell_run(&h), 0);
    struct sched_grant g = grant_of(&h, 9);
    g.connects = 0;
    give(&h, g);
    assert_int_equal(shell_run(&h), 1);
    assert_false(h.deliveries[1].connection_is_new);
    shell_report(&h, 1, SCHED_POSITIVE, true);
    assert_int_equal(shell_run(&h), 1);
    assert_false(h.deliveries[2].connection_is_new);
    shell_close(&h);
}

static void a_ceiling_bounds_connections_and_what_they_carry(void **state)
{
    static struct shell h;
    start(&h, 6);
    assert_true(sched_lane_limit(h.sched, lane, false, h.now));
    assert_true(sched_lane_ceiling(h.sched, lane, 2, 0, h.now));
    assert_int_equal(shell_run(&h), 2);
    struct sched_destination_view v;
    assert_true(sched_view_destination(h.sched, SLICE("aa"), &v));
    assert_int_equal(v.why, SCHED_WHY_CEILING);
    assert_true(sched_lane_ceiling(h.sched, lane, 2, 3, h.now));
    struct sched_lane_view seen;
    assert_true(sched_view_lane(h.sched, SLICE("s"), 0, &seen));
    assert_true(seen.most_connections == 2 && seen.most_messages == 3);
    for (unsigned i = 1; i < 7; i++) {
        shell_report(&h, i, SCHED_POSITIVE, true);
        (void)shell_run(&h);
    }
    assert_int_equal(h.delivered, 7);
    /* The first one had carried one entry when the lane was limited. */
    unsigned opened = 0;
    for (unsigned i = 0; i < 7; i++) {
        opened += h.deliveries[i].connection_is_new;
    }
    assert_int_equal(opened, 3);
    assert_true(sched_lane_ceiling(h.sched, lane, 0, 0, h.now));
    for (int i = 0; i < 9; i++) {
        shell_send(&h, "aa");
    }
    assert_int_equal(shell_run(&h), 9);
    shell_close(&h);
}

static void connections_of_an_emptied_lane_end_with_what_they_carry(void **state)
{
    static struct shell h;
    start(&h, 3);
    assert_int_equal(shell_run(&h), 0);
    give(&h, grant_of(&h, 2));
    assert_int_equal(shell_run(&h), 2);
    struct sched_destination_view v;
    shell_report(&h, 1, SCHED_POSITIVE, true);
    assert_true(sched_lane_ceiling(h.sched, lane, SCHED_NO_CONNECTIONS, 0, h.now));
    (void)shell_run(&h);
    assert_true(sched_view_destination(h.sched, SLICE("aa"), &v));
    assert_int_equal(v.connections, 1); /* that which is busy */
    shell_report(&h, 2, SCHED_POSITIVE, true);
    (void)shell_run(&h);
    assert_true(sched_view_destination(h.sched, SLICE("aa"), &v));
    assert_int_equal(v.connections, 0);
    assert_true(sched_lane_ceiling(h.sched, lane, 0, 0, h.now));
    shell_close(&h);
}

static void a_lane_that_goes_is_told(void **state)
{
    static struct shell h;
    start(&h, 1);
    assert_int_equal(shell_run(&h), 0);
    give(&h, grant_of(&h, 1));
    assert_int_equal(shell_run(&h), 1);
    shell_report(&h, 1, SCHED_POSITIVE, false);
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.gone, 0);
    h.now += 2 * 3600 * USEC_PER_SEC;
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.gone, 1);
    assert_null(sched_lane_user(h.sched, lane));
    shell_close(&h);
}

/* What came back is placed from a loan too. */
static void an_entry_that_comes_back_asks(void **state)
{
    static struct shell h;
    start(&h, 1);
    assert_int_equal(shell_run(&h), 0);
    give(&h, grant_of(&h, 1));
    assert_int_equal(shell_run(&h), 1);
    shell_outcome(&h, 1, (struct sched_outcome){.again = true, .connection_open = true});
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.asked, 2);
    struct sched_grant g = grant_of(&h, 1);
    g.from = h.now + 1;
    give(&h, g);
    h.now++;
    assert_int_equal(shell_run(&h), 1);
    assert_int_equal(h.deliveries[2].lent_from, g.from);
    shell_close(&h);
}

/* What may be kept stays until it ends, and the next one is as large as what was used of the last. */
static void what_nobody_lacks_is_kept(void **state)
{
    static struct shell h;
    start(&h, 2);
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.ask.recipients_wanted, 2);
    struct sched_grant g = grant_of(&h, 7);
    g.is_ample = true;
    give(&h, g);
    assert_int_equal(shell_run(&h), 2);
    assert_int_equal(h.returned, 0);
    assert_int_equal(sched_wake_at(h.sched), g.until);
    h.now += 5 * MSEC;
    shell_send_to_many(&h, "aa", 4);
    assert_int_equal(shell_run(&h), 1); /* without another question */
    assert_int_equal(h.asked, 1);
    assert_int_equal(h.deliveries[3].lent_from, h.now); /* no pace counts it at another time */
    h.now = g.until;
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.returned, 1);
    assert_int_equal(h.left.messages, 4);
    assert_int_equal(h.asked, 1);
    /* One waits, and three went by the last one, with two recipients each on average. */
    shell_send(&h, "bb");
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.asked, 2);
    assert_int_equal(h.ask.wanted, 3);
    assert_int_equal(h.ask.recipients_wanted, 6);
    /* Something has changed: it asks anew, and less is not ample. */
    g = grant_of(&h, 3);
    g.is_ample = true;
    give(&h, g);
    assert_int_equal(shell_run(&h), 1);
    assert_true(sched_lane_limit(h.sched, lane, true, h.now));
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.returned, 2);
    assert_int_equal(h.left.messages, 2);
    shell_close(&h);
}

/* A loan that is used up before it ends is followed by one of twice its size, any other one by what was
 * used of it. */
static void questions_follow_what_is_used(void **state)
{
    static struct shell h;
    start(&h, 4);
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.ask.wanted, 4);
    give(&h, grant_of(&h, 2));
    assert_int_equal(shell_run(&h), 2);
    assert_int_equal(h.ask.wanted, 2);
    give(&h, grant_of(&h, 9));
    assert_int_equal(shell_run(&h), 2);
    assert_int_equal(h.left.messages, 7);
    for (int i = 0; i < 5; i++) {
        shell_send(&h, "aa");
    }
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.ask.wanted, 2);
    give(&h, grant_of(&h, 2));
    assert_int_equal(shell_run(&h), 2);
    assert_int_equal(h.ask.wanted, 3); /* four, but no more wait */
    shell_close(&h);
}

/* All slots are taken, and the connection that is there can carry more. */
static void a_lane_asks_for_what_can_ride(void **state)
{
    static struct shell h;
    shell_init(&h);
    h.config.process_limit = 1;
    h.config.pipeline_depth = 4;
    h.config.initial_destination_concurrency = 9;
    h.config.lane_memory = 3600 * USEC_PER_SEC;
    h.now = USEC_PER_SEC;
    shell_open(&h);
    shell_sources(&h, 1, NULL, 0);
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 1);
    shell_outcome(
        &h, 0,
        (struct sched_outcome){.feedback = SCHED_POSITIVE, .connection_open = true, .depth = 4});
    assert_true(sched_lane_attach(h.sched, lane, &h, h.now));
    assert_true(sched_lane_limit(h.sched, lane, true, h.now));
    for (int i = 0; i < 3; i++) {
        shell_send(&h, "aa");
    }
    assert_int_equal(shell_run(&h), 0);
    give(&h, grant_of(&h, 1));
    assert_int_equal(shell_run(&h), 1);
    assert_int_equal(h.asked, 2);
    give(&h, grant_of(&h, 2));
    assert_int_equal(shell_run(&h), 2);
    assert_int_equal(h.delivered, 4);
    shell_close(&h);
}

/* What nobody lacks is asked for again soon, and less often the longer it is of no use. */
static void a_pause_in_vain_grows(void **state)
{
    static struct shell h;
    start(&h, 2);
    struct sched_grant g = grant_of(&h, 1);
    g.connects = 0; /* the only connection becomes busy */
    g.is_ample = true;
    assert_int_equal(shell_run(&h), 0);
    give(&h, g);
    assert_int_equal(shell_run(&h), 1);
    static const usec_t pauses[] = {5 * MSEC,  10 * MSEC,  20 * MSEC, 40 * MSEC,
                                    80 * MSEC, 100 * MSEC, 100 * MSEC};
    for (unsigned i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++) {
        g.from = h.now;
        g.until = h.now + 10 * MSEC;
        give(&h, g);
        assert_int_equal(shell_run(&h), 0);
        h.now = g.until;
        assert_int_equal(shell_run(&h), 0);
        assert_int_equal(sched_wake_at(h.sched), h.now + pauses[i]);
        h.now += pauses[i];
        assert_int_equal(shell_run(&h), 0);
        assert_int_equal(h.asked, 3 + i);
    }
    shell_close(&h);
}

/* What the lane cannot take within half a minute holds a quarter of the places. */
static void what_waits_for_a_pace_does_not_fill_memory(void **state)
{
    static struct shell h;
    struct sched_grant g;
    start(&h, 1);
    h.config.message_recipient_limit = 400;
    assert_int_equal(sched_reconfigure(h.sched, &h.config, h.now), 0);
    assert_int_equal(shell_run(&h), 0);
    g = grant_of(&h, 1);
    g.per_second = 2;
    give(&h, g);
    assert_int_equal(shell_run(&h), 1);
    for (int i = 0; i < 160; i++) {
        shell_send(&h, i % 2 == 0 ? "aa" : "bb");
    }
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.paced, 0); /* sixty within half a minute, and a hundred */
    for (int i = 0; i < 240; i++) {
        shell_send(&h, i % 2 == 0 ? "aa" : "bb");
    }
    assert_int_equal(shell_run(&h), 0);
    struct sched_counters c;
    sched_view_counters(h.sched, &c);
    assert_in_range(c.entries_waiting, 140, 160);
    assert_int_equal(h.paced, 400 - c.entries_waiting);
    /* Behind those that stay, each at its turn. */
    usec_t first = h.now + (usec_t)c.entries_waiting / 2 * USEC_PER_SEC;
    for (unsigned i = 0; i < h.paced; i++) {
        usec_t turn = first + (usec_t)i / 2 * USEC_PER_SEC;
        assert_in_range(h.due[i], turn - USEC_PER_SEC, turn + 3 * USEC_PER_SEC);
    }
    /* Mail that may go at once is not touched: another site. */
    h.places['z' - 'a'].site = "t";
    unsigned paced = h.paced;
    for (int i = 0; i < 9; i++) {
        shell_send(&h, "zz");
    }
    assert_int_equal(shell_run(&h), 9);
    assert_int_equal(h.paced, paced);
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.paced, paced); /* not one rewrite for each */
    shell_close(&h);
}

/* A lane of two messages a second, and room for so many recipients. */
static void start_paced(struct shell *h, int room)
{
    start(h, 1);
    h->config.message_recipient_limit = room;
    assert_int_equal(sched_reconfigure(h->sched, &h->config, h->now), 0);
    assert_int_equal(shell_run(h), 0);
    struct sched_grant g = grant_of(h, 1);
    g.per_second = 2;
    give(h, g);
    assert_int_equal(shell_run(h), 1);
}

/* ... and what leaves it is of those that have most waiting there for their weights, however young the
 * others' is. */
static void who_has_most_leaves_memory_first(void **state)
{
    static struct shell h;
    start_paced(&h, 400);
    /* Tenants 1, 2 and 3; the second weighs 3, the third has little, and comes last. */
    static const unsigned counts[] = {0, 300, 300, 20};
    uint64_t first[5] = {0};
    for (uint32_t t = 1; t <= 3; t++) {
        h.flow.tenant = t;
        first[t] = h.next_id + 1;
        for (unsigned i = 0; i < counts[t]; i++) {
            shell_send(&h, i % 2 == 0 ? "aa" : "bb");
        }
        sched_tenant_weight(h.sched, t, t == 2 ? 3 : 1, h.now);
    }
    first[4] = h.next_id + 1;
    assert_int_equal(shell_run(&h), 0);
    unsigned gone[4] = {0};
    for (unsigned i = 0; i < h.paced; i++) {
        for (uint32_t t = 1; t <= 3; t++) {
            gone[t] += h.away[i] >= first[t] && h.away[i] < first[t + 1];
        }
    }
    assert_int_equal(gone[3], 0);
    assert_int_equal(gone[1] + gone[2], h.paced);
    assert_true(h.paced >= 620 - 160);
    /* What stays of the first two is as 1 to 3, but for a sixteenth of each that left at a time. */
    double one = counts[1] - gone[1], three = (counts[2] - gone[2]) / 3.0;
    assert_true(one < three * 1.25 + 2 && three < one * 1.25 + 2);
    shell_close(&h);
}

/* ... and however many others there are. */
static void many_who_have_little_keep_it(void **state)
{
    enum { TENANTS = 10, EACH = 30, MOST = 600 };
    static struct shell h;
    start_paced(&h, 2800);
    for (uint32_t t = 0; t <= TENANTS; t++) {
        h.flow.tenant = 1 + t;
        for (unsigned i = 0; i < (t == 0 ? MOST : EACH); i++) {
            shell_send(&h, "aa");
        }
    }
    uint64_t last_of_most = h.next_id - (uint64_t)TENANTS * EACH;
    assert_int_equal(shell_run(&h), 0);
    assert_true(h.paced >= MOST + TENANTS * EACH - 700);
    for (unsigned i = 0; i < h.paced; i++) {
        assert_in_range(h.away[i], 1, last_of_most);
    }
    shell_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limited_lane_asks_and_sends_what_it_is_lent),
        cmocka_unit_test(what_is_not_used_comes_back),
        cmocka_unit_test(what_nobody_lacks_is_kept),
        cmocka_unit_test(questions_follow_what_is_used),
        cmocka_unit_test(a_lane_asks_for_what_can_ride),
        cmocka_unit_test(a_pause_in_vain_grows),
        cmocka_unit_test(a_connection_that_is_free_again_asks),
        cmocka_unit_test(nothing_is_asked_before_it_is_due),
        cmocka_unit_test(recipients_are_owed),
        cmocka_unit_test(connections_are_lent_too),
        cmocka_unit_test(a_ceiling_bounds_connections_and_what_they_carry),
        cmocka_unit_test(connections_of_an_emptied_lane_end_with_what_they_carry),
        cmocka_unit_test(a_lane_that_goes_is_told),
        cmocka_unit_test(an_entry_that_comes_back_asks),
        cmocka_unit_test(what_waits_for_a_pace_does_not_fill_memory),
        cmocka_unit_test(who_has_most_leaves_memory_first),
        cmocka_unit_test(many_who_have_little_keep_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
