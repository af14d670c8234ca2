/* The file that the lines of events go to, and its segments. It belongs to one thread; nothing here
 * knows what stands in a line but its end. */
#include "engine/event/event_log.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "engine/event/event_line.h"
#include "engine/event/event_segment.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_MODE  0640
#define ZEROS_MAX (64 * 1024) /* the largest block of a file system */

static bool is_regular(int fd, off_t *ret_size)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        return false;
    }
    *ret_size = st.st_size;
    return true;
}

/* Power loss may leave a file its length without its last bytes, as zeros: on ext4 in a block that
 * was there before. No event has a zero byte. returns: the size without them */
static off_t size_without_zeros(int reader, off_t size)
{
    char chunk[512];
    off_t least = size > ZEROS_MAX ? size - ZEROS_MAX : 0;
    while (size > least) {
        size_t len = size - least < (off_t)sizeof(chunk) ? (size_t)(size - least) : sizeof(chunk);
        off_t begin = size - (off_t)len;
        if (pread(reader, chunk, len, begin) != (ssize_t)len) {
            break;
        }
        while (len > 0 && chunk[len - 1] == '\0') {
            len--;
        }
        size = begin + (off_t)len;
        if (len > 0) {
            break;
        }
    }
    return size;
}

/* Whether a crash left the last line without its end, once zeros behind it are cut off. A log that
 * may not be read is taken as is. */
static bool ends_torn(const char *path, int fd)
{
    off_t size = 0;
    char last = '\n';
    if (!is_regular(fd, &size) || size == 0) {
        return false;
    }
    int reader = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (reader < 0) {
        return false;
    }
    off_t kept = size_without_zeros(reader, size);
    if (kept < size && ftruncate(fd, kept) == 0) {
        size = kept;
    }
    ssize_t n = size > 0 ? pread(reader, &last, 1, size - 1) : 0;
    (void)close(reader);
    return n == 1 && last != '\n';
}

/* returns: descriptor or -errno */
static int open_log_file(const char *path)
{
    /* A named pipe without a reader is an error here, not a standstill. */
    int fd =
        open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, LOG_MODE);
    if (fd < 0) {
        return -errno;
    }
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0) {
        int err = -errno;
        (void)close(fd);
        return err;
    }
    return fd;
}

/* --- segments --------------------------------------------------------------------------------- */

/* A head that a crash cut off is all there is of the file. */
static void drop_torn_head(struct event_log *log)
{
    char start[EVENT_LINE_HEAD_MAX];
    off_t size = 0;
    int reader = log->is_torn && is_regular(log->fd, &size) && size < (off_t)sizeof(start)
                     ? open(log->path, O_RDONLY | O_CLOEXEC | O_NOCTTY)
                     : -1;
    if (reader < 0) {
        return;
    }
    const size_t head = sizeof(EVENT_LINE_HEAD) - 1;
    ssize_t n = pread(reader, start, sizeof(start), 0);
    if (n > 0 && memchr(start, '\n', (size_t)n) == NULL &&
        memcmp(start, EVENT_LINE_HEAD, (size_t)n < head ? (size_t)n : head) == 0 &&
        ftruncate(log->fd, 0) == 0) {
        log->is_torn = false;
    }
    (void)close(reader); /* only read */
}

/* The file just opened is, or becomes, a segment: what its head says, else the next number.
 * least    number that a new one has at least */
static int begin_segment(struct event_log *log, uint64_t least)
{
    struct event_segments s;
    off_t size = 0;
    if (!is_regular(log->fd, &size)) {
        log->number = 0;
        log->needs_head = false;
        return 0;
    }
    drop_torn_head(log);
    int err = event_segments_scan(log->path, &s);
    if (err != 0) {
        /* Without a look at the folder the number is still one that no earlier one had. */
        log->number = least;
    } else {
        const struct event_segment *live = event_segments_live(&s);
        log->number = live != NULL ? live->number : s.greatest + 1;
        event_segments_free(&s);
    }
    (void)is_regular(log->fd, &size); /* as before, or 0 now */
    log->size = (uint64_t)size;
    log->needs_head = size == 0;
    log->number = log->needs_head && log->number < least ? least : log->number;
    log->rotate_at = log->rotate_size;
    log->must_sync_folder = true;
    return err;
}

int event_log_segment(struct event_log *log, uint64_t rotate_size, unsigned rotate_keep)
{
    log->rotate_size = rotate_size;
    log->rotate_keep = rotate_keep;
    atomic_store(&log->needed, UINT64_MAX);
    int err = begin_segment(log, 1);
    if (err != 0 || log->number == 0) {
        log->rotate_size = 0;
        log->number = 0;
        log->needs_head = false;
    }
    return err;
}

void event_log_limit(struct event_log *log, uint64_t rotate_size, unsigned rotate_keep)
{
    if (log->number == 0) {
        return; /* no regular file: it has no segments */
    }
    log->rotate_keep = rotate_keep;
    if (rotate_size != log->rotate_size) {
        log->rotate_size = log->rotate_at = rotate_size;
    }
}

/* Closed segments beyond the number to keep, the oldest first. */
static void prune(struct event_log *log)
{
    struct event_segments s;
    uint64_t needed = atomic_load(&log->needed);
    size_t closed = 0;
    if (log->rotate_keep == 0 || event_segments_scan(log->path, &s) != 0) {
        return;
    }
    for (size_t i = 0; i < s.count; i++) {
        closed += s.items[i].is_numbered;
    }
    for (size_t i = 0; i < s.count && closed > log->rotate_keep; i++) {
        const struct event_segment *item = &s.items[i];
        bool is_spared = item->number >= needed && closed <= 2 * (size_t)log->rotate_keep;
        if (item->is_numbered && !is_spared) {
            if (unlink(item->path) != 0) {
                log_warning("event log: cannot remove %s: %s", item->path, strerror(errno));
                break;
            }
            closed--;
        }
    }
    event_segments_free(&s);
}

/* PATH becomes PATH.NUMBER, and a new one begins. A crash between leaves no PATH, as at the first
 * start. errors: -errno; all is as before */
static int move_away(struct event_log *log)
{
    char *name = NULL;
    struct stat ours, theirs;
    if (fstat(log->fd, &ours) != 0 || stat(log->path, &theirs) != 0 ||
        ours.st_ino != theirs.st_ino || ours.st_dev != theirs.st_dev) {
        return event_log_reopen(log); /* somebody else has moved it away */
    }
    if (asprintf(&name, "%s.%llu", log->path, (unsigned long long)log->number) < 0) {
        return -ENOMEM;
    }
    int err = renameat2(AT_FDCWD, log->path, AT_FDCWD, name, RENAME_NOREPLACE) != 0 ? -errno : 0;
    int fd = err == 0 ? open_log_file(log->path) : -1;
    if (err == 0 && fd < 0) {
        err = fd;
        if (rename(name, log->path) != 0) {
            log_error("event log: cannot name %s as before: %s", name, strerror(errno));
        }
    }
    free(name);
    if (err == 0) {
        (void)close(fd); /* opened again below; it was only to be sure that it can be */
        err = event_log_reopen(log);
    }
    return err;
}

static void rotate(struct event_log *log)
{
    uint64_t number = log->number;
    int err = move_away(log);
    if (err != 0) {
        log_error("event log: segment %llu: %s", (unsigned long long)number, err_str(err));
    }
    if (log->number != number) {
        prune(log);
    } else {
        log->rotate_at = log->size + log->rotate_size / 8 + 1;
    }
}

int event_log_open(struct event_log *log, const char *path)
{
    *log = (struct event_log){.fd = -1};
    char *copy = strdup(path);
    if (copy == NULL) {
        return -ENOMEM;
    }
    int fd = open_log_file(path);
    if (fd < 0) {
        free(copy);
        return fd;
    }
    log->fd = fd;
    log->path = copy;
    log->is_torn = ends_torn(path, fd);
    return 0;
}

/* Nobody else writes here, so a part that was written is the end of the file. */
static bool take_part_back(const struct event_log *log, size_t part)
{
    off_t size;
    return is_regular(log->fd, &size) && size >= (off_t)part &&
           ftruncate(log->fd, size - (off_t)part) == 0;
}

static void count_bytes(struct event_log *log, size_t bytes)
{
    log->bytes += bytes;
    log->size += bytes;
    log->has_unsynced |= bytes > 0;
    /* Release: who sees the count (event_consumer_next) finds the bytes in the file. */
    atomic_fetch_add_explicit(&log->written, bytes, memory_order_release);
}

/* Begins to write to the disk what the next sync would wait for: whoever appends does nothing else while a sync
 * lasts, and that of a second's lines of a busy engine lasts tens of milliseconds. An error is the sync's to tell;
 * a pipe has nothing to write. */
static void write_ahead(struct event_log *log, size_t bytes)
{
    enum { AHEAD_BYTES = 1 << 20 };
    log->unbegun += bytes;
    if (log->unbegun >= AHEAD_BYTES) {
        log->unbegun = 0;
        (void)sync_file_range(log->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    }
}

/* What stands before the batch: the head of a new segment, or the end of a torn line. */
static int write_start(struct event_log *log)
{
    char head[EVENT_LINE_HEAD_MAX];
    struct slice start = SLICE("\n");
    if (log->needs_head) {
        start = slice_make(head, event_line_head(log->number, clock_wall(), head));
    } else if (!log->is_torn) {
        return 0;
    }
    size_t done;
    int err = file_write(log->fd, start, &done);
    if (err != 0 && done > 0 && take_part_back(log, done)) {
        return err;
    }
    log->needs_head = log->needs_head && done == 0;
    log->is_torn = err != 0 && (log->is_torn || done > 0);
    count_bytes(log, done);
    return err;
}

int event_log_append(struct event_log *log, struct slice data)
{
    int err;
    if (log->fd < 0) {
        return -EBADF;
    }
    if (log->rotate_size > 0 && log->size >= log->rotate_at) {
        rotate(log);
    }
    err = write_start(log);
    if (err != 0) {
        return err;
    }
    size_t done;
    err = file_write(log->fd, data, &done);
    if (err != 0 && done > 0) {
        log->has_unsynced = true;
        if (take_part_back(log, done)) {
            return err;
        }
        log->is_torn = data.data[done - 1] != '\n';
    }
    count_bytes(log, done);
    write_ahead(log, done);
    return err;
}

int event_log_sync(struct event_log *log)
{
    if (log->fd < 0 || !log->has_unsynced) {
        return 0;
    }
    if (fdatasync(log->fd) != 0 && errno != EINVAL && errno != ENOTSUP && errno != EROFS) {
        return -errno;
    }
    log->has_unsynced = false;
    if (log->must_sync_folder) {
        file_sync_folder_of(log->path); /* new names last as long as what is in the files */
        log->must_sync_folder = false;
    }
    return 0;
}

/* Sync and close the descriptor only. */
static int close_file(struct event_log *log)
{
    int err = event_log_sync(log);
    if (close(log->fd) != 0 && err == 0) {
        err = -errno;
    }
    log->fd = -1;
    return err;
}

static bool is_same_file(int a, int b)
{
    struct stat x, y;
    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int event_log_reopen(struct event_log *log)
{
    assert(log->path != NULL);
    int fd = open_log_file(log->path);
    if (fd < 0) {
        return fd;
    }
    if (log->fd >= 0 && is_same_file(fd, log->fd)) {
        int kept = event_log_sync(log);
        (void)close(fd); /* nothing was written through it */
        return kept;
    }
    int err = log->fd < 0 ? 0 : close_file(log);
    log->fd = fd;
    log->bytes = 0;
    log->has_unsynced = false;
    log->is_torn = ends_torn(log->path, fd);
    if (log->number != 0) {
        int segment_err = begin_segment(log, log->number + 1);
        err = err == 0 ? segment_err : err;
    }
    return err;
}

int event_log_close(struct event_log *log)
{
    int err = log->fd < 0 ? 0 : close_file(log);
    free(log->path);
    *log = (struct event_log){.fd = -1};
    return err;
}
