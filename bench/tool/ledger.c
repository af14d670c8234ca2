/* What was offered, acknowledged and received, on disk before anybody is told. Written by the
 * threads of sink and source, read by the tests afterwards. */
#include "bench/tool/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* A process that was killed may have left a cut line, and the next one must not continue it. */
static int end_last_line(int fd)
{
    char last = '\n';
    off_t size = lseek(fd, 0, SEEK_END);
    if (size > 0 && pread(fd, &last, 1, size - 1) != 1) {
        return -EIO;
    }
    return last != '\n' && write(fd, "\n", 1) != 1 ? -EIO : 0;
}

int ledger_open(struct ledger *l, const char *path, bool does_sync)
{
    *l = (struct ledger){.fd = -1, .does_sync = does_sync};
    if (path == NULL) {
        return 0;
    }
    l->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    return l->fd < 0 ? -errno : end_last_line(l->fd);
}

int ledger_write(const struct ledger *l, struct slice line)
{
    if (l->fd < 0) {
        return 0;
    }
    ssize_t n;
    do {
        n = write(l->fd, line.data, line.len);
    } while (n < 0 && errno == EINTR);
    if (n != (ssize_t)line.len) {
        return n < 0 ? -errno : -EIO;
    }
    return l->does_sync && fdatasync(l->fd) != 0 ? -errno : 0;
}

void ledger_close(struct ledger *l)
{
    if (l->fd >= 0) {
        (void)close(l->fd); /* every line was checked when it was written */
        l->fd = -1;
    }
}
