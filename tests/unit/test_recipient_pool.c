/* The vectors RP: how many recipients are in memory, and whose the free slots are. */
#include "sched/recipient_pool.h"
#include "sched/transport.h"
#include "tests/unit/sched_bed.h"

#include <limits.h>
#include <stdio.h>

static void open_pool(struct bed *b)
{
    bed_init(b);
    b->config.message_recipient_minimum = 2;
    b->config.message_recipient_limit = 8;
    b->config.recipient_limit = 6;
    b->config.extra_recipient_limit = 4;
    b->config.recipient_refill_limit = 3;
    b->config.recipient_refill_delay = 5 * USEC_PER_SEC;
    b->config.delivery_slot_cost = 0;
    bed_open(b);
}

struct figures {
    int count, limit; /* of the job; the message's limit is the minimum more */
    uint32_t unread;
    bool has_more;
    int pool;
};

static void expect(struct bed *b, char letter, struct figures f)
{
    const struct job *j = job_find(b->sched, (uint64_t)letter);
    assert_non_null(j);
    assert_int_equal(j->rcpt_count, f.count);
    assert_int_equal(j->rcpt_limit, f.limit);
    assert_int_equal(j->rcpt_unread, f.unread);
    assert_int_equal(j->has_more, f.has_more);
    struct sched_counters c;
    sched_view_counters(b->sched, &c);
    assert_int_equal(c.pool_unused, f.pool);
}

static void complete_one(struct bed *b)
{
    assert_string_not_equal(bed_select(b), "none");
    bed_report(b, b->delivered, BED_OK);
}

/* RP-1 */
static void first_reads(void **state)
{
    static struct bed b;
    open_pool(&b);
    bed_spread(&b, 'A', 12);
    expect(&b, 'A', (struct figures){8, 6, 4, true, 0});
    bed_spread(&b, 'B', 3);
    expect(&b, 'B', (struct figures){2, 0, 1, true, 0});
    bed_close(&b);
}

/* RP-2 */
static void refill(void **state)
{
    static struct bed b;
    open_pool(&b);
    bed_spread(&b, 'A', 12);
    for (int count = 7; count >= 5; count--) {
        complete_one(&b);
        expect(&b, 'A', (struct figures){count, 6, 4, true, 0});
    }
    complete_one(&b);
    expect(&b, 'A', (struct figures){7, 6, 1, true, 0});
    complete_one(&b);
    complete_one(&b);
    expect(&b, 'A', (struct figures){5, 6, 1, true, 0});
    complete_one(&b);
    expect(&b, 'A', (struct figures){5, 5, 0, false, 1});
    bed_close(&b);
}

/* RP-3 */
static void nothing_left_to_read(void **state)
{
    static struct bed b;
    open_pool(&b);
    bed_spread(&b, 'A', 8);
    expect(&b, 'A', (struct figures){8, 6, 0, true, 0});
    assert_ptr_equal(b.sched->next_unread, job_find(b.sched, 'A'));
    complete_one(&b);
    bed_advance(&b, 5);
    assert_string_not_equal(bed_select(&b), "none");
    expect(&b, 'A', (struct figures){7, 6, 0, false, 0});
    bed_close(&b);
}

/* RP-4 */
static void slots_move_on(void **state)
{
    static struct bed b;
    open_pool(&b);
    bed_spread(&b, 'A', 3);
    expect(&b, 'A', (struct figures){3, 3, 0, false, 3});
    bed_spread(&b, 'B', 4);
    expect(&b, 'B', (struct figures){4, 3, 0, false, 0});
    complete_one(&b);
    expect(&b, 'A', (struct figures){2, 2, 0, false, 1});
    bed_close(&b);
}

/* Both limits as large as options may be; A has the pool, and B may preempt it. */
static void open_largest(struct bed *b)
{
    bed_init(b);
    b->config.message_recipient_minimum = 2;
    b->config.message_recipient_limit = 8;
    b->config.recipient_limit = INT_MAX;
    b->config.extra_recipient_limit = INT_MAX;
    b->config.recipient_refill_limit = 3;
    b->config.delivery_slot_cost = 2;
    b->config.delivery_slot_loan = 3;
    b->config.minimum_delivery_slots = 0;
    bed_open(b);
    bed_spread(b, 'A', 8);
    bed_spread(b, 'B', 3);
}

/* A job's share stays a number. */
static void the_largest_limits(void **state)
{
    static struct bed b;
    open_largest(&b);
    expect(&b, 'B', (struct figures){2, 0, 1, true, 0});
    assert_string_equal(bed_select(&b), "A a00000 u@a00000");
    assert_string_equal(bed_select(&b), "B b00000 u@b00000");
    assert_int_equal(job_find(b.sched, 'B')->rcpt_limit, 3); /* all that it has */
    bed_close(&b);
}

/* More than all of a pool as large as it may be is out, and it becomes small. */
static void a_pool_that_shrinks(void **state)
{
    static struct bed b;
    open_largest(&b);
    struct sched_action a;
    assert_true(sched_pull(b.sched, &a, 0) && a.kind == SCHED_READ); /* A's, which has it all */
    assert_true(sched_pull(b.sched, &a, 0) && a.kind == SCHED_DELIVER);
    const struct sched_outcome o = {.entry = a.entry, .feedback = SCHED_POSITIVE};
    assert_true(sched_pull(b.sched, &a, 0) && a.kind == SCHED_READ && a.message_id == 'B');
    b.config.recipient_limit = 1;
    assert_int_equal(sched_reconfigure(b.sched, &b.config, 0), 0);
    struct sched_fault fault;
    assert_int_equal(sched_check(b.sched, &fault), 0);
    struct sched_counters c;
    sched_view_counters(b.sched, &c);
    assert_true(c.pool_unused < -(int64_t)INT_MAX);
    sched_report(b.sched, &o, 0);
    bed_close(&b);
}

/* RP-5 */
static void preemption_takes_extra_slots(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.message_recipient_minimum = 2;
    b.config.message_recipient_limit = 8;
    b.config.recipient_limit = 6;
    b.config.extra_recipient_limit = 4;
    b.config.recipient_refill_limit = 3;
    b.config.delivery_slot_cost = 2;
    b.config.delivery_slot_loan = 3;
    b.config.minimum_delivery_slots = 0;
    bed_open(&b);
    bed_spread(&b, 'A', 8);
    bed_spread(&b, 'B', 3);
    expect(&b, 'B', (struct figures){2, 0, 1, true, 0});
    assert_string_equal(bed_select(&b), "A a00000 u@a00000");
    assert_string_equal(bed_select(&b), "B b00000 u@b00000");
    assert_int_equal(job_find(b.sched, 'A')->slots_available, -5);
    assert_int_equal(job_find(b.sched, 'B')->rcpt_limit, 2);
    assert_int_equal(b.sched->rcpt_unused, -2);
    bed_close(&b);
}

/* The shell takes its time to read; meanwhile others are selected, and the job is not forgotten. */
static void slow_reads(void **state)
{
    static struct bed b;
    open_pool(&b);
    bed_spread(&b, 'B', 1);
    struct sched_recipient r[2] = {{SLICE("a@aa"), SLICE("aa"), 0, 0},
                                   {SLICE("c@cc"), SLICE("cc"), 1, 0}};
    struct sched_message m = {
        .id = 7, .recipients = r, .recipient_count = 1, .unread_count = 1, .more = true};
    struct sched_action a;
    assert_int_equal(sched_submit(b.sched, &m, 0), 0);
    assert_string_equal(bed_select(&b), "B b00000 u@b00000");
    assert_true(sched_pull(b.sched, &a, 0));
    assert_int_equal(a.kind, SCHED_READ);
    assert_int_equal(a.wanted, 6); /* minimum 2, 5 of the pool, less 1 */
    /* Not answered: what is in memory goes out. */
    assert_true(sched_pull(b.sched, &a, 0));
    assert_int_equal(a.kind, SCHED_DELIVER);
    struct sched_outcome o = {.entry = a.entry, .feedback = SCHED_POSITIVE};
    assert_false(sched_pull(b.sched, &a, 0));
    sched_report(b.sched, &o, 0);
    assert_false(sched_pull(b.sched, &a, 0));
    struct sched_fault fault;
    assert_int_equal(sched_check(b.sched, &fault), 0);
    m = (struct sched_message){.id = 7, .recipients = r + 1, .recipient_count = 1};
    assert_int_equal(sched_submit_more(b.sched, &m, 0), 0);
    assert_true(sched_pull(b.sched, &a, 0));
    assert_int_equal(a.kind, SCHED_DELIVER);
    assert_int_equal(a.message_id, 7);
    o.entry = a.entry;
    sched_report(b.sched, &o, 0);
    assert_true(sched_pull(b.sched, &a, 0));
    assert_int_equal(a.kind, SCHED_FINISHED);
    bed_close(&b);
}

/* RP-6: 12,000 recipients of one destination. */
static void batches(void **state)
{
    static struct bed b;
    bed_init(&b);
    bed_open(&b);
    enum { ALL = 12000 };
    static char addresses[ALL * 12];
    size_t len = 0;
    for (int i = 0; i < ALL; i++) {
        len += (size_t)snprintf(addresses + len, sizeof(addresses) - len, "u%05d@dd ", i);
    }
    bed_message(&b, 'A', addresses);
    const struct job *j = job_find(b.sched, 'A');
    assert_int_equal(j->read_entries, 100);
    expect(&b, 'A', (struct figures){5000, 20000, 7000, true, 0});
    assert_string_not_equal(bed_select(&b), "none");
    expect(&b, 'A', (struct figures){10000, 20000, 2000, true, 0});
    assert_string_not_equal(bed_select(&b), "none");
    expect(&b, 'A', (struct figures){12000, 12000, 0, false, 8000});
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_reads),
        cmocka_unit_test(refill),
        cmocka_unit_test(nothing_left_to_read),
        cmocka_unit_test(slots_move_on),
        cmocka_unit_test(the_largest_limits),
        cmocka_unit_test(preemption_takes_extra_slots),
        cmocka_unit_test(a_pool_that_shrinks),
        cmocka_unit_test(slow_reads),
        cmocka_unit_test(batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
