/* A wall clock that is set at random, by seconds or by weeks, forward and back, also while the
 * daemon is down, beside mail on a real spool. Time that passes is the model's; by it no message
 * waits longer than its delay after it was deferred or the clock was last set back, and none is
 * tried before its time unless the clock was set meanwhile. usage: clock_random [SEEDS [RUNS]] */
#include "base/error.h"
#include "engine/activator/deferred_scan.h"
#include "engine/writer/retry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGES = 60, FLOWS = 20 };
static const usec_t run = 300 * USEC_PER_SEC;
static const usec_t longest = 4000 * USEC_PER_SEC;
static const usec_t slack = 5 * USEC_PER_SEC;

struct mail {
    struct spool_position position;
    usec_t deferred, delay; /* passed time */
};

struct world {
    uint64_t random, seed;
    int round;
    char folder[128];
    struct spool_store *store;
    struct spool_reader *reader;
    struct deferred_scan scan;
    struct deferred_place places[FLOWS];
    usec_t passed;          /* since the model began */
    usec_t wall, last_wall; /* the clock is so far from it; and before it was last set */
    usec_t born;            /* passed time when the daemon started: its monotonic clock's zero */
    usec_t set, set_back;   /* passed time when the clock was last set (back) */
    struct mail mail[MESSAGES];
    unsigned long early, tried, steps, left_out;
};

static void require(const struct world *w, bool is_true, const char *what)
{
    if (!is_true) {
        (void)fprintf(stderr, "%s (seed %llu, round %d)\n", what, (unsigned long long)w->seed,
                      w->round);
        exit(1);
    }
}

static uint64_t random_below(struct world *w, uint64_t limit)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (w->random >> 33) % limit;
}

static void up(struct world *w)
{
    const struct spool_options options = {.path = w->folder, .map_size = 64 << 20};
    char text[256];
    require(w, spool_store_open(&options, &w->store, text) == 0, "open");
    require(w, spool_reader_new(w->store, &w->reader) == 0, "reader");
    deferred_scan_init(&w->scan, spool_store_clock(w->store), w->passed + w->wall);
    memset(w->places, 0, sizeof(w->places));
    w->born = w->passed;
}

static void down(struct world *w)
{
    spool_reader_free(w->reader);
    spool_store_close(w->store);
}

static void step(struct world *w)
{
    static const usec_t sizes[] = {USEC_PER_SEC / 2, 10 * USEC_PER_SEC, 3000 * USEC_PER_SEC,
                                   1000000 * USEC_PER_SEC};
    usec_t size = sizes[random_below(w, 4)];
    usec_t by = (usec_t)random_below(w, 1000) * (size / 1000);
    bool is_back = random_below(w, 2) == 0;
    w->last_wall = w->wall;
    w->wall += is_back ? -by : by;
    w->set = w->passed;
    w->set_back = is_back ? w->passed : w->set_back;
    w->steps++;
}

static void put(struct world *w)
{
    struct spool_txn *t;
    require(w, spool_begin(w->store, &t) == 0, "begin");
    for (uint64_t i = 0; i < MESSAGES; i++) {
        const struct spool_envelope e = {.id = i + 1, .recipient_count = 1, .sender = SLICE("")};
        struct spool_position at;
        require(w, spool_put_message(t, &e, SLICE("\0\3a@x"), SLICE("x\r\n"), &at) == 0, "put");
        w->mail[i].position =
            (struct spool_position){SPOOL_DEFERRED, 1, i + 1, (uint32_t)i % FLOWS};
        const struct spool_retry retry = {.attempts = 1, .due = 1};
        require(w, spool_requeue(t, &at, &w->mail[i].position, &retry) == 0, "requeue");
    }
    require(w, spool_commit(t) == 0, "commit");
}

/* The writer may have read the clock before it was set. */
static void defer(struct world *w, const bool taken[MESSAGES], bool is_stale)
{
    struct spool_txn *t;
    usec_t wall = w->passed + (is_stale ? w->last_wall : w->wall);
    require(w, spool_begin(w->store, &t) == 0, "begin");
    for (uint64_t i = 0; i < MESSAGES; i++) {
        if (!taken[i]) {
            continue;
        }
        struct mail *m = &w->mail[i];
        m->deferred = w->passed;
        m->delay = run + (usec_t)random_below(w, 3701) * USEC_PER_SEC;
        const struct spool_retry retry = {.attempts = 2, .due = wall + m->delay, .deferred = wall};
        const struct spool_position next = {SPOOL_DEFERRED, (uint64_t)retry.due, i + 1,
                                            m->position.flow};
        require(w, spool_requeue(t, &m->position, &next, &retry) == 0, "requeue");
        m->position = next;
    }
    require(w, spool_note_clock(t, wall) == 0, "note");
    require(w, spool_commit(t) == 0, "commit");
}

static void try(struct world *w, struct mail *m, bool *taken)
{
    bool was_set = w->set >= m->deferred;
    bool is_early = w->passed + slack < m->deferred + m->delay;
    require(w, !*taken, "tried twice by one scan");
    require(w, was_set || !is_early, "tried too early");
    w->early += is_early;
    w->tried++;
    *taken = true;
}

static usec_t later(usec_t a, usec_t b)
{
    return a > b ? a : b;
}

static void scan_flow(struct world *w, uint32_t flow, bool taken[MESSAGES])
{
    struct deferred_place *at = &w->places[flow];
    struct spool_position p;
    int err = 0;
    if (!deferred_scan_wants(&w->scan, at)) {
        w->left_out++;
        return;
    }
    deferred_scan_enter(&w->scan, at, flow);
    while (err != ERR_MISSING) {
        int budget = 1 + (int)random_below(w, 20);
        require(w, spool_reader_begin(w->reader) == 0, "begin reading");
        while ((err = deferred_scan_next(&w->scan, at, w->reader, w->passed + w->wall, &budget,
                                         &p)) == 0) {
            deferred_scan_pass(at, &p);
            try(w, &w->mail[p.id - 1], &taken[p.id - 1]);
        }
        spool_reader_end(w->reader);
    }
}

static void scan(struct world *w, bool is_stale)
{
    bool taken[MESSAGES] = {false};
    deferred_scan_start(&w->scan, w->passed + w->wall, w->passed - w->born, longest);
    for (uint32_t flow = 0; flow < FLOWS; flow++) {
        scan_flow(w, flow, taken);
    }
    for (size_t i = 0; i < MESSAGES; i++) {
        const struct mail *m = &w->mail[i];
        usec_t latest = later(m->deferred, w->set_back) + m->delay + 3 * run + slack;
        require(w, taken[i] || w->passed <= latest, "tried too late");
    }
    for (size_t i = 0; i < MESSAGES; i++) {
        w->places[i % FLOWS].next_due = taken[i] ? 0 : w->places[i % FLOWS].next_due;
    }
    defer(w, taken, is_stale);
}

static void play(struct world *w, int runs)
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(w->folder, sizeof(w->folder), "%s/clock.XXXXXX", base == NULL ? "/tmp" : base);
    require(w, mkdtemp(w->folder) != NULL, "folder");
    w->wall = w->last_wall = 1700000000 * USEC_PER_SEC;
    up(w);
    put(w);
    for (w->round = 0; w->round < runs; w->round++) {
        w->passed += run;
        bool is_set = random_below(w, 6) == 0;
        bool restarts = random_below(w, 12) == 0;
        if (restarts) {
            down(w);
        }
        if (is_set) {
            step(w);
        }
        if (restarts) {
            up(w);
        }
        scan(w, is_set && !restarts && random_below(w, 2) == 0);
    }
    down(w);
    char command[160];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", w->folder);
    require(w, system(command) == 0, "removal");
}

int main(int argc, char **argv)
{
    int seeds = argc > 1 ? atoi(argv[1]) : 4, runs = argc > 2 ? atoi(argv[2]) : 250;
    unsigned long tried = 0, early = 0, steps = 0, left_out = 0;
    for (int seed = 1; seed <= seeds; seed++) {
        struct world w = {.seed = (uint64_t)seed, .random = (uint64_t)seed};
        play(&w, runs);
        tried += w.tried;
        early += w.early;
        steps += w.steps;
        left_out += w.left_out;
    }
    (void)printf(
        "%d seeds, %d scans each: the clock was set %lu times, %lu attempts, %lu of them before "
        "their time as the clock was set, none too late; %lu scans without a look\n",
        seeds, runs, steps, tried, early, left_out);
    return 0;
}
