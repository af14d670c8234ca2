/* Configured rates in simulated time. */
#include "sched/limit/rate.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

#define MINUTE (60 * USEC_PER_SEC)
#define DAY    (1440 * MINUTE)
#define START  (1000 * USEC_PER_SEC)

static struct rate make(uint32_t count, usec_t span, uint32_t burst)
{
    struct rate r;
    struct rate_rule rule = {count, burst, span};
    rate_init(&r, &rule, START);
    return r;
}

/* Always something to send, and asked at the due times, `late` after them. */
static unsigned send_until(struct rate *r, usec_t *now, usec_t end, usec_t late)
{
    unsigned sent = 0;
    while (*now < end) {
        usec_t due = rate_due(r);
        if (due > *now) {
            *now = due + late;
            continue;
        }
        rate_take(r, 1, *now);
        sent++;
    }
    return sent;
}

static void is_exact(void **state)
{
    static const struct {
        uint32_t count;
        usec_t span;
        unsigned a_minute;
    } cases[] = {{2, USEC_PER_SEC, 120},       {7, USEC_PER_SEC, 420}, {100, USEC_PER_SEC, 6000},
                 {2000, USEC_PER_SEC, 120000}, {600, MINUTE, 600},     {5000, 60 * MINUTE, 83},
                 {3, USEC_PER_SEC, 180},       {86399, DAY, 60}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (usec_t late = 0; late <= 4000; late += 2000) {
            struct rate r = make(cases[i].count, cases[i].span, 0);
            usec_t now = START;
            (void)send_until(&r, &now, START + USEC_PER_SEC, late);
            /* over any minute to 1 % or one */
            for (int minute = 1; minute < 10; minute++) {
                unsigned sent = send_until(&r, &now, START + USEC_PER_SEC + minute * MINUTE, late);
                unsigned slack = cases[i].a_minute / 100 > 1 ? cases[i].a_minute / 100 : 1;
                assert_in_range(sent, cases[i].a_minute - slack, cases[i].a_minute + slack);
            }
        }
    }
}

/* Nothing is rounded: ten days of an odd rate. */
static void does_not_drift(void **state)
{
    struct rate r = make(86399, DAY, 0);
    usec_t now = START;
    (void)state;
    assert_in_range(send_until(&r, &now, START + 10 * DAY, 0), 863990, 863992);
}

static void is_even(void **state)
{
    struct rate r = make(20, USEC_PER_SEC, 0);
    usec_t now = START, last = 0;
    (void)state;
    for (int i = 0; i < 100; i++) {
        now = rate_due(&r) > now ? rate_due(&r) : now;
        rate_take(&r, 1, now);
        if (i > 2) { /* the burst of 2 */
            assert_int_equal(now - last, 50000);
        }
        last = now;
    }
}

static unsigned at_once(struct rate *r, usec_t now)
{
    unsigned sent = 0;
    while (rate_due(r) <= now) {
        rate_take(r, 1, now);
        sent++;
    }
    return sent;
}

static void bursts(void **state)
{
    static const struct {
        uint32_t count;
        usec_t span;
        uint32_t burst;
        unsigned expected;
    } cases[] = {{2, USEC_PER_SEC, 0, 1},  {100, USEC_PER_SEC, 0, 10},  {19, USEC_PER_SEC, 0, 1},
                 {20, USEC_PER_SEC, 0, 2}, {600, MINUTE, 10, 10},       {5000, 60 * MINUTE, 0, 1},
                 {10, USEC_PER_SEC, 1, 1}, {2000, USEC_PER_SEC, 0, 200}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rate r = make(cases[i].count, cases[i].span, cases[i].burst);
        assert_int_equal(at_once(&r, START), cases[i].expected);
        /* an idle day saves no more than the burst */
        assert_int_equal(at_once(&r, START + DAY), cases[i].expected);
    }
}

static void gives_back(void **state)
{
    struct rate r = make(7, USEC_PER_SEC, 0);
    usec_t now = START;
    (void)state;
    (void)send_until(&r, &now, START + USEC_PER_SEC, 0);
    for (uint32_t amount = 1; amount < 50; amount++) {
        struct rate before = r;
        rate_take(&r, amount, now);
        assert_true(rate_due(&r) > rate_due(&before));
        rate_give_back(&r, amount);
        assert_true(rate_due(&r) == rate_due(&before));
        assert_int_equal(r.part, before.part);
    }
    /* each second delivery comes back: still 7 a second go for good */
    unsigned good = 0, taken = 0;
    usec_t end = now + MINUTE;
    while (now < end) {
        now = rate_due(&r) > now ? rate_due(&r) : now;
        rate_take(&r, 1, now);
        if (++taken % 2 == 0) {
            rate_give_back(&r, 1);
        } else {
            good++;
        }
    }
    assert_in_range(good, 419, 422);
}

/* A message of many recipients is paid for afterwards. */
static void takes_many(void **state)
{
    struct rate r = make(100, USEC_PER_SEC, 1);
    (void)state;
    assert_true(rate_due(&r) <= START);
    rate_take(&r, 50, START);
    assert_in_range(rate_due(&r), START + 498000, START + 500000);
}

static void set_waits_for_the_latest(void **state)
{
    struct rate lane = make(10, USEC_PER_SEC, 0), site = make(1000, USEC_PER_SEC, 0);
    struct rate none = make(0, 0, 0), tenant = make(5, USEC_PER_SEC, 0);
    const struct rate_need set[] = {{&lane, 1}, {&site, 3}, {&none, 1}, {&tenant, 1}};
    usec_t now = START;
    unsigned sent = 0;
    (void)state;
    while (now < START + MINUTE) {
        usec_t due = rate_set_due(set, 4);
        if (due > now) {
            now = due;
            continue;
        }
        rate_set_take(set, 4, now);
        sent++;
    }
    assert_in_range(sent, 299, 301);
    struct rate before = tenant;
    rate_set_take(set, 4, now);
    assert_true(rate_due(&tenant) > rate_due(&before));
    rate_set_give_back(set, 4);
    assert_true(rate_due(&tenant) == rate_due(&before));
    assert_true(rate_set_due(set, 0) == 0);
}

static void changes_without_burst_or_stall(void **state)
{
    const struct rate_rule fast = {100, 0, USEC_PER_SEC}, slow = {1, 0, DAY}, none = {0};
    (void)state;
    struct rate r = make(1, DAY, 0);
    rate_take(&r, 1, START);
    rate_change(&r, &fast, START);
    assert_in_range(rate_due(&r), START + 9000, START + 10001);
    assert_int_equal(at_once(&r, START + 10001), 1);
    /* the burst of 10 is gone, and the slow rule's one with it: a day, not ten */
    r = make(100, USEC_PER_SEC, 0);
    assert_int_equal(at_once(&r, START), 10);
    rate_change(&r, &slow, START);
    assert_in_range(rate_due(&r), START + DAY - USEC_PER_SEC, START + DAY);
    /* what was taken beyond the burst is no reason for a year's stall */
    r = make(100, USEC_PER_SEC, 0);
    rate_take(&r, 1000, START);
    rate_change(&r, &slow, START);
    assert_in_range(rate_due(&r), START + DAY - USEC_PER_SEC, START + DAY + 10 * USEC_PER_SEC);
    /* an idle one stays full, none is none */
    r = make(1, DAY, 0);
    rate_change(&r, &fast, START + 1);
    assert_int_equal(at_once(&r, START + 1), 10);
    rate_change(&r, &none, START + 2);
    assert_true(rate_due(&r) == 0);
    rate_change(&r, &fast, START + 3);
    assert_int_equal(at_once(&r, START + 3), 10);
}

/* Changed every tenth of a second between two rules for a minute: between both. */
static void changes_often(void **state)
{
    const struct rate_rule rules[] = {{20, 0, USEC_PER_SEC}, {40, 0, USEC_PER_SEC}};
    struct rate r = make(20, USEC_PER_SEC, 0);
    usec_t now = START;
    unsigned sent = 0;
    (void)state;
    for (int i = 1; i <= 600; i++) {
        sent += send_until(&r, &now, START + i * USEC_PER_SEC / 10, 0);
        rate_change(&r, &rules[i % 2], START + i * USEC_PER_SEC / 10);
        now = START + i * USEC_PER_SEC / 10;
    }
    assert_in_range(sent, 1150, 1900);
}

#define BORROWERS 5

struct borrower {
    struct loan loan;
    usec_t next;
    unsigned sent;
};

/* Each uses a loan in its own time, gives back what is left, and asks again when it was told. */
static void step(struct rate *r, struct borrower *b, unsigned who, usec_t now, unsigned slowness)
{
    if (b->loan.left > 0 && now < b->loan.from) {
        b->next = b->loan.from;
        return;
    }
    if (b->loan.left > 0 && now < b->loan.until) {
        loan_use(&b->loan);
        b->sent++;
        b->next = now + (usec_t)(slowness * 1000);
        return;
    }
    rate_repay(r, &b->loan);
    usec_t again = rate_lend(r, who, 100, now, &b->loan);
    b->next = again > 0 ? again : now;
}

static unsigned share(uint32_t count, const unsigned slowness[BORROWERS],
                      struct borrower all[BORROWERS])
{
    struct rate r = make(count, USEC_PER_SEC, 0);
    unsigned sum = 0;
    for (unsigned i = 0; i < BORROWERS; i++) {
        all[i] = (struct borrower){.next = START};
    }
    for (;;) {
        unsigned first = 0;
        for (unsigned i = 1; i < BORROWERS; i++) {
            first = all[i].next < all[first].next ? i : first;
        }
        if (all[first].next >= START + MINUTE) {
            break;
        }
        step(&r, &all[first], first, all[first].next, slowness[first]);
    }
    for (unsigned i = 0; i < BORROWERS; i++) {
        sum += all[i].sent;
    }
    return sum;
}

static void lends_exactly(void **state)
{
    static const uint32_t counts[] = {2, 20, 150, 2000, 20000};
    static const unsigned even[BORROWERS] = {0}, uneven[BORROWERS] = {0, 1, 3, 7, 20};
    struct borrower all[BORROWERS];
    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        unsigned due = counts[i] * 60, burst = counts[i] < 20 ? 1 : counts[i] / 10;
        unsigned sum = share(counts[i], even, all);
        assert_in_range(sum, due - due / 100 - 1, due + burst);
        for (unsigned k = 0; k < BORROWERS; k++) {
            assert_in_range(all[k].sent, due / BORROWERS * 9 / 10, due / BORROWERS * 11 / 10 + 2);
        }
        assert_in_range(share(counts[i], uneven, all), due - due / 50 - 1, due + burst);
    }
}

static void loans_are_small(void **state)
{
    struct rate r = make(2000, USEC_PER_SEC, 0);
    struct loan loan;
    (void)state;
    assert_int_equal(rate_lend(&r, 0, 1000, START, &loan), 0);
    assert_int_equal(loan.left, 20);
    assert_true(loan.until == START + 10000);
    assert_int_equal(rate_lend(&r, 0, 3, START, &loan), 0);
    assert_int_equal(loan.left, 3);
    rate_repay(&r, &loan);
    assert_int_equal(loan.left, 0);
    r = make(2, USEC_PER_SEC, 0);
    assert_int_equal(rate_lend(&r, 63, 1000, START, &loan), 0);
    assert_int_equal(loan.left, 1);
    r = make(0, 0, 0);
    assert_int_equal(rate_lend(&r, 63, 1000, START, &loan), 0);
    assert_int_equal(loan.left, 1000);
}

/* The one whose turn it is but who left or sleeps holds the others up for 10 ms at most. */
static void turns(void **state)
{
    struct rate r = make(10, USEC_PER_SEC, 0);
    struct loan loan;
    (void)state;
    assert_int_equal(rate_lend(&r, 2, 1, START, &loan), 0);
    usec_t due = rate_lend(&r, 2, 1, START, &loan);
    assert_true(due > START);
    assert_true(rate_lend(&r, 4, 1, START, &loan) == due);
    /* 4 is next; 2 is early by one turn */
    assert_true(rate_lend(&r, 2, 1, due, &loan) == due + 10000);
    assert_int_equal(rate_lend(&r, 4, 1, due, &loan), 0);
    due = rate_lend(&r, 4, 1, due, &loan);
    /* 2 sleeps */
    assert_true(rate_lend(&r, 4, 1, due, &loan) == due + 10000);
    assert_int_equal(rate_lend(&r, 4, 1, due + 10000, &loan), 0);
    usec_t after = rate_lend(&r, 4, 1, due + 10000, &loan);
    assert_true(rate_lend(&r, 2, 1, due + 10000, &loan) == after);
    rate_leave(&r, 2);
    assert_int_equal(rate_lend(&r, 4, 1, after, &loan), 0);
}

/* However it is divided, and whenever parts move, the parts together permit what the whole does. */
static void parts_are_no_more_than_the_whole(void **state)
{
    static const struct rate_rule rules[] = {
        {1, 0, USEC_PER_SEC},         {7, 3, USEC_PER_SEC},
        {40, 0, USEC_PER_SEC},        {1000, 50, 60 * USEC_PER_SEC},
        {1, 1, 86400 * USEC_PER_SEC}, {1, RATE_BURST_MAX, 86400 * USEC_PER_SEC},
        {RATE_COUNT_MAX, 0, 1000000}, {100000, 100000, 3600 * USEC_PER_SEC},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        const struct rate_rule *whole = &rules[i];
        uint32_t parts = rate_parts_most(whole);
        assert_in_range(parts, 1, RATE_PARTS_MAX);
        assert_true(parts <= rate_burst(whole));
        uint32_t first = (parts + 1) / 3 > 0 ? (parts + 1) / 3 : 1, rest = parts - first;
        struct rate_rule a = rate_part_of(whole, parts, first);
        double sum = (double)a.count / (double)a.span;
        uint64_t burst = rate_burst(&a);
        if (rest > 0) {
            struct rate_rule b = rate_part_of(whole, parts, rest);
            sum += (double)b.count / (double)b.span;
            burst += rate_burst(&b);
        }
        double all = (double)whole->count / (double)whole->span;
        assert_true(sum <= all * (1 + 1e-12) && burst <= rate_burst(whole));
        assert_true(sum >= all * 0.999);
        struct rate r; /* the longest times hold */
        struct rate_rule least = rate_part_of(whole, parts, 1);
        rate_init(&r, &least, 0);
        rate_take(&r, RATE_AMOUNT_MAX, 0);
        assert_true(r.used_until > 0 && r.used_until < USEC_NEVER);
    }
}

static void tokens_go_from_one_to_another(void **state)
{
    const struct rate_rule rule = {10, 5, USEC_PER_SEC};
    struct rate a, b;
    (void)state;
    rate_init(&a, &rule, 0);
    rate_init(&b, &rule, 0);
    assert_int_equal(rate_tokens(&a, 0), 5000);
    rate_take(&a, 2, 0);
    assert_int_equal(rate_tokens(&a, 0), 3000);
    rate_take(&b, 8, 0); /* a message of many recipients: three are to be paid for */
    assert_int_equal(rate_tokens(&b, 0), -3000);
    rate_pour(&a, -3000, 0);
    rate_pour(&b, 3000, 0);
    assert_int_equal(rate_tokens(&a, 0), 0);
    assert_int_equal(rate_tokens(&b, 0), 0);
    rate_pour(&a, 9000, 0); /* no more than the burst */
    assert_int_equal(rate_tokens(&a, 0), 5000);
    assert_int_equal(rate_tokens(&b, 250000), 2500);
}

/* What is lent ahead of the clock would go at a rate that another machine has by then. */
static void parts_lend_nothing_ahead(void **state)
{
    const struct rate_rule rule = {1000, 1, USEC_PER_SEC};
    struct rate r;
    struct loan loan;
    (void)state;
    rate_init(&r, &rule, 0);
    r.is_part = true;
    assert_int_equal(rate_lend(&r, 1, 1000, 0, &loan), 0);
    usec_t due = rate_lend(&r, 2, 1000, 0, &loan);
    assert_true(due > 0 && due <= LOAN_SPAN);
    assert_int_equal(rate_lend(&r, 2, 1000, due, &loan), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_exact),
        cmocka_unit_test(does_not_drift),
        cmocka_unit_test(is_even),
        cmocka_unit_test(bursts),
        cmocka_unit_test(gives_back),
        cmocka_unit_test(takes_many),
        cmocka_unit_test(set_waits_for_the_latest),
        cmocka_unit_test(changes_without_burst_or_stall),
        cmocka_unit_test(changes_often),
        cmocka_unit_test(lends_exactly),
        cmocka_unit_test(loans_are_small),
        cmocka_unit_test(turns),
        cmocka_unit_test(parts_are_no_more_than_the_whole),
        cmocka_unit_test(tokens_go_from_one_to_another),
        cmocka_unit_test(parts_lend_nothing_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
