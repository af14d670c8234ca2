#include "engine/feed/account_file.h"

#include "base/file.h"
#include "engine/event/event_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES_MAX 1024 /* all columns take a third of this */

int account_file_init(struct account_file *f, const char *path, struct slice names,
                      uint64_t rotate_size, unsigned rotate_keep)
{
    *f = (struct account_file){.fd = -1,
                               .path = strdup(path),
                               .names = slice_dup(names),
                               .rotate_size = rotate_size,
                               .rotate_keep = rotate_keep};
    return f->path == NULL || f->names == NULL ? -ENOMEM : 0;
}

static void close_file(struct account_file *f)
{
    if (f->fd >= 0) {
        (void)close(f->fd); /* every row was synced */
    }
    f->fd = -1;
}

void account_file_fini(struct account_file *f)
{
    if (f->path != NULL) {
        close_file(f);
    }
    free(f->path);
    free(f->names);
    *f = (struct account_file){.fd = -1};
}

/* --- opening ---------------------------------------------------------------------------------- */

static bool is_at_path(const struct account_file *f)
{
    struct stat st;
    return stat(f->path, &st) == 0 && st.st_dev == f->mark.dev && st.st_ino == f->mark.ino;
}

/* Whether the file begins with these names. */
static bool has_names(const struct account_file *f)
{
    char start[NAMES_MAX];
    size_t len = strlen(f->names);
    return len <= sizeof(start) && pread(f->fd, start, len, 0) == (ssize_t)len &&
           memcmp(start, f->names, len) == 0;
}

static int open_account_file(struct account_file *f, const struct account_mark *mark)
{
    struct stat st;
    f->fd = open(f->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
    if (f->fd < 0) {
        return -errno;
    }
    int err = fstat(f->fd, &st) != 0 ? -errno : 0;
    if (err == 0 && !S_ISREG(st.st_mode)) {
        err = -EINVAL;
    }
    if (err == 0) {
        f->mark = (struct account_mark){st.st_dev, st.st_ino, (uint64_t)st.st_size};
        bool is_known = f->mark.dev == mark->dev && f->mark.ino == mark->ino;
        if (is_known && f->mark.size > mark->size) {
            err = ftruncate(f->fd, (off_t)mark->size) != 0 ? -errno : 0;
            f->mark.size = mark->size;
        }
    }
    if (err == 0 && f->mark.size == 0) {
        err = file_write(f->fd, slice_of(f->names), NULL);
        f->mark.size = strlen(f->names);
    }
    if (err == 0 && fdatasync(f->fd) != 0) {
        err = -errno;
    }
    if (err != 0) {
        close_file(f);
    }
    return err;
}

/* --- rotation --------------------------------------------------------------------------------- */

static void prune(const struct account_file *f, struct event_segments *s)
{
    size_t closed = 0;
    for (size_t i = 0; i < s->count; i++) {
        closed += s->items[i].is_numbered;
    }
    for (size_t i = 0; i < s->count && f->rotate_keep > 0 && closed > f->rotate_keep; i++) {
        if (s->items[i].is_numbered) {
            (void)unlink(s->items[i].path); /* tried again with the next */
            closed--;
        }
    }
}

/* PATH becomes PATH.N. errors: -errno */
static int move_away(struct account_file *f)
{
    struct event_segments s;
    char *name = NULL;
    int err = event_segments_scan(f->path, &s);
    if (err != 0) {
        return err;
    }
    /* No accounting file has a head, so the live one has the number after all others. */
    const struct event_segment *live = event_segments_live(&s);
    uint64_t number = live != NULL ? live->number : s.greatest + 1;
    event_segments_free(&s);
    if (asprintf(&name, "%s.%llu", f->path, (unsigned long long)number) < 0) {
        return -ENOMEM;
    }
    err = renameat2(AT_FDCWD, f->path, AT_FDCWD, name, RENAME_NOREPLACE) != 0 ? -errno : 0;
    free(name);
    if (err == 0) {
        close_file(f);
        if (event_segments_scan(f->path, &s) == 0) {
            prune(f, &s);
            event_segments_free(&s);
        }
    }
    return err;
}

int account_file_ready(struct account_file *f, const struct account_mark *mark)
{
    bool was_open = f->fd >= 0;
    if (was_open && !is_at_path(f)) {
        close_file(f);
    }
    int err = f->fd < 0 ? open_account_file(f, mark) : 0;
    bool is_full = f->rotate_size > 0 && f->mark.size >= f->rotate_size;
    if (err == 0 && (is_full || (!was_open && !has_names(f)))) {
        err = move_away(f);
        if (err == 0) {
            err = open_account_file(f, &(struct account_mark){0, 0, 0});
        } else {
            close_file(f);
        }
    }
    if (err != 0) {
        return err;
    }
    return memcmp(&f->mark, mark, sizeof(*mark)) != 0;
}

int account_file_append(struct account_file *f, struct slice rows)
{
    int err = file_write(f->fd, rows, NULL);
    if (err == 0 && fdatasync(f->fd) != 0) {
        err = -errno;
    }
    if (err == 0) {
        f->mark.size += rows.len;
        return 0;
    }
    if (ftruncate(f->fd, (off_t)f->mark.size) != 0) {
        err = -errno; /* the next open cuts the file back to the mark, and so removes these rows */
    }
    close_file(f);
    return err;
}
