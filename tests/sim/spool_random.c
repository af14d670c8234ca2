/* Random operations on the spool beside the model, with aborts, reopens and restarts in between;
 * the texts must stay equal, and every page that is not in use must be free again at the end. */
#include "base/error.h"
#include "tests/sim/spool_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 12 }; /* of a transaction, at most */

static const char *folder;
static struct spool_store *store;
static struct spool_reader *reader;

static void fail(const char *what, int rc, uint64_t seed, int round)
{
    (void)fprintf(stderr, "%s: %s (seed %llu, round %d)\n", what, err_str(rc),
                  (unsigned long long)seed, round);
    exit(1);
}

static void spool_up(void)
{
    char text[256];
    struct spool_options options = {.path = folder, .map_size = 256 << 20};
    if (spool_store_open(&options, &store, text) != 0) {
        (void)fprintf(stderr, "%s\n", text);
        exit(1);
    }
    if (spool_reader_new(store, &reader) != 0) {
        exit(1);
    }
}

static void spool_down(void)
{
    spool_reader_free(reader);
    spool_store_close(store);
}

static void check(struct model *m, uint64_t seed, int round)
{
    struct buf want;
    struct buf got;
    buf_init(&want, 0);
    buf_init(&got, 0);
    model_text(m, &want);
    int rc = spool_reader_begin(reader);
    if (rc != 0) {
        fail("reader", rc, seed, round);
    }
    spool_text(reader, &got);
    model_learn_positions(m, reader);
    spool_reader_end(reader);
    if (!slice_eq(buf_slice(&want), buf_slice(&got))) {
        (void)fprintf(stderr, "seed %llu round %d\n--- model\n%.*s--- spool\n%.*s",
                      (unsigned long long)seed, round, (int)want.len, want.data, (int)got.len,
                      got.data);
        exit(1);
    }
    buf_fini(&want);
    buf_fini(&got);
}

/* Strikes cannot be read, only counted further. */
static void check_strikes(const struct model *m, uint64_t seed, int round)
{
    struct spool_txn *t;
    int rc = spool_begin(store, &t);
    if (rc == 0) {
        rc = suppress_model_check_strikes(&m->suppressed, t);
        spool_abort(t);
    }
    if (rc != 0) {
        fail("strikes", rc, seed, round);
    }
}

static void run(uint64_t seed, int rounds)
{
    static struct model m;
    static struct model before;
    char command[256];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    if (system(command) != 0) {
        exit(1);
    }
    model_init(&m, seed);
    spool_up();
    for (int round = 0; round < rounds; round++) {
        struct spool_txn *t;
        int rc = spool_begin(store, &t);
        if (rc != 0) {
            fail("begin", rc, seed, round);
        }
        model_copy(&before, &m);
        uint64_t steps = 1 + model_random(&m, STEPS);
        for (uint64_t i = 0; i < steps; i++) {
            rc = model_step(&m, t);
            if (rc != 0) {
                fail("step", rc, seed, round);
            }
        }
        if (model_random(&m, 10) == 0) {
            uint64_t random = m.random, next_id = m.next_id;
            spool_abort(t);
            model_fini(&m);
            model_copy(&m, &before);
            m.random = random;
            /* Places that were taken are not given out again, so ids go on as far at least: a start
             * begins behind the ids (read_sequence). The daemon reserves them far ahead. */
            m.next_id = next_id + STEPS;
        } else if ((rc = spool_commit(t)) != 0) {
            fail("commit", rc, seed, round);
        }
        model_fini(&before);
        uint64_t event = model_random(&m, 40);
        if (event == 0) {
            spool_down();
            model_restart(&m);
            spool_up();
        } else if (event == 1 && (rc = spool_store_reopen(store, NULL, NULL)) != 0) {
            fail("reopen", rc, seed, round);
        }
        check(&m, seed, round);
    }
    check_strikes(&m, seed, rounds);
    spool_down();
    model_fini(&m);
}

int main(int argc, char **argv)
{
    static char path[128];
    const char *base = getenv("TMPDIR");
    (void)snprintf(path, sizeof(path), "%s/spool_random.%ld", base == NULL ? "/tmp" : base,
                   (long)getpid());
    folder = path;
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t seeds = argc > 2 ? strtoull(argv[2], NULL, 10) : 8;
    int rounds = argc > 3 ? atoi(argv[3]) : 150;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        run(seed, rounds);
    }
    char command[256];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command) == 0 ? 0 : 1;
}
