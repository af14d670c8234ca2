#include "tests/fault/power_cut.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FILES_MAX = 256 };

struct file {
    dev_t device;
    ino_t inode;
    int fd; /* our own, never closed: that would give up the process's locks of the file */
    uint8_t *settled; /* while rolling back: a bit a unit whose content is decided */
    bool size_is_settled;
    bool tears; /* a unit that is lost may be garbage */
};

enum change_kind { CHANGE_WRITE, CHANGE_SIZE, CHANGE_CREATE, CHANGE_UNLINK, CHANGE_RENAME };

struct change {
    enum change_kind kind;
    int file;         /* -1 for a folder or a name alone */
    bool is_kept;     /* synced itself: settles what older changes did to the same units */
    uint64_t at, len; /* contents: what is changed */
    char *old;        /* [old_len] what stood there; beyond it there was nothing */
    size_t old_len;
    uint64_t old_size, new_size;
    char *path, *from; /* names: absolute */
    char *hidden;      /* a link to what the name was, or NULL */
};

enum mode { KEEP_SOME, KEEP_ALL, KEEP_NOTHING, KEEP_NEWEST, KEEP_OLDEST };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static const char *torn_name;
static uint64_t random_state;
static struct file files[FILES_MAX];
static int file_count;
static struct change *changes; /* in the order in which they were made */
static size_t change_count, change_room;
static unsigned hidden_count;

void power_cut_start(const char *folder, const char *torn, uint64_t seed)
{
    (void)snprintf(root, sizeof(root), "%s", folder);
    torn_name = torn;
    random_state = seed;
}

void power_cut_lock(void)
{
    (void)pthread_mutex_lock(&lock);
}

void power_cut_unlock(void)
{
    (void)pthread_mutex_unlock(&lock);
}

/* A test that cannot remember must not go on as if it did. */
static void *must(void *got)
{
    if (got == NULL) {
        abort();
    }
    return got;
}

static uint64_t random_below(uint64_t below)
{
    uint64_t z = (random_state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (z ^ (z >> 31)) % below;
}

static bool is_torn(const char *link)
{
    char path[PATH_MAX];
    ssize_t len = torn_name == NULL ? -1 : readlink(link, path, sizeof(path) - 1);
    if (len < 0) {
        return false;
    }
    path[len] = '\0';
    const char *slash = strrchr(path, '/');
    return slash != NULL && strcmp(slash + 1, torn_name) == 0;
}

static int open_for_us(const char *path)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
}

/* -1: not a regular file */
static int file_of(int fd)
{
    struct stat st;
    char path[64];
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        return -1;
    }
    for (int i = 0; i < file_count; i++) {
        if (files[i].device == st.st_dev && files[i].inode == st.st_ino) {
            return i;
        }
    }
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int own = open_for_us(path);
    if (own < 0 || file_count == FILES_MAX) {
        abort();
    }
    files[file_count] =
        (struct file){.device = st.st_dev, .inode = st.st_ino, .fd = own, .tears = is_torn(path)};
    return file_count++;
}

static struct change *add(enum change_kind kind, int file)
{
    if (change_count == change_room) {
        change_room = change_room == 0 ? 64 : 2 * change_room;
        changes = must(realloc(changes, change_room * sizeof(*changes)));
    }
    struct change *c = &changes[change_count++];
    *c = (struct change){.kind = kind, .file = file};
    return c;
}

static void forget(struct change *c)
{
    if (c->hidden != NULL) {
        (void)syscall(SYS_unlinkat, AT_FDCWD, c->hidden, 0);
    }
    free(c->old);
    free(c->path);
    free(c->from);
    free(c->hidden);
}

/* --- remembering ------------------------------------------------------------------------------ */

static uint64_t size_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static void save_old(struct change *c, int fd)
{
    c->old_size = size_of(fd);
    if (c->at >= c->old_size) {
        return;
    }
    uint64_t there = c->old_size - c->at;
    c->old_len = there < c->len ? there : c->len;
    c->old = must(malloc(c->old_len));
    for (size_t done = 0; done < c->old_len;) {
        ssize_t n = pread64(fd, c->old + done, c->old_len - done, (off64_t)(c->at + done));
        if (n <= 0) {
            abort();
        }
        done += (size_t)n;
    }
}

void power_cut_writes(int fd, off64_t at, size_t len, bool is_complete)
{
    int file = file_of(fd);
    if (file < 0 || len == 0) {
        return;
    }
    int flags = fcntl(fd, F_GETFL);
    if (at < 0) {
        at = (flags & O_APPEND) != 0 ? (off64_t)size_of(fd) : lseek64(fd, 0, SEEK_CUR);
    }
    struct change *c = add(CHANGE_WRITE, file);
    c->at = (uint64_t)at;
    c->len = len;
    c->is_kept = is_complete && (flags & O_DSYNC) != 0; /* O_SYNC contains it */
    save_old(c, files[file].fd);
    c->new_size = c->at + len > c->old_size ? c->at + len : c->old_size;
}

void power_cut_resizes(int fd, off64_t size)
{
    int file = file_of(fd);
    if (file < 0) {
        return;
    }
    struct change *c = add(CHANGE_SIZE, file);
    uint64_t old = size_of(fd);
    c->at = c->new_size = (uint64_t)size;
    c->len = old > c->at ? old - c->at : 0;
    save_old(c, files[file].fd);
}

static char *full_path(int folder_fd, const char *path)
{
    char full[2 * PATH_MAX];
    char link[64];
    ssize_t len = 0;
    if (path[0] != '/' && folder_fd == AT_FDCWD) {
        len = getcwd(full, PATH_MAX) == NULL ? 0 : (ssize_t)strlen(full);
    } else if (path[0] != '/') {
        (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", folder_fd);
        len = readlink(link, full, PATH_MAX);
    }
    len = len < 0 ? 0 : len;
    (void)snprintf(full + len, sizeof(full) - (size_t)len, len > 0 ? "/%s" : "%s", path);
    return must(strdup(full));
}

bool power_cut_opens(int folder_fd, const char *path, int flags)
{
    char *full = full_path(folder_fd, path);
    struct stat st;
    bool is_there = stat(full, &st) == 0;
    int fd = is_there && (flags & O_TRUNC) != 0 ? open_for_us(full) : -1;
    if (fd >= 0) {
        power_cut_resizes(fd, 0);
        (void)syscall(SYS_close, fd);
    }
    free(full);
    return is_there;
}

void power_cut_created(int folder_fd, const char *path)
{
    char *full = full_path(folder_fd, path);
    int fd = open_for_us(full); /* not for a folder */
    struct change *c = add(CHANGE_CREATE, fd < 0 ? -1 : file_of(fd));
    c->path = full;
    if (fd >= 0) {
        (void)syscall(SYS_close, fd); /* new: nobody has a lock of it */
    }
}

/* A second name for what a change takes the name from; NULL when nothing has that name. */
static char *hide(const char *path)
{
    char hidden[PATH_MAX + 32];
    (void)snprintf(hidden, sizeof(hidden), "%s/.cut-%u", root, ++hidden_count);
    return syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, hidden, 0) != 0 ? NULL
                                                                         : must(strdup(hidden));
}

void power_cut_unlinks(int folder_fd, const char *path)
{
    char *full = full_path(folder_fd, path);
    char *hidden = hide(full);
    if (hidden == NULL) {
        free(full); /* the call fails */
        return;
    }
    struct change *c = add(CHANGE_UNLINK, -1);
    c->path = full;
    c->hidden = hidden;
}

void power_cut_renames(int from_fd, const char *from, int to_fd, const char *to)
{
    char *full = full_path(from_fd, from);
    int fd = open_for_us(full);
    struct change *c = add(CHANGE_RENAME, fd < 0 ? -1 : file_of(fd));
    c->from = full;
    c->path = full_path(to_fd, to);
    c->hidden = hide(c->path);
    if (fd >= 0) {
        (void)syscall(SYS_close, fd);
    }
}

static bool is_in_folder(const char *path, const char *folder)
{
    size_t len = strlen(folder);
    return path != NULL && strncmp(path, folder, len) == 0 && path[len] == '/' &&
           strchr(path + len + 1, '/') == NULL;
}

void power_cut_synced(int fd)
{
    int file = file_of(fd);
    char *folder = file >= 0 ? NULL : full_path(fd, "");
    if (folder != NULL) {
        folder[strlen(folder) - 1] = '\0'; /* the slash */
    }
    size_t left = 0;
    for (size_t i = 0; i < change_count; i++) {
        struct change *c = &changes[i];
        if (file >= 0 ? c->file == file : is_in_folder(c->path, folder)) {
            forget(c);
        } else {
            changes[left++] = *c;
        }
    }
    change_count = left;
    free(folder);
}

/* --- rolling back: in a child, which has one thread and must not allocate --------------------- */

static struct {
    enum mode mode;
    uint64_t unit;
    uint64_t odds; /* of 8, that a unit survives, for KEEP_SOME */
    size_t newest, oldest;
    uint64_t survived, lost;
} cut;

static bool survives(size_t i)
{
    bool does = cut.mode == KEEP_ALL || (cut.mode == KEEP_NEWEST && i == cut.newest) ||
                (cut.mode == KEEP_OLDEST && i == cut.oldest) ||
                (cut.mode == KEEP_SOME && random_below(8) < cut.odds);
    cut.survived += does;
    cut.lost += !does;
    return does;
}

static bool settle_unit(struct file *f, uint64_t unit, bool is_settled)
{
    bool was = (f->settled[unit / 8] >> (unit % 8) & 1) != 0;
    if (is_settled) {
        f->settled[unit / 8] |= (uint8_t)(1u << (unit % 8));
    }
    return was;
}

/* What stood in [at, end) before the change; nothing beyond the end that the file has now. */
static void restore(const struct file *f, const struct change *c, uint64_t at, uint64_t end)
{
    static const char zeros[4096];
    uint64_t size = size_of(f->fd);
    uint64_t old_end = c->at + c->old_len;
    end = end < size ? end : size;
    while (at < end) {
        uint64_t to = at < old_end && old_end < end ? old_end : end;
        const char *data = at < old_end ? c->old + (at - c->at) : zeros;
        ssize_t n = syscall(SYS_pwrite64, f->fd, data, to - at, at);
        if (n <= 0) {
            abort();
        }
        at += (uint64_t)n;
    }
}

/* The power failed while the disk wrote the unit: nothing that was in it can be read, what was
 * there long before no more than what is new. */
static void tear(const struct file *f, uint64_t unit)
{
    uint64_t size = size_of(f->fd);
    for (uint64_t at = unit * cut.unit; at < (unit + 1) * cut.unit && at < size; at += 8) {
        uint64_t garbage = random_below(UINT64_MAX);
        uint64_t len = size - at < sizeof(garbage) ? size - at : sizeof(garbage);
        if (syscall(SYS_pwrite64, f->fd, &garbage, len, at) != (long)len) {
            abort();
        }
    }
}

static void roll_back_contents(size_t i)
{
    const struct change *c = &changes[i];
    struct file *f = &files[c->file];
    bool size_is_lost = false;
    if (c->old_size != c->new_size && !f->size_is_settled) {
        f->size_is_settled = c->is_kept || survives(i);
        size_is_lost = !f->size_is_settled;
        if (size_is_lost && syscall(SYS_ftruncate, f->fd, c->old_size) != 0) {
            abort();
        }
    }
    for (uint64_t at = c->at; at < c->at + c->len;) {
        uint64_t unit = at / cut.unit;
        uint64_t end = (unit + 1) * cut.unit;
        end = end < c->at + c->len ? end : c->at + c->len;
        bool is_settled = settle_unit(f, unit, false);
        bool stays =
            is_settled || c->is_kept || (c->kind == CHANGE_SIZE ? !size_is_lost : survives(i));
        bool is_garbage = !stays && f->tears && c->kind == CHANGE_WRITE && random_below(4) == 0;
        if (is_garbage) {
            tear(f, unit);
        }
        if (stays || is_garbage) {
            (void)settle_unit(f, unit, true);
        } else {
            restore(f, c, at, end);
        }
        at = end;
    }
}

static void roll_back_name(const struct change *c)
{
    if (c->kind == CHANGE_CREATE) {
        /* A folder in which something was kept stays. */
        (void)syscall(SYS_unlinkat, AT_FDCWD, c->path, c->file < 0 ? AT_REMOVEDIR : 0);
    }
    if (c->kind == CHANGE_RENAME) {
        (void)syscall(SYS_renameat2, AT_FDCWD, c->path, AT_FDCWD, c->from, 0);
    }
    if (c->hidden != NULL) {
        (void)syscall(SYS_renameat2, AT_FDCWD, c->hidden, AT_FDCWD, c->path, 0);
    }
}

static void roll_back_names(void)
{
    bool is_settled = cut.mode == KEEP_ALL;
    for (size_t i = change_count; i-- > 0;) {
        const struct change *c = &changes[i];
        if (c->kind == CHANGE_WRITE || c->kind == CHANGE_SIZE) {
            continue;
        }
        is_settled = is_settled || (cut.mode != KEEP_NOTHING && random_below(2) == 0);
        if (!is_settled) {
            roll_back_name(c);
        } else if (c->hidden != NULL) {
            (void)syscall(SYS_unlinkat, AT_FDCWD, c->hidden, 0);
        }
    }
}

static void choose(void)
{
    static const enum mode modes[] = {KEEP_SOME,    KEEP_SOME,   KEEP_SOME,   KEEP_SOME,
                                      KEEP_NOTHING, KEEP_NEWEST, KEEP_OLDEST, KEEP_ALL};
    cut.mode = modes[random_below(sizeof(modes) / sizeof(modes[0]))];
    cut.unit = random_below(2) == 0 ? 512 : 4096;
    cut.odds = 1 + random_below(7);
    cut.oldest = change_count;
    uint64_t ends[FILES_MAX] = {0};
    for (size_t i = 0; i < change_count; i++) {
        const struct change *c = &changes[i];
        if (c->kind != CHANGE_WRITE && c->kind != CHANGE_SIZE) {
            continue;
        }
        cut.newest = i;
        cut.oldest = cut.oldest < i ? cut.oldest : i;
        ends[c->file] = c->at + c->len > ends[c->file] ? c->at + c->len : ends[c->file];
    }
    for (int i = 0; i < file_count; i++) {
        files[i].settled = mmap(NULL, ends[i] / 512 / 8 + 1, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (files[i].settled == MAP_FAILED) {
            abort();
        }
    }
}

static void roll_back(void)
{
    choose();
    for (size_t i = change_count; i-- > 0;) {
        if (changes[i].kind == CHANGE_WRITE || changes[i].kind == CHANGE_SIZE) {
            roll_back_contents(i);
        }
    }
    roll_back_names();
    char text[160];
    int len =
        snprintf(text, sizeof(text),
                 "power cut: %zu changes not synced, mode %d, units of %d: %llu survive, %llu "
                 "are lost\n",
                 change_count, (int)cut.mode, (int)cut.unit, (unsigned long long)cut.survived,
                 (unsigned long long)cut.lost);
    (void)syscall(SYS_write, STDERR_FILENO, text, (size_t)len);
}

/* Readers must not look into a mapping whose file becomes shorter: they would die of it before the
 * roll-back is done. */
static void stop(pid_t process)
{
    char path[64];
    char text[256];
    const struct timespec moment = {.tv_nsec = 1000000};
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)process);
    (void)kill(process, SIGSTOP);
    for (;;) {
        int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
        ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
        (void)syscall(SYS_close, fd);
        text[n < 0 ? 0 : n] = '\0';
        const char *name_end = strrchr(text, ')');
        (void)nanosleep(&moment, NULL); /* for the other threads as well */
        if (name_end == NULL || name_end[2] == 'T') {
            return;
        }
    }
}

void power_cut_now(void)
{
    pid_t process = getpid();
    pid_t child = _Fork(); /* without handlers that wait for other threads */
    if (child < 0) {
        abort();
    }
    if (child == 0) {
        stop(process);
        roll_back();
        /* What it shares with the process, locks and listeners, must end with that. */
        (void)syscall(SYS_close_range, 0u, ~0u, 0u);
        (void)kill(process, SIGKILL);
        _exit(0);
    }
    for (;;) {
        (void)pause();
    }
}
