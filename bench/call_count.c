/* LD_PRELOAD library that counts the calls into the kernel of an unmodified program, by thread, as
 * cheaply as an increment: a tracer that stops the program at each call changes what it counts, as
 * threads then find more or less to do each time they wake.
 *
 * Seen are calls through the C library by name, and futexes through syscall(). Not seen: what the C
 * library calls itself (locks, memory), and clocks, which cost no crossing.
 *
 * CALL_COUNT_FILE names a file that this creates: struct call_count below. It is mapped and shared,
 * so whoever reads it sees the counts of that moment (bench/harness/calls.py). Without it nothing is
 * counted. Threads beyond ROWS are not counted. */
#undef _FILE_OFFSET_BITS /* the names below are those that the program calls */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define CALLS(X)                                                                                   \
    X(read)                                                                                        \
    X(write)                                                                                       \
    X(writev)                                                                                      \
    X(pread64)                                                                                     \
    X(pwrite64)                                                                                    \
    X(pwritev)                                                                                     \
    X(recv)                                                                                        \
    X(send)                                                                                        \
    X(sendmsg)                                                                                     \
    X(epoll_wait)                                                                                  \
    X(epoll_pwait2)                                                                                \
    X(epoll_ctl)                                                                                   \
    X(fsync)                                                                                       \
    X(fdatasync)                                                                                   \
    X(accept4)                                                                                     \
    X(socket)                                                                                      \
    X(bind)                                                                                        \
    X(connect)                                                                                     \
    X(getsockopt)                                                                                  \
    X(setsockopt)                                                                                  \
    X(getpeername)                                                                                 \
    X(getsockname)                                                                                 \
    X(shutdown)                                                                                    \
    X(close)                                                                                       \
    X(futex_wait)                                                                                  \
    X(futex_wake)                                                                                  \
    X(madvise)

#define AS_NUMBER(name) COUNT_##name,
#define AS_TEXT(name)   #name " "
enum count { CALLS(AS_NUMBER) COUNTS };
enum { ROWS = 64 };

struct row {
    uint64_t tid; /* 0: free */
    uint64_t calls[COUNTS], bytes[COUNTS];
};

struct call_count {
    char names[1024]; /* of the columns, a space behind each; NUL */
    struct row rows[ROWS];
};

static struct call_count *shared;
static _Atomic unsigned taken;
static _Thread_local struct row *mine;
static struct row unused; /* where threads without a row count; never read */

__attribute__((constructor)) static void open_counts(void)
{
    const char *path = getenv("CALL_COUNT_FILE");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(struct call_count)) != 0) {
        return;
    }
    struct call_count *map = mmap(NULL, sizeof(*map), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED) {
        memcpy(map->names, CALLS(AS_TEXT), sizeof(CALLS(AS_TEXT)));
        shared = map;
    }
}

static struct row *row_of_thread(void)
{
    if (mine == NULL) {
        unsigned number = shared == NULL ? ROWS : atomic_fetch_add(&taken, 1);
        mine = number < ROWS ? &shared->rows[number] : &unused;
        if (mine != &unused) {
            mine->tid = (uint64_t)gettid();
        }
    }
    return mine;
}

static void note(enum count which, ssize_t bytes)
{
    struct row *row = row_of_thread();
    row->calls[which]++;
    row->bytes[which] += bytes > 0 ? (uint64_t)bytes : 0;
}

/* The function of the C library behind this one. */
#define REAL(name)                                                                                 \
    static __typeof__(name) *real;                                                                 \
    if (real == NULL) {                                                                            \
        real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name);                                        \
    }

#define MOVES(name, parameters, ...)                                                               \
    ssize_t name parameters                                                                        \
    {                                                                                              \
        REAL(name)                                                                                 \
        ssize_t n = real(__VA_ARGS__);                                                             \
        note(COUNT_##name, n);                                                                     \
        return n;                                                                                  \
    }

#define CALLED(name, parameters, ...)                                                              \
    int name parameters                                                                            \
    {                                                                                              \
        REAL(name)                                                                                 \
        note(COUNT_##name, 0);                                                                     \
        return real(__VA_ARGS__);                                                                  \
    }

MOVES(read, (int fd, void *to, size_t len), fd, to, len)
MOVES(write, (int fd, const void *from, size_t len), fd, from, len)
MOVES(writev, (int fd, const struct iovec *iov, int count), fd, iov, count)
MOVES(pread64, (int fd, void *to, size_t len, off64_t at), fd, to, len, at)
MOVES(pwrite64, (int fd, const void *from, size_t len, off64_t at), fd, from, len, at)
MOVES(pwritev, (int fd, const struct iovec *iov, int count, off_t at), fd, iov, count, at)
MOVES(recv, (int fd, void *to, size_t len, int flags), fd, to, len, flags)
MOVES(send, (int fd, const void *from, size_t len, int flags), fd, from, len, flags)
MOVES(sendmsg, (int fd, const struct msghdr *message, int flags), fd, message, flags)
CALLED(epoll_wait, (int fd, struct epoll_event *to, int most, int limit), fd, to, most, limit)
CALLED(epoll_pwait2,
       (int fd, struct epoll_event *to, int most, const struct timespec *limit,
        const sigset_t *signals),
       fd, to, most, limit, signals)
CALLED(epoll_ctl, (int fd, int what, int other, struct epoll_event *event), fd, what, other, event)
CALLED(fsync, (int fd), fd)
CALLED(fdatasync, (int fd), fd)
CALLED(accept4, (int fd, __SOCKADDR_ARG peer, socklen_t *len, int flags), fd, peer, len, flags)
CALLED(socket, (int family, int type, int protocol), family, type, protocol)
CALLED(bind, (int fd, __CONST_SOCKADDR_ARG address, socklen_t len), fd, address, len)
CALLED(connect, (int fd, __CONST_SOCKADDR_ARG address, socklen_t len), fd, address, len)
CALLED(getsockopt, (int fd, int level, int name, void *to, socklen_t *len), fd, level, name, to, len)
CALLED(setsockopt, (int fd, int level, int name, const void *from, socklen_t len), fd, level, name,
       from, len)
CALLED(getpeername, (int fd, __SOCKADDR_ARG address, socklen_t *len), fd, address, len)
CALLED(getsockname, (int fd, __SOCKADDR_ARG address, socklen_t *len), fd, address, len)
CALLED(shutdown, (int fd, int how), fd, how)
CALLED(close, (int fd), fd)
CALLED(madvise, (void *at, size_t len, int advice), at, len, advice)

long syscall(long number, ...)
{
    REAL(syscall)
    long argument[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) {
        argument[i] = va_arg(list, long);
    }
    va_end(list);
    if (number == SYS_futex) {
        int what = (int)argument[1] & FUTEX_CMD_MASK;
        note(what == FUTEX_WAKE || what == FUTEX_WAKE_BITSET ? COUNT_futex_wake : COUNT_futex_wait, 0);
    }
    return real(number, argument[0], argument[1], argument[2], argument[3], argument[4],
                argument[5]);
}
