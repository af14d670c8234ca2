/* Replies put together by their shapes: what is one, in which order, and what goes for want of room. */
#include "engine/tally/reply_shapes.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

static void add(struct reply_shapes *s, const char *line, int64_t when)
{
    const struct reply_verdict verdict = {.class = REPLY_POLICY, .why = "its code"};
    struct reply reply;
    reply_read(slice_of(line), &reply);
    assert_int_equal(reply_shapes_add(s, &reply, &verdict, when, slice_of(line)), 0);
}

static void what_differs_in_numbers_is_one(void **state)
{
    struct reply_shapes *s = reply_shapes_new(100);
    size_t count;
    uint64_t replies;
    (void)state;
    assert_non_null(s);
    add(s, "550 kwyjibo 17 <a@example.com>", 30);
    add(s,
        "host mx.x[192.0.2.1] said: 550 kwyjibo 18 <b@example.com> (in reply to RCPT TO command)",
        20);
    add(s, "554 kwyjibo 17 <a@example.com>", 0);
    add(s, "550 5.7.1 kwyjibo 17 <a@example.com>", 0);
    add(s, "550 xyzzy", 10);
    add(s, "550 xyzzy", 40);
    add(s, "550 xyzzy", 0);
    const struct reply_shape *list = reply_shapes_list(s, &count);
    assert_int_equal(count, 4);
    assert_int_equal(list[0].count, 3);
    assert_int_equal(list[0].last, 40);
    assert_string_equal(list[0].example, "550 xyzzy");
    assert_int_equal(list[1].count, 2);
    assert_int_equal(list[1].last, 30);
    assert_string_equal(list[1].example, "550 kwyjibo 17 <a@example.com>");
    assert_int_equal(list[1].class, REPLY_POLICY);
    assert_int_equal(list[2].count + list[3].count, 2);
    assert_int_equal(reply_shapes_dropped(s, &replies), 0);
    assert_int_equal(replies, 0);
    add(s, "550 xyzzy", 50); /* after the list, too */
    list = reply_shapes_list(s, &count);
    assert_int_equal(list[0].count, 4);
    reply_shapes_free(s);
}

/* A word of letters only, so that it is no number: "aa", "ab", ... */
static void add_rare(struct reply_shapes *s, unsigned n, int64_t when)
{
    char line[64];
    (void)snprintf(line, sizeof(line), "550 rare %c%c%c", 'a' + (char)(n / 676),
                   'a' + (char)(n / 26 % 26), 'a' + (char)(n % 26));
    add(s, line, when);
}

static void the_rarer_half_goes(void **state)
{
    struct reply_shapes *s = reply_shapes_new(10);
    size_t count;
    uint64_t replies, dropped, seen = 0;
    (void)state;
    assert_non_null(s);
    for (unsigned n = 0; n < 1000; n++) {
        add_rare(s, n, n);
        add(s, "550 frequent", n);
        add(s, "451 frequent", 0);
    }
    const struct reply_shape *list = reply_shapes_list(s, &count);
    dropped = reply_shapes_dropped(s, &replies);
    assert_in_range(count, 5, 10);
    assert_int_equal(list[0].count, 1000);
    assert_int_equal(list[1].count, 1000);
    assert_string_equal(list[2].example, "550 rare bml"); /* the 1000th, the youngest */
    for (size_t i = 0; i < count; i++) {
        seen += list[i].count;
    }
    assert_int_equal(seen + replies, 3000);
    assert_int_equal(dropped + count, 1002);
    reply_shapes_free(s);
    reply_shapes_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_differs_in_numbers_is_one),
        cmocka_unit_test(the_rarer_half_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
