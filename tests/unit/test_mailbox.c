#include "base/mailbox.h"
#include "tests/unit/unit.h"

#include <fcntl.h>

enum { ROOM = 4, LETTERS = 700 /* more than an outbox has room for at first */ };

static void letters_wait_for_a_full_ring_in_order(void **state)
{
    struct mailbox m;
    struct outbox o;
    struct letter letter;
    uint64_t next = 0;
    assert_int_equal(mailbox_init(&m, ROOM), 0);
    outbox_init(&o, &m);
    for (uint64_t i = 0; i < LETTERS; i++) {
        outbox_put(&o, 1, NULL, i);
    }
    assert_false(outbox_flush(&o));
    bool is_empty = false;
    while (!is_empty) {
        while (mailbox_take(&m, &letter)) {
            assert_int_equal(letter.number, next++);
        }
        is_empty = outbox_flush(&o) && next == LETTERS;
        assert_in_range(next, 1, LETTERS);
    }
    assert_false(mailbox_take(&m, &letter));
    outbox_fini(&o);
    mailbox_fini(&m);
}

static void the_end_closes_what_was_opened_once(void **state)
{
    struct mailbox none = {0};
    struct mailbox m;
    mailbox_fini(&none);
    assert_int_equal(mailbox_init_polled(&m, ROOM), 0);
    const int fd = m.waker.fd;
    assert_true(fcntl(fd, F_GETFD) >= 0);
    mailbox_fini(&m);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    mailbox_fini(&m);
    assert_null(m.ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_wait_for_a_full_ring_in_order),
        cmocka_unit_test(the_end_closes_what_was_opened_once),
    };
    return cmocka_run_group_tests_name("mailbox", tests, NULL, NULL);
}
