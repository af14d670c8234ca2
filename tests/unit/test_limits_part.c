/* Rates of which this node uses a part: engine/limit/limits_part.h. */
#include "engine/limit/limits_part.h"
#include "tests/unit/limits_bed.h"

static void count(void *ctx)
{
    ++*(int *)ctx;
}

/* A bed whose rates are shared, and may be for an hour. */
static void make_shared_bed(struct bed *b, int *wakes)
{
    make_bed(b);
    *wakes = 0;
    limits_part_begin(b->limits, count, wakes);
    limits_part_until(b->limits, b->now + HOUR);
}

static struct limits_part_view look(struct bed *b, uint32_t slot)
{
    struct limits_part_view v;
    assert_true(limits_part_look(b->limits, slot, b->now, &v));
    return v;
}

static void nothing_goes_without_a_part(void **state)
{
    struct bed b;
    int wakes;
    const struct limit_rules rules = {.site.messages = per(100, SECOND)};
    (void)state;
    make_shared_bed(&b, &wakes);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &rules);
    assert_int_equal(limits_part_slots(b.limits), 0); /* nobody wants it yet */
    struct limit_grant g = lend(&b, h, 10);
    assert_int_equal(g.messages, 0);
    assert_int_equal(g.why, LIMIT_BY_SHARE);
    assert_int_equal(g.whose, LIMIT_OF_SITE);
    assert_true(g.due > b.now && g.due <= b.now + SECOND);
    assert_int_equal(wakes, 1);
    assert_int_equal(limits_part_slots(b.limits), 1);
    struct limits_part_view v = look(&b, 0);
    assert_int_equal(v.parts, 10); /* its burst */
    assert_int_equal(v.want, 10);
    assert_int_equal(v.share, 0);
    assert_int_equal(v.token_time, 10000);

    /* A part of it, without anything of the burst: 20 a second from now on. */
    assert_true(limits_part_set(b.limits, 0, v.id, 2, 0, b.now));
    assert_int_equal(lend(&b, h, 10).messages, 0);
    pass(&b, 50000);
    assert_int_equal(lend(&b, h, 10).messages, 1);
    /* Reports tell what is configured. */
    struct limit_lane_report r;
    uint32_t at = 0;
    assert_int_equal(limits_report(b.limits, &at, &r, 1, b.now, b.wall), 1);
    assert_int_equal(r.rates[LIMIT_OF_SITE].messages.count, 100);
    assert_true(r.rates[LIMIT_OF_SITE].messages.span == SECOND);

    /* Until it may not be used any more. */
    limits_part_until(b.limits, b.now);
    g = lend(&b, h, 10);
    assert_int_equal(g.why, LIMIT_BY_SHARE);
    limits_release(h, b.now);
    end_bed(&b);
}

static void who_waits_long_asks_less_often(void **state)
{
    struct bed b;
    int wakes;
    const struct limit_rules rules = {.lane.messages = per(100, SECOND)};
    (void)state;
    make_shared_bed(&b, &wakes);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &rules);
    unsigned asked = 0;
    for (usec_t end = b.now + 60 * SECOND; b.now < end; asked++) {
        struct limit_grant g = lend(&b, h, 1);
        assert_int_equal(g.messages, 0);
        assert_true(g.due - b.now >= 20000 && g.due - b.now <= SECOND);
        pass(&b, g.due - b.now);
    }
    assert_in_range(asked, 55, 90);
    assert_int_equal(wakes, 1);
    limits_release(h, b.now);
    end_bed(&b);
}

static void a_part_that_is_taken_away_leaves_nothing(void **state)
{
    struct bed b;
    int wakes;
    const struct limit_rules rules = {.site.messages = {.count = 10, .burst = 10, .span = SECOND}};
    (void)state;
    make_shared_bed(&b, &wakes);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &rules);
    assert_int_equal(lend(&b, h, 1).messages, 0);
    uint64_t id = look(&b, 0).id;
    assert_true(limits_part_set(b.limits, 0, id, 10, 10000, b.now));
    assert_int_equal(look(&b, 0).tokens, 10000);
    assert_true(limits_part_set(b.limits, 0, id, 5, -5000, b.now));
    assert_int_equal(look(&b, 0).tokens, 5000);
    assert_true(limits_part_set(b.limits, 0, id, 0, 0, b.now));
    assert_int_equal(look(&b, 0).tokens, 0);
    pass(&b, 100 * SECOND);
    assert_true(limits_part_set(b.limits, 0, id, 5, 1000, b.now)); /* what came with it */
    assert_int_equal(look(&b, 0).tokens, 1000);
    assert_false(limits_part_set(b.limits, 0, id + 1, 5, 0, b.now));
    assert_false(limits_part_set(b.limits, 7, id, 5, 0, b.now));
    limits_release(h, b.now);
    end_bed(&b);
}

/* What was sent beyond what was lent is paid for, also by who has no part just now. */
static void what_is_owed_stays(void **state)
{
    struct bed b;
    int wakes;
    const struct limit_rules rules = {
        .site.recipients = {.count = 10, .burst = 10, .span = SECOND}};
    (void)state;
    make_shared_bed(&b, &wakes);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &rules);
    struct limit_grant g;
    const struct limit_ask ask = {
        .messages = 1, .recipients = 1, .owed = 20, .has_connection = true};
    limits_lend(h, &ask, b.now, b.wall, &g);
    assert_int_equal(g.messages, 0);
    uint64_t id = look(&b, 0).id;
    assert_true(limits_part_set(b.limits, 0, id, 10, 10000, b.now));
    assert_int_equal(look(&b, 0).tokens, 0); /* -10 */
    pass(&b, SECOND);
    assert_int_equal(look(&b, 0).tokens, 0);
    assert_true(limits_part_set(b.limits, 0, id, 0, 0, b.now));
    assert_true(limits_part_set(b.limits, 0, id, 10, 5000, b.now));
    assert_in_range(look(&b, 0).tokens, 4900, 5000);
    limits_release(h, b.now);
    end_bed(&b);
}

/* A message that was not sent after all, whose part went to others in between. */
static void what_comes_back_is_owed_no_more(void **state)
{
    struct bed b;
    int wakes;
    struct limit_domain_answer answer;
    const struct limit_domain domain = {.name = SLICE("a.test"),
                                        .recipients = {.count = 10, .burst = 10, .span = SECOND},
                                        .serial = 1};
    (void)state;
    make_shared_bed(&b, &wakes);
    const struct limit_domain_ask ask = {60, b.now, b.wall};
    limits_domain_take(b.borrowers[0], &domain, &ask, &answer);
    assert_false(answer.is_taken);
    uint64_t id = look(&b, 0).id;
    assert_true(limits_part_set(b.limits, 0, id, 10, 10000, b.now));
    limits_domain_take(b.borrowers[0], &domain, &ask, &answer);
    assert_true(answer.is_taken); /* 50 recipients more than there were */
    assert_true(limits_part_set(b.limits, 0, id, 0, 0, b.now));
    limits_domain_give_back(b.limits, domain.name, 60, b.wall);
    assert_true(limits_part_set(b.limits, 0, id, 10, 5000, b.now));
    assert_int_equal(look(&b, 0).tokens, 5000); /* what the other nodes left */
    end_bed(&b);
}

static void wants_follow_what_is_used(void **state)
{
    struct bed b;
    int wakes;
    const struct limit_rules rules = {
        .site.messages = {.count = 100, .burst = 100, .span = SECOND}};
    (void)state;
    make_shared_bed(&b, &wakes);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &rules);
    assert_int_equal(lend(&b, h, 1).messages, 0);
    uint64_t id = look(&b, 0).id;
    assert_true(limits_part_set(b.limits, 0, id, 100, 100000, b.now));
    for (int i = 0; i < 30; i++) { /* 10 a second */
        pass(&b, SECOND / 10);
        assert_int_equal(lend(&b, h, 1).messages, 1);
    }
    assert_in_range(look(&b, 0).want, 12, 16);
    assert_false(limits_part_end(b.limits, 0, id, b.now)); /* it is wanted */
    pass(&b, 3 * SECOND);
    assert_int_equal(look(&b, 0).want, 0);
    assert_true(limits_part_end(b.limits, 0, id, b.now));
    struct limits_part_view v;
    assert_false(limits_part_look(b.limits, 0, b.now, &v));
    assert_int_equal(lend(&b, h, 1).why, LIMIT_BY_SHARE); /* and it is as at first */
    assert_int_equal(look(&b, 0).id, id);
    assert_int_equal(wakes, 2);
    limits_release(h, b.now);
    end_bed(&b);
}

/* A slow rate goes on while nobody asks: its part is kept until the burst is full. */
static void an_idle_part_is_kept_until_it_is_full(void **state)
{
    struct bed b;
    int wakes;
    const struct limit_rules rules = {.site.messages = per(24, DAY)};
    (void)state;
    make_shared_bed(&b, &wakes);
    limits_part_until(b.limits, b.now + DAY);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &rules);
    assert_int_equal(lend(&b, h, 1).messages, 0);
    uint64_t id = look(&b, 0).id;
    assert_int_equal(look(&b, 0).burst, 1);
    assert_true(limits_part_set(b.limits, 0, id, 1, 1000, b.now));
    assert_int_equal(lend(&b, h, 1).messages, 1);
    pass(&b, HOUR / 2);
    assert_int_equal(look(&b, 0).want, 1);
    assert_false(limits_part_end(b.limits, 0, id, b.now));
    pass(&b, HOUR / 2);
    assert_int_equal(look(&b, 0).want, 0);
    assert_int_equal(lend(&b, h, 1).messages, 1); /* at once */
    limits_release(h, b.now);
    end_bed(&b);
}

/* Who was told to come in an hour hears before that of a part that has grown. */
static void a_part_that_grows_is_used_soon(void **state)
{
    struct bed b;
    int wakes;
    const struct limit_rules rules = {.site.messages = {.count = 24, .burst = 10, .span = DAY}};
    (void)state;
    make_shared_bed(&b, &wakes);
    limits_part_until(b.limits, b.now + DAY);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &rules),
                       *other = hold(&b, 1, "ip2", "site", &rules);
    assert_int_equal(lend(&b, h, 1).messages, 0);
    uint64_t id = look(&b, 0).id;
    assert_true(limits_part_set(b.limits, 0, id, 1, 0, b.now));
    struct limit_grant g = lend(&b, h, 1), of_other = lend(&b, other, 1);
    assert_int_equal(g.messages + of_other.messages, 0);
    assert_true(g.due <= b.now + 5 * SECOND && of_other.due <= b.now + 5 * SECOND);
    assert_true(limits_part_set(b.limits, 0, id, 10, 2000, b.now));
    pass(&b, 5 * SECOND);
    assert_int_equal(lend(&b, h, 1).messages, 1);
    assert_int_equal(lend(&b, other, 1).messages, 1);
    limits_release(h, b.now);
    limits_release(other, b.now);
    end_bed(&b);
}

/* Nobody holds the site any more: what is left of its part is not forgotten before it is given back. */
static void an_idle_meter_keeps_its_part(void **state)
{
    struct bed b;
    int wakes;
    const struct limit_rules rules = {.site.messages = per(24, DAY), .memory = -1};
    (void)state;
    make_shared_bed(&b, &wakes);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &rules);
    assert_int_equal(lend(&b, h, 1).messages, 0);
    uint64_t id = look(&b, 0).id;
    assert_true(limits_part_set(b.limits, 0, id, 1, 1000, b.now));
    limits_release(h, b.now);
    for (int i = 0; i < 20; i++) {
        pass(&b, SECOND);
        limits_release(hold(&b, 0, "ip1", i % 2 == 0 ? "one" : "two", NULL), b.now);
    }
    assert_int_equal(look(&b, 0).tokens, 1000);
    assert_true(limits_part_set(b.limits, 0, id, 0, 0, b.now));
    assert_true(limits_part_end(b.limits, 0, id, b.now));
    end_bed(&b);
}

/* Another rule is another limit; none is none; keys are of name, owner, unit and rule. */
static void rules_make_keys(void **state)
{
    struct bed b;
    int wakes;
    struct limit_rules rules = {.serial = 1, .site.messages = per(100, SECOND)};
    struct limits_part_view v, other;
    (void)state;
    make_shared_bed(&b, &wakes);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &rules);
    assert_int_equal(lend(&b, h, 1).messages, 0);
    v = look(&b, 0);
    assert_int_equal(strlen(v.key), LIMITS_PART_KEY_MAX);
    assert_true(limits_part_set(b.limits, 0, v.id, 10, 10000, b.now));
    rules = (struct limit_rules){.serial = 2, .site.messages = per(200, SECOND)};
    assert_int_equal(limits_set_rules(h, &rules, b.now), 0);
    assert_false(limits_part_look(b.limits, 0, b.now, &other));
    assert_int_equal(lend(&b, h, 1).why, LIMIT_BY_SHARE);
    other = look(&b, 0);
    assert_true(other.id != v.id && strcmp(other.key, v.key) != 0);
    rules = (struct limit_rules){.serial = 3, .lane.messages = per(200, SECOND)};
    assert_int_equal(limits_set_rules(h, &rules, b.now), 0);
    assert_int_equal(lend(&b, h, 1).why, LIMIT_BY_SHARE);
    v = look(&b, 0);
    assert_true(strcmp(other.key, v.key) != 0);
    rules = (struct limit_rules){.serial = 4};
    assert_int_equal(limits_set_rules(h, &rules, b.now), 0);
    assert_false(limits_part_look(b.limits, 0, b.now, &v));
    assert_int_equal(lend(&b, h, 3).messages, 3);
    limits_release(h, b.now);
    end_bed(&b);
}

static void tenants_wait_for_their_part_too(void **state)
{
    struct bed b;
    int wakes;
    struct limits_meter *m;
    struct limits_meter_loan loan;
    struct limit_grant g;
    const struct limit_rates rates = {.messages = per(100, SECOND)};
    const struct limit_meter_key key = {LIMIT_OF_TENANT, SLICE("t")};
    (void)state;
    make_shared_bed(&b, &wakes);
    assert_int_equal(limits_meter_get(b.limits, &key, &rates, 1, b.now, &m), 0);
    const struct limits_meter_ask ask = {.messages = 5, .now = b.now, .wall = b.wall};
    limits_meter_lend(b.borrowers[0], m, &ask, &loan, &g);
    assert_int_equal(g.messages, 0);
    assert_int_equal(g.why, LIMIT_BY_SHARE);
    assert_true(limits_part_set(b.limits, 0, look(&b, 0).id, 10, 10000, b.now));
    limits_meter_lend(b.borrowers[0], m, &ask, &loan, &g);
    assert_true(g.messages > 0);
    limits_meter_put(b.limits, m);
    end_bed(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_goes_without_a_part),
        cmocka_unit_test(who_waits_long_asks_less_often),
        cmocka_unit_test(a_part_that_is_taken_away_leaves_nothing),
        cmocka_unit_test(what_is_owed_stays),
        cmocka_unit_test(what_comes_back_is_owed_no_more),
        cmocka_unit_test(wants_follow_what_is_used),
        cmocka_unit_test(an_idle_part_is_kept_until_it_is_full),
        cmocka_unit_test(a_part_that_grows_is_used_soon),
        cmocka_unit_test(an_idle_meter_keeps_its_part),
        cmocka_unit_test(rules_make_keys),
        cmocka_unit_test(tenants_wait_for_their_part_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
