/* The next incoming messages of a flow, read a few at a time. */
#include "base/error.h"
#include "engine/activator/known_places.h"
#include "tests/unit/spool_fixture.h"

static struct known_places known;
static struct id_set held;

static uint64_t next(struct spool_position *at, bool *ret_is_active)
{
    assert_int_equal(spool_reader_begin(reader), 0);
    int err = known_places_next(&known, reader, &held, 2, at, ret_is_active);
    spool_reader_end(reader);
    assert_true(err == 0 || err == ERR_MISSING);
    return err == 0 ? at->id : 0;
}

static void remove_one(const struct spool_position *p)
{
    struct spool_txn *t = begin();
    assert_int_equal(spool_remove(t, p), 0);
    assert_int_equal(spool_commit(t), 0);
}

static void all_come_in_order(void **state)
{
    enum { COUNT = 3 * KNOWN_PLACES + 1 };
    struct spool_position at = {.class = SPOOL_INCOMING};
    bool is_active;
    known_places_forget(&known);
    for (uint64_t id = 1; id <= COUNT; id++) {
        (void)put_one(id);
    }
    for (uint64_t id = 1; id <= COUNT; id++) {
        assert_int_equal(next(&at, &is_active), id);
        assert_false(is_active);
        at.id = UINT64_MAX; /* the place is all that counts */
    }
    assert_int_equal(next(&at, &is_active), 0);
    (void)put_one(COUNT + 1); /* after the end it is looked for anew */
    assert_int_equal(next(&at, &is_active), COUNT + 1);
}

/* Messages 1 to count, of which nothing is known yet. */
static void put_some(struct spool_position *places, uint64_t count)
{
    known_places_forget(&known);
    for (uint64_t id = 1; id <= count; id++) {
        places[id] = put_one(id);
    }
}

/* What a sweep activated is gone, or elsewhere, when its turn would come. */
static void active_ones_are_not_remembered(void **state)
{
    struct spool_position places[7], at = {.class = SPOOL_INCOMING};
    bool is_active;
    put_some(places, 6);
    assert_true(id_set_add(&held, 3));
    assert_true(id_set_add(&held, 4));
    assert_int_equal(next(&at, &is_active), 1);
    assert_int_equal(next(&at, &is_active), 2);
    remove_one(&places[3]);
    id_set_remove(&held, 3);
    assert_int_equal(next(&at, &is_active), 4);
    assert_true(is_active);
    assert_int_equal(next(&at, &is_active), 5);
    assert_false(is_active);
    remove_one(&places[6]); /* a sweep was there, and whoever activates for it forgets the list */
    known_places_forget(&known);
    assert_int_equal(next(&at, &is_active), 0);
    id_set_fini(&held);
}

/* Messages that give their places back come again. */
static void the_place_may_be_set_back(void **state)
{
    struct spool_position places[6], at = {.class = SPOOL_INCOMING};
    bool is_active;
    put_some(places, 5);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(next(&at, &is_active), id);
    }
    at.time = places[2].time - 1;
    at.id = UINT64_MAX;
    for (uint64_t id = 2; id <= 5; id++) {
        assert_int_equal(next(&at, &is_active), id);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_come_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(active_ones_are_not_remembered, setup, teardown),
        cmocka_unit_test_setup_teardown(the_place_may_be_set_back, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
