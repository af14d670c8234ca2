/* LD_PRELOAD library that makes pages of a file unreadable, as bad sectors do: read and pread
 * fail with EIO, and touching the page in a map raises SIGBUS. Writing a page gives it a new place,
 * as on a real disk, unless that is to fail as well.
 *
 * BAD_PAGES   numbers of pages of 4096 bytes, separated by commas
 * BAD_WRITES  1: these cannot be written either
 * BAD_FILE    absolute path of the file
 * BAD_SWITCH  they become bad when the program calls access() with this path; default: at once
 *
 * One thread writes; the list of pages only ever shrinks. */
#undef _FILE_OFFSET_BITS
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES_MAX = 64, MAPS_MAX = 8 };

static struct {
    bool is_ready, is_on, fails_writes;
    uint64_t pages[PAGES_MAX]; /* UINT64_MAX: good again */
    int count;
    int nothing; /* an empty file: its pages cannot be had */
    const char *path, *switch_path;
    struct {
        char *base;
        size_t bytes;
        int fd;
    } maps[MAPS_MAX];
} bad;

static void *real(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) {
        abort();
    }
    return found;
}

__attribute__((constructor)) static void start(void)
{
    const char *list = getenv("BAD_PAGES");
    const char *writes = getenv("BAD_WRITES");
    bad.path = getenv("BAD_FILE");
    bad.switch_path = getenv("BAD_SWITCH");
    bad.fails_writes = writes != NULL && strcmp(writes, "1") == 0;
    bad.is_on = bad.switch_path == NULL;
    bad.nothing = memfd_create("nothing", MFD_CLOEXEC);
    for (const char *at = list; at != NULL && *at != '\0' && bad.count < PAGES_MAX;) {
        char *end;
        bad.pages[bad.count++] = strtoull(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
    }
    bad.is_ready = true;
}

static bool is_ours(int fd)
{
    char link[64], path[PATH_MAX];
    if (!bad.is_ready || bad.count == 0 || bad.path == NULL) {
        return false;
    }
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    if (n <= 0) {
        return false;
    }
    path[n] = '\0';
    return strcmp(path, bad.path) == 0;
}

typedef void *map_function(void *, size_t, int, int, int, off_t);

static void cover(char *base, size_t bytes, uint64_t first)
{
    map_function *map = (map_function *)real("mmap");
    for (int i = 0; bad.is_on && i < bad.count; i++) {
        if (bad.pages[i] >= first && (bad.pages[i] - first + 1) * PAGE <= bytes) {
            (void)map(base + (bad.pages[i] - first) * PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED,
                      bad.nothing, 0);
        }
    }
}

static void *do_map(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    map_function *map = (map_function *)real("mmap");
    char *base = map(at, bytes, prot, flags, fd, offset);
    if (base == MAP_FAILED || fd < 0 || !is_ours(fd)) {
        return base;
    }
    for (int i = 0; bytes > PAGE && i < MAPS_MAX; i++) {
        if (bad.maps[i].base == NULL) {
            bad.maps[i].base = base;
            bad.maps[i].bytes = bytes;
            bad.maps[i].fd = fd;
            break;
        }
    }
    cover(base, bytes, (uint64_t)offset / PAGE);
    return base;
}

void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    return do_map(at, bytes, prot, flags, fd, offset);
}

void *mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    return do_map(at, bytes, prot, flags, fd, offset);
}

int munmap(void *at, size_t bytes)
{
    for (int i = 0; i < MAPS_MAX; i++) {
        if (bad.maps[i].base == at) {
            bad.maps[i].base = NULL;
        }
    }
    return ((int (*)(void *, size_t))real("munmap"))(at, bytes);
}

static void turn_on(void)
{
    bad.is_on = true;
    for (int i = 0; i < MAPS_MAX; i++) {
        if (bad.maps[i].base != NULL) {
            cover(bad.maps[i].base, bad.maps[i].bytes, 0);
        }
    }
}

/* Bytes in front of the first bad page among these; bytes: there is none. */
static size_t good_bytes(uint64_t at, size_t bytes)
{
    size_t good = bytes;
    for (int i = 0; bad.is_on && i < bad.count; i++) {
        uint64_t from = bad.pages[i] * PAGE;
        if (bad.pages[i] != UINT64_MAX && at < from + PAGE && from < at + bytes) {
            size_t before = from > at ? (size_t)(from - at) : 0;
            good = before < good ? before : good;
        }
    }
    return good;
}

static ssize_t do_pread(int fd, void *data, size_t bytes, off_t at)
{
    ssize_t (*call)(int, void *, size_t, off_t) =
        (ssize_t(*)(int, void *, size_t, off_t))real("pread");
    size_t good = is_ours(fd) ? good_bytes((uint64_t)at, bytes) : bytes;
    if (good == 0 && bytes > 0) {
        errno = EIO;
        return -1;
    }
    return call(fd, data, good, at);
}

ssize_t pread(int fd, void *data, size_t bytes, off_t at)
{
    return do_pread(fd, data, bytes, at);
}

ssize_t pread64(int fd, void *data, size_t bytes, off_t at)
{
    return do_pread(fd, data, bytes, at);
}

/* Pages that were written as a whole are good from now on. */
static void mend(uint64_t at, size_t bytes)
{
    for (int i = 0; bad.is_on && i < bad.count; i++) {
        uint64_t from = bad.pages[i] * PAGE;
        if (bad.pages[i] == UINT64_MAX || from < at || from + PAGE > at + bytes) {
            continue;
        }
        bad.pages[i] = UINT64_MAX;
        for (int m = 0; m < MAPS_MAX; m++) {
            if (bad.maps[m].base != NULL && from < bad.maps[m].bytes) {
                (void)((map_function *)real("mmap"))(bad.maps[m].base + from, PAGE, PROT_READ,
                                                     MAP_SHARED | MAP_FIXED, bad.maps[m].fd,
                                                     (off_t)from);
            }
        }
    }
}

static bool may_write(int fd, uint64_t at, size_t bytes)
{
    if (!is_ours(fd)) {
        return true;
    }
    if (bad.fails_writes && good_bytes(at, bytes) < bytes) {
        errno = EIO;
        return false;
    }
    mend(at, bytes);
    return true;
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    ssize_t (*call)(int, const void *, size_t, off_t) =
        (ssize_t(*)(int, const void *, size_t, off_t))real("pwrite");
    return may_write(fd, (uint64_t)at, bytes) ? call(fd, data, bytes, at) : -1;
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t at)
{
    return pwrite(fd, data, bytes, at);
}

/* LMDB moves the file's place, then writes several pages there. */
ssize_t writev(int fd, const struct iovec *iov, int count)
{
    ssize_t (*call)(int, const struct iovec *, int) =
        (ssize_t(*)(int, const struct iovec *, int))real("writev");
    size_t bytes = 0;
    off_t at = bad.is_ready && bad.count > 0 ? lseek(fd, 0, SEEK_CUR) : -1;
    for (int i = 0; i < count; i++) {
        bytes += iov[i].iov_len;
    }
    return at < 0 || may_write(fd, (uint64_t)at, bytes) ? call(fd, iov, count) : -1;
}

int access(const char *path, int mode)
{
    if (bad.is_ready && bad.switch_path != NULL && strcmp(path, bad.switch_path) == 0) {
        turn_on();
    }
    return ((int (*)(const char *, int))real("access"))(path, mode);
}
