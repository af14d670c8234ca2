/* Single rules of the learned pace. What they reach together is tests/sim/pace_random and
 * `sluice-sim pace`. */
#include "base/error.h"
#include "sched/limit/pace.h"
#include "tests/unit/unit.h"

#define START (1000 * USEC_PER_SEC)
#define MSEC  USEC_PER_MSEC

/* A receiver that takes so many a second, evenly, and answers after a millisecond. */
struct bed {
    struct pace pace;
    usec_t now;
    double rate;   /* of the receiver; 0: refuses everything */
    double next;   /* when it takes the next one */
    unsigned sick; /* refuses one of so many whatever the rate is; 0: none */
    uint32_t dice;
    unsigned accepted, refused;
};

static struct bed make(double rate)
{
    struct bed b = {.now = START, .rate = rate, .next = START};
    pace_init(&b.pace, PACE_MESSAGES, 1, START);
    return b;
}

static void verdict(struct bed *b)
{
    usec_t sent = b->now;
    b->dice = b->dice * 1664525 + 1013904223;
    bool is_sick = b->sick > 0 && (b->dice >> 8) % b->sick == 0;
    bool is_taken = b->rate > 0 && !is_sick && (double)b->now >= b->next;
    b->now += MSEC;
    if (is_taken) {
        b->next = (double)sent + USEC_PER_SEC / b->rate;
        b->accepted++;
        pace_accepted(&b->pace, 1, sent, b->now);
    } else {
        b->refused++;
        pace_refused(&b->pace, 1, 0, sent, b->now);
    }
}

/* Always mail; 1 ms at least from one to the next. */
static void run_until(struct bed *b, usec_t end)
{
    while (b->now < end) {
        usec_t due = pace_due(&b->pace, b->now);
        if (due > b->now) {
            b->now = due < end ? due : end;
            continue;
        }
        pace_take(&b->pace, 1, b->now);
        verdict(b);
    }
}

static void free_until_refused(void **state)
{
    struct bed b = make(1000000);
    (void)state;
    run_until(&b, START + USEC_PER_SEC);
    assert_int_equal(b.accepted, 1000);
    assert_int_equal(b.pace.phase, PACE_FREE);
    assert_true(pace_due(&b.pace, b.now) == 0);
}

/* The first refusal: a little below what was accepted in the last seconds. */
static void first_pace_is_measured(void **state)
{
    struct bed b = make(1000000);
    (void)state;
    for (int i = 0; i < 300; i++) { /* 100 a second */
        pace_take(&b.pace, 1, b.now);
        pace_accepted(&b.pace, 1, b.now - MSEC, b.now);
        b.now += 10 * MSEC;
    }
    pace_refused(&b.pace, 1, 0, b.now - MSEC, b.now);
    assert_true(b.pace.rate > 85 && b.pace.rate < 100);
    assert_true(b.pace.since == b.now);
    assert_true(pace_due(&b.pace, b.now) > b.now);
}

static void finds_the_limit(void **state)
{
    struct bed b = make(50);
    (void)state;
    run_until(&b, START + 20 * USEC_PER_SEC);
    b.accepted = b.refused = 0;
    run_until(&b, START + 80 * USEC_PER_SEC);
    assert_in_range(b.accepted, 2850, 3000);
    assert_in_range(b.refused, 0, 35);
}

/* Fifty refusals of one round trip lower it once. */
static void lowers_once_a_round_trip(void **state)
{
    struct bed b = make(1000000);
    (void)state;
    pace_set(&b.pace, 100, b.now);
    b.pace.next_trial = USEC_NEVER;
    usec_t sent = b.now;
    for (int i = 0; i < 50; i++) {
        pace_take(&b.pace, 1, sent);
    }
    pace_accepted(&b.pace, 1, sent, sent + 100 * MSEC);
    for (int i = 0; i < 49; i++) {
        pace_refused(&b.pace, 1, 0, sent, sent + 100 * MSEC);
    }
    assert_true(b.pace.rate > 95 && b.pace.rate < 99);
}

static void does_not_rise_without_mail(void **state)
{
    struct pace p;
    usec_t now = START;
    (void)state;
    pace_init(&p, PACE_MESSAGES, 1, now);
    pace_set(&p, 10, now);
    for (int i = 0; i < 6000; i++) { /* 5 a second for 20 minutes */
        now += 200 * MSEC;
        assert_true(pace_due(&p, now) <= now);
        pace_take(&p, 1, now);
        pace_accepted(&p, 1, now, now + MSEC);
    }
    assert_true(p.rate == 10);
}

static void rises_while_it_binds(void **state)
{
    struct bed b = make(200);
    (void)state;
    pace_set(&b.pace, 100, b.now);
    run_until(&b, START + 30 * USEC_PER_SEC);
    assert_true(b.pace.rate > 190 && b.pace.rate <= 201);
}

/* Everything is refused: a second, doubling to five minutes, one probe each. */
static void pauses_and_probes(void **state)
{
    struct bed b = make(0);
    (void)state;
    pace_set(&b.pace, 10, b.now);
    run_until(&b, START + 10 * USEC_PER_SEC);
    unsigned early = b.refused;
    assert_in_range(early, 3, 16);
    usec_t hour = START + 3600 * USEC_PER_SEC;
    run_until(&b, hour);
    assert_in_range(b.refused - early, 8, 25);
    assert_true(b.pace.phase == PACE_PAUSED && b.pace.pause == 300 * USEC_PER_SEC);
    /* it lets mail through again: found within the pause, and one was sent to find it */
    b.rate = 10;
    b.next = (double)b.now;
    b.accepted = b.refused = 0;
    while (b.accepted == 0) {
        run_until(&b, b.now + USEC_PER_SEC);
    }
    assert_true(b.now < hour + 400 * USEC_PER_SEC);
    assert_int_equal(b.refused, 0);
    run_until(&b, b.now + 120 * USEC_PER_SEC);
    b.accepted = 0;
    run_until(&b, b.now + 60 * USEC_PER_SEC);
    assert_in_range(b.accepted, 560, 600);
}

/* Nothing is taken at first, and then everything: what went while nothing did says nothing of a rate.
 * Of recipients too, which are sought slowly where a rate is known about. */
static void a_storm_is_no_rate(void **state)
{
    (void)state;
    for (unsigned storm = 1; storm <= 64; storm *= 4) {
        for (unsigned unit = PACE_MESSAGES; unit <= PACE_CONNECTS; unit++) {
            struct bed b = make(0);
            pace_init(&b.pace, (enum pace_unit)unit, 1, START);
            run_until(&b, START + storm * USEC_PER_SEC);
            assert_in_range(b.refused, 1, 20);
            b.rate = 1000000;
            b.next = (double)b.now;
            while (b.accepted == 0) {
                run_until(&b, b.now + USEC_PER_SEC / 10);
            }
            run_until(&b, b.now + 12 * USEC_PER_SEC);
            assert_true(b.accepted >= 60);
        }
    }
}

/* One in 20 s is all that is taken, which pauses and probes find: a second time they are believed. */
static void what_pauses_say_twice_is_a_rate(void **state)
{
    struct bed b = make(0.05);
    (void)state;
    run_until(&b, START + 200 * USEC_PER_SEC);
    b.accepted = b.refused = 0;
    run_until(&b, START + 3800 * USEC_PER_SEC);
    assert_in_range(b.accepted, 170, 181);
    assert_in_range(b.refused, 0, 70);
}

static void pauses_as_long_as_asked(void **state)
{
    struct pace p;
    usec_t now = START;
    (void)state;
    pace_init(&p, PACE_MESSAGES, 1, now);
    pace_set(&p, 10, now);
    for (int i = 0; i < 20 && p.phase != PACE_PAUSED; i++) {
        now += 200 * MSEC;
        usec_t due = pace_due(&p, now);
        now = due > now ? due : now;
        pace_take(&p, 1, now);
        pace_refused(&p, 1, 60 * USEC_PER_SEC, now, now + MSEC);
    }
    assert_int_equal(p.phase, PACE_PAUSED);
    assert_in_range(p.until, now + 60 * USEC_PER_SEC, now + 67 * USEC_PER_SEC);
    usec_t until = p.until;
    /* one probe, nothing more until its verdict */
    assert_true(pace_due(&p, until) == until);
    pace_take(&p, 1, until);
    assert_true(pace_due(&p, until) > until + 10 * USEC_PER_SEC);
    /* a probe that came back without a verdict may go again */
    pace_give_back(&p, 1, until);
    assert_true(pace_due(&p, until) <= until);
    pace_take(&p, 1, until);
    pace_accepted(&p, 1, until, until + MSEC);
    assert_int_equal(p.phase, PACE_HELD);
}

/* The limit is lifted: it rises on until it does not bind, and ten minutes later it is gone. */
static void is_forgotten(void **state)
{
    struct bed b = make(20);
    (void)state;
    run_until(&b, START + 60 * USEC_PER_SEC);
    assert_true(b.pace.phase != PACE_FREE);
    b.rate = 1e9;
    double before = b.pace.rate;
    run_until(&b, b.now + 5 * USEC_PER_SEC);
    assert_true(b.pace.rate < 40 * before); /* no jump */
    run_until(&b, START + 500 * USEC_PER_SEC);
    assert_true(b.pace.phase != PACE_FREE);
    run_until(&b, START + 900 * USEC_PER_SEC);
    assert_int_equal(b.pace.phase, PACE_FREE);
}

static void gives_back(void **state)
{
    struct pace p;
    (void)state;
    pace_init(&p, PACE_MESSAGES, 1, START);
    pace_set(&p, 10, START);
    p.next_trial = USEC_NEVER;
    pace_take(&p, 1, START);
    usec_t due = pace_due(&p, START);
    pace_take(&p, 1, START);
    assert_true(pace_due(&p, START) == due + 100 * MSEC);
    pace_give_back(&p, 1, START);
    assert_true(pace_due(&p, START) == due);
}

/* Three schedulers share what one would find, and take turns. */
static void is_lent(void **state)
{
    struct bed b = make(50);
    unsigned sent[3] = {0};
    usec_t next[3] = {START, START, START}, end = START + 120 * USEC_PER_SEC;
    (void)state;
    pace_set(&b.pace, 40, b.now);
    while (b.now < end) {
        unsigned first = next[1] < next[0] ? 1 : 0;
        first = next[2] < next[first] ? 2 : first;
        struct loan loan = {0};
        b.now = next[first] > b.now ? next[first] : b.now;
        usec_t again = pace_lend(&b.pace, first, 5, b.now, &loan);
        if (again > 0) {
            next[first] = again;
            continue;
        }
        assert_in_range(loan.left, 1, 5);
        for (loan_use(&loan), sent[first]++;; loan_use(&loan), sent[first]++) {
            verdict(&b);
            if (loan.left == 0) {
                break;
            }
        }
        pace_repay(&b.pace, &loan);
        next[first] = b.now;
    }
    assert_in_range(b.accepted, 5600, 6000);
    assert_in_range(b.refused, 0, 60);
    for (int i = 0; i < 3; i++) {
        assert_in_range(sent[i], 1800, 2200);
    }
}

/* One in a hundred is refused whatever the rate is: the pace does not fall for it, and a limit that the
 * receiver has then is found as ever. When nothing is refused by chance any more, that is noticed. */
static void chance_is_no_rate(void **state)
{
    struct bed b = make(1000000);
    (void)state;
    b.sick = 100;
    run_until(&b, START + 60 * USEC_PER_SEC);
    b.accepted = b.refused = 0;
    run_until(&b, START + 120 * USEC_PER_SEC);
    assert_true(b.accepted > 40000);
    assert_true(b.pace.chance.share > 0.004 && b.pace.chance.share < 0.025);
    b.rate = 50;
    b.next = (double)b.now;
    run_until(&b, b.now + 30 * USEC_PER_SEC);
    b.accepted = b.refused = 0;
    run_until(&b, b.now + 120 * USEC_PER_SEC);
    assert_in_range(b.accepted, 5100, 6000);
    assert_in_range(b.refused, 0, 180);
    b.sick = 0;
    run_until(&b, b.now + 600 * USEC_PER_SEC);
    assert_true(b.pace.chance.share < 0.003);
    b.accepted = b.refused = 0;
    run_until(&b, b.now + 120 * USEC_PER_SEC);
    assert_in_range(b.accepted, 5600, 6000);
    assert_in_range(b.refused, 0, 90);
}

/* Where many lanes may share a limit, what one of them sends more shows nothing. */
static void no_chance_in_company(void **state)
{
    struct bed b = make(1000000);
    (void)state;
    b.sick = 50;
    b.pace.chance.company = 50;
    run_until(&b, START + 120 * USEC_PER_SEC);
    assert_true(b.pace.chance.share == 0);
}

static void a_trial_that_came_back_proves_nothing(void **state)
{
    struct pace p;
    usec_t now = START;
    (void)state;
    pace_init(&p, PACE_MESSAGES, 1, now);
    pace_set(&p, 5, now);
    while (p.phase != PACE_VERDICT) {
        usec_t due = pace_due(&p, now);
        now = due > now ? due : now;
        pace_take(&p, 1, now);
        if (p.phase != PACE_VERDICT) {
            pace_accepted(&p, 1, now, now + MSEC);
        }
    }
    pace_give_back(&p, 1, now);
    now += 100 * USEC_PER_SEC;
    (void)!pace_due(&p, now);
    assert_true(p.phase == PACE_HELD && p.rate == 5);
}

static void counts_recipients(void **state)
{
    struct pace p;
    (void)state;
    pace_init(&p, PACE_RECIPIENTS, 1, START);
    pace_set(&p, 100, START);
    p.next_trial = USEC_NEVER;
    pace_take(&p, 50, START);
    assert_in_range(pace_due(&p, START), START + 480 * MSEC, START + 500 * MSEC);
}

static void is_remembered(void **state)
{
    struct bed b = make(50);
    struct pace again;
    struct pace_memory kept;
    (void)state;
    pace_init(&again, PACE_MESSAGES, 2, 5);
    assert_false(pace_remember(&again, 5, &kept));
    run_until(&b, START + 60 * USEC_PER_SEC);
    assert_true(pace_remember(&b.pace, b.now, &kept));
    assert_int_equal(pace_recall(&again, &kept, 5), 0);
    assert_true(again.rate == b.pace.rate && again.lowest == b.pace.lowest);
    assert_true(5 - again.since == b.now - b.pace.since);
    b.pace = again;
    b.now = 5;
    b.next = 5;
    b.accepted = b.refused = 0;
    run_until(&b, 60 * USEC_PER_SEC);
    assert_in_range(b.accepted, 2800, 3000);
    struct pace_memory wrong[] = {kept, kept, kept};
    wrong[0].rate = 0;
    wrong[1].lowest = 2 * kept.rate;
    wrong[2].age = -1;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pace_recall(&again, &wrong[i], 5), ERR_SYNTAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(free_until_refused),
        cmocka_unit_test(first_pace_is_measured),
        cmocka_unit_test(finds_the_limit),
        cmocka_unit_test(lowers_once_a_round_trip),
        cmocka_unit_test(does_not_rise_without_mail),
        cmocka_unit_test(rises_while_it_binds),
        cmocka_unit_test(pauses_and_probes),
        cmocka_unit_test(a_storm_is_no_rate),
        cmocka_unit_test(what_pauses_say_twice_is_a_rate),
        cmocka_unit_test(pauses_as_long_as_asked),
        cmocka_unit_test(is_forgotten),
        cmocka_unit_test(gives_back),
        cmocka_unit_test(is_lent),
        cmocka_unit_test(chance_is_no_rate),
        cmocka_unit_test(no_chance_in_company),
        cmocka_unit_test(a_trial_that_came_back_proves_nothing),
        cmocka_unit_test(counts_recipients),
        cmocka_unit_test(is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
