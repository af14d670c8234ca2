/* A sweep over mail that comes back behind it: each message once, with bounded memory. */
#include "base/error.h"
#include "base/rcu.h"
#include "engine/activator/activation.h"
#include "engine/activator/sweep.h"
#include "engine/spool/spool_env.h"
#include "engine/state/engine.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGES = 3000, PART = 200 };

static char folder[128];
static struct spool_store *store;
static struct spool_reader *reader;
static struct engine *engine;
static struct sweeper sweeper;
static const struct selector everything;

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(folder, sizeof(folder), "%s/sweep.XXXXXX", base == NULL ? "/tmp" : base);
    const struct spool_options options = {.path = folder, .map_size = 64u << 20};
    char text[256];
    engine = aligned_alloc(CACHE_LINE, sizeof(*engine));
    if (mkdtemp(folder) == NULL || engine == NULL ||
        spool_store_open(&options, &store, text) != 0 || spool_reader_new(store, &reader) != 0) {
        return -1;
    }
    memset(engine, 0, sizeof(*engine));
    atomic_store(&engine->next_id, MESSAGES + 1);
    sweeper_init(&sweeper);
    return 0;
}

static int tear_down(void **state)
{
    char command[160];
    sweeper_fini(&sweeper);
    spool_reader_free(reader);
    spool_store_close(store);
    free(engine);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

static bool lets_in(void *ctx, const struct spool_position *position)
{
    return true;
}

static const struct sweep_entrance anybody = {lets_in, NULL};
static struct slice tenant = SLICE("");

static void put(struct spool_txn *t, uint64_t id, uint64_t due)
{
    const struct spool_envelope e = {
        .id = id, .recipient_count = 1, .sender = SLICE(""), .tenant = tenant};
    struct spool_position at;
    assert_int_equal(spool_put_message(t, &e, SLICE("\0\3a@x"), SLICE("x\r\n"), &at), 0);
    const struct spool_position to = {SPOOL_DEFERRED, due, id, at.flow};
    assert_int_equal(spool_requeue(t, &at, &to, NULL), 0);
}

static void each_message_is_found_once(void **state)
{
    struct activation a = {.engine = engine, .reader = reader};
    static unsigned found[MESSAGES + 2];
    struct spool_position back[50];
    struct spool_txn *t;
    size_t most = 0, count = 0;
    uint64_t due = MESSAGES + 1;
    memset(found, 0, sizeof(found));
    assert_int_equal(spool_begin(store, &t), 0);
    for (uint64_t id = 1; id <= MESSAGES; id++) {
        put(t, id, id);
    }
    assert_int_equal(spool_commit(t), 0);
    sweeper.part_size = PART;
    struct sweep *s = sweep_new(SWEEP_FLUSH, &everything);
    assert_non_null(s);
    sweeper_add(&sweeper, s);
    while (sweeper_is_busy(&sweeper)) {
        int budget = 300;
        assert_int_equal(spool_reader_begin(reader), 0);
        for (count = 0;
             count < 50 && sweeper_next(&sweeper, &a, &anybody, &budget, &back[count]) == 0;
             count++) {
            most = s->walk.taken.count > most ? s->walk.taken.count : most;
        }
        spool_reader_end(reader);
        /* All of it fails, and comes back behind the others; and new mail comes. */
        assert_int_equal(spool_begin(store, &t), 0);
        for (size_t i = 0; i < count; i++) {
            const struct spool_position to = {SPOOL_DEFERRED, due++, back[i].id, 0};
            found[back[i].id]++;
            assert_int_equal(spool_requeue(t, &back[i], &to, NULL), 0);
        }
        if (due == MESSAGES + 51) {
            put(t, MESSAGES + 1, due++);
        }
        assert_int_equal(spool_commit(t), 0);
    }
    for (uint64_t id = 1; id <= MESSAGES; id++) {
        assert_int_equal(found[id], 1);
    }
    assert_int_equal(found[MESSAGES + 1], 0);
    assert_in_range(most, PART / 2, PART * 3 / 2);
}

/* Whether a page is bad that the writer has not mended yet. */
static void set_doubt(bool is_in_doubt)
{
    uint64_t faults = spool_guard_faults(&store->guard);
    atomic_store(&store->faults_settled, faults + is_in_doubt);
}

static void a_page_in_doubt_ends_nothing(void **state)
{
    struct activation a = {.engine = engine, .reader = reader};
    struct spool_position found;
    struct spool_txn *t;
    int budget = 10;
    struct sweep *s = sweep_new(SWEEP_FLUSH, &everything);
    assert_non_null(s);
    sweeper_add(&sweeper, s);
    set_doubt(true); /* what lies behind it looks as if it were not there */
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(sweeper_next(&sweeper, &a, &anybody, &budget, &found), ERR_AGAIN);
    assert_true(sweeper_is_busy(&sweeper));
    spool_reader_end(reader);
    set_doubt(false);
    assert_int_equal(spool_begin(store, &t), 0);
    put(t, 1, 1);
    put(t, 2, 2);
    assert_int_equal(spool_commit(t), 0);
    for (uint64_t id = 1; id <= 2; id++) {
        budget = 10;
        assert_int_equal(spool_reader_begin(reader), 0);
        assert_int_equal(sweeper_next(&sweeper, &a, &anybody, &budget, &found), 0);
        assert_int_equal(found.id, id);
        spool_reader_end(reader);
    }
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(sweeper_next(&sweeper, &a, &anybody, &budget, &found), ERR_MISSING);
    assert_false(sweeper_is_busy(&sweeper));
    spool_reader_end(reader);
}

/* Of which flow so many may enter. */
static unsigned room_of[8];

static bool is_room(void *ctx, const struct spool_position *position)
{
    bool has_room = room_of[position->flow] > 0;
    room_of[position->flow] -= has_room;
    return has_room;
}

/* Messages 1 to 10 are of the first flow, and so on; `text` has their flows as they are found. */
static void find_all(char *text, size_t most)
{
    static const struct sweep_entrance entrance = {is_room, NULL};
    static unsigned found[31];
    struct activation a = {.engine = engine, .reader = reader};
    struct spool_position at;
    size_t count = 0;
    int budget = 1000;
    assert_int_equal(spool_reader_begin(reader), 0);
    while (count < most && sweeper_next(&sweeper, &a, &entrance, &budget, &at) == 0) {
        assert_int_equal(found[at.id]++, 0);
        assert_int_equal((at.id - 1) / 10 + 1, at.flow);
        text[count++] = (char)('0' + at.flow);
    }
    text[count] = '\0';
    spool_reader_end(reader);
}

static void flows_that_may_not_enter_keep_nobody_waiting(void **state)
{
    static const struct slice names[] = {SLICE("a"), SLICE("b"), SLICE("c")};
    char text[32];
    struct spool_txn *t;
    assert_int_equal(spool_begin(store, &t), 0);
    for (uint64_t id = 1; id <= 30; id++) {
        tenant = names[(id - 1) / 10];
        put(t, id, 100 - id);
    }
    tenant = SLICE("");
    assert_int_equal(spool_commit(t), 0);
    struct sweep *s = sweep_new(SWEEP_FLUSH, &everything);
    assert_non_null(s);
    sweeper_add(&sweeper, s);
    room_of[1] = 3, room_of[2] = 2, room_of[3] = 10;
    find_all(text, 30);
    assert_string_equal(text, "111223333333333");
    assert_true(sweeper_is_busy(&sweeper) && sweeper_is_waiting(&sweeper));
    room_of[2] = 3;
    find_all(text, 30);
    assert_string_equal(text, "222");
    room_of[1] = 10, room_of[2] = 10;
    find_all(text, 30);
    assert_string_equal(text, "121212121211");
    assert_false(sweeper_is_busy(&sweeper));
}

static struct sweep *sweep_of(const char *name)
{
    struct selector selector = {0};
    assert_int_equal(selector_set(&selector, SLICE("tenant"), slice_of(name)), 0);
    struct sweep *s = sweep_new(SWEEP_FLUSH, &selector);
    assert_non_null(s);
    selector_fini(&selector);
    return s;
}

/* How many of each flow are found. */
static void count_found(unsigned found[4])
{
    static const struct sweep_entrance entrance = {is_room, NULL};
    struct activation a = {.engine = engine, .reader = reader};
    struct spool_position at;
    int budget = 10000;
    memset(found, 0, 4 * sizeof(*found));
    assert_int_equal(spool_reader_begin(reader), 0);
    while (sweeper_next(&sweeper, &a, &entrance, &budget, &at) == 0) {
        found[at.flow]++;
    }
    assert_true(budget > 0);
    spool_reader_end(reader);
}

/* Also when there are more of those that wait than may have begun. */
static void a_sweep_that_waits_keeps_no_other_waiting(void **state)
{
    static const struct slice names[] = {SLICE("a"), SLICE("b"), SLICE("c")};
    unsigned found[4];
    struct spool_txn *t;
    assert_int_equal(spool_begin(store, &t), 0);
    for (uint64_t id = 1; id <= 30; id++) {
        tenant = names[(id - 1) / 10];
        put(t, id, 100 - id);
    }
    tenant = SLICE("");
    assert_int_equal(spool_commit(t), 0);
    memset(room_of, 0, sizeof(room_of));
    sweeper_add(&sweeper, sweep_of("a"));
    sweeper_add(&sweeper, sweep_of("b"));
    room_of[2] = 4;
    count_found(found);
    assert_true(found[1] == 0 && found[2] == 4 && sweeper_is_waiting(&sweeper));
    for (int i = 0; i < SWEEPS_BEGUN; i++) {
        sweeper_add(&sweeper, sweep_of("a"));
    }
    assert_false(sweeper_is_waiting(&sweeper));
    count_found(found);
    assert_true(found[1] + found[2] == 0 && sweeper_is_waiting(&sweeper));
    assert_int_equal(sweeper.begun, SWEEPS_BEGUN);
    sweeper_retry(&sweeper);
    assert_false(sweeper_is_waiting(&sweeper));
    room_of[2] = 6;
    count_found(found);
    assert_true(found[1] == 0 && found[2] == 6 && sweeper_is_waiting(&sweeper));
    sweeper_add(&sweeper, sweep_of("c"));
    room_of[1] = 10 * (SWEEPS_BEGUN + 1), room_of[3] = 10;
    count_found(found);
    assert_int_equal(found[1], 10 * (SWEEPS_BEGUN + 1));
    assert_int_equal(found[3], 10);
    assert_true(!sweeper_is_busy(&sweeper) && sweeper.begun == 0 && sweeper.waiting == 0);
}

static void add_turns(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct sweep *s = sweep_new(SWEEP_TURNS, &everything);
        assert_non_null(s);
        sweeper_add(&sweeper, s);
    }
}

/* However many reloads there are while one is under way, all that waits for its turn is tried once more. */
static void turns_are_tried_once_more(void **state)
{
    enum { AWAY = 20 };
    struct activation a = {.engine = engine, .reader = reader};
    unsigned found[AWAY + 1] = {0};
    struct spool_position at;
    struct spool_txn *t;
    const struct spool_retry away = {.is_paced = true};
    int budget = 1000;
    assert_int_equal(spool_begin(store, &t), 0);
    for (uint64_t id = 1; id <= AWAY; id++) {
        put(t, id, id);
        const struct spool_position from = {SPOOL_DEFERRED, id, id, 0};
        const struct spool_position to = {SPOOL_DEFERRED, 100 + id, id, 0};
        assert_int_equal(spool_requeue(t, &from, &to, &away), 0);
    }
    assert_int_equal(spool_commit(t), 0);
    add_turns(5);
    assert_int_equal(sweeper.waiting, 1);
    assert_int_equal(spool_reader_begin(reader), 0);
    for (unsigned i = 0; i < AWAY / 2; i++) {
        assert_int_equal(sweeper_next(&sweeper, &a, &anybody, &budget, &at), 0);
        found[at.id]++;
    }
    add_turns(SWEEPS_MAX + 5);
    assert_int_equal(sweeper.waiting, 1);
    while (sweeper_next(&sweeper, &a, &anybody, &budget, &at) == 0) {
        found[at.id]++;
    }
    spool_reader_end(reader);
    assert_true(budget > 0 && !sweeper_is_busy(&sweeper) && sweeper.begun == 0);
    for (uint64_t id = 1; id <= AWAY; id++) {
        assert_int_equal(found[id], 2);
    }
}

static void many_sweeps_become_one(void **state)
{
    struct selector acme = {0};
    assert_int_equal(selector_set(&acme, SLICE("tenant"), SLICE("acme")), 0);
    for (int i = 0; i < 3 * SWEEPS_MAX; i++) {
        struct sweep *s = sweep_new(i % 3 == 0 ? SWEEP_FLUSH : SWEEP_APPLY, &acme);
        assert_non_null(s);
        sweeper_add(&sweeper, s);
    }
    assert_int_equal(sweeper.waiting, SWEEPS_MAX);
    unsigned wide = 0;
    for (const struct sweep *s = sweeper.first; s != NULL; s = s->next) {
        if (s->selector.value[SELECTOR_TENANT] == NULL) {
            assert_int_equal(s->kind, SWEEP_APPLY); /* which asks the orders anyway */
            wide++;
        }
    }
    assert_int_equal(wide, 1);
    selector_fini(&acme);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_message_is_found_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_page_in_doubt_ends_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(flows_that_may_not_enter_keep_nobody_waiting, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_sweep_that_waits_keeps_no_other_waiting, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(many_sweeps_become_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(turns_are_tried_once_more, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
