#include "engine/inbound/unknown_mail.h"

#include "base/error.h"
#include "base/file.h"
#include "engine/post/hearing.h"
#include "engine/post/message.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct unknown_mail {
    char folder[PATH_MAX]; /* its parent and it are made with the first file */
    struct unknown_mail_file kept[UNKNOWN_MAIL_MAX + 1]; /* [count], the oldest first: ids rise */
    uint32_t count;
    uint64_t bytes;
};

/* errors: -ENAMETOOLONG */
static int folder_path(const char *spool_path, char ret[static PATH_MAX])
{
    return snprintf(ret, PATH_MAX, "%s/heard/unknown", spool_path) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* errors: -ENAMETOOLONG */
static int file_path(const char *folder, uint64_t id, char ret[static PATH_MAX])
{
    char text[MESSAGE_ID_TEXT];
    message_id_format(id, text);
    return snprintf(ret, PATH_MAX, "%s/%s.eml", folder, text) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int file_path_of(const char *spool_path, uint64_t id, char ret[static PATH_MAX])
{
    char folder[PATH_MAX];
    int err = folder_path(spool_path, folder);
    return err == 0 ? file_path(folder, id, ret) : err;
}

static void remove_oldest(struct unknown_mail *u)
{
    char path[PATH_MAX];
    if (file_path(u->folder, u->kept[0].id, path) == 0) {
        (void)unlink(path); /* it is gone already, or in nobody's way */
    }
    u->bytes -= u->kept[0].bytes;
    u->count--;
    memmove(u->kept, u->kept + 1, u->count * sizeof(u->kept[0]));
}

/* In the order of ids, within the bounds. */
static void add(struct unknown_mail *u, const struct unknown_mail_file *file)
{
    uint32_t at = u->count;
    while (at > 0 && u->kept[at - 1].id > file->id) {
        at--;
    }
    memmove(u->kept + at + 1, u->kept + at, (u->count - at) * sizeof(u->kept[0]));
    u->kept[at] = *file;
    u->count++;
    u->bytes += file->bytes;
    while (u->count > UNKNOWN_MAIL_MAX || u->bytes > UNKNOWN_MAIL_BYTES) {
        remove_oldest(u);
    }
}

/* What a write left that had no room, or was cut by a kill: nothing else would ever remove it. */
static void remove_draft(int folder, const char *name)
{
    size_t len = strlen(name);
    if (len == MESSAGE_ID_TEXT - 1 + 8 && strcmp(name + len - 8, ".eml.new") == 0) {
        (void)unlinkat(folder, name, 0); /* tried again at the next look */
    }
}

static bool look_at(int folder, const char *name, struct unknown_mail_file *ret)
{
    struct stat st;
    size_t len = strlen(name);
    if (len != MESSAGE_ID_TEXT - 1 + 4 || strcmp(name + len - 4, ".eml") != 0 ||
        !message_id_parse(slice_make(name, len - 4), &ret->id) ||
        fstatat(folder, name, &st, 0) != 0) {
        return false;
    }
    ret->bytes = (uint64_t)st.st_size;
    ret->kept = (usec_t)st.st_mtim.tv_sec * USEC_PER_SEC + (usec_t)st.st_mtim.tv_nsec / 1000;
    return true;
}

/* What is there now, also behind the back of who owns the folder. errors: -errno, but no folder is none */
static int look(struct unknown_mail *u)
{
    struct unknown_mail_file file;
    const struct dirent *entry;
    u->count = 0;
    u->bytes = 0;
    DIR *dir = opendir(u->folder);
    if (dir == NULL) {
        return errno == ENOENT ? 0 : -errno;
    }
    while ((entry = readdir(dir)) != NULL) {
        remove_draft(dirfd(dir), entry->d_name);
        if (look_at(dirfd(dir), entry->d_name, &file)) {
            add(u, &file);
        }
    }
    (void)closedir(dir); /* only read */
    return 0;
}

int unknown_mail_new(const char *spool_path, struct unknown_mail **ret)
{
    struct unknown_mail *u = calloc(1, sizeof(*u));
    if (u == NULL) {
        return -ENOMEM;
    }
    int err = folder_path(spool_path, u->folder);
    if (err != 0) {
        free(u);
        return err;
    }
    (void)look(u); /* a folder that cannot be read is told when something is to be kept */
    *ret = u;
    return 0;
}

void unknown_mail_free(struct unknown_mail *u)
{
    free(u);
}

static int make_folders(const struct unknown_mail *u)
{
    char parent[PATH_MAX];
    size_t len = strlen(u->folder) - strlen("/unknown");
    memcpy(parent, u->folder, len);
    parent[len] = '\0';
    if (mkdir(parent, 0700) != 0 && errno != EEXIST) {
        return -errno;
    }
    if (mkdir(u->folder, 0700) != 0) {
        return errno == EEXIST ? 0 : -errno;
    }
    file_sync_folder_of(parent);
    file_sync_folder_of(u->folder);
    return 0;
}

int unknown_mail_keep(struct unknown_mail *u, const struct hearing *h)
{
    const struct unknown_mail_file file = {h->id, h->content.len, clock_wall()};
    char path[PATH_MAX];
    int err = make_folders(u);
    if (err == 0) {
        err = file_path(u->folder, h->id, path);
    }
    if (err == 0) {
        err = file_replace(path, buf_slice(&h->content));
    }
    if (err != 0) {
        (void)look(u); /* the draft goes, and a file whose folder alone was not synced is counted */
        return err;
    }
    if (u->count < UNKNOWN_MAIL_MAX && u->bytes + file.bytes <= UNKNOWN_MAIL_BYTES) {
        add(u, &file);
        return 0;
    }
    return look(u); /* people may have made room; it finds the new one, too */
}

/* --- any thread --------------------------------------------------------------------------------- */

static int order(const void *a, const void *b)
{
    const struct unknown_mail_file *x = a, *y = b;
    return (x->id < y->id) - (x->id > y->id); /* the newest first */
}

int unknown_mail_list(const char *spool_path, struct unknown_mail_file ret[static UNKNOWN_MAIL_MAX],
                      size_t *ret_count)
{
    char folder[PATH_MAX];
    const struct dirent *entry;
    size_t count = 0;
    int err = folder_path(spool_path, folder);
    DIR *dir = err == 0 ? opendir(folder) : NULL;
    if (dir == NULL) {
        *ret_count = 0;
        return err != 0 || errno == ENOENT ? err : -errno;
    }
    while (count < UNKNOWN_MAIL_MAX && (entry = readdir(dir)) != NULL) {
        count += look_at(dirfd(dir), entry->d_name, &ret[count]) ? 1 : 0;
    }
    (void)closedir(dir); /* only read */
    qsort(ret, count, sizeof(ret[0]), order);
    *ret_count = count;
    return 0;
}

static int missing_or(int error)
{
    return error == ENOENT ? ERR_MISSING : -error;
}

int unknown_mail_read(const char *spool_path, uint64_t id, size_t max, struct buf *out)
{
    char path[PATH_MAX], part[16384];
    ssize_t len = 1;
    int err = file_path_of(spool_path, id, path);
    if (err != 0) {
        return err;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return missing_or(errno);
    }
    while (max > 0 && len > 0) {
        len = read(fd, part, max < sizeof(part) ? max : sizeof(part));
        if (len > 0) {
            buf_append(out, part, (size_t)len);
            max -= (size_t)len;
        }
    }
    err = len < 0 ? -errno : 0;
    (void)close(fd); /* only read */
    return err == 0 && out->failed ? -ENOMEM : err;
}

int unknown_mail_remove(const char *spool_path, uint64_t id)
{
    char path[PATH_MAX];
    int err = file_path_of(spool_path, id, path);
    if (err == 0 && unlink(path) != 0) {
        err = missing_or(errno);
    }
    return err;
}
