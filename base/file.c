#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What a write of at least one byte that returned n means. returns: 0, written or to be tried
 * again; else -errno */
static int outcome(ssize_t n)
{
    if (n > 0 || (n < 0 && errno == EINTR)) {
        return 0;
    }
    return n < 0 ? -errno : -EIO;
}

int file_write(int fd, struct slice bytes, size_t *ret_done)
{
    size_t done = 0;
    int err = 0;
    while (err == 0 && done < bytes.len) {
        ssize_t n = write(fd, bytes.data + done, bytes.len - done);
        err = outcome(n);
        done += n > 0 ? (size_t)n : 0;
    }
    if (ret_done != NULL) {
        *ret_done = done;
    }
    return err;
}

int file_write_at(int fd, struct slice bytes, uint64_t offset)
{
    int err = 0;
    while (err == 0 && bytes.len > 0) {
        ssize_t n = pwrite(fd, bytes.data, bytes.len, (off_t)offset);
        err = outcome(n);
        if (n > 0) {
            bytes = slice_from(bytes, (size_t)n);
            offset += (uint64_t)n;
        }
    }
    return err;
}

/* --- folders ---------------------------------------------------------------------------------- */

/* Split a path into its folder, opened, and the last name. errors: -errno */
static int open_folder_of(const char *path, const char **ret_name, int *ret_folder)
{
    char folder[PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    *ret_name = slash == NULL ? path : slash + 1;
    if (slash != NULL) {
        size_t len = (size_t)(slash - path) + 1;
        if (len >= sizeof(folder)) {
            return -ENAMETOOLONG;
        }
        memcpy(folder, path, len);
        folder[len] = '\0';
    }
    *ret_folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret_folder < 0 ? -errno : 0;
}

void file_sync_folder_of(const char *path)
{
    const char *name;
    int folder;
    if (open_folder_of(path, &name, &folder) == 0) {
        (void)fsync(folder); /* a folder that cannot be synced has what it has */
        (void)close(folder);
    }
}

/* --- replacing -------------------------------------------------------------------------------- */

int file_replace_at(int folder, const char *name, const char *draft, struct slice bytes)
{
    int fd = openat(folder, draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY,
                    0600);
    if (fd < 0) {
        return -errno;
    }
    int err = file_write(fd, bytes, NULL);
    if (err == 0 && fsync(fd) != 0) {
        err = -errno;
    }
    if (close(fd) != 0 && err == 0) {
        err = -errno;
    }
    if (err == 0 && (renameat(folder, draft, folder, name) != 0 || fsync(folder) != 0)) {
        err = -errno;
    }
    return err;
}

int file_replace(const char *path, struct slice bytes)
{
    const char *name;
    char draft[NAME_MAX + 1];
    int folder;
    int err = open_folder_of(path, &name, &folder);
    if (err != 0) {
        return err;
    }
    if (snprintf(draft, sizeof(draft), "%s.new", name) < (int)sizeof(draft)) {
        err = file_replace_at(folder, name, draft, bytes);
    } else {
        err = -ENAMETOOLONG;
    }
    (void)close(folder); /* what it had to keep was synced */
    return err;
}
