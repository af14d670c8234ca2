/* The spool writer and the keeper of the log at their desk, on two threads: a batch counts when the
 * keeper has acknowledged it, what it had is read back from the frames, and retellings keep the log
 * short without losing a message. */
#include "base/error.h"
#include "engine/cluster/log_frame.h"
#include "engine/replica/replay.h"
#include "engine/replica/replica.h"
#include "engine/spool/spool_change.h"
#include "engine/spool/spool_env.h"
#include "engine/spool/spool_retold.h"
#include "engine/spool/spool_suppress.h"
#include "tests/unit/spool_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { PLACES_MAX = 20000 };

/* A log in memory, and the thread that keeps it. */
static struct {
    struct replica *replica;
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below but the flags */
    struct buf frames[PLACES_MAX];
    uint64_t first, last; /* places that there are; the frame of place p is frames[p] */
    uint64_t epoch, serial;
    atomic_bool is_ending, is_deaf, is_deaf_to_purges;
    atomic_uint usec_a_frame; /* what storing one takes */
} keeper;

static void wake_nobody(void *ctx)
{
}

static void put_in_log(struct slice frame)
{
    keeper.last++;
    assert_true(keeper.last < PLACES_MAX);
    buf_init(&keeper.frames[keeper.last], LOG_FRAME_BYTES_MAX);
    buf_append_slice(&keeper.frames[keeper.last], frame);
}

static void begin_epoch(bool goes_on)
{
    struct buf fence;
    (void)pthread_mutex_lock(&keeper.lock);
    const struct log_frame_id id = {.epoch = ++keeper.epoch};
    keeper.serial = 0;
    buf_init(&fence, LOG_FRAME_BYTES_MAX);
    log_frame_begin(&fence, 7, &id);
    log_frame_add(&fence, &(const struct log_item){.kind = LOG_ITEM_FENCE, .number = 7});
    log_frame_end(&fence);
    put_in_log(buf_slice(&fence));
    uint64_t place = keeper.last;
    (void)pthread_mutex_unlock(&keeper.lock);
    buf_fini(&fence);
    const struct replica_epoch e = {.node = 7,
                                    .epoch = keeper.epoch,
                                    .place = place,
                                    .made = 1,
                                    .is_new = keeper.epoch == 1,
                                    .goes_on = goes_on};
    replica_open(keeper.replica, &e);
}

static void *run_keeper(void *arg)
{
    while (!atomic_load(&keeper.is_ending)) {
        if (atomic_load(&keeper.is_deaf)) {
            (void)usleep(100);
            continue;
        }
        (void)pthread_mutex_lock(&keeper.lock);
        const struct slice frame = replica_frame(keeper.replica, keeper.serial + 1);
        if (frame.len > 0) {
            (void)usleep(atomic_load(&keeper.usec_a_frame));
            put_in_log(frame);
            keeper.serial++;
            replica_acknowledged(keeper.replica, keeper.serial, keeper.last);
        }
        uint64_t purge =
            atomic_load(&keeper.is_deaf_to_purges) ? 0 : replica_take_purge(keeper.replica);
        for (; purge != 0 && keeper.first < purge; keeper.first++) {
            buf_fini(&keeper.frames[keeper.first]);
        }
        if (purge != 0) {
            replica_purged(keeper.replica, purge);
        }
        (void)pthread_mutex_unlock(&keeper.lock);
        if (frame.len == 0) {
            (void)usleep(50);
        }
    }
    return NULL;
}

static int setup_replica(void **state)
{
    int r = setup(state);
    memset(&keeper.frames, 0, sizeof(keeper.frames));
    (void)pthread_mutex_init(&keeper.lock, NULL);
    keeper.first = 1;
    keeper.last = keeper.epoch = 0;
    atomic_store(&keeper.is_ending, false);
    atomic_store(&keeper.is_deaf, false);
    atomic_store(&keeper.is_deaf_to_purges, false);
    atomic_store(&keeper.usec_a_frame, 0);
    assert_int_equal(replica_new(store, 256 << 20, wake_nobody, NULL, &keeper.replica), 0);
    replica_set_keeper(keeper.replica, wake_nobody, NULL);
    begin_epoch(false);
    assert_int_equal(pthread_create(&keeper.thread, NULL, run_keeper, NULL), 0);
    return r;
}

static int teardown_replica(void **state)
{
    atomic_store(&keeper.is_ending, true);
    (void)pthread_join(keeper.thread, NULL);
    replica_free(keeper.replica);
    for (uint64_t i = keeper.first; i <= keeper.last; i++) {
        buf_fini(&keeper.frames[i]);
    }
    (void)pthread_mutex_destroy(&keeper.lock);
    return teardown(state);
}

/* How many messages a spool has that is made of the log. */
static uint64_t replayed_messages(void)
{
    char path[160], text[256] = "", command[200];
    struct spool_store *copy;
    struct spool_reader *copy_reader;
    struct spool_counts counts;
    (void)snprintf(path, sizeof(path), "%s.copy", folder);
    const struct spool_options options = {.path = path, .map_size = MAP_BYTES};
    assert_int_equal(spool_store_open(&options, &copy, text), 0);
    struct replay replay = {.store = copy};
    (void)pthread_mutex_lock(&keeper.lock);
    for (uint64_t i = keeper.first; i <= keeper.last; i++) {
        assert_int_equal(replay_frame(&replay, buf_slice(&keeper.frames[i])), 0);
    }
    (void)pthread_mutex_unlock(&keeper.lock);
    assert_int_equal(replay_end(&replay), 0);
    assert_int_equal(replay.damaged, 0);
    assert_int_equal(replay.void_frames, 0); /* this keeper makes none */
    assert_int_equal(spool_reader_new(copy, &copy_reader), 0);
    assert_int_equal(spool_reader_begin(copy_reader), 0);
    assert_int_equal(spool_read_counts(copy_reader, &counts), 0);
    spool_reader_end(copy_reader);
    spool_reader_free(copy_reader);
    spool_store_close(copy);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
    return counts.messages;
}

static void wait_ready(void)
{
    for (int i = 0; !replica_is_ready(keeper.replica); i++) {
        assert_true(i < 600000); /* a minute */
        (void)usleep(100);
    }
}

/* A commit with so many new messages, which removes one. errors: of replica_ship */
static int commit_some(uint64_t first_id, unsigned count, struct spool_position *at, bool removes)
{
    wait_ready();
    struct spool_txn *t = begin();
    static char body[20000];
    memset(body, 'x', sizeof(body));
    replica_begin(keeper.replica, false);
    struct spool_position last = {.id = 0};
    for (unsigned i = 0; i < count; i++) {
        last = put(t, first_id + i, slice_make(body, sizeof(body)));
    }
    if (removes) {
        assert_int_equal(spool_remove(t, at), 0);
    }
    assert_int_equal(replica_note(keeper.replica, t), 0);
    int err = replica_ship(keeper.replica);
    if (err != 0) {
        spool_abort(t);
        return err;
    }
    *at = last;
    assert_int_equal(spool_commit(t), 0);
    replica_committed(keeper.replica, true);
    return 0;
}

static bool is_retelling(void)
{
    return replica_retelling_due(keeper.replica) != USEC_NEVER;
}

static void retell_all(void)
{
    for (int i = 0; replica_wants_tables(keeper.replica) || is_retelling(); i++) {
        assert_true(i < 1000);
        wait_ready();
        struct spool_txn *t = begin();
        replica_begin(keeper.replica, true);
        assert_int_equal(replica_note(keeper.replica, t), 0);
        assert_int_equal(replica_ship(keeper.replica), 0);
        assert_int_equal(spool_commit(t), 0);
        replica_committed(keeper.replica, true);
    }
}

static void the_log_has_what_the_spool_has(void **state)
{
    struct spool_position at = {.id = 0};
    for (uint64_t i = 0; i < 200; i++) {
        assert_int_equal(commit_some(1 + i * 2, 2, &at, i > 0), 0);
    }
    assert_int_equal(replayed_messages(), 201);
}

static void a_batch_without_an_answer_does_not_count(void **state)
{
    struct spool_position at = {.id = 0};
    assert_int_equal(commit_some(1, 1, &at, false), 0);
    assert_true(replica_is_sure(keeper.replica)); /* of a new log from its beginning */
    atomic_store(&keeper.is_deaf, true);
    assert_int_equal(commit_some(2, 5, &at, false), ERR_CLOSED);
    assert_false(replica_is_ready(keeper.replica));
    atomic_store(&keeper.is_deaf, false); /* it comes to lie in the log after all */
    wait_ready();
    assert_int_equal(commit_some(7, 1, &at, false), 0);
    assert_int_equal(replayed_messages(), 7);
    assert_false(replica_is_sure(keeper.replica));
    retell_all(); /* which a doubt brings, and makes the log say what the spool has */
    for (int i = 0; replayed_messages() != 2 || !replica_is_sure(keeper.replica); i++) {
        assert_true(i < 1000); /* the keeper purges */
    }
    replica_doubt(keeper.replica);
    assert_false(replica_is_sure(keeper.replica));
}

/* The keeper was about to purge up to where an earlier retelling had begun. */
static void an_earlier_purge_does_not_make_it_sure(void **state)
{
    struct spool_position at = {.id = 0};
    uint64_t purges[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(commit_some(1 + 3 * (uint64_t)i, 3, &at, false), 0);
        (void)pthread_mutex_lock(&keeper.lock);
        replica_doubt(keeper.replica);
        atomic_store(&keeper.is_deaf_to_purges, true);
        (void)pthread_mutex_unlock(&keeper.lock);
        retell_all();
        purges[i] = replica_take_purge(keeper.replica);
        assert_true(purges[i] > (i == 0 ? 0 : purges[0]));
        assert_false(replica_is_sure(keeper.replica));
    }
    replica_purged(keeper.replica, purges[0]);
    assert_false(replica_is_sure(keeper.replica));
    replica_hurry(keeper.replica, true);
    assert_true(replica_is_hurried(keeper.replica));
    replica_purged(keeper.replica, purges[1]);
    assert_true(replica_is_sure(keeper.replica) && !replica_is_hurried(keeper.replica));
}

/* The process ends, and another one opens the log. */
static void restart(bool is_there)
{
    (void)pthread_mutex_lock(&keeper.lock);
    replica_free(keeper.replica);
    assert_int_equal(replica_new(store, 256 << 20, wake_nobody, NULL, &keeper.replica), 0);
    replica_set_keeper(keeper.replica, wake_nobody, NULL);
    (void)pthread_mutex_unlock(&keeper.lock);
    begin_epoch(is_there && replica_retold(keeper.replica) != NULL);
    wait_ready();
}

static uint64_t bytes_of_log(void)
{
    uint64_t bytes = 0;
    for (uint64_t i = keeper.first; i <= keeper.last; i++) {
        bytes += keeper.frames[i].len;
    }
    return bytes;
}

/* It dies again and again in the middle: each process tells a part, and together they are through. */
static void a_retelling_goes_on_in_the_next_process(void **state)
{
    struct spool_position at = {.id = 0};
    assert_int_equal(commit_some(1, 401, &at, false), 0); /* 8 MB */
    retell_all();
    assert_int_equal(commit_some(402, 1, &at, false), 0); /* after which nothing is noted */
    unsigned processes = 0;
    do {
        restart(true);
        processes++;
        assert_true(processes < 100);
        if (!is_retelling()) { /* the first one only: it has nothing to go on with */
            assert_int_equal(processes, 1);
            assert_int_equal(commit_some(1000, 1, &at, false), 0);
            assert_true(is_retelling());
        }
        replica_begin(keeper.replica, true);
        assert_int_equal(replica_ship(keeper.replica), 0);
        assert_int_equal(commit_some(1001 + processes, 1, &at, true), 0);
        assert_int_equal(replayed_messages(), 403);
        replica_begin(keeper.replica, true); /* told, and not noted: it is told again */
        assert_int_equal(replica_ship(keeper.replica), 0);
    } while (is_retelling());
    assert_in_range(processes, 20, 40);
    assert_false(replica_is_sure(keeper.replica));
    assert_true(bytes_of_log() < 40 << 20);
    assert_true(replica_wants_tables(
        keeper.replica)); /* once more, as any of them may have been in doubt */
    retell_all();
    while (!replica_is_sure(keeper.replica)) {
        (void)usleep(100); /* the keeper purges */
    }
    assert_int_equal(replayed_messages(), 403);
    assert_true(bytes_of_log() < 10 << 20);
}

/* What was noted is of use only if the log has it; a spool that changed without a log has nothing noted. */
static void a_retelling_that_the_log_has_lost_begins_anew(void **state)
{
    struct spool_position at = {.id = 0};
    assert_int_equal(commit_some(1, 400, &at, false), 0);
    assert_int_equal(commit_some(401, 1, &at, false), 0);
    assert_true(is_retelling());
    restart(false);
    assert_non_null(replica_retold(keeper.replica));
    assert_true(replica_retold(keeper.replica)->made == 1 &&
                replica_retold(keeper.replica)->epoch == 1);
    assert_false(is_retelling());
    assert_int_equal(commit_some(402, 1, &at, false), 0);
    assert_true(is_retelling());
    assert_int_equal(commit_some(403, 1, &at, false), 0);
    assert_int_equal(spool_store_without_log(store), 0);
    assert_int_equal(spool_store_without_log(store), 0);
    restart(true);
    assert_null(replica_retold(keeper.replica));
    assert_false(is_retelling());
}

/* The last piece of a retelling may say nothing. When the epoch ends in front of it, with its stream perhaps, the
 * next one has none of what was told: nothing is noted, nor purged. */
static void an_epoch_that_ends_before_an_empty_piece(void **state)
{
    struct spool_retold noted;
    struct replica_view view;
    for (int i = 0; i < 2;
         i++) { /* i: whether it is committed first, as after a commit that failed */
        wait_ready();
        replica_begin(keeper.replica, false);
        assert_int_equal(replica_ship(keeper.replica), 0);
        replica_committed(keeper.replica, true);
        assert_true(is_retelling());
        replica_begin(keeper.replica, true);
        replica_close(keeper.replica);
        begin_epoch(false);
        struct spool_txn *t = begin();
        assert_int_equal(replica_note(keeper.replica, t), 0);
        if (i == 1) {
            assert_int_equal(spool_commit(t), 0);
        }
        assert_int_equal(replica_ship(keeper.replica), ERR_CLOSED);
        if (i == 0) {
            spool_abort(t);
        }
        assert_int_equal(spool_reader_begin(reader), 0);
        assert_int_equal(spool_read_retold(reader, &noted), ERR_MISSING);
        spool_reader_end(reader);
        replica_look(keeper.replica, &view);
        assert_int_equal(view.retellings, 0);
        wait_ready();
        assert_false(replica_is_sure(keeper.replica));
    }
}

/* A doubt begins the retelling anew only where that has room; else the log would stay as long as it is. */
static void a_doubt_leaves_no_full_log(void **state)
{
    struct spool_position at = {.id = 0};
    replica_set_size(keeper.replica, 0);
    assert_int_equal(commit_some(1, 3, &at, false), 0);
    assert_true(is_retelling());
    replica_set_size(keeper.replica, 255 << 20);
    replica_doubt(keeper.replica);
    assert_false(replica_wants_tables(keeper.replica));
    atomic_store(&keeper.is_deaf_to_purges, true);
    retell_all();
    uint64_t purge = replica_take_purge(keeper.replica);
    assert_true(purge > 0);
    replica_purged(keeper.replica, purge);
    assert_false(replica_is_sure(keeper.replica));
    assert_false(replica_wants_tables(keeper.replica)); /* before it is known how short it is */
    replica_set_size(keeper.replica, 1 << 20);
    assert_true(replica_wants_tables(keeper.replica));
    retell_all();
    replica_purged(keeper.replica, replica_take_purge(keeper.replica));
    assert_true(replica_is_sure(keeper.replica));
    assert_int_equal(replayed_messages(), 3);
}

/* As long as a log is more than a third full with mail that waits, telling that anew makes it no shorter. */
static void a_crowded_log_is_told_anew_for_what_came_only(void **state)
{
    struct spool_position kept, at = {.id = 0};
    struct replica_view view;
    assert_int_equal(commit_some(1, 400, &kept, false), 0); /* 8 MB */
    retell_all();
    replica_set_size(keeper.replica, 100 << 20);
    assert_int_equal(commit_some(401, 1, &at, false), 0);
    retell_all();
    replica_look(keeper.replica, &view);
    assert_int_equal(view.retellings, 1);
    for (uint64_t i = 0; i < 150; i++) { /* 3 MB, of which one message stays */
        assert_int_equal(commit_some(402 + i, 1, &at, true), 0);
    }
    retell_all();
    replica_look(keeper.replica, &view);
    assert_int_equal(view.retellings, 2);
    assert_int_equal(replayed_messages(), 401);
}

static void an_epoch_that_ends_takes_its_batch_along(void **state)
{
    struct spool_position at = {.id = 0};
    assert_int_equal(commit_some(1, 3, &at, false), 0);
    wait_ready();
    struct spool_txn *t = begin();
    replica_begin(keeper.replica, false);
    (void)put(t, 4, SLICE("x"));
    atomic_store(&keeper.is_deaf, true);
    replica_close(keeper.replica);
    begin_epoch(false);
    assert_int_equal(replica_ship(keeper.replica), ERR_CLOSED);
    spool_abort(t);
    atomic_store(&keeper.is_deaf, false);
    assert_int_equal(commit_some(5, 1, &at, false), 0);
    assert_false(replica_is_sure(keeper.replica));
    assert_int_equal(replayed_messages(), 4);
}

/* The journal could not be written after its batch was shipped: the tables take the same mail in the
 * same pass. Readers must not take that for the frames of before, nor all that follows for void. */
static void a_batch_is_shipped_again_at_once(void **state)
{
    struct spool_position at = {.id = 0};
    wait_ready();
    for (int i = 0; i < 2; i++) {
        struct spool_txn *t = begin();
        replica_begin(keeper.replica, false);
        at = put(t, 1, SLICE("x"));
        assert_int_equal(replica_ship(keeper.replica), 0);
        if (i == 0) {
            spool_abort(t);
            replica_doubt(keeper.replica);
        } else {
            assert_int_equal(spool_commit(t), 0);
            replica_committed(keeper.replica, false);
        }
    }
    assert_int_equal(commit_some(2, 1, &at, false), 0);
    assert_int_equal(replayed_messages(), 2);
}

/* The store has no reader now; whoever goes by replica_retelling_due asks seldom, and it goes on by itself. */
static void what_cannot_be_read_is_not_asked_for_again_at_once(void **state)
{
    struct spool_position at = {.id = 0};
    assert_int_equal(commit_some(1, 3, &at, false), 0);
    assert_true(is_retelling());
    atomic_store(&store->suspended, 1);
    const usec_t before = clock_mono();
    assert_true(replica_retelling_due(keeper.replica) <= before);
    unsigned asked = 0;
    while (clock_mono() < before + 100 * USEC_PER_MSEC) {
        if (clock_mono() >= replica_retelling_due(keeper.replica)) {
            asked++;
            wait_ready();
            replica_begin(keeper.replica, true);
            assert_int_equal(replica_ship(keeper.replica), 0);
        }
    }
    assert_true(is_retelling() && asked >= 1 && asked <= 11);
    atomic_store(&store->suspended, 0);
    while (is_retelling()) {
        wait_ready();
        replica_begin(keeper.replica, true);
        assert_int_equal(replica_ship(keeper.replica), 0);
    }
    assert_int_equal(replayed_messages(), 3);
}

/* Results of a message with very many recipients make a batch that servers may need long for. */
static void a_long_batch_gets_through_as_long_as_it_goes_on(void **state)
{
    struct spool_position at = {.id = 0};
    const usec_t begun = clock_mono();
    atomic_store(&keeper.usec_a_frame, 600000);
    assert_int_equal(commit_some(1, 100, &at, false), 0); /* 2 MB: four frames */
    atomic_store(&keeper.usec_a_frame, 0);
    assert_true(clock_mono() - begun > REPLICA_PATIENCE);
    assert_int_equal(replayed_messages(), 100);
}

/* Suppressed addresses are in no log, so a long list of them leaves it as much room for mail. */
static void only_what_is_told_needs_room(void **state)
{
    uint64_t before, after, with_mail;
    struct spool_txn *t = begin();
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_retelling_bytes(reader, &before), 0);
    spool_reader_end(reader);
    for (int i = 0; i < 20000; i++) {
        char address[64];
        (void)snprintf(address, sizeof(address), "recipient%d@example.com", i);
        const struct spool_suppression s = {.tenant = SLICE(""),
                                            .address = slice_of(address),
                                            .source = SLICE(""),
                                            .reason = SPOOL_SUPPRESS_BY_HAND,
                                            .added = USEC_PER_SEC};
        assert_int_equal(spool_suppress_put(t, &s, NULL), 0);
    }
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_retelling_bytes(reader, &after), 0);
    spool_reader_end(reader);
    assert_int_equal(before, after);
    struct spool_position at = {.id = 0};
    assert_int_equal(commit_some(1, 100, &at, false), 0);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_retelling_bytes(reader, &with_mail), 0);
    spool_reader_end(reader);
    assert_in_range(with_mail - after, 2000000, 3000000);
}

static void a_long_log_becomes_short(void **state)
{
    struct spool_position at = {.id = 0}, kept;
    struct replica_view view;
    assert_int_equal(commit_some(1, 100, &kept, false), 0);
    assert_int_equal(commit_some(101, 1, &at, false), 0);
    for (uint64_t i = 0; i < 4000; i++) { /* 80 MB */
        assert_int_equal(commit_some(102 + i, 1, &at, true), 0);
    }
    replica_look(keeper.replica, &view);
    assert_true(view.retellings >= 1);
    assert_int_equal(replayed_messages(), 101);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_log_has_what_the_spool_has, setup_replica,
                                        teardown_replica),
        cmocka_unit_test_setup_teardown(a_batch_without_an_answer_does_not_count, setup_replica,
                                        teardown_replica),
        cmocka_unit_test_setup_teardown(an_earlier_purge_does_not_make_it_sure, setup_replica,
                                        teardown_replica),
        cmocka_unit_test_setup_teardown(a_retelling_goes_on_in_the_next_process, setup_replica,
                                        teardown_replica),
        cmocka_unit_test_setup_teardown(a_retelling_that_the_log_has_lost_begins_anew,
                                        setup_replica, teardown_replica),
        cmocka_unit_test_setup_teardown(an_epoch_that_ends_before_an_empty_piece, setup_replica,
                                        teardown_replica),
        cmocka_unit_test_setup_teardown(a_doubt_leaves_no_full_log, setup_replica,
                                        teardown_replica),
        cmocka_unit_test_setup_teardown(a_crowded_log_is_told_anew_for_what_came_only,
                                        setup_replica, teardown_replica),
        cmocka_unit_test_setup_teardown(an_epoch_that_ends_takes_its_batch_along, setup_replica,
                                        teardown_replica),
        cmocka_unit_test_setup_teardown(a_batch_is_shipped_again_at_once, setup_replica,
                                        teardown_replica),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_is_not_asked_for_again_at_once,
                                        setup_replica, teardown_replica),
        cmocka_unit_test_setup_teardown(a_long_batch_gets_through_as_long_as_it_goes_on,
                                        setup_replica, teardown_replica),
        cmocka_unit_test_setup_teardown(only_what_is_told_needs_room, setup_replica,
                                        teardown_replica),
        cmocka_unit_test_setup_teardown(a_long_log_becomes_short, setup_replica, teardown_replica),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
