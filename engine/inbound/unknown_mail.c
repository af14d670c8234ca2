#include "engine/inbound/unknown_mail.h"

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

struct kept {
    uint64_t id;
    uint64_t bytes;
};

struct unknown_mail {
    char folder[PATH_MAX];                  /* its parent and it are made with the first file */
    struct kept kept[UNKNOWN_MAIL_MAX + 1]; /* [count], the oldest first: ids rise */
    uint32_t count;
    uint64_t bytes;
};

static bool file_path(const struct unknown_mail *u, uint64_t id, char ret[static PATH_MAX])
{
    char text[MESSAGE_ID_TEXT];
    message_id_format(id, text);
    return snprintf(ret, PATH_MAX, "%s/%s.eml", u->folder, text) < PATH_MAX;
}

static void remove_oldest(struct unknown_mail *u)
{
    char path[PATH_MAX];
    if (file_path(u, u->kept[0].id, path)) {
        (void)unlink(path); /* it is gone already, or in nobody's way */
    }
    u->bytes -= u->kept[0].bytes;
    u->count--;
    memmove(u->kept, u->kept + 1, u->count * sizeof(u->kept[0]));
}

/* In the order of ids, within the bounds. */
static void add(struct unknown_mail *u, uint64_t id, uint64_t bytes)
{
    uint32_t at = u->count;
    while (at > 0 && u->kept[at - 1].id > id) {
        at--;
    }
    memmove(u->kept + at + 1, u->kept + at, (u->count - at) * sizeof(u->kept[0]));
    u->kept[at] = (struct kept){id, bytes};
    u->count++;
    u->bytes += bytes;
    while (u->count > UNKNOWN_MAIL_MAX || u->bytes > UNKNOWN_MAIL_BYTES) {
        remove_oldest(u);
    }
}

static void look_at(struct unknown_mail *u, int folder, const char *name)
{
    uint64_t id;
    struct stat st;
    size_t len = strlen(name);
    if (len == MESSAGE_ID_TEXT - 1 + 4 && strcmp(name + len - 4, ".eml") == 0 &&
        message_id_parse(slice_make(name, len - 4), &id) && fstatat(folder, name, &st, 0) == 0) {
        add(u, id, (uint64_t)st.st_size);
    }
}

int unknown_mail_new(const char *spool_path, struct unknown_mail **ret)
{
    struct unknown_mail *u = calloc(1, sizeof(*u));
    if (u == NULL) {
        return -ENOMEM;
    }
    if (snprintf(u->folder, sizeof(u->folder), "%s/heard/unknown", spool_path) >=
        (int)sizeof(u->folder)) {
        free(u);
        return -ENAMETOOLONG;
    }
    DIR *dir = opendir(u->folder);
    if (dir != NULL) {
        const struct dirent *entry;
        while ((entry = readdir(dir)) != NULL) {
            look_at(u, dirfd(dir), entry->d_name);
        }
        (void)closedir(dir); /* only read */
    }
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
    char path[PATH_MAX];
    int err = make_folders(u);
    if (err == 0) {
        err =
            file_path(u, h->id, path) ? file_replace(path, buf_slice(&h->content)) : -ENAMETOOLONG;
    }
    if (err == 0) {
        add(u, h->id, h->content.len);
    }
    return err;
}
