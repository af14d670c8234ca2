/* Destinations that are throttled for themselves, at hosts that they share with others. */
#include "sched/limit/pace.h"
#include "tests/unit/limits_bed.h"

#include <math.h>

static bool is_refused_apart(struct bed *b, struct limits_hold *h, const char *destination)
{
    struct limit_refusal r = throttled(b, REPLY_MESSAGES);
    r.destination = slice_of(destination);
    r.may_stand_apart = true;
    return refuse(b, h, &r).stands_apart;
}

/* A destination that is throttled for itself: once by three refusals, then only by what is no chance. */
static void a_destination_is_throttled_for_itself(void **state)
{
    struct bed b;
    struct limit_change change;
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    assert_false(is_refused_apart(&b, h, "a.test"));
    assert_false(is_refused_apart(&b, h, "a.test"));
    assert_true(is_refused_apart(&b, h, "a.test"));
    assert_false(is_refused_apart(&b, h, "a.test")); /* it is on its way */
    assert_true(last_change(&b, 0, &change));
    assert_true(change.state.is_limited); /* what waits for it still goes by this lane */
    /* Two are refused in turn: it is the lane's. */
    for (int i = 0; i < 20; i++) {
        assert_false(is_refused_apart(&b, h, i % 2 == 0 ? "b.test" : "c.test"));
    }
    limits_release(h, b.now);
    /* Most of the mail is for the one, then a fifth of it is. */
    h = hold(&b, 0, "ip2", "site", NULL);
    for (int i = 0; i < 3; i++) {
        assert_true(is_refused_apart(&b, h, "a.test") == (i == 2));
    }
    struct limit_accepted a = {.messages = 1, .sent_at = b.now + 1};
    assert_false(is_refused_apart(&b, h, "b.test"));
    for (int i = 0; i < 3; i++) {
        a.destination = SLICE("b.test");
        a.messages = 10;
        limits_accepted(h, &a, b.now + 2);
        assert_false(is_refused_apart(&b, h, "b.test"));
    }
    a.destination = SLICE("c.test");
    a.messages = 120;
    limits_accepted(h, &a, b.now + 2);
    assert_true(is_refused_apart(&b, h, "b.test"));
    limits_release(h, b.now);
    end_bed(&b);
}

static double pace_of(struct bed *b, const char *source, const char *site)
{
    struct limit_lane_report r;
    const struct limit_key key = key_of(source, site);
    if (!limits_report_lane(b->limits, &key, b->now, b->wall, &r)) {
        fail_msg("no lane of %s at %s", source, site);
    }
    return r.paces[PACE_MESSAGES];
}

/* Its own lane begins with its part of the pace, and the others have none from then on; refusals of
 * what had been sent before say nothing about them. */
static void who_stands_apart_takes_the_pace_along(void **state)
{
    struct bed b;
    struct limit_change change;
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    struct limits_hold *other = hold(&b, 0, "ip2", "site", NULL);
    struct limit_accepted a = {.messages = 30, .sent_at = b.now, .destination = SLICE("b.test")};
    limits_accepted(h, &a, b.now);
    assert_false(is_refused_apart(&b, h, "a.test"));
    a.messages = 9;
    a.sent_at = b.now + 1;
    limits_accepted(h, &a,
                    b.now + 2); /* after the first refusal: 9 of the others and 3 of its own */
    assert_false(is_refused_apart(&b, h, "a.test"));
    assert_true(is_refused_apart(&b, h, "a.test"));
    double before = pace_of(&b, "ip1", "site");
    assert_true(before > 10);
    /* Neither another source's lane nor another destination's is its own. */
    struct limits_hold *ip2 = hold(&b, 0, "ip2", "domain:a.test", NULL);
    struct limits_hold *wrong = hold(&b, 0, "ip1", "domain:b.test", NULL);
    assert_true(pace_of(&b, "ip2", "domain:a.test") == 0);
    assert_true(pace_of(&b, "ip1", "domain:b.test") == 0);
    assert_true(pace_of(&b, "ip1", "site") == before);
    struct limits_hold *own = hold(&b, 0, "ip1", "domain:a.test", NULL);
    assert_true(fabs(pace_of(&b, "ip1", "domain:a.test") - before / 4) < 0.01);
    assert_true(pace_of(&b, "ip1", "site") == 0);
    while (last_change(&b, 0, &change)) {
    }
    for (int i = 0; i < 5; i++) {
        assert_false(is_refused_apart(&b, h, "a.test"));
        assert_true(pace_of(&b, "ip1", "site") == 0);
    }
    assert_false(is_refused_apart(&b, h, "b.test"));
    assert_true(pace_of(&b, "ip1", "site") > 0);
    limits_release(h, b.now);
    limits_release(other, b.now);
    limits_release(ip2, b.now);
    limits_release(wrong, b.now);
    limits_release(own, b.now);
    end_bed(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_destination_is_throttled_for_itself),
        cmocka_unit_test(who_stands_apart_takes_the_pace_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
