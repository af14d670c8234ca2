/* Turns by destination: the order, and another scheduler by reload. That Postfix's oqmgr does the same is
 * shown by tests/integration/test_postfix_order.py. */
#include "sched/transport.h"
#include "tests/unit/sched_bed.h"

static void open_rounds(struct bed *b)
{
    bed_init(b);
    b->config.scheduler = SCHED_BY_TURNS;
    b->config.destination_recipient_limit = 2;
    bed_open(b);
}

static void change(struct bed *b, enum sched_scheduler scheduler)
{
    struct sched_fault fault;
    b->config.scheduler = scheduler;
    assert_int_equal(sched_reconfigure(b->sched, &b->config, b->now), 0);
    assert_int_equal(sched_check(b->sched, &fault), 0);
}

/* What is new, and what was served, goes behind all others. */
static void destinations_in_turn(void **state)
{
    static struct bed b;
    open_rounds(&b);
    bed_message(&b, 'A', "a1@aa a2@aa a3@aa a4@aa b1@bb c1@cc c2@cc c3@cc");
    assert_string_equal(bed_select(&b), "A aa a1@aa,a2@aa");
    bed_message(&b, 'B', "b1@dd b2@dd b3@dd b4@bb");
    assert_string_equal(bed_select(&b), "A bb b1@bb");
    assert_string_equal(bed_select(&b), "A cc c1@cc,c2@cc");
    assert_string_equal(bed_select(&b), "A aa a3@aa,a4@aa");
    assert_string_equal(bed_select(&b), "B dd b1@dd,b2@dd");
    assert_string_equal(bed_select(&b), "B bb b4@bb");
    assert_string_equal(bed_select(&b), "A cc c3@cc");
    assert_string_equal(bed_select(&b), "B dd b3@dd");
    assert_string_equal(bed_select(&b), "none");
    bed_close(&b);
}

/* A small message waits behind all of a large one for the same destination. */
static void first_in_first_out_at_each(void **state)
{
    static struct bed b;
    open_rounds(&b);
    bed_message(&b, 'A', BED_TEN " n0@aa n1@aa n2@aa n3@aa n4@aa n5@aa");
    bed_message(&b, 'B', "b@aa");
    bed_message(&b, 'C', "c@bb");
    assert_string_equal(bed_order(&b, 10), "A C A x7 B");
    bed_close(&b);
}

/* A destination that could not go keeps its place: it goes as soon as it may. */
static void windows_are_kept(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.scheduler = SCHED_BY_TURNS;
    b.config.destination_concurrency_limit = 1;
    bed_open(&b);
    bed_message(&b, 'A', "a@aa");
    bed_message(&b, 'B', "b@aa");
    bed_message(&b, 'C', "c@bb");
    bed_message(&b, 'D', "d@bb");
    assert_string_equal(bed_select(&b), "A aa a@aa");
    assert_string_equal(bed_select(&b), "C bb c@bb");
    assert_string_equal(bed_select(&b), "none");
    bed_report(&b, 2, BED_OK);
    bed_report(&b, 1, BED_OK);
    assert_string_equal(bed_select(&b), "B aa b@aa");
    assert_string_equal(bed_select(&b), "D bb d@bb");
    bed_close(&b);
}

/* What waits is in the order of the other scheduler at once, in both directions. */
static void another_one_by_reload(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.destination_concurrency_limit = 1;
    bed_open(&b);
    bed_message(&b, 'A', "a1@aa");
    bed_message(&b, 'B', "b1@aa b2@bb b3@cc");
    bed_message(&b, 'C', "c1@aa c2@bb c3@cc");
    assert_string_equal(bed_select(&b), "A aa a1@aa");
    assert_string_equal(bed_select(&b), "B bb b2@bb");
    change(&b, SCHED_BY_TURNS);
    bed_report(&b, 1, BED_OK);
    bed_message(&b, 'D', "d@dd");
    assert_string_equal(bed_select(&b), "B aa b1@aa");
    assert_string_equal(bed_select(&b), "B cc b3@cc");
    assert_string_equal(bed_select(&b), "D dd d@dd");
    assert_string_equal(bed_select(&b), "none");
    bed_message(&b, 'E', "e@ee");
    bed_report(&b, 4, BED_OK);
    bed_report(&b, 2, BED_OK);
    change(&b, SCHED_BY_ARRIVAL);
    assert_string_equal(bed_select(&b), "C bb c2@bb");
    assert_string_equal(bed_select(&b), "C cc c3@cc");
    assert_string_equal(bed_select(&b), "E ee e@ee");
    bed_close(&b);
}

/* Fifo: nothing slips past a large message, where preemption would let it. */
static void fifo_does_not_preempt(void **state)
{
    static struct bed b;
    for (int i = 0; i < 2; i++) {
        bed_init(&b);
        b.config.scheduler = i == 0 ? SCHED_BY_PREEMPTION : SCHED_BY_ARRIVAL;
        bed_open(&b);
        bed_spread(&b, 'A', 20);
        bed_message(&b, 'B', "b@bb");
        assert_string_equal(bed_order(&b, 21), i == 0 ? "A B A x19" : "A x20 B");
        bed_close(&b);
    }
}

/* The rest of a message is read when what was read is done. */
static void reads_on_when_done(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.scheduler = SCHED_BY_TURNS;
    b.config.destination_recipient_limit = 1;
    b.config.message_recipient_limit = 2;
    b.config.message_recipient_minimum = 2;
    bed_open(&b);
    bed_message(&b, 'A', "a1@aa a2@aa a3@aa");
    assert_string_equal(bed_select(&b), "A a1@aa a1@aa");
    assert_string_equal(bed_select(&b), "A a2@aa a2@aa");
    bed_report(&b, 1, BED_OK);
    assert_string_equal(bed_select(&b), "none");
    bed_report(&b, 2, BED_OK);
    assert_string_equal(bed_select(&b), "A a3@aa a3@aa");
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(destinations_in_turn),  cmocka_unit_test(first_in_first_out_at_each),
        cmocka_unit_test(windows_are_kept),      cmocka_unit_test(another_one_by_reload),
        cmocka_unit_test(fifo_does_not_preempt), cmocka_unit_test(reads_on_when_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
