#include "base/clock.h"

#include <assert.h>
#include <time.h>

static usec_t clock_read(clockid_t id)
{
    struct timespec now;
    int failed = clock_gettime(id, &now);
    assert(failed == 0);
    return (usec_t)now.tv_sec * USEC_PER_SEC + now.tv_nsec / 1000;
}

usec_t clock_mono(void)
{
    return clock_read(CLOCK_MONOTONIC);
}

usec_t clock_wall(void)
{
    return clock_read(CLOCK_REALTIME);
}
