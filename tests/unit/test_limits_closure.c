/* Lanes and destinations that are closed, and what the actions of rules do, in time that the tests
 * set. */
#include "engine/limit/limits_private.h"
#include "tests/unit/limits_bed.h"

#include <string.h>

/* --- blocked ---------------------------------------------------------------------------------- */

static void addresses_in_texts(void **state)
{
    static const struct {
        const char *text, *address;
        bool is_named;
    } cases[] = {
        {"Client host [192.0.2.2] blocked using zen", "192.0.2.2", true},
        {"Client host [192.0.2.20] blocked using zen", "192.0.2.2", false},
        {"blocked: 1192.0.2.2", "192.0.2.2", false},
        {"listed: 192.0.2.2.", "192.0.2.2", true},
        {"listed 192.0.2.2: see", "192.0.2.2", true},
        {"https://x.example/?ip=192.0.2.2&c=hi", "192.0.2.2", true},
        {"[2001:db8:0:0:0:0:0:1] is listed", "2001:db8::1", true},
        {"2001:DB8::1 is listed", "2001:db8::1", true},
        {"2001:db8::10 is listed", "2001:db8::1", false},
        {"[IPv6:2001:db8::1] is listed", "2001:db8::1", true},
        {"IPv6:2001:db8::1", "2001:db8::1", true},
        {"listed", "", false},
        {"", "192.0.2.2", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(limits_names_address(slice_of(cases[i].text), slice_of(cases[i].address)),
                         cases[i].is_named);
    }
}

static void a_reply_that_names_the_address_closes_the_lane(void **state)
{
    struct bed b;
    struct limit_change change;
    (void)state;
    make_bed(&b);
    struct limits_hold *h[2] = {hold(&b, 0, "ip1", "site", NULL), hold(&b, 1, "ip1", "site", NULL)};
    struct limit_refusal r = blocked(&b, "a.example", 1);
    r.text = SLICE("5.7.1 [192.0.2.2] blocked using a list");
    r.has_other_source = true;
    struct limit_verdict v = refuse(&b, h[0], &r);
    assert_int_equal(v.fate, LIMIT_FATE_OTHER_SOURCE);
    assert_false(v.keeps_feedback || v.is_throttled);
    assert_true(last_change(&b, 1, &change));
    assert_true(change.state.is_closed && change.state.is_limited);
    assert_true(change.state.until == b.now + 15 * MINUTE);
    assert_string_equal(change.reason, "5.7.1 [192.0.2.2] blocked using a list");
    /* What was on its way says nothing new, whatever it is. */
    (void)refuse(&b, h[0], &r);
    accept_one(&b, h[0], b.now - SECOND);
    assert_false(last_change(&b, 1, &change));
    struct limit_grant g = lend(&b, h[0], 10);
    assert_int_equal(g.messages, 0);
    assert_int_equal(g.why, LIMIT_BY_CLOSURE);
    assert_true(g.due == b.now + 15 * MINUTE);
    /* Then one at a time, of all transports. */
    pass(&b, 15 * MINUTE);
    assert_int_equal(lend(&b, h[0], 10).messages, 1);
    assert_int_equal(lend(&b, h[1], 10).messages, 0);
    r.sent_at = b.now;
    pass(&b, SECOND);
    (void)refuse(&b, h[0], &r);
    assert_true(last_change(&b, 1, &change));
    assert_true(change.state.until == b.now + 30 * MINUTE);
    /* A probe that says something else is followed by another one. */
    pass(&b, 30 * MINUTE);
    assert_int_equal(lend(&b, h[1], 10).messages, 1);
    struct limit_refusal other = r;
    other.class = REPLY_MAILBOX;
    other.sent_at = b.now;
    (void)refuse(&b, h[1], &other);
    assert_true(last_change(&b, 0, &change)); /* who waits asks again */
    assert_int_equal(lend(&b, h[0], 10).messages, 1);
    /* One that came back unsent too. */
    limits_give_back(h[0], &(struct limit_units){.messages = 1}, b.now, b.now, b.wall);
    assert_int_equal(lend(&b, h[0], 10).messages, 1);
    accept_one(&b, h[0], b.now);
    assert_true(last_change(&b, 1, &change));
    assert_false(change.state.is_closed || change.state.is_limited);
    limits_release(h[0], b.now);
    limits_release(h[1], b.now);
    end_bed(&b);
}

static void the_pause_doubles_to_four_hours(void **state)
{
    static const usec_t spans[] = {15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR, 4 * HOUR};
    struct bed b;
    struct limit_change change;
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
        struct limit_refusal r = blocked(&b, "a.example", 1);
        r.text = SLICE("192.0.2.2");
        (void)refuse(&b, h, &r);
        assert_true(last_change(&b, 0, &change));
        assert_true(change.state.until == b.now + spans[i]);
        pass(&b, spans[i]);
    }
    accept_one(&b, h, b.now);
    struct limit_refusal r = blocked(&b, "a.example", 1);
    r.text = SLICE("192.0.2.2");
    (void)refuse(&b, h, &r);
    assert_true(last_change(&b, 0, &change));
    assert_true(change.state.until == b.now + 15 * MINUTE);
    limits_release(h, b.now);
    end_bed(&b);
}

static void two_destinations_and_two_tenants_close_the_lane(void **state)
{
    struct bed b;
    struct limit_change change;
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    struct limit_accepted of_other = {.messages = 1, .tenant = 3, .sent_at = b.now};
    limits_accepted(h, &of_other, b.now);
    /* One destination, whatever it says, and however often, to whomever. */
    for (uint64_t i = 0; i < 10; i++) {
        struct limit_refusal r = blocked(&b, "a.example", i % 2);
        (void)refuse(&b, h, &r);
    }
    assert_true(last_change(&b, 0, &change));
    assert_int_equal(change.kind, LIMIT_CLOSED_DESTINATION);
    assert_string_equal(change.destination, "a.example");
    assert_true(change.state.until == b.now + 15 * MINUTE);
    /* Two, to one of several tenants. */
    struct limit_refusal r = blocked(&b, "b.example", 5);
    (void)refuse(&b, h, &r);
    r = blocked(&b, "c.example", 5);
    limits_release(h, b.now);
    h = hold(&b, 0, "ip2", "site", NULL);
    limits_accepted(h, &of_other, b.now);
    (void)last_change(&b, 0, &change);
    r = blocked(&b, "b.example", 5);
    (void)refuse(&b, h, &r);
    r = blocked(&b, "c.example", 5);
    (void)refuse(&b, h, &r);
    assert_true(last_change(&b, 0, &change));
    assert_int_equal(change.kind, LIMIT_CLOSED_DESTINATION);
    /* And one to another one. */
    r = blocked(&b, "d.example", 6);
    (void)refuse(&b, h, &r);
    assert_true(last_change(&b, 0, &change));
    assert_int_equal(change.kind, LIMIT_CHANGED_LANE);
    assert_true(change.state.is_closed);
    limits_release(h, b.now);
    end_bed(&b);
}

static void of_one_tenant_two_messages_close_it(void **state)
{
    struct bed b;
    struct limit_change change;
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    struct limit_refusal r = blocked(&b, "a.example", 0);
    (void)refuse(&b, h, &r);
    r.destination = SLICE("b.example"); /* the same message */
    (void)refuse(&b, h, &r);
    assert_true(last_change(&b, 0, &change));
    assert_int_equal(change.kind, LIMIT_CLOSED_DESTINATION);
    r = blocked(&b, "c.example", 0);
    (void)refuse(&b, h, &r);
    assert_true(last_change(&b, 0, &change));
    assert_true(change.state.is_closed);
    limits_release(h, b.now);
    end_bed(&b);
}

/* A rule that says so, or a private list: it is never the lane. */
static void a_destinations_own_list_closes_nothing_else(void **state)
{
    static const char *const names[] = {"a.example", "b.example", "c.example", "d.example"};
    struct bed b;
    struct limit_change change;
    struct limit_destination_report found[8];
    struct limit_key key = key_of("ip1", "site");
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    for (uint64_t i = 0; i < 4; i++) {
        struct limit_refusal r = blocked(&b, names[i], i);
        r.scope = REPLY_DESTINATION;
        r.text = SLICE("192.0.2.2 is on my list");
        (void)refuse(&b, h, &r);
        assert_true(last_change(&b, 0, &change));
        assert_int_equal(change.kind, LIMIT_CLOSED_DESTINATION);
    }
    assert_int_equal(limits_report_destinations(b.limits, &key, found, 8, b.now, b.wall), 4);
    assert_string_equal(found[0].destination, "a.example");
    /* Its next turn ends it, or doubles the time. */
    pass(&b, 15 * MINUTE);
    accept_one(&b, h, b.now);
    struct limit_refusal r = blocked(&b, "a.example", 0);
    (void)refuse(&b, h, &r);
    assert_true(last_change(&b, 0, &change));
    assert_true(change.state.until == b.now + 15 * MINUTE);
    r = blocked(&b, "b.example", 0);
    r.scope = REPLY_DESTINATION;
    (void)refuse(&b, h, &r);
    assert_true(last_change(&b, 0, &change));
    assert_true(change.state.until == b.now + 30 * MINUTE);
    limits_release(h, b.now);
    end_bed(&b);
}

static void what_one_set_of_hosts_says_stays_with_it(void **state)
{
    struct bed b;
    struct limits_hold *h[2];
    struct limit_change change;
    const struct limit_rules rules = {.lane.messages = per(1, HOUR)};
    const struct limit_key keys[] = {{SLICE("ip1"), SLICE("gmx"), SLICE("mx.gmx.net")},
                                     {SLICE("ip1"), SLICE("gmx"), SLICE("mx.gmx.evil.test")}};
    (void)state;
    make_bed(&b);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(limits_hold(b.borrowers[i], &keys[i], &rules, NULL, b.now, &h[i]), 0);
    }
    (void)last_change(&b, 0, &change);
    struct limit_refusal r = blocked(&b, "gmx.evil.test", 1);
    r.text = SLICE("192.0.2.2");
    (void)refuse(&b, h[1], &r);
    assert_true(last_change(&b, 1, &change));
    assert_true(change.state.is_closed);
    assert_false(last_change(&b, 0, &change));
    /* But they share what is configured. */
    assert_int_equal(lend(&b, h[0], 1).messages, 1);
    assert_int_equal(lend(&b, h[0], 1).messages, 0);
    pass(&b, 15 * MINUTE);
    struct limit_grant g = lend(&b, h[1], 1);
    assert_int_equal(g.messages, 0);
    assert_int_equal(g.why, LIMIT_BY_RATE);
    limits_release(h[0], b.now);
    limits_release(h[1], b.now);
    end_bed(&b);
}

static void blocked_mail_has_a_grace(void **state)
{
    struct bed b;
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    struct limit_refusal r = blocked(&b, "a.example", 1);
    assert_int_equal(refuse(&b, h, &r).fate, LIMIT_FATE_CODE); /* there is no other lane */
    r.has_open_source = true;
    struct limit_verdict v = refuse(&b, h, &r);
    assert_int_equal(v.fate, LIMIT_FATE_DEFER);
    assert_true(v.first_blocked == b.wall && v.bounces_at == b.wall + 2 * HOUR);
    r.first_blocked = v.first_blocked;
    pass(&b, 2 * HOUR - 1);
    r.sent_at = b.now;
    v = refuse(&b, h, &r);
    assert_int_equal(v.fate, LIMIT_FATE_DEFER);
    assert_true(v.first_blocked == r.first_blocked);
    pass(&b, 1);
    assert_int_equal(refuse(&b, h, &r).fate, LIMIT_FATE_CODE);
    r.has_other_source = true;
    assert_int_equal(refuse(&b, h, &r).fate, LIMIT_FATE_OTHER_SOURCE);
    r.has_other_source = false;
    r.code = 450;
    assert_int_equal(refuse(&b, h, &r).fate, LIMIT_FATE_CODE);
    limits_release(h, b.now);
    end_bed(&b);
}

/* --- actions of rules ------------------------------------------------------------------------- */

static struct limit_verdict act(struct bed *b, struct limits_hold *h, const char *text)
{
    char why[REPLY_ACTION_WHY_MAX];
    struct reply_action action;
    assert_int_equal(reply_action_parse(slice_of(text), &action, why), 0);
    struct limit_refusal r = throttled(b, REPLY_MESSAGES);
    r.rule = SLICE("mine");
    r.actions = &action;
    r.action_count = 1;
    return refuse(b, h, &r);
}

static void actions_decide_about_the_entry(void **state)
{
    struct bed b;
    struct limit_change change;
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    assert_int_equal(act(&b, h, "none").fate, LIMIT_FATE_CODE);
    assert_false(last_change(&b, 0, &change));
    assert_int_equal(act(&b, h, "next-host").fate, LIMIT_FATE_NEXT_HOST);
    assert_int_equal(act(&b, h, "bounce").fate, LIMIT_FATE_BOUNCE);
    struct limit_verdict v = act(&b, h, "defer 1h");
    assert_int_equal(v.fate, LIMIT_FATE_DEFER);
    assert_true(v.defer_span == HOUR);
    assert_true(act(&b, h, "suspend-tenant 2h").suspend_tenant == 2 * HOUR);
    assert_true(act(&b, h, "suspend-campaign 2h").suspend_campaign == 2 * HOUR);
    limits_release(h, b.now);
    end_bed(&b);
}

static void a_pause_ends_by_itself(void **state)
{
    struct bed b;
    struct limit_change change;
    struct limit_lane_report report;
    struct limit_key key = key_of("ip1", "site");
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    (void)act(&b, h, "pause 10m after 3 in 5m");
    (void)act(&b, h, "pause 10m after 3 in 5m");
    assert_true(limits_report_lane(b.limits, &key, b.now, b.wall, &report));
    assert_true(report.paused_until == 0);
    pass(&b, 6 * MINUTE); /* those are too old */
    (void)act(&b, h, "pause 10m after 3 in 5m");
    (void)act(&b, h, "pause 10m after 3 in 5m");
    assert_true(limits_report_lane(b.limits, &key, b.now, b.wall, &report));
    assert_true(report.paused_until == 0);
    (void)act(&b, h, "pause 10m after 3 in 5m");
    assert_true(limits_report_lane(b.limits, &key, b.now, b.wall, &report));
    assert_true(report.paused_until > 0);
    assert_string_equal(report.paused_fact.rule, "mine");
    assert_true(last_change(&b, 0, &change));
    assert_true(change.state.is_limited);
    struct limit_grant g = lend(&b, h, 1);
    assert_int_equal(g.why, LIMIT_BY_PAUSE);
    assert_true(g.due == b.now + 10 * MINUTE);
    pass(&b, 10 * MINUTE);
    g = lend(&b, h, 1);
    assert_int_not_equal(g.why, LIMIT_BY_PAUSE);
    limits_release(h, b.now);
    end_bed(&b);
}

static void a_rule_slows_by_its_factor(void **state)
{
    struct bed b;
    struct limit_lane_report report;
    struct limit_key key = key_of("ip1", "site");
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    const struct limit_order order = {.kind = LIMIT_ORDER_PACE, .rate = 100, .reason = SLICE("me")};
    assert_int_equal(limits_order(b.limits, &key, &order, b.now), 0);
    pass(&b, SECOND);
    (void)act(&b, h, "slow 0.5");
    assert_true(limits_report_lane(b.limits, &key, b.now, b.wall, &report));
    assert_true(report.paces[0] > 35 && report.paces[0] <= 50);
    double once = report.paces[0];
    (void)act(&b, h, "slow");
    assert_true(limits_report_lane(b.limits, &key, b.now, b.wall, &report));
    assert_true(report.paces[0] <= once && report.paces[0] > 0.7 * once);
    limits_release(h, b.now);
    end_bed(&b);
}

static void a_rule_closes_the_site(void **state)
{
    struct bed b;
    struct limit_change change;
    (void)state;
    make_bed(&b);
    struct limits_hold *h[3] = {hold(&b, 0, "ip1", "site", NULL), hold(&b, 1, "ip2", "site", NULL),
                                hold(&b, 2, "ip1", "other", NULL)};
    (void)act(&b, h[0], "close-site 1h");
    assert_true(last_change(&b, 1, &change));
    assert_true(change.state.is_closed && change.state.until == b.now + HOUR);
    assert_false(last_change(&b, 2, &change));
    /* A lane that is used from then on is closed too. */
    struct limits_hold *late = hold(&b, 2, "ip3", "site", NULL);
    assert_true(last_change(&b, 2, &change));
    assert_true(change.state.is_closed && change.hold == late);
    (void)act(&b, h[2], "close 2h");
    assert_true(last_change(&b, 2, &change));
    assert_true(change.state.until == b.now + 2 * HOUR && change.hold == h[2]);
    limits_release(late, b.now);
    for (unsigned i = 0; i < 3; i++) {
        limits_release(h[i], b.now);
    }
    end_bed(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_in_texts),
        cmocka_unit_test(a_reply_that_names_the_address_closes_the_lane),
        cmocka_unit_test(the_pause_doubles_to_four_hours),
        cmocka_unit_test(two_destinations_and_two_tenants_close_the_lane),
        cmocka_unit_test(of_one_tenant_two_messages_close_it),
        cmocka_unit_test(a_destinations_own_list_closes_nothing_else),
        cmocka_unit_test(what_one_set_of_hosts_says_stays_with_it),
        cmocka_unit_test(blocked_mail_has_a_grace),
        cmocka_unit_test(actions_decide_about_the_entry),
        cmocka_unit_test(a_pause_ends_by_itself),
        cmocka_unit_test(a_rule_slows_by_its_factor),
        cmocka_unit_test(a_rule_closes_the_site),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
