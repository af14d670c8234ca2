/* Depth by scripted times. */
#include "net/smtp_pace.h"
#include "tests/unit/unit.h"

#define MSEC USEC_PER_MSEC

/* A receiver at the other end of a line; each message is sent when the depth allows. */
struct line {
    struct smtp_pace pace;
    usec_t trip, service;
    usec_t sent[64]; /* of message i modulo 64 */
    usec_t answered[64];
    unsigned count;
};

static void line_init(struct line *l, usec_t trip, usec_t service)
{
    *l = (struct line){.trip = trip, .service = service};
    smtp_pace_init(&l->pace);
    smtp_pace_reply(&l->pace, trip + 3);
    smtp_pace_reply(&l->pace, trip);
    smtp_pace_reply(&l->pace, trip + 90000);
}

/* One more message: it leaves once fewer than depth are under way. Returns the depth after it. */
static uint16_t carry(struct line *l, uint16_t allowed)
{
    uint16_t depth = smtp_pace_depth(&l->pace, allowed);
    unsigned i = l->count++;
    usec_t sent = i >= depth ? l->answered[(i - depth) % 64] : 0;
    if (i > 0 && sent < l->sent[(i - 1) % 64]) {
        sent = l->sent[(i - 1) % 64];
    }
    usec_t begun = sent + l->trip / 2;
    usec_t free_at = i > 0 ? l->answered[(i - 1) % 64] - l->trip / 2 : 0;
    begun = free_at > begun ? free_at : begun;
    l->sent[i % 64] = sent;
    l->answered[i % 64] = begun + l->service + l->trip - l->trip / 2;
    smtp_pace_end(&l->pace, sent, l->answered[i % 64]);
    return smtp_pace_depth(&l->pace, allowed);
}

static void carry_many(struct line *l, unsigned count, uint16_t allowed)
{
    for (unsigned i = 0; i < count; i++) {
        (void)carry(l, allowed);
    }
}

static void test_begins_alone(void **state)
{
    (void)state;
    struct smtp_pace p;
    smtp_pace_init(&p);
    assert_int_equal(smtp_pace_depth(&p, 16), 1);
    smtp_pace_reply(&p, 100 * MSEC);
    assert_int_equal(smtp_pace_depth(&p, 16), 1);
    smtp_pace_end(&p, 0, 100 * MSEC); /* answered at once, but one answer is no more than that */
    assert_int_equal(smtp_pace_depth(&p, 16), 2);
    smtp_pace_end(&p, 0, 100 * MSEC);
    smtp_pace_end(&p, 0, 100 * MSEC);
    assert_int_equal(smtp_pace_depth(&p, 16), 8);
    smtp_pace_end(&p, 0, 100 * MSEC);
    assert_int_equal(smtp_pace_depth(&p, 16), 16);
    assert_int_equal(smtp_pace_depth(&p, 2), 2);
    assert_int_equal(smtp_pace_depth(&p, 1), 1);
    for (int i = 0; i < 20; i++) {
        smtp_pace_end(&p, 0, 100 * MSEC);
    }
    assert_int_equal(smtp_pace_depth(&p, UINT16_MAX), 1000);
}

/* Loopback, fast receiver: the answer comes in the same reading of the clock. */
static void test_loopback(void **state)
{
    (void)state;
    struct line l;
    line_init(&l, 0, 0);
    carry_many(&l, 10, 16);
    assert_int_equal(smtp_pace_depth(&l.pace, 16), 16);
    line_init(&l, 40, 30); /* and one of 30 us: two in service, ceil(40 / 30 - 0.1) + 1 */
    carry_many(&l, 10, 16);
    assert_int_equal(smtp_pace_depth(&l.pace, 16), 3);
}

/* Two go to a fast receiver also where the line is much shorter than the service, two each time. */
static void test_fast_receiver(void **state)
{
    (void)state;
    struct line l;
    line_init(&l, 10, 900);
    assert_false(smtp_pace_is_fast(&l.pace)); /* nothing is measured */
    assert_int_equal(carry(&l, 16), 2);
    assert_true(smtp_pace_is_fast(&l.pace));
    carry_many(&l, 20, 16);
    assert_int_equal(smtp_pace_depth(&l.pace, 16), 2);
    assert_int_equal(smtp_pace_depth(&l.pace, 1), 1);
    line_init(&l, 10, 1 * MSEC);
    carry_many(&l, 20, 16);
    assert_false(smtp_pace_is_fast(&l.pace));
    assert_int_equal(smtp_pace_depth(&l.pace, 16), 1);
    line_init(&l, 10, 900);
    carry_many(&l, 20, 16);
    l.service = 50 * MSEC; /* it becomes slow: the first one tells */
    assert_int_equal(carry(&l, 16), 1);
    assert_false(smtp_pace_is_fast(&l.pace));
}

/* Silence says something only of a receiver that was fast, and is near. */
static void test_silence(void **state)
{
    (void)state;
    struct line l;
    line_init(&l, 900, 900);
    assert_true(smtp_pace_patience(&l.pace) == USEC_NEVER); /* nothing is measured */
    carry_many(&l, 20, 16);
    assert_true(smtp_pace_patience(&l.pace) == 20 * MSEC);
    assert_int_equal(smtp_pace_depth(&l.pace, 16), 2);
    smtp_pace_stall(&l.pace);
    assert_int_equal(smtp_pace_depth(&l.pace, 16), 1);
    assert_int_equal(carry(&l, 16), 2); /* it has answered */
    l.service = 50 * MSEC;
    carry_many(&l, 5, 16);
    assert_true(smtp_pace_patience(&l.pace) == USEC_NEVER);
    line_init(&l, 1 * MSEC, 900);
    carry_many(&l, 20, 16);
    assert_true(smtp_pace_is_fast(&l.pace));
    assert_true(smtp_pace_patience(&l.pace) == USEC_NEVER);
}

/* A receiver that is slow itself gains nothing by a second message waiting before it. */
static void test_slow_receiver(void **state)
{
    (void)state;
    struct line l;
    line_init(&l, 0, 50 * MSEC);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(carry(&l, 16), 1);
    }
    line_init(&l, 5 * MSEC, 50 * MSEC); /* a tenth exactly */
    for (int i = 0; i < 50; i++) {
        assert_int_equal(carry(&l, 16), 1);
    }
    line_init(&l, 5 * MSEC + 200, 50 * MSEC);
    carry_many(&l, 50, 16);
    assert_int_equal(smtp_pace_depth(&l.pace, 16), 2);
}

static void test_long_line(void **state)
{
    (void)state;
    struct line l;
    line_init(&l, 100 * MSEC, 0);
    const uint16_t ramp[] = {2, 4, 8, 16, 16};
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(carry(&l, 16), ramp[i]);
    }
    assert_int_equal(smtp_pace_depth(&l.pace, 2), 2);
    line_init(&l, 100 * MSEC, 20 * MSEC); /* five fit into the line, one is in service */
    carry_many(&l, 60, 16);
    assert_int_equal(smtp_pace_depth(&l.pace, 16), 6);
}

static void test_becomes_slow_and_fast(void **state)
{
    (void)state;
    struct line l;
    line_init(&l, 100 * MSEC, 0);
    carry_many(&l, 40, 16);
    assert_int_equal(smtp_pace_depth(&l.pace, 16), 16);
    l.service = 500 * MSEC;
    (void)carry(&l, 16);
    assert_int_equal(smtp_pace_depth(&l.pace, 16), 2); /* the first slow one tells already */
    carry_many(&l, 30, 16);
    assert_int_equal(smtp_pace_depth(&l.pace, 16), 2);
    l.service = 2000 * MSEC;
    carry_many(&l, 30, 16);
    assert_int_equal(smtp_pace_depth(&l.pace, 16), 1);
    l.service = 0;
    carry_many(&l, 60, 16);
    assert_int_equal(smtp_pace_depth(&l.pace, 16), 16);
}

/* Nothing measured of the line, and a clock that stands still or goes oddly: never 0. */
static void test_odd_times(void **state)
{
    (void)state;
    struct smtp_pace p;
    smtp_pace_init(&p);
    smtp_pace_end(&p, 10 * MSEC, 60 * MSEC);
    assert_int_equal(smtp_pace_depth(&p, 16), 1);
    smtp_pace_reply(&p, -5);
    assert_int_equal(p.round_trip, 0);
    smtp_pace_end(&p, 90 * MSEC, 60 * MSEC);
    assert_in_range(smtp_pace_depth(&p, 16), 1, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_begins_alone),          cmocka_unit_test(test_loopback),
        cmocka_unit_test(test_fast_receiver),         cmocka_unit_test(test_silence),
        cmocka_unit_test(test_slow_receiver),         cmocka_unit_test(test_long_line),
        cmocka_unit_test(test_becomes_slow_and_fast), cmocka_unit_test(test_odd_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
