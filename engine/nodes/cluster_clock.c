/* Owns how fast the clock of nodes runs. Any thread. */
#include "engine/nodes/cluster_clock.h"

#include <stdlib.h>
#include <time.h>

static usec_t haste = 1; /* set before the threads start */

void cluster_clock_init(void)
{
    const char *text = getenv("SLUICE_CLUSTER_HASTE");
    long wanted = text == NULL ? 1 : strtol(text, NULL, 10);
    haste = wanted >= 1 && wanted <= 100 ? wanted : 1;
}

usec_t cluster_clock(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_BOOTTIME, &t); /* cannot fail with this clock */
    return ((usec_t)t.tv_sec * USEC_PER_SEC + t.tv_nsec / 1000) * haste;
}

usec_t cluster_clock_real(usec_t span)
{
    return span / haste;
}
