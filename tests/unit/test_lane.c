/* Lanes of several sources: the choice, pools, closing and probing, what is not taken. */
#include "sched/sched.h"
#include "tests/unit/site_bed.h"

#include <string.h>

static const struct sched_reason blocked = {"5.7.1", "198.51.100.1 is listed"};

static struct sched_lane_key lane_of(const char *site, uint32_t source)
{
    return (struct sched_lane_key){slice_of(site), source};
}

static void start(struct shell *h, uint32_t sources)
{
    shell_init(h);
    h->config.initial_destination_concurrency = 9;
    h->config.destination_concurrency_limit = 20;
    h->config.process_limit = 60;
    h->config.lane_memory = 3600 * USEC_PER_SEC;
    shell_open(h);
    shell_sources(h, sources, NULL, 0);
}

/* The site must be there before anything is said of its lanes. */
static void start_with_mail(struct shell *h, uint32_t sources)
{
    start(h, sources);
    shell_send(h, "aa");
    assert_int_equal(shell_run(h), 1);
    shell_report(h, 0, SCHED_POSITIVE, true);
}

static unsigned count_from(const struct shell *h, unsigned first, uint32_t source)
{
    unsigned count = 0;
    for (unsigned i = first; i < h->delivered; i++) {
        count += h->deliveries[i].source == source;
    }
    return count;
}

static void close_lane(struct shell *h, uint32_t source, usec_t until)
{
    assert_true(sched_lane_close(h->sched, lane_of("s", source), until, &blocked, h->now));
    shell_check(h);
}

static void sources_take_turns_by_their_weights(void **state)
{
    static struct shell h;
    shell_init(&h);
    shell_open(&h);
    h.sources[0].weight = 5;
    h.sources[1].weight = 3;
    shell_sources(&h, 3, NULL, 0);
    for (unsigned i = 0; i < 90; i++) {
        shell_send(&h, i % 2 == 0 ? "aa" : "bb");
        assert_int_equal(shell_run(&h), 1);
        shell_report(&h, i, SCHED_POSITIVE, true);
        /* In any nine in a row each has its part, and none goes three times in a row. */
        unsigned first = i >= 8 ? i - 8 : 0;
        assert_true(i < 8 || (count_from(&h, first, 100) == 5 && count_from(&h, first, 101) == 3));
        assert_true(i < 2 || count_from(&h, i - 2, shell_source(&h, i)) < 3);
    }
    shell_close(&h);
}

/* Each has its parts of any four in a row, whatever the other sends in between. */
static void pools_that_share_sources_have_turns_of_their_own(void **state)
{
    static struct shell h;
    static const char order[] = "0001011101000111010011110000101101";
    const uint64_t pools[] = {3, 3, 3};
    uint16_t weights[3 * SCHED_SOURCES_MAX] = {3, 1};
    unsigned seen[2][sizeof(order)], count[2] = {0, 0};
    weights[SCHED_SOURCES_MAX] = 1;
    weights[SCHED_SOURCES_MAX + 1] = 3;
    shell_init(&h);
    shell_open(&h);
    h.weights = weights;
    shell_sources(&h, 2, pools, 3);
    for (unsigned i = 0; i + 1 < sizeof(order); i++) {
        unsigned pool = (unsigned)(order[i] - '0');
        h.pool = (uint16_t)pool;
        shell_send(&h, "aa");
        assert_int_equal(shell_run(&h), 1);
        shell_report(&h, i, SCHED_POSITIVE, true);
        unsigned *at = seen[pool], n = count[pool]++;
        at[n] = shell_source(&h, i) == 100 + pool;
        assert_true(n < 3 || at[n] + at[n - 1] + at[n - 2] + at[n - 3] == 3);
    }
    assert_true(count[0] > 8 && count[1] > 8);
    h.pool = 2; /* what has no weights of its own has those of the sources */
    for (unsigned i = h.delivered; i < sizeof(order) + 3; i++) {
        shell_send(&h, "aa");
        assert_int_equal(shell_run(&h), 1);
        shell_report(&h, i, SCHED_POSITIVE, true);
    }
    assert_int_equal(count_from(&h, sizeof(order) - 1, 100), 2);
    h.weights = NULL; /* and so have all when they are taken away */
    shell_sources(&h, 2, pools, 3);
    unsigned first = h.delivered;
    for (unsigned i = 0; i < 4; i++) {
        h.pool = 0;
        shell_send(&h, "aa");
        assert_int_equal(shell_run(&h), 1);
        shell_report(&h, first + i, SCHED_POSITIVE, true);
    }
    assert_int_equal(count_from(&h, first, 100), 2);
    shell_close(&h);
}

static void a_full_lane_leaves_its_share_to_the_others(void **state)
{
    static struct shell h;
    shell_init(&h); /* windows of two */
    shell_open(&h);
    h.sources[0].weight = 1000;
    shell_sources(&h, 2, NULL, 0);
    for (unsigned i = 0; i < 6; i++) {
        shell_send(&h, "aa");
    }
    assert_int_equal(shell_run(&h), 4);
    assert_int_equal(count_from(&h, 0, 100), 2);
    shell_report(&h, 0, SCHED_POSITIVE, true);
    assert_int_equal(shell_run(&h), 1);
    assert_int_equal(shell_source(&h, 4), shell_source(&h, 0));
    shell_close(&h);
}

static void a_pool_is_sent_from_its_sources_only(void **state)
{
    static struct shell h;
    const uint64_t pools[] = {3, 2, 0};
    shell_init(&h);
    shell_open(&h);
    shell_sources(&h, 2, pools, 3);
    for (uint16_t pool = 0; pool < 3; pool++) {
        for (int i = 0; i < 4; i++) {
            h.pool = pool;
            shell_send(&h, "aa");
        }
    }
    /* Two windows of two; without any source nothing is waited for. */
    assert_int_equal(shell_run(&h), 4);
    assert_int_equal(h.deferred, 4);
    assert_string_equal(h.reason.status, "4.3.5");
    struct sched_destination_view v;
    assert_true(sched_view_destination_in(h.sched, SLICE("aa"), 1, &v));
    assert_int_equal(v.todo, 4);
    assert_int_equal(v.pool, 1);
    assert_true(sched_view_destination(h.sched, SLICE("aa"), &v));
    assert_int_equal(v.pool, 0);
    for (unsigned i = 0; i < h.delivered; i++) {
        assert_true(h.deliveries[i].destination != h.deliveries[0].destination || i < 4);
        shell_report(&h, i, SCHED_POSITIVE, true);
        (void)shell_run(&h);
    }
    assert_int_equal(h.delivered, 8);
    assert_in_range(count_from(&h, 0, 101), 5, 7);
    shell_close(&h);
}

static void what_waits_for_a_closed_lane_goes_by_the_others(void **state)
{
    static struct shell h;
    start_with_mail(&h, 2);
    close_lane(&h, 100, h.now + 60 * USEC_PER_SEC);
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.closed, 1); /* it was idle */
    for (int i = 0; i < 6; i++) {
        shell_send(&h, "aa");
    }
    assert_int_equal(shell_run(&h), 6);
    assert_int_equal(count_from(&h, 1, 101), 6);
    shell_send(&h, "aa");
    shell_send(&h, "bb");
    close_lane(&h, 101, h.now + 90 * USEC_PER_SEC);
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.deferred, 2);
    assert_string_equal(h.reason.status, "4.7.1");
    assert_string_equal(h.reason.text, "delivery temporarily suspended: 198.51.100.1 is listed");
    struct sched_destination_view v;
    assert_true(sched_view_destination(h.sched, SLICE("aa"), &v));
    assert_int_equal(v.state, SCHED_DESTINATION_DEAD);
    assert_int_equal(v.why, SCHED_WHY_LANE_CLOSED);
    assert_int_equal(v.state_until, h.now + 60 * USEC_PER_SEC);
    struct sched_lane_view lane;
    assert_true(sched_view_lane(h.sched, SLICE("s"), 1, &lane));
    assert_int_equal(lane.state, SCHED_LANE_CLOSED);
    assert_int_equal(lane.state_until, h.now + 90 * USEC_PER_SEC);
    shell_send(&h, "aa"); /* and what comes */
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.deferred, 3);
    shell_close(&h);
}

static void a_lane_that_comes_back_is_probed(void **state)
{
    static struct shell h;
    start_with_mail(&h, 1);
    close_lane(&h, 100, h.now + 60 * USEC_PER_SEC);
    assert_int_equal(shell_run(&h), 0);
    h.now += 60 * USEC_PER_SEC;
    assert_true(sched_wake_at(h.sched) <= h.now);
    for (int i = 0; i < 5; i++) {
        shell_send(&h, "aa");
    }
    assert_int_equal(shell_run(&h), 1);
    shell_report(&h, 1, SCHED_POSITIVE, true);
    assert_int_equal(shell_run(&h), 1); /* the next, on the same connection */
    assert_false(h.deliveries[2].connection_is_new);
    assert_true(sched_lane_open(h.sched, lane_of("s", 100), h.now));
    assert_int_equal(shell_run(&h), 3);
    shell_report(&h, 2, SCHED_POSITIVE, true);
    close_lane(&h, 100, h.now); /* at once: a probe, when the others are done */
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 0);
    for (unsigned i = 3; i < 6; i++) {
        shell_report(&h, i, SCHED_POSITIVE, true);
    }
    assert_int_equal(shell_run(&h), 1);
    assert_int_equal(h.deferred, 0);
    shell_close(&h);
}

static void nothing_is_known_of_lanes_that_are_not_there(void **state)
{
    static struct shell h;
    start_with_mail(&h, 1);
    assert_false(sched_lane_close(h.sched, lane_of("t", 100), USEC_NEVER, &blocked, h.now));
    assert_false(sched_lane_close(h.sched, lane_of("s", 101), USEC_NEVER, &blocked, h.now));
    assert_false(sched_lane_open(h.sched, lane_of("t", 100), h.now));
    assert_false(
        sched_close_for(h.sched, lane_of("s", 100), SLICE("none"), USEC_NEVER, &blocked, h.now));
    shell_close(&h);
}

static void one_destination_keeps_away_from_a_lane(void **state)
{
    static struct shell h;
    start_with_mail(&h, 2);
    usec_t until = h.now + 60 * USEC_PER_SEC;
    shell_send(&h, "aa");
    shell_send(&h, "bb");
    assert_int_equal(shell_run(&h), 2);
    assert_true(sched_close_for(h.sched, lane_of("s", 100), SLICE("aa"), until, &blocked, h.now));
    shell_check(&h);
    for (int i = 0; i < 8; i++) {
        shell_send(&h, i % 2 == 0 ? "aa" : "bb");
    }
    assert_int_equal(shell_run(&h), 8);
    for (unsigned i = 3; i < 11; i++) {
        assert_true(shell_letter(&h, i) == 'b' || shell_source(&h, i) == 101);
    }
    assert_true(count_from(&h, 3, 100) > 0);
    /* From nowhere: its own mail is deferred. */
    assert_true(sched_close_for(h.sched, lane_of("s", 101), SLICE("aa"), until, &blocked, h.now));
    shell_check(&h);
    shell_send(&h, "aa");
    shell_send(&h, "bb");
    assert_int_equal(shell_run(&h), 1);
    assert_int_equal(h.deferred, 1);
    h.now = until;
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 1);
    shell_close(&h);
}

static void what_was_not_taken_is_first_again(void **state)
{
    static struct shell h;
    start(&h, 1);
    for (int i = 0; i < 9; i++) {
        shell_send(&h, "aa");
        h.now++;
    }
    assert_int_equal(shell_run(&h), 9);
    uint64_t first = h.deliveries[0].message_id;
    shell_send(&h, "aa");
    struct sched_outcome slow = {.feedback = SCHED_SLOWER, .throttled = true};
    slow.connection_open = true;
    for (unsigned i = 0; i < 9; i++) {
        shell_outcome(&h, i, slow); /* one round trip: one step, whatever the cohort limit is */
    }
    struct sched_destination_view v;
    assert_true(sched_view_destination(h.sched, SLICE("aa"), &v));
    assert_int_equal(v.window, 8);
    assert_int_equal(v.todo, 10);
    assert_int_equal(v.delivered + v.deferred, 0);
    assert_int_equal(shell_run(&h), 8);
    assert_int_equal(h.deliveries[9].message_id, first);
    for (unsigned i = 9; i < 200; i++) {
        shell_outcome(&h, i, slow);
        (void)shell_run(&h);
    }
    assert_true(sched_view_destination(h.sched, SLICE("aa"), &v));
    assert_int_equal(v.window, 1);
    assert_int_equal(v.state, SCHED_DESTINATION_READY);
    assert_int_equal(h.deferred, 0);
    shell_close(&h);
}

/* It ends the delivery, and is no failure of the lane. */
static void a_charged_refusal_kills_nothing(void **state)
{
    static struct shell h;
    start(&h, 1);
    for (unsigned i = 0; i < 30; i++) {
        shell_send(&h, "aa");
        assert_int_equal(shell_run(&h), 1);
        shell_report(&h, i, SCHED_SLOWER, false);
    }
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 1);
    struct sched_destination_view v;
    assert_true(sched_view_destination(h.sched, SLICE("aa"), &v));
    assert_int_equal(v.window, 1);
    assert_int_equal(h.deferred, 0);
    shell_close(&h);
}

static void an_entry_tries_another_source(void **state)
{
    static struct shell h;
    start(&h, 3);
    shell_send(&h, "aa");
    assert_int_equal(shell_run(&h), 1);
    const struct sched_outcome next = {
        .again = true, .source_tried = true, .connection_open = true};
    struct sched_others others = sched_other_sources(h.sched, h.deliveries[0].entry, 0);
    assert_true(others.has_any && others.has_untried);
    uint32_t seen[3] = {shell_source(&h, 0)};
    for (unsigned i = 0; i < 2; i++) {
        shell_outcome(&h, i, next);
        assert_int_equal(shell_run(&h), 1);
        assert_int_equal(h.exhausted, 0);
        seen[i + 1] = shell_source(&h, i + 1);
        assert_int_not_equal(seen[i + 1], seen[i]);
    }
    assert_int_not_equal(seen[0], seen[2]);
    others = sched_other_sources(h.sched, h.deliveries[2].entry, 0);
    assert_true(others.has_any && !others.has_untried);
    shell_outcome(&h, 2, next);
    assert_int_equal(shell_run(&h), 1);
    assert_int_equal(h.exhausted, 1);
    shell_close(&h);
}

static void a_source_that_goes_takes_nothing_more(void **state)
{
    static struct shell h;
    start(&h, 2);
    for (int i = 0; i < 4; i++) {
        shell_send(&h, "aa");
    }
    assert_int_equal(shell_run(&h), 4);
    shell_report(&h, 0, SCHED_POSITIVE, true);
    shell_report(&h, 1, SCHED_POSITIVE, true);
    close_lane(&h, 101, h.now + 3600 * USEC_PER_SEC);
    h.sources[0].id = 200;
    shell_sources(&h, 2, NULL, 0); /* 101 stays, and so does what is known of it */
    for (int i = 0; i < 4; i++) {
        shell_send(&h, "aa");
    }
    assert_int_equal(shell_run(&h), 4);
    assert_int_equal(count_from(&h, 4, 200), 4);
    assert_int_equal(h.closed, 2);
    shell_report(&h, 2, SCHED_POSITIVE, true);
    shell_report(&h, 3, SCHED_POSITIVE, true);
    assert_int_equal(shell_run(&h), 0);
    assert_int_equal(h.closed, 4);
    shell_close(&h);
}

static void places_of_sources_are_used_again(void **state)
{
    static struct shell h;
    start(&h, 1);
    for (uint32_t i = 0; i < 3 * SCHED_SOURCES_MAX; i++) {
        shell_send(&h, "aa");
        assert_int_equal(shell_run(&h), 1);
        shell_report(&h, i, SCHED_POSITIVE, true);
        h.sources[0].id++;
        shell_sources(&h, 1, NULL, 0);
    }
    shell_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_take_turns_by_their_weights),
        cmocka_unit_test(pools_that_share_sources_have_turns_of_their_own),
        cmocka_unit_test(a_full_lane_leaves_its_share_to_the_others),
        cmocka_unit_test(a_pool_is_sent_from_its_sources_only),
        cmocka_unit_test(what_waits_for_a_closed_lane_goes_by_the_others),
        cmocka_unit_test(a_lane_that_comes_back_is_probed),
        cmocka_unit_test(nothing_is_known_of_lanes_that_are_not_there),
        cmocka_unit_test(one_destination_keeps_away_from_a_lane),
        cmocka_unit_test(what_was_not_taken_is_first_again),
        cmocka_unit_test(a_charged_refusal_kills_nothing),
        cmocka_unit_test(an_entry_tries_another_source),
        cmocka_unit_test(a_source_that_goes_takes_nothing_more),
        cmocka_unit_test(places_of_sources_are_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
