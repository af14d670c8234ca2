/* Speed of the spool alone: messages put and removed in synced transactions of several sizes.
 *
 * usage: sluice-spool-bench [FOLDER [MESSAGES [BODY_BYTES [BACKLOG]]]]
 * Each transaction puts n messages of one recipient and removes the n of the transaction before.
 * Prints messages a second and CPU microseconds (user and system) a message; with a backlog, that
 * many deferred messages lie in the spool meanwhile. */
#include "base/clock.h"
#include "base/error.h"
#include "engine/spool/spool_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static double cpu_seconds(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void check_rc(int rc, const char *what)
{
    if (rc != 0) {
        (void)fprintf(stderr, "%s: %s\n", what, err_str(rc));
        exit(1);
    }
}

static void put_message(struct spool_txn *t, uint64_t id, struct slice body,
                        struct spool_position *at)
{
    static const char packed[] = "\0\x19"
                                 "recipient@example.invalid";
    struct spool_envelope e = {
        .id = id,
        .created = 1700000000000000,
        .size_bytes = body.len,
        .recipient_count = 1,
        .sender = SLICE("bounce-12345@sender.example"),
        .peer_name = SLICE("app1.sender.example"),
        .peer_address = SLICE("192.0.2.10"),
        .protocol = SLICE("ESMTP"),
    };
    check_rc(spool_put_message(t, &e, slice_make(packed, sizeof(packed) - 1), body, at), "put");
}

static void run_batches(struct spool_store *s, uint64_t *next_id, uint32_t count, uint32_t batch,
                        struct slice body)
{
    struct spool_position *last = calloc(batch, sizeof(*last));
    struct spool_txn *t;
    if (last == NULL) {
        exit(1);
    }
    usec_t started = clock_mono();
    double cpu = cpu_seconds();
    uint32_t rounds = count / batch;
    for (uint32_t round = 0; round <= rounds; round++) {
        check_rc(spool_begin(s, &t), "begin");
        for (uint32_t i = 0; i < batch; i++) {
            if (round > 0) {
                check_rc(spool_remove(t, &last[i]), "remove");
            }
            if (round < rounds) {
                put_message(t, ++*next_id, body, &last[i]);
            }
        }
        check_rc(spool_commit(t), "commit");
    }
    double seconds = (double)(clock_mono() - started) / USEC_PER_SEC;
    cpu = cpu_seconds() - cpu;
    uint32_t messages = rounds * batch;
    (void)printf("commits of %4u: %8.0f messages/s  %6.2f us CPU a message\n", batch,
                 messages / seconds, 1e6 * cpu / messages);
    (void)fflush(stdout);
    free(last);
}

static void fill_backlog(struct spool_store *s, uint64_t *next_id, uint32_t backlog,
                         struct slice body)
{
    for (uint32_t done = 0; done < backlog;) {
        struct spool_txn *t;
        check_rc(spool_begin(s, &t), "begin");
        for (uint32_t i = 0; i < 1000 && done < backlog; i++, done++) {
            struct spool_position at;
            put_message(t, ++*next_id, body, &at);
            struct spool_position to = {SPOOL_DEFERRED, 1700000000000000u + done * 7919u % 100000,
                                        at.id, at.flow};
            const struct spool_retry retry = {.attempts = 1};
            check_rc(spool_set_recipient(t, at.id, 1, 0, SPOOL_RECIPIENT_DEFERRED, NULL), "state");
            check_rc(spool_requeue(t, &at, &to, &retry), "requeue");
        }
        check_rc(spool_commit(t), "commit");
    }
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : "spool-bench.tmp";
    uint32_t count = argc > 2 ? (uint32_t)atoi(argv[2]) : 100000;
    size_t body_bytes = argc > 3 ? (size_t)atoi(argv[3]) : 4096;
    uint32_t backlog = argc > 4 ? (uint32_t)atoi(argv[4]) : 0;
    static const uint32_t batches[] = {1, 10, 50, 200};
    struct spool_options options = {.path = folder, .map_size = 1ull << 40};
    struct spool_store *s;
    char text[256];
    if (spool_store_open(&options, &s, text) != 0) {
        (void)fprintf(stderr, "%s\n", text);
        return 1;
    }
    char *body = malloc(body_bytes + 1);
    if (body == NULL) {
        return 1;
    }
    memset(body, 'x', body_bytes + 1);
    uint64_t next_id = spool_store_first_id(s);
    fill_backlog(s, &next_id, backlog, slice_make(body, body_bytes));
    for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
        uint32_t messages = batches[i] < 10 ? count / 20 : count;
        run_batches(s, &next_id, messages, batches[i], slice_make(body, body_bytes));
    }
    free(body);
    spool_store_close(s);
    return 0;
}
