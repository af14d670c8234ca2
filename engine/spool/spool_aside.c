/* Owns how a spool makes room for an empty one. Called by engine_run.c when all threads have ended. */
#include "engine/spool/spool_aside.h"

#include "base/error.h"
#include "engine/spool/spool_env.h"
#include "engine/spool/spool_meta.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { RECORDS_AT_ONCE = 10000, TEXT_BYTES = 256 };

/* Copies some records behind *key, which it moves on. errors: ERR_MISSING: no more; storage */
static int copy_some(struct spool_store *from, struct spool_store *to, enum spool_table table,
                     struct buf *last)
{
    MDB_txn *in = NULL, *out = NULL;
    MDB_cursor *cursor = NULL;
    MDB_val k = {last->len, last->data}, v;
    unsigned count = 0;
    int rc = mdb_txn_begin(from->env, NULL, MDB_RDONLY, &in);
    rc = rc != 0 ? rc : mdb_txn_begin(to->env, NULL, 0, &out);
    rc = rc != 0 ? rc : mdb_cursor_open(in, from->dbi[table], &cursor);
    if (rc == 0) {
        rc = mdb_cursor_get(cursor, &k, &v, last->len == 0 ? MDB_FIRST : MDB_SET_RANGE);
    }
    for (; rc == 0 && count < RECORDS_AT_ONCE; count++) {
        rc = mdb_put(out, to->dbi[table], &k, &v, 0);
        buf_clear(last);
        buf_append(last, k.mv_data, k.mv_size);
        rc = rc != 0 ? rc : mdb_cursor_get(cursor, &k, &v, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    mdb_txn_abort(in);
    bool is_end = rc == MDB_NOTFOUND;
    rc = is_end ? 0 : rc;
    if (out != NULL && rc == 0) {
        rc = mdb_txn_commit(out);
    } else if (out != NULL) {
        mdb_txn_abort(out);
    }
    return rc == 0 && is_end ? ERR_MISSING : spool_error(rc);
}

static int copy_table(struct spool_store *from, struct spool_store *to, enum spool_table table)
{
    struct buf last;
    buf_init(&last, 0);
    int err = 0;
    while (err == 0) {
        err = copy_some(from, to, table, &last);
    }
    buf_fini(&last);
    return err == ERR_MISSING ? 0 : err;
}

/* The new tables, in a folder of their own. */
static int make_fresh(const char *path, const char *fresh, uint64_t map_size, char *text)
{
    const struct spool_options old = {.path = path, .map_size = map_size};
    const struct spool_options new = {.path = fresh, .map_size = map_size};
    struct spool_store *from = NULL, *to = NULL;
    int err = spool_store_open(&old, &from, text);
    err = err != 0 ? err : spool_store_open(&new, &to, text);
    if (err == 0) {
        err = copy_table(from, to, SPOOL_TABLE_SUPPRESSED);
        err = err != 0 ? err : copy_table(from, to, SPOOL_TABLE_STRIKES);
        if (err != 0) {
            (void)snprintf(text, TEXT_BYTES, "the lists of suppressed recipients: %s",
                           err_str(err));
        }
    }
    if (to != NULL) {
        spool_store_close(to);
    }
    if (from != NULL) {
        spool_store_close(from);
    }
    return err;
}

static void empty_folder(int folder_fd, const char *name)
{
    int fd = openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        if (e->d_name[0] != '.') {
            (void)unlinkat(fd, e->d_name, 0); /* what stays is in the way, and rmdir says so */
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    (void)unlinkat(folder_fd, name, AT_REMOVEDIR);
}

/* The journal first: without it the old tables are no spool that could be taken for whole, and the next
 * start sets them aside again. */
static int exchange(int fd, uint16_t number)
{
    char tables[32], journal[32];
    (void)snprintf(tables, sizeof(tables), "taken-%u.mdb", number);
    (void)snprintf(journal, sizeof(journal), "taken-%u.journal", number);
    /* What one that was interrupted has put there already stays. */
    if ((linkat(fd, "journal", fd, journal, 0) != 0 && errno != ENOENT && errno != EEXIST) ||
        (unlinkat(fd, "journal", 0) != 0 && errno != ENOENT)) {
        return -errno;
    }
    if (linkat(fd, SPOOL_DATA_FILE, fd, tables, 0) != 0 && errno != EEXIST) {
        return -errno;
    }
    if (renameat(fd, "fresh/" SPOOL_DATA_FILE, fd, SPOOL_DATA_FILE) != 0 || fsync(fd) != 0) {
        return -errno;
    }
    return 0;
}

int spool_set_aside(const char *path, uint64_t map_size, uint16_t number, char text[TEXT_BYTES])
{
    char fresh[4096];
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || snprintf(fresh, sizeof(fresh), "%s/fresh", path) >= (int)sizeof(fresh)) {
        int err = fd < 0 ? -errno : ERR_LIMIT;
        (void)snprintf(text, TEXT_BYTES, "spool %.150s cannot be set aside: %s", path,
                       err_str(err));
        return err;
    }
    empty_folder(fd, "fresh");
    int err = make_fresh(path, fresh, map_size, text);
    if (err == 0) {
        err = exchange(fd, number);
        (void)snprintf(text, TEXT_BYTES,
                       err == 0 ? "spool %.150s begins anew; what it had is in taken-%u.mdb there"
                                : "spool %.150s cannot be set aside as taken-%u.mdb",
                       path, number);
    }
    empty_folder(fd, "fresh");
    (void)close(fd); /* read only */
    return err;
}
