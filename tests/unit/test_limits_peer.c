/* What another node learned of a lane holds here, unless what is known here is stricter. */
#include "base/error.h"
#include "tests/unit/limits_bed.h"

#include <math.h>
#include <string.h>

static struct limit_reaction newest(const struct bed *b)
{
    struct limit_reaction r = {0};
    uint64_t end = limits_reaction_end(b->limits);
    assert_true(end > 0 && limits_reaction_get(b->limits, end - 1, &r));
    return r;
}

static int obey(struct bed *b, const char *source, const struct limit_lesson *what)
{
    const struct limit_key key = key_of(source, "site");
    return limits_obey(b->limits, &key, what, b->now);
}

static struct limit_lesson closed_for(usec_t span)
{
    return (struct limit_lesson){
        .kind = LIMIT_REACTED_CLOSED, .span = span, .rule = SLICE("r"), .text = SLICE("550 no")};
}

static void a_closure_is_obeyed_and_ends(void **state)
{
    struct bed b;
    struct limit_change change;
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    struct limit_lesson close = closed_for(HOUR), open = {.kind = LIMIT_REACTED_OPENED};
    assert_int_equal(obey(&b, "ip1", &close), 0);
    assert_true(last_change(&b, 0, &change));
    assert_true(change.state.is_closed && change.state.until == b.now + HOUR);
    struct limit_reaction r = newest(&b);
    assert_int_equal(r.kind, LIMIT_REACTED_CLOSED);
    assert_int_equal(r.cause, LIMIT_DONE_BY_PEER);
    assert_string_equal(r.text, "550 no");

    /* A shorter one changes nothing, and is no reaction. */
    uint64_t before = limits_reaction_end(b.limits);
    close.span = MINUTE;
    assert_int_equal(obey(&b, "ip1", &close), 0);
    assert_int_equal(limits_reaction_end(b.limits), before);
    assert_int_equal(obey(&b, "ip1", &open), 0);
    assert_true(last_change(&b, 0, &change));
    assert_false(change.state.is_closed);
    assert_int_equal(newest(&b).cause, LIMIT_DONE_BY_PEER);
    limits_release(h, b.now);
    end_bed(&b);
}

/* A lane that nobody holds is closed beforehand. */
static void a_lane_is_made(void **state)
{
    struct bed b;
    struct limit_change change;
    struct limit_lesson close = closed_for(HOUR);
    (void)state;
    make_bed(&b);
    assert_int_equal(obey(&b, "ip2", &close), 0);
    struct limits_hold *h = hold(&b, 0, "ip2", "site", NULL);
    assert_true(last_change(&b, 0, &change));
    assert_true(change.state.is_closed);
    limits_release(h, b.now);
    end_bed(&b);
}

static void the_slower_pace_holds(void **state)
{
    struct bed b;
    struct limit_lane_report lane;
    struct limit_lesson pace = {
        .kind = LIMIT_REACTED_PACE, .value = 10, .unit = 0, .rule = SLICE("")};
    const struct limit_key key = key_of("ip1", "site");
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    assert_int_equal(obey(&b, "ip1", &pace), 0);
    assert_true(limits_report_lane(b.limits, &key, b.now, b.wall, &lane));
    assert_true(fabs(lane.paces[0] - 10) < 0.01);
    pace.value = 20;
    assert_int_equal(obey(&b, "ip1", &pace), 0);
    assert_true(limits_report_lane(b.limits, &key, b.now, b.wall, &lane));
    assert_true(fabs(lane.paces[0] - 10) < 0.01);
    pace.value = 5;
    assert_int_equal(obey(&b, "ip1", &pace), 0);
    assert_true(limits_report_lane(b.limits, &key, b.now, b.wall, &lane));
    assert_true(fabs(lane.paces[0] - 5) < 0.01);
    limits_release(h, b.now);
    end_bed(&b);
}

static void what_cannot_be_is_refused(void **state)
{
    struct bed b;
    (void)state;
    make_bed(&b);
    const struct limit_lesson wrong[] = {
        closed_for(0),
        closed_for(-1),
        closed_for(INT64_MAX),
        {.kind = LIMIT_REACTED_PACE, .value = 0},
        {.kind = LIMIT_REACTED_PACE, .value = -1},
        {.kind = LIMIT_REACTED_PACE, .value = NAN},
        {.kind = LIMIT_REACTED_PACE, .value = HUGE_VAL},
        {.kind = LIMIT_REACTED_PACE, .value = 1, .unit = 3},
        {.kind = LIMIT_REACTED_PAUSE, .span = HOUR},
        {.kind = LIMIT_REACTED_COUNT},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(obey(&b, "ip1", &wrong[i]), ERR_SYNTAX);
    }
    assert_int_equal(limits_reaction_end(b.limits), 0);
    struct limits_totals totals;
    limits_totals(b.limits, &totals);
    assert_int_equal(totals.lanes, 0);
    end_bed(&b);
}

static void the_lower_ceiling_holds(void **state)
{
    struct bed b;
    struct limit_change change;
    struct limit_lesson most = {
        .kind = LIMIT_REACTED_CONNECTIONS, .value = 5, .text = SLICE("421 no")};
    struct limit_lesson session = {.kind = LIMIT_REACTED_SESSION, .value = 20};
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    assert_int_equal(obey(&b, "ip1", &most), 0);
    assert_int_equal(newest(&b).kind, LIMIT_REACTED_CONNECTIONS);
    assert_int_equal(newest(&b).cause, LIMIT_DONE_BY_PEER);
    assert_string_equal(newest(&b).text, "421 no");
    assert_int_equal(obey(&b, "ip1", &session), 0);
    assert_true(last_change(&b, 0, &change));
    assert_int_equal(change.state.most_connections, 5);
    assert_int_equal(change.state.most_messages, 20);
    uint64_t before = limits_reaction_end(b.limits);
    most.value = 6;
    assert_int_equal(obey(&b, "ip1", &most), 0);
    assert_int_equal(limits_reaction_end(b.limits), before);
    most.value = 2;
    assert_int_equal(obey(&b, "ip1", &most), 0);
    assert_true(last_change(&b, 0, &change));
    assert_int_equal(change.state.most_connections, 2);
    for (unsigned i = 0; i < 3; i++) {
        most.value = (double[]){0, 1e9, NAN}[i];
        assert_int_equal(obey(&b, "ip1", &most), ERR_SYNTAX);
    }
    limits_release(h, b.now);
    end_bed(&b);
}

static void a_destination_avoids_the_lane(void **state)
{
    struct bed b;
    struct limit_change change;
    struct limit_lesson closed = {.kind = LIMIT_REACTED_CLOSED_DESTINATION,
                                  .span = HOUR,
                                  .text = SLICE("550 not you"),
                                  .destination = SLICE("a.example")};
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    assert_int_equal(obey(&b, "ip1", &closed), 0);
    assert_true(last_change(&b, 0, &change));
    assert_int_equal(change.kind, LIMIT_CLOSED_DESTINATION);
    assert_string_equal(change.destination, "a.example");
    assert_true(change.state.until == b.now + HOUR);
    struct limit_reaction r = newest(&b);
    assert_int_equal(r.kind, LIMIT_REACTED_CLOSED_DESTINATION);
    assert_string_equal(r.destination, "a.example");
    uint64_t before = limits_reaction_end(b.limits);
    closed.span = MINUTE; /* here it is for longer */
    assert_int_equal(obey(&b, "ip1", &closed), 0);
    assert_int_equal(limits_reaction_end(b.limits), before);
    closed.destination = SLICE("");
    assert_int_equal(obey(&b, "ip1", &closed), ERR_SYNTAX);
    limits_release(h, b.now);
    end_bed(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_closure_is_obeyed_and_ends),
        cmocka_unit_test(a_lane_is_made),
        cmocka_unit_test(the_slower_pace_holds),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(the_lower_ceiling_holds),
        cmocka_unit_test(a_destination_avoids_the_lane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
