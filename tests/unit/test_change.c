/* The record of windows that changed: what is in it and what is not, and that it forgets. */
#include "tests/unit/sched_bed.h"

#include <string.h>

static void expect(struct bed *b, enum sched_change_cause cause, int from, int to, const char *text)
{
    struct sched_change c;
    assert_true(sched_change_next(b->sched, &c));
    assert_int_equal(c.cause, cause);
    assert_int_equal(c.from, from);
    assert_int_equal(c.to, to);
    assert_string_equal(c.name, "d");
    assert_string_equal(c.text, text);
    assert_int_equal(c.time, b->now);
}

static void expect_none(struct bed *b)
{
    struct sched_change c;
    assert_false(sched_change_next(b->sched, &c));
}

static void life_of_a_window(void **state)
{
    (void)state;
    static struct bed b;
    bed_init(&b);
    b.config.initial_destination_concurrency = 1;
    bed_open(&b);
    bed_message(&b, 'A', "a@d");
    bed_message(&b, 'B', "b@d");
    bed_message(&b, 'C', "c@d");
    bed_message(&b, 'D', "d@d");
    expect_none(&b); /* a new one is not a change */
    assert_string_equal(bed_select(&b), "A d a@d");
    bed_report(&b, 1, BED_NEUTRAL);
    expect_none(&b);
    assert_string_equal(bed_select(&b), "B d b@d");
    bed_report(&b, 2, BED_OK);
    expect(&b, SCHED_CHANGE_POSITIVE, 1, 2, "");
    expect_none(&b);
    assert_string_equal(bed_select(&b), "C d c@d");
    assert_string_equal(bed_select(&b), "D d d@d");
    bed_report(&b, 3, BED_OK);
    expect(&b, SCHED_CHANGE_POSITIVE, 2, 3, "");
    bed_report(&b, 4, BED_OK);
    expect(&b, SCHED_CHANGE_FORGOTTEN, 3, 1, "");
    expect_none(&b);
    bed_close(&b);
}

static void death_and_revival(void **state)
{
    (void)state;
    static struct bed b;
    bed_init(&b);
    b.config.initial_destination_concurrency = 2;
    b.config.destination_concurrency_failed_cohort_limit = 1;
    bed_open(&b);
    bed_message(&b, 'A', "a@d");
    bed_message(&b, 'B', "b@d");
    assert_string_equal(bed_select(&b), "A d a@d");
    assert_string_equal(bed_select(&b), "B d b@d");
    bed_report(&b, 1, BED_FAIL);
    expect(&b, SCHED_CHANGE_NEGATIVE, 2, 1, "no answer");
    bed_report(&b, 2, BED_FAIL);
    expect(&b, SCHED_CHANGE_DEAD, 1, 0, "no answer");
    expect_none(&b);
    bed_advance(&b, 300);
    expect(&b, SCHED_CHANGE_REVIVED, 0, 2, "");
    expect_none(&b);
    bed_close(&b);
}

static void rate_delay(void **state)
{
    (void)state;
    static struct bed b;
    bed_init(&b);
    b.config.destination_rate_delay = 10 * USEC_PER_SEC;
    bed_open(&b);
    bed_message(&b, 'A', "a@d");
    bed_message(&b, 'B', "b@d");
    assert_string_equal(bed_select(&b), "A d a@d");
    bed_report(&b, 1, BED_OK);
    expect(&b, SCHED_CHANGE_LIMIT, 1, 0, "");
    bed_advance(&b, 10);
    expect(&b, SCHED_CHANGE_LIMIT, 0, 1, "");
    expect_none(&b);
    bed_close(&b);
}

static void the_oldest_are_forgotten(void **state)
{
    (void)state;
    static struct bed b;
    char name[101];
    bed_init(&b);
    b.config.destination_concurrency_limit = 0;
    b.config.initial_destination_concurrency = 1;
    bed_open(&b);
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    name[0] = 'u';
    name[1] = '@';
    unsigned number = 0;
    for (int i = 0; i < 200; i++) { /* two changes each */
        bed_message(&b, 'A', name);
        assert_string_not_equal(bed_select(&b), "none");
        bed_report(&b, ++number, BED_OK);
        assert_string_equal(bed_log(&b), "finished A");
    }
    struct sched_change c;
    int count = 0;
    while (sched_change_next(b.sched, &c)) {
        count++;
        assert_int_equal(strlen(c.name), sizeof(c.name) - 1);
    }
    assert_int_equal(count, 256);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(life_of_a_window),
        cmocka_unit_test(death_and_revival),
        cmocka_unit_test(rate_delay),
        cmocka_unit_test(the_oldest_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
