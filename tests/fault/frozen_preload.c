/* LD_PRELOAD library for Postfix's queue manager, whose clock it stops, an hour ahead: what decides by the
 * second in which it saw something (the age of a job) decides the same however busy the machine is.
 * An hour ahead, as it leaves files alone that are newer than its clock. Its timers never fire. */
#include <stdatomic.h>
#include <time.h>

enum { AHEAD = 3600 };

time_t time(time_t *ret)
{
    static _Atomic time_t frozen;
    time_t none = 0;
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_REALTIME, &now); /* it cannot fail */
    /* the first one counts */
    (void)atomic_compare_exchange_strong(&frozen, &none, now.tv_sec + AHEAD);
    time_t at = atomic_load(&frozen);
    if (ret != NULL) {
        *ret = at;
    }
    return at;
}
