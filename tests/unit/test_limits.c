/* What lanes learn and lend, in time that the tests set: lending, acceptance, throttling, blocked
 * lanes, actions of rules, ceilings, quotas, eviction. */
#include "base/error.h"
#include "engine/limit/limits.h"
#include "engine/limit/limits_private.h"
#include "engine/limit/limits_report.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND   USEC_PER_SEC
#define MINUTE   (60 * SECOND)
#define HOUR     (60 * MINUTE)
#define DAY      (24 * HOUR)
#define MIDNIGHT (20788 * DAY) /* 2026-12-01 */

/* One or several transports that share limits. */
struct bed {
    struct limits *limits;
    struct limits_borrower *borrowers[3];
    usec_t now, wall;
    int wakes;
};

static void count_wake(void *ctx)
{
    ((struct bed *)ctx)->wakes++;
}

static void set_up(struct bed *b, const struct limits_config *config)
{
    *b = (struct bed){.now = 1000 * SECOND, .wall = MIDNIGHT + 12 * HOUR};
    b->limits = limits_new(config);
    assert_non_null(b->limits);
    for (unsigned i = 0; i < 3; i++) {
        const struct limits_borrower_config of = {.number = i, .wake = count_wake, .ctx = b};
        b->borrowers[i] = limits_borrower_new(b->limits, &of);
        assert_non_null(b->borrowers[i]);
    }
}

static void make_bed(struct bed *b)
{
    set_up(b, &(struct limits_config){.lane_memory = HOUR});
}

static void end_bed(struct bed *b)
{
    for (unsigned i = 0; i < 3; i++) {
        limits_borrower_free(b->borrowers[i]);
    }
    limits_free(b->limits);
}

static void pass(struct bed *b, usec_t span)
{
    b->now += span;
    b->wall += span;
}

static struct limit_key key_of(const char *source, const char *site)
{
    return (struct limit_key){slice_of(source), slice_of(site), SLICE("")};
}

static struct limits_hold *hold(struct bed *b, unsigned borrower, const char *source,
                                const char *site, const struct limit_rules *rules)
{
    static const struct limit_rules none;
    struct limits_hold *h;
    struct limit_key key = key_of(source, site);
    assert_int_equal(
        limits_hold(b->borrowers[borrower], &key, rules != NULL ? rules : &none, b, b->now, &h), 0);
    return h;
}

static struct limit_grant lend(struct bed *b, struct limits_hold *h, uint32_t messages)
{
    struct limit_grant g;
    const struct limit_ask ask = {.messages = messages, .has_connection = true};
    limits_lend(h, &ask, b->now, b->wall, &g);
    return g;
}

static void accept(struct bed *b, struct limits_hold *h, usec_t sent_at)
{
    const struct limit_accepted a = {.messages = 1,
                                     .recipients = 1,
                                     .session_messages = 1,
                                     .destination = SLICE("a.example"),
                                     .sent_at = sent_at};
    limits_accepted(h, &a, b->now);
}

static struct limit_refusal throttled(struct bed *b, enum reply_scope scope)
{
    return (struct limit_refusal){.class = REPLY_THROTTLED,
                                  .scope = scope,
                                  .stage = REPLY_AT_MAIL,
                                  .code = 421,
                                  .text = SLICE("4.7.28 slow down"),
                                  .destination = SLICE("a.example"),
                                  .sent_at = b->now};
}

static struct limit_verdict refuse(struct bed *b, struct limits_hold *h,
                                   const struct limit_refusal *r)
{
    struct limit_verdict v;
    limits_refused(h, r, b->now, b->wall, &v);
    return v;
}

/* The lane's state after all changes; false: there was none. */
static bool last_change(struct bed *b, unsigned borrower, struct limit_change *ret)
{
    struct limit_change change;
    bool is_any = false;
    *ret = (struct limit_change){0};
    while (limits_next_change(b->borrowers[borrower], &change, b->now)) {
        *ret = change;
        is_any = true;
    }
    assert_false(limits_has_changes(b->borrowers[borrower]));
    return is_any;
}

/* --- lending ---------------------------------------------------------------------------------- */

static void a_lane_without_limits_has_no_changes(void **state)
{
    struct bed b;
    struct limit_change change;
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    accept(&b, h, b.now);
    assert_false(limits_has_changes(b.borrowers[0]));
    assert_false(last_change(&b, 0, &change));
    struct limit_grant g = lend(&b, h, 50);
    assert_int_equal(g.messages, 50);
    assert_true(g.recipients == LIMIT_UNBOUNDED && g.connects == LIMIT_UNBOUNDED);
    assert_true(g.per_second == HUGE_VAL);
    limits_release(h, b.now);
    end_bed(&b);
}

static struct rate_rule per(uint32_t count, usec_t span)
{
    return (struct rate_rule){.count = count, .span = span};
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
    assert_true(limits_report_lane(b.limits, &key, b.now, &report));
    assert_int_equal(report.rates[LIMIT_OF_LANE].messages.count, 10);
    assert_true(report.quota_left[LIMIT_OF_SITE] == 7);
    assert_int_equal(lend(&b, h[0], 1).messages, 1);
    slow.serial = fast.serial = 1; /* nothing changed; what was used stays used */
    assert_int_equal(limits_set_rules(h[1], &fast, b.now), 0);
    assert_int_equal(limits_set_rules(h[0], &slow, b.now), 0);
    assert_true(limits_report_lane(b.limits, &key, b.now, &report));
    assert_true(report.quota_left[LIMIT_OF_SITE] == 6);
    assert_int_equal(lend(&b, h[0], 1).messages, 0);
    slow.lane.messages = per(20, SECOND);
    slow.site.quota = per(0, 0);
    slow.serial = fast.serial = 2;
    assert_int_equal(limits_set_rules(h[1], &fast, b.now), 0);
    assert_int_equal(limits_set_rules(h[0], &slow, b.now), 0);
    assert_true(limits_report_lane(b.limits, &key, b.now, &report));
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
        accept(&b, h[i % 2], b.now);
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
    assert_true(limits_report_lane(b.limits, &key, b.now, &report));
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
    assert_int_equal(refuse(&b, h, &r).fate, LIMIT_FATE_CHARGED); /* it never took anything */
    accept(&b, h, b.now);
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

static void a_session_has_a_ceiling(void **state)
{
    struct bed b;
    struct limit_change change;
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    accept(&b, h, b.now);
    struct limit_refusal r = throttled(&b, REPLY_SESSION);
    r.session_messages = 20;
    assert_int_equal(refuse(&b, h, &r).fate, LIMIT_FATE_AGAIN);
    assert_true(last_change(&b, 0, &change));
    assert_int_equal(change.state.most_messages, 20);
    assert_false(change.state.is_limited);
    /* While it binds, one more each 5 minutes. */
    struct limit_accepted a = {.messages = 1, .session_messages = 20, .sent_at = b.now};
    limits_accepted(h, &a, b.now);
    pass(&b, 5 * MINUTE);
    limits_accepted(h, &a, b.now);
    assert_true(last_change(&b, 0, &change));
    assert_int_equal(change.state.most_messages, 21);
    limits_release(h, b.now);
    end_bed(&b);
}

/* --- blocked ---------------------------------------------------------------------------------- */

static struct limit_refusal blocked(struct bed *b, const char *destination, uint64_t tenant)
{
    static uint64_t message;
    return (struct limit_refusal){.class = REPLY_BLOCKED,
                                  .scope = REPLY_LANE,
                                  .stage = REPLY_AT_RCPT,
                                  .code = 550,
                                  .text = SLICE("5.7.1 blocked using a list"),
                                  .address = SLICE("192.0.2.2"),
                                  .destination = slice_of(destination),
                                  .tenant = tenant,
                                  .message = ++message,
                                  .sent_at = b->now};
}

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
    accept(&b, h[0], b.now - SECOND);
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
    accept(&b, h[0], b.now);
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
    accept(&b, h, b.now);
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
    assert_int_equal(limits_report_destinations(b.limits, &key, found, 8, b.now), 4);
    assert_string_equal(found[0].destination, "a.example");
    /* Its next turn ends it, or doubles the time. */
    pass(&b, 15 * MINUTE);
    accept(&b, h, b.now);
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
    assert_true(limits_report_lane(b.limits, &key, b.now, &report));
    assert_true(report.paused_until == 0);
    pass(&b, 6 * MINUTE); /* those are too old */
    (void)act(&b, h, "pause 10m after 3 in 5m");
    (void)act(&b, h, "pause 10m after 3 in 5m");
    assert_true(limits_report_lane(b.limits, &key, b.now, &report));
    assert_true(report.paused_until == 0);
    (void)act(&b, h, "pause 10m after 3 in 5m");
    assert_true(limits_report_lane(b.limits, &key, b.now, &report));
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
    assert_true(limits_report_lane(b.limits, &key, b.now, &report));
    assert_true(report.paces[0] > 35 && report.paces[0] <= 50);
    double once = report.paces[0];
    (void)act(&b, h, "slow");
    assert_true(limits_report_lane(b.limits, &key, b.now, &report));
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
        assert_int_equal(limits_report_lane(b.limits, &key, b.now, &report), i == 0);
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
    while ((count = limits_report(b.limits, &at, page, 16, b.now)) > 0) {
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
        cmocka_unit_test(a_session_has_a_ceiling),
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
        cmocka_unit_test(operators_close_and_open),
        cmocka_unit_test(a_lane_is_remembered_for_an_hour),
        cmocka_unit_test(lanes_and_sites_are_bounded),
        cmocka_unit_test(a_walk_shows_every_lane_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
