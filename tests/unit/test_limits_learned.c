/* What a lane learns of sessions and of paces that end. */
#include "tests/unit/limits_bed.h"

static void a_session_has_a_ceiling(void **state)
{
    struct bed b;
    struct limit_change change;
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    accept_one(&b, h, b.now);
    struct limit_refusal r = throttled(&b, REPLY_SESSION);
    r.session_messages = 20;
    for (int i = 0; i < 3; i++) {
        assert_false(last_change(&b, 0, &change));
        assert_int_equal(refuse(&b, h, &r).fate, LIMIT_FATE_AGAIN);
    }
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

/* A pace that bound no more and rose far enough ends by itself, which is written down. */
static void a_forgotten_pace_is_a_reaction(void **state)
{
    struct bed b;
    struct limit_reaction r = {0};
    uint64_t before;
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    struct limit_refusal refusal = throttled(&b, REPLY_MESSAGES);
    accept_one(&b, h, b.now);
    (void)refuse(&b, h, &refusal);
    before = limits_reaction_end(b.limits);
    usec_t bound = b.now + 60 * SECOND, end = b.now + 2 * HOUR;
    while (limits_reaction_end(b.limits) == before && b.now < end) {
        struct limit_grant g = lend(&b, h, 1);
        if (g.messages == 0) {
            pass(&b, g.due - b.now);
            continue;
        }
        usec_t sent_at = b.now;
        pass(&b, USEC_PER_MSEC);
        accept_one(&b, h, sent_at);
        pass(&b, b.now < bound ? 0 : SECOND); /* from then on there is less mail */
    }
    assert_true(limits_reaction_get(b.limits, before, &r));
    assert_int_equal(r.kind, LIMIT_REACTED_UNPACED);
    assert_int_equal(r.cause, LIMIT_DONE_BY_TIME);
    assert_int_equal(r.unit, 0); /* messages */
    limits_release(h, b.now);
    end_bed(&b);
}

/* A host that refuses at random refuses later messages too; other sessions go on. Then it is no limit of
 * sessions, and as little as its share is, the pace learns of it. A rule's word is taken at once. */
static void a_session_refused_by_chance_has_none(void **state)
{
    struct bed b;
    struct limit_change change;
    bool is_paced = false;
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    accept_one(&b, h, b.now);
    struct limit_refusal r = throttled(&b, REPLY_SESSION);
    struct limit_accepted a = {.messages = 1, .session_messages = 3, .sent_at = b.now};
    for (uint32_t i = 0; i < 6; i++) {
        r.session_messages = 1 + i % 2;
        assert_int_equal(refuse(&b, h, &r).fate, LIMIT_FATE_AGAIN);
        limits_accepted(h, &a, b.now);
        (void)last_change(&b, 0, &change);
        assert_int_equal(change.state.most_messages, 0);
        is_paced = is_paced || change.state.is_limited;
    }
    assert_true(is_paced);
    r.rule = SLICE("a rule");
    r.session_messages = 2;
    (void)refuse(&b, h, &r);
    assert_true(last_change(&b, 0, &change));
    assert_int_equal(change.state.most_messages, 2);
    limits_release(h, b.now);
    end_bed(&b);
}

/* What rates lend is kept for long while none of them binds; so whoever holds some hears of what does
 * bind from now on, although the lane was limited before. */
static void what_begins_to_bind_is_told(void **state)
{
    struct bed b;
    struct limit_change change;
    const struct limit_rules rules = {.lane.messages = per(1000, SECOND)};
    (void)state;
    for (enum reply_scope scope = REPLY_MESSAGES; scope <= REPLY_CONNECTIONS; scope++) {
        make_bed(&b);
        struct limits_hold *h = hold(&b, 0, "ip1", "site", &rules);
        assert_true(last_change(&b, 0, &change));
        assert_true(change.state.is_limited);
        struct limit_grant g = lend(&b, h, 5);
        assert_int_equal(g.messages, 5);
        assert_true(g.is_ample);
        assert_true(g.until >= b.now + SECOND / 4);
        assert_false(last_change(&b, 0, &change));
        accept_one(&b, h, b.now);
        assert_false(last_change(&b, 0, &change));
        struct limit_refusal r = throttled(&b, scope);
        (void)refuse(&b, h, &r);
        assert_true(last_change(&b, 0, &change));
        assert_true(change.state.is_limited);
        (void)refuse(&b, h, &r);
        assert_false(last_change(&b, 0, &change));
        limits_release(h, b.now);
        end_bed(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_has_a_ceiling),
        cmocka_unit_test(a_forgotten_pace_is_a_reaction),
        cmocka_unit_test(what_begins_to_bind_is_told),
        cmocka_unit_test(a_session_refused_by_chance_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
