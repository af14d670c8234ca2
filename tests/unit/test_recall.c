/* Messages that are called back before their turn: each at its place comes once, in order, and what is
 * no more there is passed over. */
#include "base/error.h"
#include "engine/activator/recall.h"
#include "engine/spool/spool_env.h"
#include "tests/unit/spool_fixture.h"

#include <string.h>

static struct recall_line line;
static struct id_set active, missed;
static struct recall_account *account;

static int set_up(void **state)
{
    memset(&line, 0, sizeof(line));
    memset(&active, 0, sizeof(active));
    memset(&missed, 0, sizeof(missed));
    account = recall_account_new();
    return account == NULL ? -1 : setup(state);
}

static int tear_down(void **state)
{
    recall_line_fini(&line);
    id_set_fini(&active);
    id_set_fini(&missed);
    bool is_open = recall_account_is_open(account);
    recall_account_put(account);
    return is_open ? -1 : teardown(state);
}

static const uint64_t turn = 1000; /* wall, of message 0: the others' are one behind the other */

static struct spool_position place_of(uint64_t id)
{
    return (struct spool_position){SPOOL_DEFERRED, turn + id, id, 0};
}

/* It waits for its turn. */
static void defer(uint64_t id)
{
    struct spool_position at = put_one(id), to = place_of(id);
    struct spool_txn *t = begin();
    assert_int_equal(spool_requeue(t, &at, &to, NULL), 0);
    assert_int_equal(spool_commit(t), 0);
}

static void call_back(uint64_t from, uint64_t to)
{
    struct recall *r = recall_new((uint32_t)(to - from + 1), account);
    assert_non_null(r);
    for (uint64_t id = from; id <= to; id++) {
        r->at[r->count++] = place_of(id);
    }
    recall_line_add(&line, r);
}

/* Its id; 0: nothing is left, or `budget` is used up. */
static uint64_t next(int *budget)
{
    struct spool_position found = {.id = 0};
    assert_int_equal(spool_reader_begin(reader), 0);
    int err = recall_line_next(&line, reader, budget, &active, &missed, &found);
    spool_reader_end(reader);
    assert_true(err == 0 || err == ERR_MISSING);
    assert_true(err != 0 || found.time == turn + found.id);
    return err == 0 ? found.id : 0;
}

static uint64_t take(void)
{
    int budget = 100;
    uint64_t id = next(&budget);
    if (id != 0) {
        recall_line_pass(&line);
    }
    return id;
}

static void each_comes_until_it_is_passed_and_in_order(void **state)
{
    int budget = 100;
    for (uint64_t id = 1; id <= 5; id++) {
        defer(id);
    }
    call_back(4, 5);
    call_back(1, 3);
    assert_int_equal(recall_line_count(&line), 5);
    assert_true(recall_account_is_open(account));
    assert_int_equal(next(&budget), 4);
    assert_int_equal(next(&budget), 4);
    const uint64_t wanted[] = {4, 5, 1, 2, 3, 0};
    for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
        assert_int_equal(take(), wanted[i]);
        assert_int_equal(recall_line_count(&line), i < 5 ? 4 - i : 0);
        /* The sender may name others as soon as all of it is done, not before. */
        assert_int_equal(recall_account_is_open(account), i < 4);
    }
    assert_true(recall_line_is_empty(&line));
}

/* One was removed, one waits elsewhere by now, one never was. */
static void what_is_no_more_at_its_place_is_passed_over(void **state)
{
    for (uint64_t id = 1; id <= 4; id++) {
        defer(id);
    }
    struct spool_txn *t = begin();
    struct spool_position gone = place_of(1), moved = place_of(3), to = moved;
    to.time += 50;
    assert_int_equal(spool_remove(t, &gone), 0);
    assert_int_equal(spool_requeue(t, &moved, &to, NULL), 0);
    assert_int_equal(spool_commit(t), 0);
    call_back(1, 5);
    assert_int_equal(take(), 2);
    assert_int_equal(take(), 4);
    assert_int_equal(take(), 0);
    assert_true(recall_line_is_empty(&line));
    assert_int_equal(recall_line_count(&line), 0);
}

/* Then no sweep brings more of the flow. */
static void a_line_is_long_until_it_was_gone_through(void **state)
{
    int budget = RECALL_LINE_LONG + 1;
    call_back(1, RECALL_LINE_LONG - 1);
    assert_false(recall_line_is_long(&line));
    call_back(RECALL_LINE_LONG, RECALL_LINE_LONG);
    assert_true(recall_line_is_long(&line));
    defer(RECALL_LINE_LONG);
    assert_int_equal(next(&budget), RECALL_LINE_LONG); /* the others are no more there */
    assert_false(recall_line_is_long(&line));
    assert_int_equal(recall_line_count(&line), 1);
}

static void so_many_places_are_looked_at_as_the_budget_allows(void **state)
{
    int budget = 3;
    defer(5);
    call_back(1, 5);
    assert_int_equal(next(&budget), 0);
    assert_false(recall_line_is_empty(&line));
    budget = 3;
    assert_int_equal(next(&budget), 5);
    assert_int_equal(budget, 1);
}

/* It was called back while its last activation was not settled: its place is not in the spool yet. */
static void what_is_active_is_missed_once(void **state)
{
    assert_true(id_set_add(&active, 1));
    call_back(1, 1);
    assert_int_equal(take(), 0);
    assert_true(recall_line_is_empty(&line));
    assert_false(recall_take_missed(&missed, 2));
    assert_true(recall_take_missed(&missed, 1));
    assert_false(recall_take_missed(&missed, 1));
}

/* Messages give their places back from the youngest on, so each goes before those that did so earlier. */
static void what_is_put_first_comes_first(void **state)
{
    for (uint64_t id = 1; id <= 4; id++) {
        defer(id);
    }
    call_back(3, 4);
    for (uint64_t id = 2; id >= 1; id--) {
        struct recall *r = recall_new(1, NULL);
        assert_non_null(r);
        r->at[r->count++] = place_of(id);
        recall_line_add_first(&line, r);
    }
    for (uint64_t id = 1; id <= 4; id++) {
        assert_int_equal(take(), id);
    }
    struct recall *r = recall_new(1, NULL);
    assert_non_null(r);
    r->at[r->count++] = place_of(2);
    recall_line_add_first(&line, r); /* to an empty one */
    call_back(1, 1);
    assert_int_equal(take(), 2);
    assert_int_equal(take(), 1);
}

/* Whether a page is bad that the writer has not mended yet. */
static void set_doubt(bool is_in_doubt)
{
    uint64_t faults = spool_guard_faults(&store->guard);
    atomic_store(&store->faults_settled, faults + is_in_doubt);
}

static void a_page_in_doubt_passes_nothing_over(void **state)
{
    struct spool_position found;
    int budget = 10;
    call_back(1, 1);
    set_doubt(true); /* what lies behind it looks as if it were not there */
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(recall_line_next(&line, reader, &budget, &active, &missed, &found), ERR_AGAIN);
    spool_reader_end(reader);
    assert_false(recall_line_is_empty(&line));
    set_doubt(false);
    defer(1);
    assert_int_equal(take(), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_comes_until_it_is_passed_and_in_order),
        TEST(what_is_no_more_at_its_place_is_passed_over),
        TEST(a_line_is_long_until_it_was_gone_through),
        TEST(so_many_places_are_looked_at_as_the_budget_allows),
        TEST(what_is_active_is_missed_once),
        TEST(what_is_put_first_comes_first),
        TEST(a_page_in_doubt_passes_nothing_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
