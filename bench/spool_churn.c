/* What a large free list costs the spool: a backlog is filled, half of it is drained while nothing
 * comes, then the rest while new messages come and go.
 *
 * usage: sluice-spool-churn FOLDER BACKLOG BYTES[,BYTES...][/BYTES[,BYTES...]] [BATCH [random]]
 * Each transaction puts and removes BATCH messages (50), the oldest ones or any (random). Sizes
 * take turns; behind the slash are those of the messages that come while others go. A line for each
 * tenth of the backlog: CPU microseconds (user and system) of the thread a message, in the puts,
 * the removals and the commit apart, the slowest transaction, the size of the file and RssAnon. */
#include "base/clock.h"
#include "base/error.h"
#include "engine/spool/spool_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { SIZES_MAX = 16, PARTS = 10, FILL_BATCH = 500 };

struct sizes {
    size_t bytes[SIZES_MAX];
    int count, next;
};

struct churn {
    struct spool_store *store;
    const char *folder;
    struct sizes sizes, later; /* of the backlog, of what comes while others go */
    char *body;
    uint64_t next_id;
    struct spool_position *queue; /* [capacity], from head to tail */
    size_t head, tail, capacity;
    bool is_draining, is_random;
    uint64_t seed;
};

struct cost {
    double put, removal, commit; /* CPU seconds */
    usec_t slowest;
    uint64_t transactions, puts, removals;
};

static void check_rc(int rc, const char *what)
{
    if (rc != 0) {
        (void)fprintf(stderr, "%s: %s\n", what, err_str(rc));
        exit(1);
    }
}

static double cpu_seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* fails for an unknown clock only */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void put_body(struct spool_txn *t, struct spool_envelope *e, size_t bytes, const char *body)
{
    check_rc(spool_stage(t, e->id), "stage");
    for (size_t at = 0; at < bytes; at += SPOOL_CHUNK_BYTES) {
        size_t left = bytes - at;
        struct slice chunk =
            slice_make(body + at, left < SPOOL_CHUNK_BYTES ? left : SPOOL_CHUNK_BYTES);
        check_rc(spool_put_chunk(t, e->id, e->chunk_count++, chunk), "chunk");
    }
}

static void put_churn_message(struct churn *c, struct spool_txn *t)
{
    static const char packed[] = "\0\x19"
                                 "recipient@example.invalid";
    struct sizes *sizes = c->is_draining ? &c->later : &c->sizes;
    size_t bytes = sizes->bytes[sizes->next++ % sizes->count];
    struct slice body = slice_make(c->body, bytes);
    struct spool_envelope e = {
        .id = ++c->next_id,
        .created = 1700000000000000,
        .size_bytes = bytes,
        .recipient_count = 1,
        .sender = SLICE("bounce-12345@sender.example"),
        .peer_name = SLICE("app1.sender.example"),
        .peer_address = SLICE("192.0.2.10"),
        .protocol = SLICE("ESMTP"),
    };
    if (bytes > SPOOL_INLINE_BODY_BYTES) {
        put_body(t, &e, bytes, c->body);
        body = SLICE("");
    }
    check_rc(spool_put_message(t, &e, slice_make(packed, sizeof(packed) - 1), body,
                               &c->queue[c->tail++ % c->capacity]),
             "put");
}

/* The oldest message, or any. */
static const struct spool_position *next_out(struct churn *c)
{
    struct spool_position *first = &c->queue[c->head % c->capacity];
    if (c->is_random) {
        c->seed = c->seed * 6364136223846793005ull + 1442695040888963407ull;
        size_t chosen = c->head + (size_t)((c->seed >> 33) % (c->tail - c->head));
        struct spool_position *other = &c->queue[chosen % c->capacity];
        struct spool_position swap = *first;
        *first = *other;
        *other = swap;
    }
    c->head++;
    return first;
}

static void transaction(struct churn *c, uint32_t puts, uint32_t removals, struct cost *cost)
{
    struct spool_txn *t;
    usec_t began = clock_mono();
    double at = cpu_seconds();
    check_rc(spool_begin(c->store, &t), "begin");
    for (uint32_t i = 0; i < puts; i++) {
        put_churn_message(c, t);
    }
    double put_end = cpu_seconds();
    for (uint32_t i = 0; i < removals; i++) {
        check_rc(spool_remove(t, next_out(c)), "remove");
    }
    double removal_end = cpu_seconds();
    check_rc(spool_commit(t), "commit");
    double end = cpu_seconds();
    usec_t took = clock_mono() - began;
    cost->put += put_end - at;
    cost->removal += removal_end - put_end;
    cost->commit += end - removal_end;
    cost->slowest = took > cost->slowest ? took : cost->slowest;
    cost->transactions++;
    cost->puts += puts;
    cost->removals += removals;
}

static double per(double seconds, uint64_t count)
{
    return count == 0 ? 0 : 1e6 * seconds / (double)count;
}

/* Anonymous memory: dirty pages of the transaction, the free list. 0 when the kernel does not tell.
 */
static double anonymous_mb(void)
{
    char line[256];
    unsigned long kilobytes = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof(line), status) != NULL) {
        if (sscanf(line, "RssAnon: %lu", &kilobytes) == 1) {
            break;
        }
    }
    if (status != NULL) {
        (void)fclose(status); /* read only */
    }
    return (double)kilobytes / 1000.0;
}

static void report_cost(const struct churn *c, const char *what, const struct cost *cost)
{
    char path[4096];
    struct stat st = {0};
    (void)snprintf(path, sizeof(path), "%s/data.mdb", c->folder);
    (void)stat(path, &st); /* a size of 0 then */
    uint64_t most = cost->puts > cost->removals ? cost->puts : cost->removals;
    (void)printf("%-6s %8zu queued  put %7.1f us  remove %7.1f us  commit %7.1f us a message  "
                 "slowest %6.1f ms  file %6.0f MB  memory %4.0f MB\n",
                 what, c->tail - c->head, per(cost->put, cost->puts),
                 per(cost->removal, cost->removals), per(cost->commit, most),
                 (double)cost->slowest / 1000.0, (double)st.st_size / 1e6, anonymous_mb());
    (void)fflush(stdout);
}

static void fill_churn(struct churn *c, size_t backlog)
{
    for (int part = 0; part < PARTS; part++) {
        struct cost cost = {0};
        while (c->tail < backlog / PARTS * (size_t)(part + 1)) {
            transaction(c, FILL_BATCH, 0, &cost);
        }
        if (part == 0 || part == PARTS - 1) {
            report_cost(c, "fill", &cost);
        }
    }
}

static void work(struct churn *c, const char *what, uint32_t puts, uint32_t removals, size_t count)
{
    for (int part = 0; part < PARTS; part++) {
        struct cost cost = {0};
        while (cost.removals < count / PARTS && c->tail - c->head >= removals) {
            transaction(c, puts, removals, &cost);
        }
        report_cost(c, what, &cost);
    }
}

static void sizes_parse(struct sizes *sizes, char *text, size_t *largest)
{
    char *rest = NULL;
    for (char *word = strtok_r(text, ",", &rest); word != NULL && sizes->count < SIZES_MAX;
         word = strtok_r(NULL, ",", &rest)) {
        size_t bytes = (size_t)atol(word);
        sizes->bytes[sizes->count++] = bytes;
        *largest = bytes > *largest ? bytes : *largest;
    }
}

static void parse_bytes(struct churn *c, char *text)
{
    size_t largest = 0;
    char *later = strchr(text, '/');
    if (later != NULL) {
        *later++ = '\0';
        sizes_parse(&c->later, later, &largest);
    }
    sizes_parse(&c->sizes, text, &largest);
    if (c->later.count == 0) {
        c->later = c->sizes;
    }
    c->body = malloc(largest + 1);
    if (c->body == NULL || c->sizes.count == 0) {
        exit(1);
    }
    memset(c->body, 'x', largest + 1);
}

int main(int argc, char **argv)
{
    struct churn c = {0};
    char text[256];
    if (argc < 4) {
        (void)fprintf(stderr,
                      "usage: %s FOLDER BACKLOG BYTES[,...][/BYTES[,...]] [BATCH [random]]\n"
                      "",
                      argv[0]);
        return 2;
    }
    size_t backlog = (size_t)atol(argv[2]);
    uint32_t batch = argc > 4 ? (uint32_t)atoi(argv[4]) : 50;
    struct spool_options options = {.path = argv[1], .map_size = 1ull << 40};
    if (spool_store_open(&options, &c.store, text) != 0) {
        (void)fprintf(stderr, "%s\n", text);
        return 1;
    }
    c.folder = argv[1];
    c.is_random = argc > 5 && strcmp(argv[5], "random") == 0;
    parse_bytes(&c, argv[3]);
    c.next_id = spool_store_first_id(c.store);
    c.capacity = backlog + backlog / PARTS + 2 * FILL_BATCH + batch;
    c.queue = calloc(c.capacity, sizeof(*c.queue));
    if (c.queue == NULL) {
        return 1;
    }
    fill_churn(&c, backlog);
    c.is_draining = true;
    work(&c, "drain", 0, batch, backlog / 2);
    work(&c, "both", batch, batch, backlog);
    work(&c, "drain", 0, batch, backlog / 2);
    struct cost ignored = {0};
    transaction(&c, FILL_BATCH + batch, 0, &ignored);
    work(&c, "empty", batch, batch, backlog / 2);
    free(c.queue);
    free(c.body);
    spool_store_close(c.store);
    return 0;
}
