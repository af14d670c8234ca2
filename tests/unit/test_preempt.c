/* The vectors JS, and BL-3, BL-4. */
#include "sched/transport.h"
#include "tests/unit/sched_bed.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

struct order {
    const char *name;
    int cost, loan, discount, minimum;
    int sizes[5]; /* entries of A, B, C ... */
    const char *expected;
};

static const struct order orders[] = {
    {"JS-1", 2, 0, 0, 3, {10, 2, 2}, "A x4 B x2 A x4 C x2 A x2"},
    {"JS-2", 2, 0, 50, 3, {10, 2, 2}, "A x2 B x2 A x4 C x2 A x4"},
    {"JS-3", 2, 1, 0, 3, {10, 2, 2}, "A x2 B x2 A x4 C x2 A x4"},
    {"JS-4", 5, 3, 50, 3, {10, 2, 2}, "A x10 B x2 C x2"},
    {"JS-5a", 5, 3, 50, 3, {14, 1}, "A x14 B"},
    {"JS-5b", 5, 3, 50, 3, {15, 1}, "A B A x14"},
    {"JS-6", 5, 3, 50, 3, {20, 1, 1, 1}, "A B A x5 C A x5 D A x9"},
    {"JS-7", 5, 3, 50, 3, {100, 10, 1}, "A C A x14 B x10 A x85"},
    {"JS-8", 5, 3, 50, 3, {1000, 100, 10, 1}, "A D A x14 C x10 A x275 B x100 A x710"},
    {"JS-10", 10, 3, 50, 3, {40, 4, 4}, "A B x4 A x39 C x4"},
    {"JS-11", 5, 0, 0, 3, {30, 1, 2, 1}, "A x5 B A x5 D A x10 C x2 A x10"},
    {"JS-12a", 0, 3, 50, 3, {20, 1}, "A x20 B"},
    {"JS-12b", 1, 3, 50, 3, {20, 1}, "A x20 B"},
    {"JS-13", 2, 0, 0, 0, {10, 6, 5}, "A x10 B x6 C x5"},
    {"JS-14a", 2, 0, 0, 0, {4, 1, 1, 1, 1}, "A x2 B A x2 C D E"},
    {"JS-14b", 2, 1, 0, 0, {4, 1, 1, 1, 1}, "A B A x2 C A D E"},
    {"JS-15", 2, 0, 0, 0, {10, 2, 2, 1}, "A x2 D A x4 B x2 A x4 C x2"},
    {"JS-17", 2, 0, 100, 0, {10, 3, 2}, "A C x2 A x4 B x3 A x5"},
    {"JS-19a", 2, 0, 0, 0, {24, 6, 1, 1}, "A x2 C A x2 D A x12 B x6 A x8"},
    {"JS-19b", 2, 0, 0, 3, {24, 6, 2, 1}, "A x2 D A x4 C x2 A x12 B x6 A x6"},
};

static void open_with(struct bed *b, int cost, int loan, int discount, int minimum)
{
    bed_init(b);
    b->config.delivery_slot_cost = cost;
    b->config.delivery_slot_loan = loan;
    b->config.delivery_slot_discount = discount;
    b->config.minimum_delivery_slots = minimum;
    bed_open(b);
}

static void orders_of_selection(void **state)
{
    static struct bed b;
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        const struct order *o = &orders[i];
        unsigned count = 0;
        open_with(&b, o->cost, o->loan, o->discount, o->minimum);
        for (int letter = 0; letter < 5 && o->sizes[letter] > 0; letter++) {
            bed_spread(&b, (char)('A' + letter), o->sizes[letter]);
            count += (unsigned)o->sizes[letter];
        }
        if (strcmp(bed_order(&b, count), o->expected) != 0) {
            fail_msg("%s: expected %s, got %s", o->name, o->expected, b.text);
        }
        bed_close(&b);
    }
}

/* The most that options may be; the build with the undefined sanitizer looks at the sums, too. */
static void the_largest_options(void **state)
{
    static struct bed b;
    static const int loans[] = {1000, INT_MAX};
    char first[BED_TEXT];
    for (int i = 0; i < 2; i++) {
        open_with(&b, 2, loans[i], 0, 0);
        bed_spread(&b, 'A', 12);
        assert_string_equal(bed_order(&b, 4), "A x4"); /* two slots of its own beside the loan */
        bed_spread(&b, 'B', 3);
        const char *order = bed_order(&b, 11);
        if (i == 0) {
            (void)snprintf(first, sizeof(first), "%s", order);
        } else {
            assert_string_equal(order, first);
        }
        bed_close(&b);
    }
    assert_string_equal(first, "B x3 A x8");
    /* another price while a job that was paid for by the old one stands in front */
    open_with(&b, 2, 0, 0, 0);
    bed_spread(&b, 'A', 10);
    bed_spread(&b, 'B', 2);
    assert_string_equal(bed_order(&b, 5), "A x4 B");
    b.config.delivery_slot_cost = INT_MAX;
    b.config.minimum_delivery_slots = INT_MAX;
    assert_int_equal(sched_reconfigure(b.sched, &b.config, b.now), 0);
    assert_string_equal(bed_order(&b, 7), "B A x6");
    bed_close(&b);
}

/* JS-9 */
static void arrivals(void **state)
{
    static struct bed b;
    open_with(&b, 5, 3, 50, 3);
    bed_spread(&b, 'A', 50);
    assert_string_equal(bed_order(&b, 10), "A x10");
    bed_spread(&b, 'B', 2);
    assert_string_equal(bed_order(&b, 7), "B x2 A x5");
    bed_spread(&b, 'C', 2);
    assert_string_equal(bed_order(&b, 37), "C x2 A x35");
    bed_close(&b);
}

/* JS-16: age counts as much as size. */
static void ages(void **state)
{
    static struct bed b;
    open_with(&b, 2, 0, 0, 0);
    bed_spread(&b, 'A', 20);
    bed_spread(&b, 'B', 4);
    bed_advance(&b, 90);
    bed_spread(&b, 'C', 1);
    bed_advance(&b, 10);
    assert_string_equal(bed_order(&b, 25), "A x8 B x2 C B x2 A x12");
    bed_close(&b);
    open_with(&b, 2, 0, 0, 0);
    bed_spread(&b, 'A', 20);
    bed_spread(&b, 'B', 4);
    bed_advance(&b, 1);
    bed_spread(&b, 'C', 1);
    assert_string_equal(bed_order(&b, 25), "A x2 C A x8 B x4 A x10");
    bed_close(&b);
}

/* JS-18 */
static void recursion(void **state)
{
    static struct bed b;
    open_with(&b, 2, 0, 0, 0);
    bed_spread(&b, 'A', 40);
    assert_string_equal(bed_order(&b, 20), "A x20");
    bed_spread(&b, 'B', 10);
    assert_string_equal(bed_order(&b, 6), "B x6");
    bed_spread(&b, 'C', 2);
    assert_string_equal(bed_order(&b, 26), "C x2 B x4 A x20");
    bed_close(&b);
    open_with(&b, 2, 0, 0, 0);
    bed_spread(&b, 'A', 40);
    assert_string_equal(bed_order(&b, 20), "A x20");
    bed_spread(&b, 'B', 10);
    assert_string_equal(bed_order(&b, 6), "B x6");
    bed_spread(&b, 'C', 3);
    assert_string_equal(bed_order(&b, 2), "C x2");
    bed_spread(&b, 'E', 1);
    assert_string_equal(bed_order(&b, 26), "E C B x4 A x20");
    bed_close(&b);
}

static void select_each(struct bed *b, const char *const *expected)
{
    for (; *expected != NULL; expected++) {
        assert_string_equal(bed_select(b), *expected);
    }
}

/* BL-3: a blocked job on the stack, adoption. */
static void adoption(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.delivery_slot_cost = 2;
    b.config.delivery_slot_loan = 0;
    b.config.delivery_slot_discount = 100;
    b.config.minimum_delivery_slots = 0;
    b.config.destination_concurrency_limit = 1;
    b.config.destination_recipient_limit = 2;
    bed_open(&b);
    bed_message(&b, 'A',
                "a@d00 a@d01 a@d02 a@d03 a@d04 a@d05 a@d06 a@d07 a@d08 a@d09 a@d10 a@d11 a@d12 "
                "a@d13 a@d14 a@d15 a@d16 a@d17 a@d18 a@d19 a@d20 a@d21 a@d22 a@d23 a@d24 a@d25 "
                "a@d26 a@d27 a@d28 a@d29");
    bed_message(&b, 'B', "b@e00 b@e01 b@e02 b@e03 b@e04 b@e05 b@e06 b@e07");
    bed_message(&b, 'C', "c1@d00 c2@e00");
    static const char *const first[] = {
        "A d00 a@d00", "C e00 c2@e00", "A d01 a@d01", "A d02 a@d02", "A d03 a@d03", "A d04 a@d04",
        "B e01 b@e01", "B e02 b@e02",  "B e03 b@e03", "B e04 b@e04", "B e05 b@e05", "B e06 b@e06",
        "B e07 b@e07", "A d05 a@d05",  "A d06 a@d06", "A d07 a@d07", "A d08 a@d08", "A d09 a@d09",
        "A d10 a@d10", "A d11 a@d11",  NULL};
    select_each(&b, first);
    bed_report(&b, 1, BED_OK);
    static const char *const then[] = {"C d00 c1@d00", "A d12 a@d12", NULL};
    select_each(&b, then);
    bed_close(&b);
}

/* BL-4: slots that were not used come back. */
static void refund(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.delivery_slot_cost = 2;
    b.config.delivery_slot_loan = 0;
    b.config.delivery_slot_discount = 100;
    b.config.minimum_delivery_slots = 0;
    b.config.destination_concurrency_limit = 1;
    b.config.destination_recipient_limit = 2;
    bed_open(&b);
    bed_spread(&b, 'A', 12);
    bed_message(&b, 'B', "b1@dd b2@dd b3@dd b4@dd b5@dd");
    static const char *const first[] = {"A a00000 u@a00000", "B dd b1@dd,b2@dd", NULL};
    select_each(&b, first);
    bed_report(&b, 2, BED_FAIL);
    assert_string_equal(
        bed_log(&b), "defer B b3@dd b4@dd (4.4.1 delivery temporarily suspended: no answer); "
                     "defer B b5@dd (4.4.1 delivery temporarily suspended: no answer); finished B");
    /* A stands at -1 and earns a slot a selection: one more small job may pass after the second. */
    bed_message(&b, 'C', "c@cc");
    assert_string_equal(bed_order(&b, 12), "A x2 C A x9");
    bed_close(&b);
}

/* Only jobs on the stack of preemption are looked at one by one: the others would make each search
 * a step for each job. */
static void a_job_off_the_stack_has_a_size_class(void **state)
{
    static struct bed b;
    open_with(&b, 2, 0, 0, 0);
    bed_spread(&b, 'A', 10);
    bed_spread(&b, 'B', 2);
    bed_spread(&b, 'C', 2);
    assert_true(list_is_empty(&b.sched->flow.irregular));
    assert_string_equal(bed_order(&b, 5), "A x4 B"); /* B stands in front of A: both are on it */
    const struct job *on_stack[2] = {NULL, NULL};
    size_t count = 0;
    list_foreach(j, &b.sched->flow.irregular, const struct job, in_irregular)
    {
        assert_true(count < 2);
        on_stack[count++] = j;
    }
    assert_int_equal(count, 2);
    assert_int_equal(on_stack[0]->id + on_stack[1]->id, 'A' + 'B');
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_of_selection),
        cmocka_unit_test(the_largest_options),
        cmocka_unit_test(arrivals),
        cmocka_unit_test(ages),
        cmocka_unit_test(recursion),
        cmocka_unit_test(adoption),
        cmocka_unit_test(refund),
        cmocka_unit_test(a_job_off_the_stack_has_a_size_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
