#include "base/error.h"
#include "engine/heard/return_token.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

#define DAY RETURN_KEY_DAY

static const struct return_keys none;

/* A ring that rotated each month, `months` times. */
static void rotate_for(int months, struct return_keys *ret)
{
    struct return_keys next;
    *ret = none;
    for (int i = 0; i < months; i++) {
        assert_true(return_keys_is_due(ret, i * 30 * DAY));
        assert_int_equal(return_keys_rotate(ret, i * 30 * DAY, false, &next), 0);
        assert_false(return_keys_is_due(&next, i * 30 * DAY));
        *ret = next;
    }
}

static void kept_for_180_days_after_their_use(void **state)
{
    struct return_keys ring, next;
    rotate_for(2, &ring); /* number 0 went out of use at day 30 */
    assert_int_equal(ring.count, 2);
    assert_non_null(return_keys_find(&ring, 0, 210 * DAY - 1));
    assert_null(return_keys_find(&ring, 0, 210 * DAY));
    assert_non_null(return_keys_find(&ring, 1, 1000 * DAY)); /* in use */
    assert_int_equal(return_keys_rotate(&ring, 210 * DAY, false, &next), 0);
    assert_int_equal(next.count, 3);
    assert_null(return_keys_find(&next, 0, 210 * DAY));
    assert_non_null(return_keys_find(&next, 1, 210 * DAY));
    assert_int_equal(next.keys[2].number, 2);
    rotate_for(100, &ring);
    assert_int_equal(ring.count, RETURN_KEYS_SPARE);
}

/* One look by a clock that is 400 days ahead: all keys are as good as before when it is right again. */
static void a_clock_that_is_ahead_for_a_while(void **state)
{
    struct return_keys ring, ahead, next;
    int64_t now = 7 * 30 * DAY - 1;
    rotate_for(7, &ring);
    assert_int_equal(return_keys_rotate(&ring, now + 400 * DAY, false, &ahead), 0);
    assert_int_equal(ahead.count, 8);
    assert_false(return_keys_is_due(&ahead, now + 400 * DAY));
    assert_true(return_keys_is_due(&ahead, now));
    assert_int_equal(return_keys_rotate(&ahead, now, false, &next), 0);
    assert_false(return_keys_is_due(&next, now));
    assert_int_equal(next.count, 8);
    for (uint8_t number = 1; number <= 7; number++) {
        assert_non_null(return_keys_find(&next, number, now));
    }
    assert_int_equal(return_keys_for(&next, now)->number, 7);
    assert_true(return_keys_is_due(&next, now + 30 * DAY)); /* and it goes on from there */
    (void)state;
}

static void numbers_begin_anew_behind_255(void **state)
{
    struct return_keys ring;
    rotate_for(258, &ring);
    assert_int_equal(ring.keys[ring.count - 1].number, 1);
    assert_int_equal(ring.keys[ring.count - 3].number, 255);
}

/* Retries of a message go on with the key of its first attempt. */
static void the_key_of_a_message_stays_its_own(void **state)
{
    struct return_keys ring;
    rotate_for(3, &ring);
    assert_int_equal(return_keys_for(&ring, 30 * DAY - 1)->number, 0);
    assert_int_equal(return_keys_for(&ring, 30 * DAY)->number, 1);
    assert_int_equal(return_keys_for(&ring, 500 * DAY)->number, 2);
    assert_int_equal(return_keys_for(&ring, -5)->number, 0);
    assert_null(return_keys_for(&none, 0));
}

/* Somebody who rotates again and again, by a clock that goes back, has a ring that is in order, and no key
 * goes before its time: then there are no more, but for those that the clock makes. */
static void asked_for_again_and_again(void **state)
{
    struct return_keys ring = none, next;
    for (int i = 0; i < RETURN_KEYS_ASKED_MAX; i++) {
        assert_int_equal(return_keys_rotate(&ring, 1000 - i, true, &next), 0);
        ring = next;
        assert_int_equal(ring.count, i + 1);
        assert_true(i == 0 || ring.keys[i - 1].begin <= ring.keys[i].begin);
    }
    assert_int_equal(return_keys_rotate(&ring, 900, true, &next), ERR_LIMIT);
    for (int month = 1; month <= 6; month++) {
        assert_int_equal(return_keys_rotate(&ring, 1000 + month * 30 * DAY, false, &next), 0);
        ring = next;
        assert_int_equal(return_keys_rotate(&ring, 1001 + month * 30 * DAY, true, &next),
                         ring.count < RETURN_KEYS_ASKED_MAX ? 0 : ERR_LIMIT);
        assert_non_null(
            return_keys_find(&ring, RETURN_KEYS_ASKED_MAX - 1, 1000 + month * 30 * DAY));
    }
    assert_int_equal(ring.count, RETURN_KEYS_SPARE);
}

static void written_and_read(void **state)
{
    struct return_keys ring, again;
    struct buf text;
    rotate_for(5, &ring);
    buf_init(&text, 0);
    return_keys_format(&ring, &text);
    assert_false(text.failed);
    assert_int_equal(return_keys_parse(buf_slice(&text), &again), 0);
    assert_int_equal(again.count, ring.count);
    for (size_t i = 0; i < ring.count; i++) {
        assert_int_equal(again.keys[i].number, ring.keys[i].number);
        assert_int_equal(again.keys[i].begin, ring.keys[i].begin);
        assert_memory_equal(again.keys[i].secret, ring.keys[i].secret, RETURN_KEY_BYTES);
    }
    /* A file that was cut off, whatever the place, is no ring; one of fewer lines is. */
    for (size_t len = 1; len < text.len; len++) {
        int err = return_keys_parse(slice_to(buf_slice(&text), len), &again);
        assert_int_equal(err, text.data[len - 1] == '\n' ? 0 : ERR_SYNTAX);
    }
    buf_fini(&text);
}

static void what_is_no_ring(void **state)
{
    static const char secret[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    static const char *const wrong[] = {
        "256 1 %s\n", "-1 1 %s\n",        "1 x %s\n",         "1 %s\n", "1 1 %sz\n",
        "1 1 %s",     "1 5 %s\n1 6 %s\n", "1 5 %s\n2 4 %s\n", "\n",     "1  2 %s\n"};
    struct return_keys ring;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char text[300];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(text, sizeof(text), wrong[i], secret, secret);
#pragma GCC diagnostic pop
        assert_int_equal(return_keys_parse(slice_of(text), &ring), ERR_SYNTAX);
    }
    assert_int_equal(return_keys_parse(SLICE(""), &ring), 0);
    assert_int_equal(ring.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_for_180_days_after_their_use),
        cmocka_unit_test(a_clock_that_is_ahead_for_a_while),
        cmocka_unit_test(numbers_begin_anew_behind_255),
        cmocka_unit_test(the_key_of_a_message_stays_its_own),
        cmocka_unit_test(asked_for_again_and_again),
        cmocka_unit_test(written_and_read),
        cmocka_unit_test(what_is_no_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
