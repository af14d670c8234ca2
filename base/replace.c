#include "base/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static int write_all(int fd, struct slice bytes)
{
    while (bytes.len > 0) {
        ssize_t n = write(fd, bytes.data, bytes.len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? -errno : -EIO;
        }
        bytes = slice_from(bytes, (size_t)n);
    }
    return fsync(fd) != 0 ? -errno : 0;
}

int replace_file(int folder, const char *name, const char *draft, struct slice bytes)
{
    int fd = openat(folder, draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return -errno;
    }
    int err = write_all(fd, bytes);
    if (close(fd) != 0 && err == 0) {
        err = -errno;
    }
    if (err == 0 && (renameat(folder, draft, folder, name) != 0 || fsync(folder) != 0)) {
        err = -errno;
    }
    return err;
}
