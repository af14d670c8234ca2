/* What the kernel says about this process. Any thread. */
#ifndef ENGINE_PROCESS_H
#define ENGINE_PROCESS_H

#include <stdint.h>

struct process_figures {
    uint64_t cpu_usec; /* user and system */
    uint64_t rss_bytes, virtual_bytes;
    uint64_t fds, fds_max;
};

/* What cannot be read stays 0. */
void process_read(struct process_figures *ret);

#endif
