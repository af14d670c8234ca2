/* The table of responses: what is the same, what is remembered, what gives way. */
#include "base/rcu.h"
#include "engine/tally/responses.h"
#include "tests/unit/unit.h"

#include <stdio.h>

static struct responses *responses;
static const usec_t start = 1000 * USEC_PER_SEC;

static int set_up(void **state)
{
    rcu_start();
    rcu_join();
    responses = responses_new(1);
    return responses == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    rcu_leave();
    rcu_drain();
    responses_free(responses);
    rcu_stop();
    return 0;
}

static void count(const char *text, const char *destination, usec_t time)
{
    const struct response_sight s = {.kind = RESULT_DEFERRED,
                                     .code = 450,
                                     .status = "4.2.0",
                                     .text = slice_of(text),
                                     .destination = slice_of(destination),
                                     .tenant = SLICE("t"),
                                     .time = time};
    responses_count(responses, &s);
}

static bool find(const char *text, struct response_view *ret)
{
    uint32_t cursor = 0;
    while (responses_next(responses, &cursor, ret)) {
        if (slice_eq(ret->text, slice_of(text))) {
            return true;
        }
    }
    return false;
}

static unsigned number(void)
{
    struct response_view v;
    uint32_t cursor = 0;
    unsigned n = 0;
    while (responses_next(responses, &cursor, &v)) {
        n++;
    }
    return n;
}

static void same_texts_count_together(void **state)
{
    struct response_view v;
    count("wait 5 s", "a.example", start);
    count("wait 60 s", "b.example", start + 7);
    count("wait 60 s", "b.example", start + 9);
    assert_int_equal(number(), 1);
    assert_true(find("wait * s", &v));
    assert_int_equal(v.count, 3);
    assert_int_equal(v.first, start);
    assert_int_equal(v.last, start + 9);
    assert_true(slice_eq(v.example, SLICE("wait 5 s")));
    assert_true(slice_eq(v.status, SLICE("4.2.0")));
    assert_int_equal(v.code, 450);
    assert_int_equal(v.kind, RESULT_DEFERRED);
    assert_int_equal(v.destination_count, 2);
    assert_true(slice_eq(v.destinations[1], SLICE("b.example")));
    assert_int_equal(v.tenant_count, 1);
}

static void codes_and_kinds_are_apart(void **state)
{
    struct response_sight s = {
        .kind = RESULT_DEFERRED, .code = 450, .status = "4.2.0", .text = SLICE("no")};
    responses_count(responses, &s);
    s.code = 451;
    responses_count(responses, &s);
    s.status = "4.3.0";
    responses_count(responses, &s);
    s.kind = RESULT_FAILED;
    responses_count(responses, &s);
    responses_count(responses, &s);
    assert_int_equal(number(), 4);
}

static void names_are_bounded(void **state)
{
    struct response_view v;
    char name[300];
    memset(name, 'd', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    for (int i = 0; i < 9; i++) {
        name[0] = (char)('0' + i);
        count("no", name, start);
    }
    assert_true(find("no", &v));
    assert_int_equal(v.destination_count, RESPONSE_NAMES);
    assert_int_equal(v.destinations[4].len, RESPONSE_NAME_MAX);
    assert_int_equal(v.destinations[4].data[0], '4');
}

/* A text of its own for each number, without digits. */
static void count_nth(unsigned n, usec_t time)
{
    char text[] = "reason aaa";
    text[7] = (char)('a' + n % 26);
    text[8] = (char)('a' + n / 26 % 26);
    text[9] = (char)('a' + n / 676);
    count(text, "x", time);
}

static void the_smallest_gives_way(void **state)
{
    struct response_view v;
    for (unsigned i = 0; i < RESPONSES_MAX; i++) {
        count_nth(i, start + i);
        if (i != 3) {
            count_nth(i, start + i);
        }
    }
    assert_int_equal(number(), RESPONSES_MAX);
    assert_true(find("reason daa", &v));
    count("new", "x", start + RESPONSES_MAX);
    assert_int_equal(number(), RESPONSES_MAX);
    assert_false(find("reason daa", &v));
    assert_true(find("new", &v));
    count("newer", "x", start + RESPONSES_MAX + 1);
    assert_false(find("new", &v));
    assert_true(find("reason aaa", &v));
}

static void what_is_old_gives_way(void **state)
{
    struct response_view v;
    for (int i = 0; i < 1000; i++) {
        count("once a flood", "x", start);
    }
    usec_t later = start + 11 * 3600LL * USEC_PER_SEC;
    for (unsigned i = 1; i < RESPONSES_MAX; i++) {
        count_nth(i, later);
    }
    assert_true(find("once a flood", &v));
    count("new", "x", later);
    assert_false(find("once a flood", &v));
    assert_int_equal(number(), RESPONSES_MAX);
}

static void many_texts_are_bounded(void **state)
{
    for (unsigned i = 0; i < 10000; i++) {
        count_nth(i, start + i);
        rcu_pass();
    }
    assert_int_equal(number(), RESPONSES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(same_texts_count_together, set_up, tear_down),
        cmocka_unit_test_setup_teardown(codes_and_kinds_are_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_are_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_smallest_gives_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_old_gives_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_texts_are_bounded, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
