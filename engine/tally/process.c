/* Asks the kernel, by a few system calls and files of /proc. Called by the metrics; keeps nothing.
 */
#include "engine/tally/process.h"

#include "base/clock.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static uint64_t usec_of(const struct timeval *t)
{
    return (uint64_t)t->tv_sec * (uint64_t)USEC_PER_SEC + (uint64_t)t->tv_usec;
}

static uint64_t count_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    uint64_t count = 0;
    if (d == NULL) {
        return 0;
    }
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        count += e->d_name[0] != '.';
    }
    (void)closedir(d);                /* nothing was written that could be lost */
    return count > 0 ? count - 1 : 0; /* without the descriptor of the folder itself */
}

static void read_memory(struct process_figures *ret)
{
    uint64_t pages, resident;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f == NULL) {
        return;
    }
    if (fscanf(f, "%" SCNu64 " %" SCNu64, &pages, &resident) == 2) {
        uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
        ret->virtual_bytes = pages * page_bytes;
        ret->rss_bytes = resident * page_bytes;
    }
    (void)fclose(f); /* nothing was written that could be lost */
}

void process_read(struct process_figures *ret)
{
    struct rusage usage;
    struct rlimit limit;
    *ret = (struct process_figures){0};
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        ret->cpu_usec = usec_of(&usage.ru_utime) + usec_of(&usage.ru_stime);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        ret->fds_max = limit.rlim_cur;
    }
    ret->fds = count_descriptors();
    read_memory(ret);
}
