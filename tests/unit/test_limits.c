/* What lanes lend and learn, in time that the tests set: rates, quotas, acceptance, throttling,
 * ceilings, and the bounds of lanes. */
#include "base/error.h"
#include "tests/unit/limits_bed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- lending ---------------------------------------------------------------------------------- */

static void a_lane_without_limits_has_no_changes(void **state)
{
    struct bed b;
    struct limit_change change;
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    accept_one(&b, h, b.now);
    assert_false(limits_has_changes(b.borrowers[0]));
    assert_false(last_change(&b, 0, &change));
    struct limit_grant g = lend(&b, h, 50);
    assert_int_equal(g.messages, 50);
    assert_true(g.recipients == LIMIT_UNBOUNDED && g.connects == LIMIT_UNBOUNDED);
    assert_true(g.per_second == HUGE_VAL);
    limits_release(h, b.now);
    end_bed(&b);
}

/* Takes whatever is lent for that long, asking when told to, and uses `part` of each loan. */
static uint32_t take_for(struct bed *b, struct limits_hold *h, usec_t span, bool uses_all)
{
    usec_t end = b->now + span;
    uint32_t taken = 0;
    while (b->now < end) {
        struct limit_grant g = lend(b, h, 100000);
        uint32_t used = uses_all ? g.messages : (g.messages + 1) / 2;
        taken += used;
        if (g.messages > used) {
            limits_repay(h, &(struct limit_units){.messages = g.messages - used}, b->now);
        }
        usec_t next = g.messages > 0 ? g.from + 1000 : g.due;
        next = next > b->now ? next : b->now + 1;
        pass(b, (next < end ? next : end) - b->now);
    }
    return taken;
}

static void the_smallest_limit_holds(void **state)
{
    struct bed b;
    struct limit_change change;
    const struct limit_rules rules = {.lane.messages = per(100, SECOND),
                                      .site.messages = per(20, SECOND),
                                      .source.messages = per(5000, HOUR)};
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &rules);
    assert_true(last_change(&b, 0, &change));
    assert_true(change.state.is_limited && !change.state.is_closed && change.user == &b);
    uint32_t taken = take_for(&b, h, 1000 * SECOND, true);
    assert_in_range(taken, 1388, 1392); /* 5000 an hour */
    struct limit_grant g = lend(&b, h, 1);
    assert_int_equal(g.messages, 0);
    assert_int_equal(g.why, LIMIT_BY_RATE);
    assert_int_equal(g.whose, LIMIT_OF_SOURCE);
    assert_true(fabs(g.per_second - 5000.0 / 3600) < 1e-9);
    limits_release(h, b.now);
    end_bed(&b);
}

static void what_is_not_used_is_not_lost(void **state)
{
    struct bed b;
    const struct limit_rules rules = {.lane.messages = per(1000, SECOND),
                                      .site.messages = per(200, SECOND)};
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &rules);
    uint32_t taken = take_for(&b, h, 60 * SECOND, false);
    assert_in_range(taken, 12000 * 99 / 100, 12000 + 21);
    limits_release(h, b.now);
    end_bed(&b);
}

static void a_rate_is_shared_by_borrowers(void **state)
{
    struct bed b;
    const struct limit_rules rules = {.lane.messages = per(3, SECOND)};
    struct limits_hold *h[3];
    uint32_t taken[3] = {0};
    usec_t next[3];
    (void)state;
    make_bed(&b);
    for (unsigned i = 0; i < 3; i++) {
        h[i] = hold(&b, i, "ip1", "site", &rules);
        next[i] = b.now;
    }
    usec_t end = b.now + 100 * SECOND;
    while (b.now < end) {
        for (unsigned i = 0; i < 3; i++) {
            if (next[i] <= b.now) {
                struct limit_grant g = lend(&b, h[i], 10);
                taken[i] += g.messages;
                next[i] = g.messages > 0 ? b.now : g.due;
            }
        }
        pass(&b, 500);
    }
    assert_in_range(taken[0] + taken[1] + taken[2], 299, 302);
    for (unsigned i = 0; i < 3; i++) {
        assert_in_range(taken[i], 99, 102);
        limits_release(h[i], b.now);
    }
    end_bed(&b);
}

/* 500 lanes of one source wait for its rate: each in its turn, about one question for each part, and
 * nothing of the rate is lost. */
static void many_lanes_share_a_rate_in_turn(void **state)
{
    enum { LANES = 500 };
    static const uint32_t rates[] = {9, 50, 500, 20000};
    (void)state;
    for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
        struct bed b;
        const struct limit_rules rules = {.source.messages = per(rates[r], SECOND)};
        struct limits_hold *h[LANES];
        usec_t next[LANES];
        uint32_t taken[LANES] = {0}, total = 0, asks = 0, most = 0, least = UINT32_MAX;
        char name[32];
        make_bed(&b);
        for (unsigned i = 0; i < LANES; i++) {
            (void)snprintf(name, sizeof(name), "site%u", i);
            h[i] = hold(&b, i % 3, "ip1", name, &rules);
            next[i] = b.now;
        }
        usec_t begin = b.now, end = b.now + 200 * SECOND;
        while (b.now < end) {
            usec_t first = end;
            for (unsigned i = 0; i < LANES; i++) {
                if (next[i] <= b.now) {
                    struct limit_grant g = lend(&b, h[i], 3);
                    asks++;
                    taken[i] += g.messages;
                    total += g.messages;
                    next[i] = g.messages > 0 ? b.now : g.due;
                }
                first = next[i] < first ? next[i] : first;
            }
            pass(&b, first > b.now ? first - b.now : 1);
        }
        for (unsigned i = 0; i < LANES; i++) {
            most = taken[i] > most ? taken[i] : most;
            least = taken[i] < least ? taken[i] : least;
            limits_release(h[i], b.now);
        }
        uint32_t wanted = (uint32_t)((b.now - begin) / SECOND) * rates[r];
        assert_in_range(total, wanted - wanted / 100, wanted + rates[r] / 5 + 1);
        assert_true(most <= least + least / 10 + 4);
        assert_true(asks <= 3 * total + 2 * LANES);
        end_bed(&b);
    }
}

static void recipients_beyond_a_loan_are_paid(void **state)
{
    struct bed b;
    const struct limit_rules rules = {.lane.recipients = per(10, SECOND)};
    struct limit_grant g;
    struct limit_ask ask = {.messages = 1, .recipients = 50};
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &rules);
    limits_lend(h, &ask, b.now, b.wall, &g);
    assert_int_equal(g.messages, 1);
    assert_int_equal(g.recipients, 1);
    ask.owed = 49;
    limits_lend(h, &ask, b.now, b.wall, &g);
    assert_int_equal(g.messages, 0);
    assert_true(g.due >= b.now + 4900 * USEC_PER_MSEC && g.due <= b.now + 5000 * USEC_PER_MSEC);
    pass(&b, g.due - b.now);
    ask.owed = 0;
    limits_lend(h, &ask, b.now, b.wall, &g);
    assert_int_equal(g.messages, 1);
    limits_release(h, b.now);
    end_bed(&b);
}

static void a_tenants_rate_is_one_more(void **state)
{
    struct bed b;
    struct limits_meter *m;
    struct limit_grant g;
    (void)state;
    make_bed(&b);
    const struct limit_rates rates = {.messages = per(1, MINUTE)};
    const struct limit_meter_key key = {LIMIT_OF_TENANT, SLICE("acme")};
    assert_int_equal(limits_meter_get(b.limits, &key, &rates, 1, b.now, &m), 0);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    const struct limit_ask ask = {.messages = 2, .also = {m}};
    limits_lend(h, &ask, b.now, b.wall, &g);
    assert_int_equal(g.messages, 1);
    limits_lend(h, &ask, b.now, b.wall, &g);
    assert_int_equal(g.messages, 0);
    assert_int_equal(g.whose, LIMIT_OF_TENANT);
    limits_release(h, b.now);
    limits_meter_put(b.limits, m);
    end_bed(&b);
}

static void quotas_are_of_the_calendar(void **state)
{
    struct bed b;
    const struct limit_rules rules = {.source.quota = per(50, DAY)};
    (void)state;
    make_bed(&b);
    struct limits_hold *h[2] = {hold(&b, 0, "ip1", "site", &rules),
                                hold(&b, 1, "ip1", "other", &rules)};
    uint32_t taken = 0;
    for (unsigned i = 0; i < 100; i++) {
        taken += lend(&b, h[i % 2], 1).messages;
    }
    assert_int_equal(taken, 50);
    struct limit_grant g = lend(&b, h[0], 1);
    assert_int_equal(g.why, LIMIT_BY_QUOTA);
    assert_true(g.turn == b.now + 12 * HOUR && g.due < g.turn);
    /* One that came back is given to another. */
    limits_give_back(h[0], &(struct limit_units){.messages = 1}, b.now - SECOND, b.now, b.wall);
    assert_int_equal(lend(&b, h[1], 1).messages, 1);
    assert_int_equal(lend(&b, h[1], 1).messages, 0);
    /* The clock is set back: no second quota. */
    b.wall -= DAY;
    assert_int_equal(lend(&b, h[1], 1).messages, 0);
    b.wall += DAY;
    pass(&b, 12 * HOUR);
    taken = 0;
    for (unsigned i = 0; i < 100; i++) {
        taken += lend(&b, h[i % 2], 1).messages;
    }
    assert_int_equal(taken, 50);
    limits_release(h[0], b.now);
    limits_release(h[1], b.now);
    end_bed(&b);
}

static void a_warmup_grows_by_the_day(void **state)
{
    struct bed b;
    struct quota_warmup warmup = {.steps = {5, 10}, .count = 2, .since = MIDNIGHT / DAY};
    const struct limit_rules rules = {.source.warmup = &warmup};
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &rules);
    memset(&warmup, 0, sizeof(warmup)); /* it was copied */
    for (uint32_t day = 0; day < 3; day++, pass(&b, DAY)) {
        uint32_t taken = 0;
        for (unsigned i = 0; i < 30; i++) {
            taken += lend(&b, h, 1).messages;
        }
        assert_int_equal(taken, day == 0 ? 5 : 10);
    }
    limits_release(h, b.now);
    end_bed(&b);
}

/* A quota of nothing but one that is used stays when its lanes are gone. */
static void a_used_quota_outlives_its_lanes(void **state)
{
    struct bed b;
    const struct limit_rules rules = {.source.quota = per(3, DAY)};
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &rules);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(lend(&b, h, 1).messages, 1);
    }
    limits_release(h, b.now);
    for (unsigned i = 0; i < 3; i++) {
        pass(&b, 2 * HOUR);
        limits_release(hold(&b, 0, "ip2", "elsewhere", NULL), b.now);
    }
    h = hold(&b, 0, "ip1", "site", &rules);
    assert_int_equal(lend(&b, h, 1).messages, 0);
    limits_release(h, b.now);
    end_bed(&b);
}

static void a_reload_changes_rates(void **state)
{
    struct bed b;
    struct limit_change change;
    struct limit_rules rules = {.lane.messages = per(1, DAY)};
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &rules);
    assert_int_equal(lend(&b, h, 1).messages, 1);
    assert_int_equal(lend(&b, h, 1).messages, 0);
    (void)last_change(&b, 0, &change);
    rules.lane.messages = per(100, SECOND);
    rules.serial = 1;
    assert_int_equal(limits_set_rules(h, &rules, b.now), 0);
    assert_true(last_change(&b, 0, &change)); /* who waits asks again */
    assert_true(change.state.is_limited);
    pass(&b, 20 * USEC_PER_MSEC);
    assert_int_equal(lend(&b, h, 1).messages, 1);
    rules.lane.messages = per(0, 0);
    rules.serial = 2;
    assert_int_equal(limits_set_rules(h, &rules, b.now), 0);
    assert_true(last_change(&b, 0, &change));
    assert_false(change.state.is_limited);
    limits_release(h, b.now);
    end_bed(&b);
}

/* Two transports have other rates for the same lane; a reload raises both. */
static void of_several_rules_the_smallest_holds(void **state)
{
    struct bed b;
    struct limit_lane_report report;
    struct limit_key key = key_of("ip1", "site");
    struct limit_rules fast = {.lane.messages = per(100, SECOND)};
    struct limit_rules slow = {.lane.messages = per(10, SECOND), .site.quota = per(7, DAY)};
    (void)state;
    make_bed(&b);
    struct limits_hold *h[2] = {hold(&b, 0, "ip1", "site", &slow),
                                hold(&b, 1, "ip1", "site", &fast)};
    assert_true(limits_report_lane(b.limits, &key, b.now, b.wall, &report));
    assert_int_equal(report.rates[LIMIT_OF_LANE].messages.count, 10);
    assert_true(report.quota_left[LIMIT_OF_SITE] == 7);
    assert_int_equal(lend(&b, h[0], 1).messages, 1);
    slow.serial = fast.serial = 1; /* nothing changed; what was used stays used */
    assert_int_equal(limits_set_rules(h[1], &fast, b.now), 0);
    assert_int_equal(limits_set_rules(h[0], &slow, b.now), 0);
    assert_true(limits_report_lane(b.limits, &key, b.now, b.wall, &report));
    assert_true(report.quota_left[LIMIT_OF_SITE] == 6);
    assert_int_equal(lend(&b, h[0], 1).messages, 0);
    slow.lane.messages = per(20, SECOND);
    slow.site.quota = per(0, 0);
    slow.serial = fast.serial = 2;
    assert_int_equal(limits_set_rules(h[1], &fast, b.now), 0);
    assert_int_equal(limits_set_rules(h[0], &slow, b.now), 0);
    assert_true(limits_report_lane(b.limits, &key, b.now, b.wall, &report));
    assert_int_equal(report.rates[LIMIT_OF_LANE].messages.count, 20);
    assert_true(report.quota_left[LIMIT_OF_SITE] == UINT64_MAX);
    limits_release(h[0], b.now);
    limits_release(h[1], b.now);
    end_bed(&b);
}

/* --- throttled -------------------------------------------------------------------------------- */

static void a_refusal_makes_a_pace_for_all(void **state)
{
    struct bed b;
    struct limit_change change;
    (void)state;
    make_bed(&b);
    struct limits_hold *h[2] = {hold(&b, 0, "ip1", "site", NULL), hold(&b, 1, "ip1", "site", NULL)};
    for (unsigned i = 0; i < 100; i++) {
        accept_one(&b, h[i % 2], b.now);
        pass(&b, 10 * USEC_PER_MSEC);
    }
    struct limit_refusal r = throttled(&b, REPLY_MESSAGES);
    struct limit_verdict v = refuse(&b, h[0], &r);
    assert_int_equal(v.fate, LIMIT_FATE_AGAIN);
    assert_true(v.is_throttled && v.is_negative && !v.keeps_feedback);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(last_change(&b, i, &change));
        assert_true(change.state.is_limited && !change.state.is_closed);
        assert_ptr_equal(change.hold, h[i]);
    }
    assert_true(b.wakes >= 2);
    struct limit_grant g = lend(&b, h[1], 1);
    assert_true(g.per_second > 40 && g.per_second < 100);
    /* Another one of the same round trip lowers the window no further. */
    r.sent_at = b.now - 1000;
    assert_false(refuse(&b, h[0], &r).is_negative);
    /* To the other transport's window it is the first. */
    assert_true(refuse(&b, h[1], &r).is_negative);
    struct limit_lane_report report;
    struct limit_key key = key_of("ip1", "site");
    assert_true(limits_report_lane(b.limits, &key, b.now, b.wall, &report));
    assert_true(report.paces[0] > 0 && report.pace_facts[0].times == 3);
    assert_string_equal(report.pace_facts[0].text, "4.7.28 slow down");
    struct limit_reaction reaction;
    assert_true(limits_reaction_get(b.limits, 0, &reaction));
    assert_int_equal(reaction.kind, LIMIT_REACTED_PACE);
    assert_string_equal(reaction.site, "site");
    limits_release(h[0], b.now);
    limits_release(h[1], b.now);
    end_bed(&b);
}

static void throttled_is_charged_where_nothing_passes(void **state)
{
    struct bed b;
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    struct limit_refusal r = throttled(&b, REPLY_MESSAGES);
    r.has_others_out = true;
    assert_int_equal(refuse(&b, h, &r).fate, LIMIT_FATE_AGAIN); /* it is not known yet */
    r.has_others_out = false;
    assert_int_equal(refuse(&b, h, &r).fate, LIMIT_FATE_CHARGED); /* it never took anything */
    accept_one(&b, h, b.now);
    assert_int_equal(refuse(&b, h, &r).fate, LIMIT_FATE_AGAIN);
    r.must_charge = true;
    assert_int_equal(refuse(&b, h, &r).fate, LIMIT_FATE_CHARGED);
    r.must_charge = false;
    r.stage = REPLY_AT_END;
    assert_int_equal(refuse(&b, h, &r).fate, LIMIT_FATE_CHARGED);
    r.stage = REPLY_AT_RCPT;
    pass(&b, 10 * MINUTE);
    assert_int_equal(refuse(&b, h, &r).fate, LIMIT_FATE_AGAIN);
    pass(&b, 1);
    assert_int_equal(refuse(&b, h, &r).fate, LIMIT_FATE_CHARGED);
    limits_release(h, b.now);
    end_bed(&b);
}

static void other_classes_leave_the_lane_alone(void **state)
{
    static const enum reply_class classes[] = {REPLY_GREYLISTED, REPLY_MAILBOX, REPLY_FULL,
                                               REPLY_CONTENT,    REPLY_POLICY,  REPLY_AUTH};
    struct bed b;
    struct limit_change change;
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        struct limit_refusal r = throttled(&b, REPLY_SCOPE_NONE);
        r.class = classes[i];
        struct limit_verdict v = refuse(&b, h, &r);
        assert_int_equal(v.fate, LIMIT_FATE_CODE);
        assert_false(v.keeps_feedback || v.is_throttled);
    }
    struct limit_refusal r = throttled(&b, REPLY_SCOPE_NONE);
    r.class = REPLY_UNAVAILABLE;
    assert_true(refuse(&b, h, &r).keeps_feedback);
    assert_false(last_change(&b, 0, &change));
    limits_release(h, b.now);
    end_bed(&b);
}

static void connections_have_a_ceiling(void **state)
{
    struct bed b;
    struct limit_change change;
    struct limit_grant g;
    (void)state;
    make_bed(&b);
    struct limits_hold *h[2] = {hold(&b, 0, "ip1", "site", NULL), hold(&b, 1, "ip1", "site", NULL)};
    for (unsigned i = 0; i < 5; i++) {
        limits_connected(h[i % 2], b.now, b.now);
    }
    struct limit_refusal r = throttled(&b, REPLY_CONNECTIONS);
    r.stage = REPLY_AT_GREETING;
    (void)refuse(&b, h[0], &r);
    assert_true(last_change(&b, 1, &change));
    assert_int_equal(change.state.most_connections, 5);
    const struct limit_ask ask = {.messages = 10, .connects = 4};
    limits_lend(h[1], &ask, b.now, b.wall, &g);
    assert_int_equal(g.messages, 0);
    assert_int_equal(g.why, LIMIT_BY_CEILING);
    /* Where one is open, messages go by it. */
    struct limit_ask reuse = ask;
    reuse.has_connection = true;
    limits_lend(h[1], &reuse, b.now, b.wall, &g);
    assert_int_equal(g.messages, 10);
    assert_int_equal(g.connects, 0);
    /* Who needs none now is lent none: the one that is open may end at once. */
    reuse.connects = 0;
    limits_lend(h[1], &reuse, b.now, b.wall, &g);
    assert_int_equal(g.messages, 10);
    assert_int_equal(g.connects, 0);
    /* One ends: who waits hears of it, and after a moment may connect. */
    limits_lend(h[1], &ask, b.now, b.wall, &g);
    (void)last_change(&b, 1, &change);
    limits_disconnected(h[0], b.now);
    assert_true(last_change(&b, 1, &change));
    limits_lend(h[1], &ask, b.now, b.wall, &g);
    assert_int_equal(g.messages, 0);
    pass(&b, g.due - b.now);
    limits_lend(h[1], &ask, b.now, b.wall, &g);
    assert_int_equal(g.connects, 1);
    /* It is being made, so there is no other one. */
    limits_lend(h[0], &ask, b.now, b.wall, &g);
    assert_int_equal(g.messages, 0);
    limits_not_connected(h[1], b.now);
    limits_lend(h[0], &ask, b.now, b.wall, &g);
    assert_int_equal(g.connects, 1);
    limits_release(h[0], b.now);
    limits_release(h[1], b.now);
    end_bed(&b);
}

/* --- operators, memory of lanes, bounds ------------------------------------------------------- */

static void operators_close_and_open(void **state)
{
    struct bed b;
    struct limit_change change;
    struct limit_key key = key_of("ip1", "site");
    struct limit_order order = {.kind = LIMIT_ORDER_CLOSE, .span = HOUR, .reason = SLICE("move")};
    (void)state;
    make_bed(&b);
    assert_int_equal(limits_order(b.limits, &key, &order, b.now), 0); /* beforehand */
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    assert_true(last_change(&b, 0, &change));
    assert_true(change.state.is_closed);
    assert_string_equal(change.reason, "move");
    pass(&b, HOUR); /* it opens without a probe */
    assert_int_equal(lend(&b, h, 10).messages, 10);
    assert_true(last_change(&b, 0, &change));
    assert_false(change.state.is_closed || change.state.is_limited);
    assert_int_equal(limits_order(b.limits, &key, &order, b.now), 0);
    struct limit_refusal r = blocked(&b, "a.example", 1);
    (void)refuse(&b, h, &r);
    r = throttled(&b, REPLY_MESSAGES);
    (void)refuse(&b, h, &r);
    order.kind = LIMIT_ORDER_OPEN;
    assert_int_equal(limits_order(b.limits, &key, &order, b.now), 0);
    assert_true(last_change(&b, 0, &change));
    limits_tell_again(h);
    assert_false(last_change(&b, 0, &change) && change.kind == LIMIT_CHANGED_LANE);
    order = (struct limit_order){.kind = LIMIT_ORDER_PACE, .rate = 0};
    assert_int_not_equal(limits_order(b.limits, &key, &order, b.now), 0);
    limits_release(h, b.now);
    end_bed(&b);
}

static void a_lane_is_remembered_for_an_hour(void **state)
{
    struct bed b;
    struct limit_lane_report report;
    struct limit_key key = key_of("ip1", "site");
    (void)state;
    make_bed(&b);
    for (unsigned i = 0; i < 2; i++) {
        struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
        struct limit_refusal r = throttled(&b, REPLY_MESSAGES);
        (void)refuse(&b, h, &r);
        struct limit_change change;
        (void)last_change(&b, 0, &change);
        limits_release(h, b.now);
        pass(&b, i == 0 ? HOUR - 1 : HOUR);
        limits_release(hold(&b, 0, "ip1", "other", NULL), b.now);
        assert_int_equal(limits_report_lane(b.limits, &key, b.now, b.wall, &report), i == 0);
    }
    end_bed(&b);
}

/* What ends by itself stays until it is over. */
static void a_closed_lane_is_not_forgotten(void **state)
{
    struct bed b;
    struct limit_key key = key_of("ip1", "site");
    const struct limit_order order = {.kind = LIMIT_ORDER_CLOSE, .span = 4 * HOUR};
    struct limit_lane_report report;
    (void)state;
    make_bed(&b);
    assert_int_equal(limits_order(b.limits, &key, &order, b.now), 0);
    for (unsigned i = 0; i < 6; i++) {
        pass(&b, HOUR);
        limits_release(hold(&b, 0, "ip1", "other", NULL), b.now);
        assert_int_equal(limits_report_lane(b.limits, &key, b.now, b.wall, &report), i < 3);
    }
    end_bed(&b);
}

static void lanes_and_sites_are_bounded(void **state)
{
    struct bed b;
    struct limits_totals totals;
    struct limits_hold *h[8], *more;
    char name[32];
    (void)state;
    set_up(&b, &(struct limits_config){.lane_memory = HOUR, .lanes_max = 8, .sites_max = 4});
    for (unsigned i = 0; i < 1000; i++) { /* those that nobody holds make room */
        (void)snprintf(name, sizeof(name), "site%u", i);
        limits_release(hold(&b, 0, "ip1", name, NULL), b.now);
        limits_totals(b.limits, &totals);
        assert_true(totals.lanes <= 8 && totals.sites <= 4);
    }
    for (unsigned i = 0; i < 8; i++) {
        (void)snprintf(name, sizeof(name), "ip%u", i);
        h[i] = hold(&b, 0, name, i < 4 ? "one" : "two", NULL);
    }
    const struct limit_rules none = {0};
    struct limit_key key = key_of("ip9", "one");
    assert_int_equal(limits_hold(b.borrowers[0], &key, &none, NULL, b.now, &more), ERR_LIMIT);
    key = key_of("ip0", "one");
    assert_int_equal(limits_hold(b.borrowers[1], &key, &none, NULL, b.now, &more), 0);
    limits_release(more, b.now);
    for (unsigned i = 0; i < 8; i++) {
        limits_release(h[i], b.now);
    }
    end_bed(&b);
}

static void totals_count_what_stands(void **state)
{
    struct bed b;
    struct limits_totals totals;
    struct limit_key key = key_of("ip1", "site");
    struct limit_order order = {.kind = LIMIT_ORDER_CLOSE, .span = HOUR};
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip2", "site", NULL);
    struct limit_refusal r = throttled(&b, REPLY_MESSAGES);
    (void)refuse(&b, h, &r);
    (void)refuse(&b, h, &r);
    assert_int_equal(limits_order(b.limits, &key, &order, b.now), 0);
    limits_totals(b.limits, &totals);
    assert_int_equal(totals.lanes, 2);
    assert_int_equal(totals.sites, 1);
    assert_int_equal(totals.closed_lanes, 1);
    assert_int_equal(totals.paced_lanes, 1);
    order.kind = LIMIT_ORDER_OPEN;
    assert_int_equal(limits_order(b.limits, &key, &order, b.now), 0);
    limits_release(h, b.now);
    pass(&b, 2 * HOUR);
    limits_release(hold(&b, 0, "ip3", "site", NULL), b.now);
    limits_totals(b.limits, &totals);
    assert_int_equal(totals.lanes, 1);
    assert_int_equal(totals.closed_lanes, 0);
    assert_int_equal(totals.paced_lanes, 0);
    end_bed(&b);
}

/* Whose limit it was, and until when, as it was told to whoever asked last. */
static void what_a_lane_waits_for(void **state)
{
    struct bed b;
    const struct limit_rules rules = {.lane.messages = per(100, SECOND),
                                      .site.messages = per(60, MINUTE),
                                      .source.quota = per(3, DAY)};
    const struct limit_key key = key_of("ip1", "site");
    struct limit_lane_report r;
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &rules);
    assert_int_equal(lend(&b, h, 1).messages, 1);
    assert_true(limits_report_lane(b.limits, &key, b.now, b.wall, &r));
    assert_int_equal(r.waits_for, LIMIT_NO_CAUSE);
    assert_int_equal(lend(&b, h, 1).messages, 0);
    assert_true(limits_report_lane(b.limits, &key, b.now, b.wall, &r));
    assert_int_equal(r.waits_for, LIMIT_BY_RATE);
    assert_int_equal(r.waits_whose, LIMIT_OF_SITE);
    assert_in_range(r.waits_until, b.wall + 1, b.wall + SECOND);
    for (unsigned i = 0; i < 2; i++) {
        pass(&b, 2 * SECOND);
        assert_int_equal(lend(&b, h, 1).messages, 1);
    }
    pass(&b, 2 * SECOND);
    assert_int_equal(lend(&b, h, 1).messages, 0);
    assert_true(limits_report_lane(b.limits, &key, b.now, b.wall, &r));
    assert_int_equal(r.waits_for, LIMIT_BY_QUOTA);
    assert_int_equal(r.waits_whose, LIMIT_OF_SOURCE);
    assert_int_equal(r.waits_until % DAY, 0); /* not when it looks again, but when there is some */
    limits_release(h, b.now);
    end_bed(&b);
}

static void a_walk_shows_every_lane_once(void **state)
{
    struct bed b;
    struct limits_hold *h[100];
    struct limit_lane_report page[16];
    bool is_seen[100] = {false};
    char name[32];
    uint32_t at = 0, count, total = 0;
    (void)state;
    make_bed(&b);
    for (unsigned i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof(name), "site%u", i);
        h[i] = hold(&b, 0, "ip1", name, NULL);
    }
    while ((count = limits_report(b.limits, &at, page, 16, b.now, b.wall)) > 0) {
        for (uint32_t i = 0; i < count; i++, total++) {
            unsigned number = (unsigned)strtoul(page[i].site + 4, NULL, 10);
            assert_false(is_seen[number]);
            is_seen[number] = true;
        }
    }
    assert_int_equal(total, 100);
    for (unsigned i = 0; i < 100; i++) {
        limits_release(h[i], b.now);
    }
    end_bed(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lane_without_limits_has_no_changes),
        cmocka_unit_test(the_smallest_limit_holds),
        cmocka_unit_test(what_is_not_used_is_not_lost),
        cmocka_unit_test(a_rate_is_shared_by_borrowers),
        cmocka_unit_test(many_lanes_share_a_rate_in_turn),
        cmocka_unit_test(recipients_beyond_a_loan_are_paid),
        cmocka_unit_test(a_tenants_rate_is_one_more),
        cmocka_unit_test(quotas_are_of_the_calendar),
        cmocka_unit_test(a_warmup_grows_by_the_day),
        cmocka_unit_test(a_used_quota_outlives_its_lanes),
        cmocka_unit_test(a_reload_changes_rates),
        cmocka_unit_test(of_several_rules_the_smallest_holds),
        cmocka_unit_test(a_refusal_makes_a_pace_for_all),
        cmocka_unit_test(throttled_is_charged_where_nothing_passes),
        cmocka_unit_test(other_classes_leave_the_lane_alone),
        cmocka_unit_test(connections_have_a_ceiling),
        cmocka_unit_test(operators_close_and_open),
        cmocka_unit_test(a_lane_is_remembered_for_an_hour),
        cmocka_unit_test(a_closed_lane_is_not_forgotten),
        cmocka_unit_test(lanes_and_sites_are_bounded),
        cmocka_unit_test(totals_count_what_stands),
        cmocka_unit_test(what_a_lane_waits_for),
        cmocka_unit_test(a_walk_shows_every_lane_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
