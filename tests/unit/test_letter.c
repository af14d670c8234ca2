#include "engine/post/letter.h"
#include "tests/unit/unit.h"

enum { ROOM = 16 };

static struct mailbox box;
static struct outbox out;

static int set_up(void **state)
{
    outbox_init(&out, &box);
    return mailbox_init(&box, ROOM);
}

static int tear_down(void **state)
{
    outbox_fini(&out);
    mailbox_fini(&box);
    return 0;
}

static struct letter next_letter(enum letter_kind kind)
{
    struct letter letter;
    assert_true(mailbox_take(&box, &letter));
    assert_int_equal(letter.kind, kind);
    return letter;
}

static void every_bit_of_a_connections_numbers_arrives(void **state)
{
    static const struct letter_lost lost[] = {
        {UINT16_MAX, 0, 0}, {0, UINT16_MAX, 0}, {0, 0, UINT32_MAX}, {1, 2, 3}};
    static const struct letter_close closes[] = {
        {UINT16_MAX, 0, false}, {0, UINT32_MAX, false}, {0, 0, true}, {1, 2, true}};
    for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
        letter_put_lost(&out, &lost[i]);
        const struct letter letter = next_letter(LETTER_LOST);
        const struct letter_lost taken = letter_take_lost(&letter);
        assert_int_equal(taken.transport, lost[i].transport);
        assert_int_equal(taken.worker, lost[i].worker);
        assert_int_equal(taken.connection, lost[i].connection);
    }
    for (size_t i = 0; i < sizeof(closes) / sizeof(closes[0]); i++) {
        letter_put_close(&out, &closes[i]);
        const struct letter letter = next_letter(LETTER_CLOSE);
        const struct letter_close taken = letter_take_close(&letter);
        assert_int_equal(taken.transport, closes[i].transport);
        assert_int_equal(taken.connection, closes[i].connection);
        assert_int_equal(taken.is_awaited, closes[i].is_awaited);
    }
}

static void what_goes_with_an_object_arrives(void **state)
{
    char objects[4]; /* never looked into */
    struct message *m = (void *)&objects[0];
    struct spool_position *p = (void *)&objects[1];
    struct sweep *s = (void *)&objects[2];
    uint32_t count;
    unsigned shares;
    usec_t until;
    uint64_t number;

    letter_put_no_result(&out, m, UINT32_MAX, 3);
    struct letter letter = next_letter(LETTER_NO_RESULT);
    assert_ptr_equal(letter_take_no_result(&letter, &count, &shares), m);
    assert_int_equal(count, UINT32_MAX);
    assert_int_equal(shares, 3);

    letter_put_park(&out, p, INT64_MAX);
    letter = next_letter(LETTER_PARK);
    assert_ptr_equal(letter_take_park(&letter, &until), p);
    assert_int_equal(until, INT64_MAX);

    letter_put_arrived(&out, m);
    letter = next_letter(LETTER_ARRIVED);
    assert_ptr_equal(letter_take_arrived(&letter), m);

    letter_put_queued(&out, UINT32_MAX, UINT64_MAX);
    letter = next_letter(LETTER_QUEUED);
    assert_int_equal(letter_take_queued(&letter, &number), UINT32_MAX);
    assert_true(number == UINT64_MAX);

    letter_put_held(&out, UINT32_MAX, UINT64_MAX - 1);
    letter = next_letter(LETTER_HELD);
    assert_int_equal(letter_take_held(&letter, &number), UINT32_MAX);
    assert_true(number == UINT64_MAX - 1);

    letter_put_deferred(&out, UINT32_MAX);
    letter = next_letter(LETTER_DEFERRED);
    assert_int_equal(letter_take_deferred(&letter), UINT32_MAX);

    letter_put_settled(&out, m, 7);
    letter = next_letter(LETTER_SETTLED);
    assert_ptr_equal(letter_take_settled(&letter, &number), m);
    assert_int_equal(number, 7);

    letter_put_sweep(&out, s, 8);
    letter = next_letter(LETTER_SWEEP);
    assert_ptr_equal(letter_take_sweep(&letter, &number), s);
    assert_int_equal(number, 8);

    letter_put_adopt(&out, INT32_MAX);
    letter = next_letter(LETTER_ADOPT);
    assert_int_equal(letter_take_adopt(&letter), INT32_MAX);

    letter_put_returned(&out, m);
    letter = next_letter(LETTER_RETURNED);
    assert_ptr_equal(letter_take_returned(&letter), m);

    letter_put_give_way(&out, m);
    letter = next_letter(LETTER_GIVE_WAY);
    assert_ptr_equal(letter_take_give_way(&letter), m);
    letter_put_kept(&out, m);
    letter = next_letter(LETTER_KEPT);
    assert_ptr_equal(letter_take_kept(&letter), m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_bit_of_a_connections_numbers_arrives, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_goes_with_an_object_arrives, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("letter", tests, NULL, NULL);
}
