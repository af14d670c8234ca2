/* Fills a real small disk with the spool, again and again: every refusal must leave what was
 * acknowledged, the spool must drain although the disk is full, and take mail again afterwards.
 *
 * Mounts a tmpfs in its own mount namespace; exits 77 (skipped) where that is not allowed. */
#include "base/error.h"
#include "engine/spool/spool_store.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    DISK_BYTES = 8 << 20,
    BALLAST_BYTES = 1 << 20,
    BODY_BYTES = 20000,
    BATCH = 10,
    MESSAGES_MAX = 1000,
    ROUNDS = 30,
};

static struct spool_store *store;
static struct spool_position places[MESSAGES_MAX];

static void fail(const char *what, int rc)
{
    (void)fprintf(stderr, "%s: %s\n", what, err_str(rc));
    exit(1);
}

static void mount_disk(const char *folder)
{
    char options[64];
    (void)snprintf(options, sizeof(options), "size=%d,mode=0777", DISK_BYTES);
    bool is_root = geteuid() == 0;
    if (unshare(CLONE_NEWNS | (is_root ? 0 : CLONE_NEWUSER)) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", folder, "tmpfs", 0, options) != 0) {
        (void)fprintf(stderr, "no mount namespace here: %s\n", strerror(errno));
        exit(77);
    }
}

/* Puts BATCH messages; 0 or the error of the first thing that failed. */
static int put_batch(uint64_t first_id, struct spool_position *at)
{
    static char body[BODY_BYTES];
    struct spool_txn *t;
    int rc = spool_begin(store, &t);
    for (uint64_t i = 0; rc == 0 && i < BATCH; i++) {
        struct spool_envelope e = {.id = first_id + i,
                                   .size_bytes = BODY_BYTES,
                                   .recipient_count = 1,
                                   .sender = SLICE("a@example.com")};
        rc = spool_put_message(t, &e, slice_make("\0\1b", 3), slice_make(body, sizeof(body)),
                               &at[i]);
        if (rc != 0) {
            spool_abort(t);
        }
    }
    return rc != 0 ? rc : spool_commit(t);
}

static void check_count(uint64_t want)
{
    struct spool_reader *r;
    struct spool_counts counts;
    int rc = spool_reader_new(store, &r);
    if (rc != 0 || (rc = spool_reader_begin(r)) != 0 || (rc = spool_read_counts(r, &counts)) != 0) {
        fail("counts", rc);
    }
    spool_reader_end(r);
    spool_reader_free(r);
    if (counts.messages != want || counts.incoming != want) {
        (void)fprintf(stderr, "%llu messages, not %llu\n", (unsigned long long)counts.messages,
                      (unsigned long long)want);
        exit(1);
    }
}

static void recover(void)
{
    spool_store_drop_ballast(store);
    int rc = spool_store_must_reopen(store) ? spool_store_reopen(store, NULL, NULL) : 0;
    if (rc != 0) {
        fail("reopen", rc);
    }
}

/* Fills the disk, then drains it in small transactions. */
static uint64_t fill_and_drain(uint64_t first_id)
{
    uint64_t count = 0;
    int rc = 0;
    while (rc == 0 && count + BATCH <= MESSAGES_MAX) {
        rc = put_batch(first_id + count, &places[count]);
        if (rc == 0) {
            count += BATCH;
        }
    }
    if (rc != -ENOSPC) {
        fail("expected a full disk", rc);
    }
    recover();
    check_count(count);
    for (uint64_t i = 0; i < count; i++) {
        struct spool_txn *t;
        rc = spool_begin(store, &t);
        if (rc == 0) {
            rc = spool_remove(t, &places[i]);
            if (rc == 0) {
                rc = spool_commit(t);
            } else {
                spool_abort(t);
            }
        }
        if (rc != 0) {
            fail("drain", rc);
        }
    }
    check_count(0);
    spool_store_restore_ballast(store);
    return count;
}

/* What the journal holds needs room in the tables at the next start: the ballast has it. */
static void start_on_a_full_disk(const char *folder)
{
    enum { COUNT = 20 };
    static char body[BODY_BYTES];
    char path[64], filler[64], text[256];
    (void)snprintf(path, sizeof(path), "%s/other", folder);
    (void)snprintf(filler, sizeof(filler), "%s/filler", folder);
    struct spool_options options = {
        .path = path, .map_size = 1ull << 32, .ballast = BALLAST_BYTES, .journal = 512 << 10};
    if (spool_store_open(&options, &store, text) != 0) {
        fail(text, -EIO);
    }
    for (uint64_t id = 1; id <= COUNT; id++) {
        struct spool_position at;
        struct spool_envelope e = {.id = id,
                                   .size_bytes = BODY_BYTES,
                                   .recipient_count = 1,
                                   .sender = SLICE("a@example.com")};
        int rc = spool_journal_message(store, &e, slice_make("\0\1b", 3),
                                       slice_make(body, sizeof(body)), &at);
        rc = rc == 0 ? spool_journal_commit(store) : rc;
        if (rc != 0) {
            fail("journal", rc);
        }
    }
    spool_store_close(store);
    int fd = open(filler, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (fd >= 0 && write(fd, body, sizeof(body)) > 0) {
    }
    if (fd < 0 || close(fd) != 0 || spool_store_open(&options, &store, text) != 0) {
        fail(text, -ENOSPC);
    }
    check_count(COUNT);
    spool_store_close(store);
}

static void make_room(const char *path)
{
    char command[80];
    (void)snprintf(command, sizeof(command), "rm -rf %s", path);
    if (system(command) != 0) {
        fail(command, -EIO);
    }
}

int main(void)
{
    char folder[] = "/tmp/spool_full.XXXXXX";
    char path[64];
    char text[256];
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    mount_disk(folder);
    (void)snprintf(path, sizeof(path), "%s/spool", folder);
    struct spool_options options = {
        .path = path, .map_size = 1ull << 32, .reserve = 1 << 16, .ballast = BALLAST_BYTES};
    if (spool_store_open(&options, &store, text) != 0) {
        (void)fprintf(stderr, "%s\n", text);
        return 1;
    }
    uint64_t id = 1;
    uint64_t least = MESSAGES_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t count = fill_and_drain(id);
        least = count < least ? count : least;
        id += MESSAGES_MAX;
    }
    (void)printf("%d rounds, at least %llu messages each; free at the end: %llu bytes\n", ROUNDS,
                 (unsigned long long)least, (unsigned long long)spool_store_free_bytes(store));
    bool is_right = least > 200 && spool_store_free_bytes(store) > DISK_BYTES / 2;
    spool_store_close(store);
    make_room(path);
    start_on_a_full_disk(folder);
    (void)umount(folder); /* the namespace ends with the process anyway */
    (void)rmdir(folder);
    return is_right ? 0 : 1;
}
