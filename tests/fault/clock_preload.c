/* LD_PRELOAD library that sets the wall clock of one program while it runs, as an operator or a
 * time server does: CLOCK_REALTIME is off by the seconds (int64_t) that stand in the file
 * CLOCK_FILE. The monotonic clock goes on as it was, and so does gettimeofday: jemalloc alone asks
 * it, for the end of a wait by the kernel's clock, which stays. The file is read through a map: one
 * aligned word, which the test writes in one piece. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static _Atomic int64_t *offset;
static int (*real_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void start(void)
{
    const char *path = getenv("CLOCK_FILE");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void *found = dlsym(RTLD_NEXT, "clock_gettime");
    if (fd < 0 || found == NULL) {
        abort();
    }
    *(void **)&real_gettime = found;
    offset = mmap(NULL, sizeof(*offset), PROT_READ, MAP_SHARED, fd, 0);
    if (offset == MAP_FAILED) {
        abort();
    }
    (void)close(fd); /* the map stays */
}

int clock_gettime(clockid_t id, struct timespec *ret)
{
    if (real_gettime == NULL) {
        start(); /* another library's constructor came first */
    }
    int failed = real_gettime(id, ret);
    if (failed == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        ret->tv_sec += atomic_load_explicit(offset, memory_order_relaxed);
    }
    return failed;
}

time_t time(time_t *ret)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now); /* it cannot fail */
    if (ret != NULL) {
        *ret = now.tv_sec;
    }
    return now.tv_sec;
}
