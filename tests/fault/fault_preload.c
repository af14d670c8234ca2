/* LD_PRELOAD library that makes storage calls of an unmodified program fail, or kills the program
 * at one of them. Sees calls through libc only (liblmdb's and stdio's file descriptors included;
 * stdio buffers, io_uring and raw system calls not).
 *
 * Counted are calls on files and names under FAULT_FOLDER, in the order in which they are made by
 * all threads of the process:
 *   write  write pwrite writev pwritev (and 64-bit names)
 *   sync   fsync fdatasync msync
 *   size   ftruncate posix_fallocate fallocate
 *   open   open openat that may write or create
 *   name   rename renameat unlink unlinkat mkdir
 *
 * FAULT_FOLDER  absolute path prefix; without it nothing happens
 * FAULT_CALLS   comma-separated classes of the list above; default all
 * FAULT_AT      number of the first counted call that fails, from 1; 0 or unset = none
 * FAULT_TIMES   how many counted calls from there on fail; default 1, 0 = all
 * FAULT_ACTION  error        fail without doing it (default)
 *               late         do it, then report failure
 *               late-first   the first as late, the others as error
 *               stall        do it when FAULT_SWITCH is gone, after 60 seconds at the latest
 *               short        write half of it, report that (other classes: as error)
 *               kill-before  SIGKILL to the process instead of the call
 *               kill-after   do it, then SIGKILL
 *               cut-before   the power fails instead of the call: of what was not synced some is
 *                            lost (power_cut.h), then SIGKILL
 *               cut-during   do it, but nothing is synced by it, then as cut-before
 *               cut-after    do it, then as cut-before
 * FAULT_SEED    of what a power cut loses; default 1
 * FAULT_TEAR    name of a file of which a power cut may leave garbage as well
 * FAULT_ERRNO   EIO (default) ENOSPC EDQUOT EROFS EMFILE or a number
 * FAULT_SWITCH  path of a file; calls are counted and fail only while it exists
 * FAULT_REPORT  path of a file; at a normal exit the number of counted calls is written to it
 * FAULT_LIE     1: no sync call does anything and O_SYNC and O_DSYNC are ignored, all successfully;
 *               a disk cache that lies, to check that power-cut tests notice. Independent of the
 *               rest. */
#undef _FILE_OFFSET_BITS
#include "tests/fault/power_cut.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum call_class { CALL_WRITE, CALL_SYNC, CALL_SIZE, CALL_OPEN, CALL_NAME, CALL_CLASS_COUNT };
enum action {
    ACTION_ERROR,
    ACTION_LATE,
    ACTION_LATE_FIRST,
    ACTION_STALL,
    ACTION_SHORT,
    ACTION_KILL_BEFORE,
    ACTION_KILL_AFTER,
    ACTION_CUT_BEFORE,
    ACTION_CUT_DURING,
    ACTION_CUT_AFTER
};
/* What the caller of decide() does. */
enum verdict { DO_IT, FAIL, DO_AND_FAIL, DO_HALF, DO_AND_DIE, DO_AND_CUT, DO_UNSYNCED_AND_CUT };

static struct {
    bool is_ready;
    char folder[PATH_MAX];
    size_t folder_len;
    bool counts[CALL_CLASS_COUNT];
    unsigned long at, times;
    enum action action;
    int error;
    bool lies;
    bool cuts; /* changes are remembered */
    const char *switch_path, *report_path;
} conf;
static atomic_ulong counted;
static _Thread_local bool is_locked; /* this call's change is to be remembered */

static int parse_errno(const char *text)
{
    static const struct {
        const char *name;
        int value;
    } names[] = {
        {"EIO", EIO}, {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EROFS", EROFS}, {"EMFILE", EMFILE}};
    for (size_t i = 0; text != NULL && i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i].name) == 0) {
            return names[i].value;
        }
    }
    return text == NULL || atoi(text) <= 0 ? EIO : atoi(text);
}

static enum action parse_action(const char *text)
{
    static const char *const names[] = {
        [ACTION_ERROR] = "error",           [ACTION_LATE] = "late",
        [ACTION_LATE_FIRST] = "late-first", [ACTION_STALL] = "stall",
        [ACTION_SHORT] = "short",           [ACTION_KILL_BEFORE] = "kill-before",
        [ACTION_KILL_AFTER] = "kill-after", [ACTION_CUT_BEFORE] = "cut-before",
        [ACTION_CUT_DURING] = "cut-during", [ACTION_CUT_AFTER] = "cut-after"};
    for (size_t i = 0; text != NULL && i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i]) == 0) {
            return (enum action)i;
        }
    }
    return ACTION_ERROR;
}

static unsigned long parse_number(const char *text, unsigned long otherwise)
{
    return text == NULL ? otherwise : strtoul(text, NULL, 10);
}

__attribute__((constructor)) static void start(void)
{
    static const char *const classes[] = {"write", "sync", "size", "open", "name"};
    const char *folder = getenv("FAULT_FOLDER");
    const char *calls = getenv("FAULT_CALLS");
    const char *lies = getenv("FAULT_LIE");
    for (size_t i = 0; i < CALL_CLASS_COUNT; i++) {
        conf.counts[i] = calls == NULL || strstr(calls, classes[i]) != NULL;
    }
    conf.at = parse_number(getenv("FAULT_AT"), 0);
    conf.times = parse_number(getenv("FAULT_TIMES"), 1);
    conf.action = parse_action(getenv("FAULT_ACTION"));
    conf.error = parse_errno(getenv("FAULT_ERRNO"));
    conf.switch_path = getenv("FAULT_SWITCH");
    conf.report_path = getenv("FAULT_REPORT");
    conf.lies = lies != NULL && strcmp(lies, "1") == 0;
    if (folder != NULL && strlen(folder) < sizeof(conf.folder)) {
        conf.folder_len = (size_t)snprintf(conf.folder, sizeof(conf.folder), "%s", folder);
        conf.is_ready = conf.folder_len > 0;
        conf.cuts = conf.is_ready && conf.action >= ACTION_CUT_BEFORE;
        power_cut_start(conf.folder, getenv("FAULT_TEAR"), parse_number(getenv("FAULT_SEED"), 1));
    }
}

__attribute__((destructor)) static void finish(void)
{
    if (conf.report_path == NULL) {
        return;
    }
    FILE *f = fopen(conf.report_path, "w");
    if (f != NULL) {
        (void)fprintf(f, "%lu\n", atomic_load(&counted));
        (void)fclose(f);
    }
}

static void *next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) {
        abort();
    }
    return found;
}

/* The real function of the same type as this one. */
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a function's own name */
#define REAL(name) ((__typeof__(&name))(uintptr_t)next(#name))

static bool is_inside(const char *path)
{
    return strncmp(path, conf.folder, conf.folder_len) == 0 &&
           (path[conf.folder_len] == '\0' || path[conf.folder_len] == '/');
}

static bool fd_is_inside(int fd)
{
    char link[64];
    char path[PATH_MAX];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    if (n <= 0) {
        return false;
    }
    path[n] = '\0';
    return is_inside(path);
}

static bool name_is_inside(int folder_fd, const char *path)
{
    if (path[0] == '/') {
        return is_inside(path);
    }
    if (folder_fd != AT_FDCWD) {
        return fd_is_inside(folder_fd);
    }
    char full[PATH_MAX];
    if (getcwd(full, sizeof(full)) == NULL) {
        return false;
    }
    size_t len = strlen(full);
    (void)snprintf(full + len, sizeof(full) - len, "/%s", path);
    return is_inside(full);
}

static void die(void)
{
    (void)kill(getpid(), SIGKILL);
    for (;;) {
        pause();
    }
}

static void stall(void)
{
    const struct timespec tick = {.tv_nsec = 5000000};
    for (int i = 0; i < 12000 && access(conf.switch_path, F_OK) == 0; i++) {
        (void)nanosleep(&tick, NULL); /* a signal only shortens it */
    }
}

/* Counts a call that concerns the folder and says what becomes of it. */
static enum verdict decide(enum call_class class)
{
    if (!conf.counts[class] || (conf.switch_path != NULL && access(conf.switch_path, F_OK) != 0)) {
        return DO_IT;
    }
    unsigned long number = atomic_fetch_add(&counted, 1) + 1;
    if (conf.at == 0 || number < conf.at || (conf.times != 0 && number >= conf.at + conf.times)) {
        return DO_IT;
    }
    switch (conf.action) {
    case ACTION_KILL_BEFORE:
        die();
        return FAIL;
    case ACTION_KILL_AFTER:
        return DO_AND_DIE;
    case ACTION_CUT_BEFORE:
        power_cut_now();
    case ACTION_CUT_DURING:
        return DO_UNSYNCED_AND_CUT;
    case ACTION_CUT_AFTER:
        return DO_AND_CUT;
    case ACTION_LATE:
        return DO_AND_FAIL;
    case ACTION_LATE_FIRST:
        return number == conf.at ? DO_AND_FAIL : FAIL;
    case ACTION_STALL:
        if (conf.switch_path != NULL) {
            stall();
        }
        return DO_IT;
    case ACTION_SHORT:
        return class == CALL_WRITE ? DO_HALF : FAIL;
    case ACTION_ERROR:
    default:
        return FAIL;
    }
}

/* Until settle() nobody else changes anything. */
static enum verdict decide_alone(enum call_class class)
{
    if (conf.cuts) {
        power_cut_lock();
        is_locked = true;
    }
    return decide(class);
}

static enum verdict decide_fd(enum call_class class, int fd)
{
    return conf.is_ready && fd_is_inside(fd) ? decide_alone(class) : DO_IT;
}

static enum verdict decide_name(enum call_class class, int folder_fd, const char *path)
{
    return conf.is_ready && name_is_inside(folder_fd, path) ? decide_alone(class) : DO_IT;
}

/* The end of a call that was made (or, for FAIL, not made). */
static long settle(enum verdict verdict, long result)
{
    if (verdict == DO_AND_DIE) {
        die();
    }
    if (verdict == DO_AND_CUT || verdict == DO_UNSYNCED_AND_CUT) {
        power_cut_now();
    }
    if (is_locked) {
        int error = errno;
        is_locked = false;
        power_cut_unlock();
        errno = error;
    }
    if (verdict == FAIL || verdict == DO_AND_FAIL) {
        errno = conf.error;
        return -1;
    }
    return result;
}

static void writes(enum verdict verdict, int fd, off64_t at, size_t len)
{
    if (is_locked) {
        power_cut_writes(fd, at, len, verdict != DO_UNSYNCED_AND_CUT);
    }
}

static void resizes(int fd, off64_t size)
{
    if (is_locked) {
        power_cut_resizes(fd, size);
    }
}

/* An allocation of space, which only makes a file longer. */
static void allocates(int fd, off64_t end)
{
    struct stat st;
    if (is_locked && fstat(fd, &st) == 0 && end > st.st_size) {
        power_cut_resizes(fd, end);
    }
}

static size_t part(enum verdict verdict, size_t len)
{
    return verdict == DO_HALF ? len / 2 : len;
}

/* --- writing ---------------------------------------------------------------------------------- */

ssize_t write(int fd, const void *data, size_t len)
{
    enum verdict v = decide_fd(CALL_WRITE, fd);
    writes(v, fd, -1, len);
    return settle(v, v == FAIL ? -1 : REAL(write)(fd, data, part(v, len)));
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
    enum verdict v = decide_fd(CALL_WRITE, fd);
    writes(v, fd, at, len);
    return settle(v, v == FAIL ? -1 : REAL(pwrite)(fd, data, part(v, len), at));
}

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t at)
{
    enum verdict v = decide_fd(CALL_WRITE, fd);
    writes(v, fd, at, len);
    return settle(v, v == FAIL ? -1 : REAL(pwrite64)(fd, data, part(v, len), at));
}

/* Half of a vector is its first half of entries, or half of the only one. */
static ssize_t write_vector(int fd, const struct iovec *iov, int count, off64_t at, bool has_at)
{
    enum verdict v = decide_fd(CALL_WRITE, fd);
    if (v == FAIL) {
        return settle(v, -1);
    }
    struct iovec half;
    if (v == DO_HALF && count == 1) {
        half = (struct iovec){iov->iov_base, iov->iov_len / 2};
        iov = &half;
    } else if (v == DO_HALF) {
        count /= 2;
    }
    size_t len = 0;
    for (int i = 0; i < count; i++) {
        len += iov[i].iov_len;
    }
    writes(v, fd, has_at ? at : -1, len);
    return settle(v, has_at ? REAL(pwritev64)(fd, iov, count, at) : REAL(writev)(fd, iov, count));
}

ssize_t writev(int fd, const struct iovec *iov, int count)
{
    return write_vector(fd, iov, count, 0, false);
}

ssize_t pwritev(int fd, const struct iovec *iov, int count, off_t at)
{
    return write_vector(fd, iov, count, at, true);
}

ssize_t pwritev64(int fd, const struct iovec *iov, int count, off64_t at)
{
    return write_vector(fd, iov, count, at, true);
}

/* --- syncing and sizes ------------------------------------------------------------------------ */

static int sync_any(int fd, int (*real)(int fd))
{
    enum verdict v = decide_fd(CALL_SYNC, fd);
    int r = v == FAIL ? -1 : conf.lies ? 0 : real(fd);
    if (is_locked && r == 0 && !conf.lies && v != DO_UNSYNCED_AND_CUT) {
        power_cut_synced(fd);
    }
    return (int)settle(v, r);
}

int fsync(int fd)
{
    return sync_any(fd, REAL(fsync));
}

int fdatasync(int fd)
{
    return sync_any(fd, REAL(fdatasync));
}

int msync(void *at, size_t len, int flags)
{
    /* Which file a mapping belongs to is not looked up: all are counted. */
    enum verdict v = conf.is_ready ? decide_alone(CALL_SYNC) : DO_IT;
    return (int)settle(v, v == FAIL ? -1 : conf.lies ? 0 : REAL(msync)(at, len, flags));
}

int ftruncate(int fd, off_t len)
{
    enum verdict v = decide_fd(CALL_SIZE, fd);
    resizes(fd, len);
    return (int)settle(v, v == FAIL ? -1 : REAL(ftruncate)(fd, len));
}

int ftruncate64(int fd, off64_t len)
{
    enum verdict v = decide_fd(CALL_SIZE, fd);
    resizes(fd, len);
    return (int)settle(v, v == FAIL ? -1 : REAL(ftruncate64)(fd, len));
}

/* Returns its error. */
int posix_fallocate(int fd, off_t at, off_t len)
{
    enum verdict v = decide_fd(CALL_SIZE, fd);
    allocates(fd, at + len);
    int r = v == FAIL ? 0 : REAL(posix_fallocate)(fd, at, len);
    return settle(v, 0) != 0 ? conf.error : r;
}

int posix_fallocate64(int fd, off64_t at, off64_t len)
{
    enum verdict v = decide_fd(CALL_SIZE, fd);
    allocates(fd, at + len);
    int r = v == FAIL ? 0 : REAL(posix_fallocate64)(fd, at, len);
    return settle(v, 0) != 0 ? conf.error : r;
}

int fallocate(int fd, int mode, off_t at, off_t len)
{
    enum verdict v = decide_fd(CALL_SIZE, fd);
    allocates(fd, (mode & FALLOC_FL_KEEP_SIZE) != 0 ? 0 : at + len);
    return (int)settle(v, v == FAIL ? -1 : REAL(fallocate)(fd, mode, at, len));
}

/* --- opening and names ------------------------------------------------------------------------ */

static int open_any(int folder_fd, const char *path, int flags, mode_t mode)
{
    bool may_write = (flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0;
    enum verdict v = may_write ? decide_name(CALL_OPEN, folder_fd, path) : DO_IT;
    if (conf.lies) {
        flags &= ~(O_SYNC | O_DSYNC);
    }
    bool was_there = is_locked && power_cut_opens(folder_fd, path, flags);
    int fd = v == FAIL ? -1 : REAL(openat)(folder_fd, path, flags, mode);
    if (is_locked && !was_there && fd >= 0) {
        power_cut_created(folder_fd, path);
    }
    if (v == DO_AND_FAIL && fd >= 0) {
        (void)close(fd);
    }
    return (int)settle(v, fd);
}

static bool has_mode(int flags)
{
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = has_mode(flags) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return open_any(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = has_mode(flags) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return open_any(AT_FDCWD, path, flags, mode);
}

int openat(int folder_fd, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = has_mode(flags) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return open_any(folder_fd, path, flags, mode);
}

int openat64(int folder_fd, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = has_mode(flags) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return open_any(folder_fd, path, flags, mode);
}

int rename(const char *from, const char *to)
{
    enum verdict v = decide_name(CALL_NAME, AT_FDCWD, to);
    if (is_locked) {
        power_cut_renames(AT_FDCWD, from, AT_FDCWD, to);
    }
    return (int)settle(v, v == FAIL ? -1 : REAL(rename)(from, to));
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    enum verdict v = decide_name(CALL_NAME, to_fd, to);
    if (is_locked) {
        power_cut_renames(from_fd, from, to_fd, to);
    }
    return (int)settle(v, v == FAIL ? -1 : REAL(renameat)(from_fd, from, to_fd, to));
}

int unlink(const char *path)
{
    enum verdict v = decide_name(CALL_NAME, AT_FDCWD, path);
    if (is_locked) {
        power_cut_unlinks(AT_FDCWD, path);
    }
    return (int)settle(v, v == FAIL ? -1 : REAL(unlink)(path));
}

int unlinkat(int folder_fd, const char *path, int flags)
{
    enum verdict v = decide_name(CALL_NAME, folder_fd, path);
    if (is_locked) {
        power_cut_unlinks(folder_fd, path);
    }
    return (int)settle(v, v == FAIL ? -1 : REAL(unlinkat)(folder_fd, path, flags));
}

int mkdir(const char *path, mode_t mode)
{
    enum verdict v = decide_name(CALL_NAME, AT_FDCWD, path);
    int r = v == FAIL ? -1 : REAL(mkdir)(path, mode);
    if (is_locked && r == 0) {
        power_cut_created(AT_FDCWD, path);
    }
    return (int)settle(v, r);
}
