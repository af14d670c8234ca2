/* Numbers of queued messages by tenant: the walk at the beginning, and then each message, against a
 * model; and more tenants than there is room for. */
#include "base/error.h"
#include "engine/config/config.h"
#include "engine/tally/queue_count.h"
#include "tests/unit/spool_fixture.h"

#include <string.h>

static struct slice name_of(unsigned tenant, char text[16])
{
    return slice_make(text, (size_t)snprintf(text, 16, tenant % 2 == 0 ? "t%u" : "T%u", tenant));
}

static void put_messages(uint64_t first, unsigned count, unsigned tenants)
{
    struct spool_txn *t = begin();
    for (unsigned i = 0; i < count; i++) {
        char text[16];
        struct spool_position at;
        struct spool_envelope e = {.id = first + i,
                                   .size_bytes = 3,
                                   .recipient_count = 1,
                                   .sender = SLICE("a@example.com"),
                                   .tenant = name_of(i % tenants, text)};
        assert_int_equal(
            spool_put_message(t, &e, slice_make("\0\1b", 3), slice_make("b\r\n", 3), &at), 0);
    }
    assert_int_equal(spool_commit(t), 0);
}

static void nothing_without_a_limit(void **state)
{
    (void)state;
    struct queue_count *q = queue_count_new();
    const struct config none = {0}, limits = {.has_queue_limits = true};
    assert_false(queue_count_is_wanted(q, &none));
    queue_count_add(q, SLICE("a"));
    assert_int_equal(queue_count_of(q, SLICE("a")), 0);
    assert_true(queue_count_is_wanted(q, &limits));
    assert_int_equal(queue_count_take(q, reader), 0);
    assert_true(queue_count_is_on(q));
    assert_false(queue_count_is_wanted(q, &limits));
    queue_count_add(q, SLICE("a"));
    queue_count_remove(q, SLICE("b"));
    assert_int_equal(queue_count_of(q, SLICE("A")), 1);
    assert_int_equal(queue_count_of(q, SLICE("b")), 0);
    queue_count_doubt(q);
    assert_true(queue_count_is_wanted(q, &limits));
    assert_int_equal(queue_count_take(q, reader), 0);
    assert_int_equal(queue_count_of(q, SLICE("a")), 0);
    assert_false(queue_count_is_wanted(q, &limits));
    queue_count_free(q);
}

static void against_a_model(void **state)
{
    (void)state;
    enum { TENANTS = 50, MESSAGES = 1003 };
    unsigned model[TENANTS] = {0};
    uint64_t random = 4711;
    char text[16];
    struct queue_count *q = queue_count_new();
    put_messages(1, MESSAGES, TENANTS);
    assert_int_equal(queue_count_take(q, reader), 0);
    for (unsigned i = 0; i < MESSAGES; i++) {
        model[i % TENANTS]++;
    }
    for (unsigned step = 0; step < 20000; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        unsigned tenant = (unsigned)(random >> 33) % TENANTS;
        if ((random >> 60) % 2 == 0) {
            queue_count_add(q, name_of(tenant, text));
            model[tenant]++;
        } else if (model[tenant] > 0) {
            queue_count_remove(q, name_of(tenant, text));
            model[tenant]--;
        }
        assert_int_equal(queue_count_of(q, name_of(tenant, text)), model[tenant]);
    }
    queue_count_free(q);
}

/* A name that was there once keeps its place until the table is nearly full; then it is counted anew. */
static void more_names_than_room(void **state)
{
    (void)state;
    char text[16];
    const struct config limits = {.has_queue_limits = true};
    struct queue_count *q = queue_count_new();
    put_messages(1, 100, 100);
    assert_int_equal(queue_count_take(q, reader), 0);
    for (unsigned i = 1000; i < 1000 + QUEUE_COUNT_SLOTS; i++) {
        queue_count_add(q, name_of(i, text));
        queue_count_remove(q, name_of(i, text));
    }
    assert_true(queue_count_is_wanted(q, &limits));
    assert_int_equal(queue_count_take(q, reader), 0);
    assert_false(queue_count_is_wanted(q, &limits));
    assert_int_equal(queue_count_of(q, name_of(99, text)), 1);
    assert_int_equal(queue_count_of(q, name_of(2000, text)), 0);
    /* All of them have mail: there is no count, and it is not tried again and again. */
    put_messages(1000, QUEUE_COUNT_SLOTS, QUEUE_COUNT_SLOTS);
    queue_count_doubt(q);
    assert_int_equal(queue_count_take(q, reader), ERR_LIMIT);
    assert_false(queue_count_is_wanted(q, &limits));
    queue_count_add(q, SLICE("new"));
    assert_int_equal(queue_count_of(q, SLICE("new")), 0);
    assert_int_equal(queue_count_of(q, name_of(1000, text)), 0);
    queue_count_free(q);
    queue_count_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_without_a_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(against_a_model, setup, teardown),
        cmocka_unit_test_setup_teardown(more_names_than_room, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
