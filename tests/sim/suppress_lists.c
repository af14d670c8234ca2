/* How much room lists of suppressed recipients take and what a look-up costs, in a spool of its own:
 *
 *   suppress_lists [ENTRIES FOLDER [scattered]]
 *
 * ENTRIES, 100,000 in a folder of its own when it is not said, addresses of some 24 bytes go in, 1,000 a transaction, in their order or scattered over it. Prints
 * bytes of disk, the rate, and the time of look-ups in memory; then the file is put out of the page cache, and
 * pages that look-ups read are counted. Fails beyond the bounds that the README of spool/ names. */
#include "base/clock.h"
#include "base/error.h"
#include "engine/spool/spool_store.h"
#include "engine/spool/spool_suppress.h"
#include "tests/chance.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 1000, WARM = 200000, COLD = 20000, FEW = 100000 };

static int looks = 1000000;

static struct spool_store *store;
static struct spool_reader *reader;
static const char *folder;
static const usec_t now = INT64_C(1800000000) * USEC_PER_SEC;

static void must(int err, const char *what)
{
    if (err != 0) {
        (void)fprintf(stderr, "%s: %s\n", what, err_str(err));
        exit(1);
    }
}

static void open_store(void)
{
    char text[256] = "";
    const struct spool_options options = {.path = folder, .map_size = UINT64_C(16) << 30};
    must(spool_store_open(&options, &store, text), text);
    must(spool_reader_new(store, &reader), "reader");
}

static void close_store(void)
{
    spool_reader_free(reader);
    spool_store_close(store);
}

/* Entry `number` of `count`: digits in front keep the order of numbers. Some 24 bytes. */
static struct slice name_of(uint64_t number, char out[64])
{
    int len = snprintf(out, 64, "%08llx@mail%03u.example", (unsigned long long)number,
                       (unsigned)(number * 2654435761U % 1000));
    return slice_of_printed(out, 64, len);
}

static uint64_t state = 88172645463325252u;

static uint64_t draw(uint64_t below)
{
    return chance_next(&state) % below;
}

/* The numbers 0..count-1, in their order or in a random one. */
static uint32_t *make_order(uint64_t count, bool is_scattered)
{
    uint32_t *order = malloc(count * sizeof(*order));
    must(order == NULL ? -1 : 0, "memory");
    for (uint64_t i = 0; i < count; i++) {
        uint64_t other = is_scattered ? draw(i + 1) : i;
        order[i] = order[other];
        order[other] = (uint32_t)i;
    }
    return order;
}

static void import(uint64_t count, bool is_scattered)
{
    char text[64];
    uint32_t *order = make_order(count, is_scattered);
    for (uint64_t at = 0; at < count;) {
        struct spool_txn *t;
        must(spool_begin(store, &t), "begin");
        for (int i = 0; i < BATCH && at < count; i++, at++) {
            const struct spool_suppression s = {.tenant = SLICE("acme"),
                                                .address = name_of(order[at], text),
                                                .added = now,
                                                .source = SLICE("import")};
            must(spool_suppress_put(t, &s, NULL), "put");
        }
        must(spool_commit(t), "commit");
    }
    free(order);
}

/* Every other one is on the list. */
static void look(uint64_t count)
{
    char text[64];
    struct spool_suppression found;
    uint64_t number = draw(2 * count);
    int err = spool_suppress_find(reader, SLICE("acme"), name_of(number, text), now, &found);
    if ((err == 0) != (number < count)) {
        must(ERR_CORRUPT, text);
    }
}

static usec_t cpu_time(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* cannot fail */
    return (usec_t)t.tv_sec * USEC_PER_SEC + t.tv_nsec / 1000;
}

/* The machine may be another's as well, so it is the processor's time; without what the names take. */
static double look_up_in_memory(uint64_t count)
{
    char text[64];
    size_t bytes = 0;
    must(spool_reader_begin(reader), "begin");
    for (int i = 0; i < WARM; i++) {
        look(count);
    }
    usec_t begin = cpu_time();
    for (int i = 0; i < looks; i++) {
        look(count);
    }
    usec_t middle = cpu_time();
    for (int i = 0; i < looks; i++) {
        bytes += name_of(draw(2 * count), text).len;
    }
    usec_t names = cpu_time() - middle;
    spool_reader_end(reader);
    must(bytes == 0 ? -1 : 0, "names");
    return (double)(middle - begin - names) / looks;
}

static long faults(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage); /* cannot fail */
    return usage.ru_majflt;
}

static void forget_cache(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    must(fd < 0 ? -1 : 0, "open data.mdb");
    (void)fsync(fd);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* a wish; the counts tell */
    (void)close(fd);
}

/* ret: look-ups that read no page, one, more. The first ones fetch the branches. */
static void look_up_cold(uint64_t count, const char *path, unsigned ret[3])
{
    memset(ret, 0, 3 * sizeof(*ret));
    close_store();
    forget_cache(path);
    open_store();
    must(spool_reader_begin(reader), "begin");
    for (int i = 0; i < WARM / 10; i++) {
        look(count);
    }
    for (int i = 0; i < COLD; i++) {
        long before = faults();
        look(count);
        long read = faults() - before;
        ret[read < 2 ? read : 2]++;
    }
    spool_reader_end(reader);
}

int main(int argc, char **argv)
{
    char path[4096], own[] = "/tmp/suppress-lists-XXXXXX";
    struct stat st;
    bool is_short = argc == 1;
    if (argc == 2) {
        (void)fputs("usage: suppress_lists [ENTRIES FOLDER [scattered]]\n", stderr);
        return 2;
    }
    uint64_t count = is_short ? FEW : strtoull(argv[1], NULL, 10);
    looks = is_short ? FEW : looks;
    folder = is_short ? mkdtemp(own) : argv[2];
    must(folder == NULL ? -1 : 0, "mkdtemp");
    (void)snprintf(path, sizeof(path), "%s/data.mdb", folder);
    open_store();
    usec_t begin = clock_mono();
    import(count, argc > 3);
    double seconds = (double)(clock_mono() - begin) / USEC_PER_SEC;
    must(stat(path, &st), path);
    double mb = (double)st.st_size / 1e6, each = look_up_in_memory(count);
    unsigned cold[3];
    look_up_cold(count, path, cold);
    (void)printf(
        "%llu entries %s: %.0f MB, %.0f a second; look-up in memory %.2f us; of %d behind an "
        "empty page cache %u read no page, %u one, %u more\n",
        (unsigned long long)spool_suppress_count(store), argc > 3 ? "scattered" : "in order", mb,
        (double)count / seconds, each, COLD, cold[0], cold[1], cold[2]);
    close_store();
    if (is_short) {
        (void)snprintf(path, sizeof(path), "rm -rf '%s'", own);
        must(system(path), "rm");
    }
    bool is_right = mb <= 90e-6 * (double)count + 1 && cold[2] * 100 <= cold[1];
    return is_right ? 0 : 1;
}
